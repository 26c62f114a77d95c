"""A small text of the kind that is wanted beside a large one of others: how much of the large one an epoch should show.

Brown's news (44 texts of 500) is what is predicted, its other genres are what else there is. Each network makes about
as many updates; all have the vocabulary of both texts.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from keras_nplm.data.corpora import open_corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.shuffling import count_resampled
from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.experiments.rows import Row
from keras_nplm.io.files import read_json, replace_file
from keras_nplm.io.markdown import markdown_table

_NEWS = 44  # the first texts of Brown, ca01 to ca44
_NONE = 0.00001  # a share that shows 11 n-grams an epoch: the others are there for the vocabulary alone
_FILES = "--validation {texts}/news/validation.txt --test {texts}/news/test.txt --tokenizer whitespace"
_TRAIN = "train --config brown-nce-quick --vocabulary-scope train --patience 5"


def _row(name: str, title: str, share: float, epochs: int) -> Row:
    texts = "--train {texts}/news/train.txt"
    texts += " {texts}/news/others.txt" if share == 1 else f" --resample {share} {{texts}}/news/others.txt"
    return Row(f"news-{name}", title, f"{_TRAIN} --epochs {epochs} {texts} {_FILES}")


ROWS = (
    _row("all", "all alike", 1, 2),
    _row("quarter", "news, a quarter of the others", 0.25, 7),
    _row("tenth", "news, a tenth of the others", 0.1, 13),
    _row("alone", "news alone, fewer updates", _NONE, 8),
    Row(
        "news-kneser-ney",
        "Kneser-Ney of all, n=5",
        "ngram --order 5 --boundary stream --min-count 4 --train {texts}/news/train.txt {texts}/news/others.txt "
        + _FILES,
    ),
)


def prepare(texts: Path, data_dir: str | None) -> None:
    """Write Brown's news, split by texts, and its other genres to `news/`; of ten news texts one is for validation and
    two are for testing."""
    names = ("train", "validation", "test", "others")
    if all((texts / "news" / f"{name}.txt").is_file() for name in names):
        return
    corpus = open_corpus("brown/marks", data_dir=data_dir)
    sentences = itertools.chain.from_iterable(corpus.sentences(split) for split in ("train", "validation", "test"))
    lines = {name: [] for name in names}
    for number, text in enumerate(split_texts(sentences)):
        held_out = {8: "validation", 4: "test", 9: "test"}.get(number % 10, "train")
        lines[held_out if number < _NEWS else "others"] += text
    for name in names:
        with replace_file(texts / "news" / f"{name}.txt") as temporary:
            temporary.write_text("".join(f"{' '.join(sentence)}\n" for sentence in lines[name]), encoding="utf-8")


def split_texts(sentences: Iterator[Sequence[str]]) -> Iterator[list[list[str]]]:
    """The texts of `brown/marks`, without the marks.

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


def run(rows: Path) -> dict:
    """Perplexity on news against what the training cost, of each row."""
    return {"rows": [_figures(row, rows / row.name) for row in ROWS]}


def _figures(row: Row, directory: Path) -> dict:
    metrics, config = (read_json(directory / f"{name}.json") for name in ("metrics", "config"))
    figures = {"title": row.title, "command": f"keras-nplm {row.command}", "cpu_seconds": metrics["cpu_seconds"]}
    figures |= {f"{split}_perplexity": metrics[split]["perplexity"] for split in ("validation", "test")}
    figures["test_tokens"] = metrics["test"]["tokens"]
    if not row.is_network:
        return figures
    frequencies, shares = EncodedCorpus.load(directory / "corpus").frequencies_by_share()
    numbers = frequencies.sum(axis=1) - frequencies[:, EOS_ID]  # a stream: ends of sentences are no targets
    drawn = [count_resampled(share, number) for share, number in zip(shares, numbers, strict=True)]
    figures |= {"shares": shares.tolist(), "ngrams": numbers.tolist(), "ngrams_an_epoch": drawn}
    figures |= {"epochs": len(metrics["history"]), "best_epoch": metrics["best_epoch"]}
    figures["updates"] = figures["epochs"] * (sum(drawn) // config["batch_size"])
    figures["training_cpu_seconds"] = metrics["training_cpu_seconds"]
    return figures


def table(report: dict) -> str:
    """A line a row."""
    rows = []
    for row in report["rows"]:
        cells = [row["title"]]
        if "updates" in row:
            cells += [f"{sum(row['ngrams_an_epoch']):,}", f"{row['epochs']}, {row['best_epoch']}"]
            cells += [f"{row['updates']:,}", f"{row['training_cpu_seconds']:.0f}"]
        else:
            cells += ["", "", "", f"{row['cpu_seconds']:.1f}"]
        rows.append(cells + [f"{row[f'{split}_perplexity']:.1f}" for split in ("validation", "test")])
    head = ["text", "n-grams an epoch", "epochs, best", "updates", "CPU seconds of training", "validation", "test"]
    return markdown_table(head, rows)
