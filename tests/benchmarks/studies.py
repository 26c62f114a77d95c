"""Studies on Brown and other texts: rows of `studies.json`, and what is measured beyond
`metrics.json`.

A row is one model, or with `seeds` a model for each seed from 1, named NAME-SEED; or with `ngrams`
also Kneser-Ney models of some `orders` of the same text, of which the best on validation counts.
"""

import functools
import importlib.util
import itertools
import lzma
import shlex
import statistics
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from keras_nplm import Vocabulary
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import EOS
from keras_nplm.data.tokenizers.characters import CharacterTokenizer
from keras_nplm.experiments.rows import Row, make_rows, read_row
from keras_nplm.io.files import read_json
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.parts import flatten_config
from tests.benchmarks import dynamics
from tests.benchmarks.report import Report, Settings

STUDIES = read_json(Path(__file__).with_name("studies.json"))
_CHOSEN = "{network}, {objective}, n={order}, m={embedding_dim}, h={hidden_units}, {epochs} epochs"


def load_study(name: str) -> Report:
    """Return the declaration of a study."""
    study = STUDIES[name]
    return Report(
        f"{study['title']}\n{study['text']}",
        study["columns"],
        functools.partial(_measure, name),
        functools.partial(_list_rows, name),
        on_one_core=False,
    )


def _list_declared(name: str, settings: Settings) -> list[dict[str, Any]]:
    """Return the declared rows of a study, and those of the texts of the caller."""
    declared = [*STUDIES[name]["rows"]]
    for text in settings.texts if name == "default" else ():
        flags = f"--train {shlex.quote(text)}"
        row = {"name": f"default-{text.replace('/', '-')}", "title": Path(text).stem}
        declared.append(
            {**row, "command": f"train {flags}", "ngrams": flags, "orders": [3, 4, 5, 6]}
        )
    return declared


def _list_rows(name: str, settings: Settings) -> list[Row]:
    """Return the models of a study, each once."""
    models = map(_list_models, _list_declared(name, settings))
    return [*{row.name: row for row in itertools.chain.from_iterable(models)}.values()]


def _list_models(declared: dict[str, Any]) -> list[Row]:
    """Return the models of a declared row: of its seeds, or its own and those of n-grams."""
    name, title, command = (declared[key] for key in ("name", "title", "command"))
    seeds = range(1, declared.get("seeds", 0) + 1)
    if seeds:
        return [Row(f"{name}-{seed}", title, f"{command} --seed {seed}") for seed in seeds]
    flags = declared.get("ngrams")
    ngrams = [
        Row(f"{name}-{n}", title, f"ngram {flags} --order {n}") for n in declared.get("orders", ())
    ]
    return [Row(name, title, command), *ngrams]


def _measure(name: str, settings: Settings) -> dict[str, Any]:
    """Make the models of a study that do not exist yet, and return its report."""
    with lock_directory(settings.directory):
        make_rows(_list_rows(name, settings), settings.directory, settings.jobs, settings.data_dir)
        if name == "dynamic":
            return dynamics.measure_mixtures(STUDIES[name], settings.directory)
        rows = [_read(row, settings.directory) for row in _list_declared(name, settings)]
        if name == "modern":
            for row in rows:
                row["change"] = _compute_mean(row) - _compute_mean(rows[0])
        if name == "tokenization":
            rows += _measure_compressors(settings.directory / "rows" / rows[-1]["name"])
    return {"rows": rows}


def _compute_mean(row: dict[str, Any]) -> float:
    """Return the validation perplexity, of several seeds the mean."""
    return statistics.fmean(row["validation"])


def _read(declared: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the figures of a declared row."""
    models = _list_models(declared)
    figures = [read_row(row, directory) for row in models]
    if "seeds" in declared:
        lists = {split: [row[split] for row in figures] for split in HELD_OUT}
        means = {
            name: statistics.fmean(row[name] for row in figures)
            for name in ("training_cpu_seconds", "cpu_seconds")
        }
        first = {key: figures[0][key] for key in ("command", "parameters", "title")}
        return {"name": declared["name"], **first, **lists, **means}
    if "ngrams" not in declared:
        return figures[0]
    network, *ngrams = (
        {**row, **_read_text_figures(directory / "rows" / row["name"])} for row in figures
    )
    best = min(ngrams, key=itemgetter("validation"))
    return {**network, "kneser_ney": best, "change": network["test"] / best["test"] - 1}


def _read_text_figures(model: Path) -> dict[str, Any]:
    """Return the size of the text of a model, figures by word and character, and its options."""
    test = read_json(model / "metrics.json")["test"]
    encoded = EncodedCorpus.load(model / "corpus")
    config = read_json(model / "config.json")
    return {
        "tokens": encoded.splits["train"]["tokens"],
        "types": encoded.vocabulary_size,
        "unk_share": test["unk_tokens"] / test["tokens"],
        "perplexity_per_word": test["perplexity_per_word"],
        "bits_per_character": test["bits_per_character"],
        "options": _CHOSEN.format(**flatten_config(config)) if "epochs" in config else "",
    }


def _measure_compressors(model: Path) -> list[dict[str, Any]]:
    """Return the bits per character that compressors add for the test text behind the training
    text, by a model of characters.
    """
    corpus = EncodedCorpus.load(model / "corpus")
    vocabulary = Vocabulary.load(model / "vocabulary.txt")
    train, test = (_join_characters(corpus, vocabulary, split) for split in ("train", "test"))
    compressors: dict[str, Callable[[bytes], bytes]] = {
        "`xz -9`": functools.partial(lzma.compress, preset=9)
    }
    if importlib.util.find_spec("pyppmd"):
        import pyppmd

        compressors["PPMd"] = functools.partial(pyppmd.compress, max_order=6, mem_size=1 << 28)
    rows = []
    for title, compress in compressors.items():
        added = len(compress((train + test).encode())) - len(compress(train.encode()))
        rows.append({"title": title, "bits_per_character": 8 * added / len(test)})
    return rows


def _join_characters(corpus: EncodedCorpus, vocabulary: Vocabulary, split: str) -> str:
    characters: Sequence[str] = vocabulary.decode(corpus.ids(split))
    return CharacterTokenizer().join(characters).replace(EOS, "\n")
