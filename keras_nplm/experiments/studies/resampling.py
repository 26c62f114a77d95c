"""Study `resampling`: a small in-domain text with a large out-of-domain text: how much of the large one per epoch.

The in-domain text is Brown's news: 44 texts, of ten seven for training, one for validation and two for testing. The
other 456 texts are out-of-domain. `--resample SHARE FILE…` uses a new share of a text in each epoch. All networks use
`brown-nce-quick` and the vocabulary of both texts, and all but the last make about as many updates. "News alone" sees
11 out-of-domain n-grams per epoch, so that it has their words.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_nplm.data.corpora import open_corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.resampling import count_resampled
from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.experiments.log_probs import SPLITS
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.tables import SPLIT_HEADER
from keras_nplm.io.files import read_json, replace_file
from keras_nplm.io.markdown import markdown_table

_NEWS_TEXTS = 44  # the first texts of Brown, ca01 to ca44
_NEGLIGIBLE = 0.00001  # 11 n-grams an epoch: the out-of-domain text contributes only its vocabulary
_FILES = "--validation {texts}/news/validation.txt --test {texts}/news/test.txt --tokenizer whitespace"
_TRAIN = "train --config brown-nce-quick --vocabulary-scope train --patience 5"


def _build_row(name: str, title: str, share: float, epochs: int) -> Row:
    texts = "--train {texts}/news/train.txt"
    texts += " {texts}/news/others.txt" if share == 1 else f" --resample {share} {{texts}}/news/others.txt"
    return Row(f"news-{name}", title, f"{_TRAIN} --epochs {epochs} {texts} {_FILES}")


ROWS = (
    _build_row("all", "news and other genres alike", 1, 2),
    _build_row("quarter", "news, a quarter of other genres", 0.25, 7),
    _build_row("tenth", "news, a tenth of other genres", 0.1, 13),
    _build_row("alone", "news only, fewer updates", _NEGLIGIBLE, 8),
    Row(
        "news-kneser-ney",
        "Kneser-Ney on all texts, n=5",
        "ngram --order 5 --boundary stream --min-count 4 --train {texts}/news/train.txt {texts}/news/others.txt "
        + _FILES,
    ),
)


def write_texts(texts: Path, data_dir: str | None) -> None:
    """Write Brown's news and its other genres to `news/`, unless the files exist.

    Of ten news texts seven are for training, one for validation and two for test.
    """
    names = ("train", "validation", "test", "others")
    if all((texts / "news" / f"{name}.txt").is_file() for name in names):
        return
    corpus = open_corpus("brown/marks", data_dir=data_dir)
    sentences = itertools.chain.from_iterable(corpus.sentences(split) for split in ("train", "validation", "test"))
    lines = {name: [] for name in names}
    for number, text in enumerate(split_texts(sentences)):
        held_out = {8: "validation", 4: "test", 9: "test"}.get(number % 10, "train")
        lines[held_out if number < _NEWS_TEXTS else "others"] += text
    for name in names:
        with replace_file(texts / "news" / f"{name}.txt") as temporary:
            temporary.write_text("".join(f"{' '.join(sentence)}\n" for sentence in lines[name]), encoding="utf-8")


def split_texts(sentences: Iterator[Sequence[str]]) -> Iterator[list[list[str]]]:
    """Yield the texts of `brown/marks`, without the marks.

    Example:

    >>> list(split_texts(iter([["<text>", "<paragraph>", "A", "b"], ["<paragraph>", "C"], ["<text>", "D"]])))
    [[['A', 'b'], ['C']], [['D']]]
    """
    text = []
    for sentence in sentences:
        if sentence[0] == "<text>" and text:
            yield text
            text = []
        text.append([word for word in sentence if word not in ("<text>", "<paragraph>")])
    yield text


def measure(rows: Path) -> dict:
    """Return the perplexity on news and the CPU seconds of training of each row."""
    return {"rows": [_report_row(row, rows / row.name) for row in ROWS]}


def _report_row(row: Row, directory: Path) -> dict:
    metrics, config = (read_json(directory / f"{name}.json") for name in ("metrics", "config"))
    figures = {"title": row.title, "command": f"keras-nplm {row.command}", "cpu_seconds": metrics["cpu_seconds"]}
    figures |= {f"{split}_perplexity": metrics[split]["perplexity"] for split in SPLITS}
    figures["test_tokens"] = metrics["test"]["tokens"]
    if not row.is_network:
        return figures
    frequencies, shares = EncodedCorpus.load(directory / "corpus").frequencies_by_share()
    numbers = frequencies.sum(axis=1) - frequencies[:, EOS_ID]  # in a stream `</s>` is not predicted
    resampled = [count_resampled(share, number) for share, number in zip(shares, numbers, strict=True)]
    figures |= {"shares": shares.tolist(), "ngrams": numbers.tolist(), "ngrams_an_epoch": resampled}
    figures |= {"epochs": len(metrics["history"]), "best_epoch": metrics["best_epoch"]}
    figures["updates"] = figures["epochs"] * (sum(resampled) // config["batch_size"])
    figures["training_cpu_seconds"] = metrics["training_cpu_seconds"]
    return figures


def format_report(report: dict) -> str:
    """Return a table with a line for each row."""
    rows = []
    for row in report["rows"]:
        cells = [row["title"]]
        if "updates" in row:
            cells += [f"{sum(row['ngrams_an_epoch']):,}", f"{row['epochs']}, {row['best_epoch']}"]
            cells += [f"{row['updates']:,}", f"{row['training_cpu_seconds']:.0f}"]
        else:
            cells += ["", "", "", f"{row['cpu_seconds']:.1f}"]
        rows.append(cells + [f"{row[f'{split}_perplexity']:.1f}" for split in SPLITS])
    header = ["training text", "n-grams per epoch", "epochs, best epoch", "updates", "CPU seconds of training"]
    return markdown_table([*header, *SPLIT_HEADER], rows)
