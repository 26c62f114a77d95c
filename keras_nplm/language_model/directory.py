"""Model directories: their vocabulary, encoded corpus, `config.json` and `metrics.json`, and checks
of output paths.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, check_argument, drop_fix
from keras_nplm.io.files import (
    NUMBER,
    check_fields,
    is_temporary,
    read_json,
    remove_temporary_files,
)
from keras_nplm.io.lock import LOCK_NAME, lock_directory
from keras_nplm.io.paths import check_output_path, find_free_path
from keras_nplm.io.remote import display_url
from keras_nplm.io.text import open_text

# of metrics.json, where they are
_METRICS: dict[str, type | tuple] = {
    "seconds": NUMBER,
    "cpu_seconds": NUMBER,
    "parameters": int,
    "best_epoch": int,
    "ngrams_per_second": int,
    "ngrams": list,
    "history": list,
    "warnings": list,
}
_FIGURES: dict[str, type | tuple] = {  # of a split
    "perplexity": NUMBER,
    "bits_per_word": NUMBER,
    "log_prob": NUMBER,
    "tokens": int,
    "unk_tokens": int,
}
_NAME_DIRECTORY = "name a directory that `train`, `ngram` or `mix` wrote."
CORPUS_FILE = "corpus/corpus.json"
_HEAD = 1 << 12  # bytes in which an ARPA file begins
_MAYBE_NONE = (
    "perplexity_without_unk",
    "bits_per_character",
    "bits_per_byte",
    "perplexity_per_word",
)


def load_vocabulary(directory: Path, tokenizer: str | Tokenizer) -> Vocabulary:
    """Load the vocabulary of a model directory, with the word forms or the subwords that its
    tokenizer needs.
    """
    vocabulary = Vocabulary.load(directory / "vocabulary.txt")
    chosen = get_tokenizer(tokenizer)
    lacks_forms = chosen.uses_lemmas and vocabulary.forms is None
    if lacks_forms or (chosen.is_trained and vocabulary.subwords is None):
        path = directory / ("forms.tsv" if lacks_forms else "sentencepiece.model")
        raise InputError(
            f"{path} does not exist: the tokenizer needs it. Fix: restore the file or retrain."
        )
    return vocabulary


def load_encoded_corpus(directory: Path, vocabulary_size: int) -> EncodedCorpus:
    """Load the encoded training corpus of a model directory."""
    encoded = EncodedCorpus.load(directory / "corpus")
    size = encoded.vocabulary_size
    wanted = f"encoded with the {vocabulary_size} words of vocabulary.txt"
    check_argument(
        f"{directory / 'corpus'}", size == vocabulary_size, wanted, f"{size} words", "retrain."
    )
    return encoded


def read_config(directory: Path) -> dict:
    """Read `config.json` of a model directory and check the fields that all kinds of models
    have.
    """
    path = directory / "config.json"
    config = read_json(path)
    required = ["kind", "tokenizer", "boundary"] + [name for name in ("corpus",) if name in config]
    check_fields(path, config, dict.fromkeys(required, str))
    return config


def read_description(directory: Path) -> tuple[dict, Vocabulary]:
    """Read `config.json` and the vocabulary of a model directory, without the model."""
    shown = display_url(directory)
    fix = _NAME_DIRECTORY
    received = ""
    if directory.is_file():
        received = f"the file {shown}"
        if _is_arpa_file(directory):
            fix = f"make one by `keras-nplm ngram --arpa {shown} --output DIR`."
    elif not directory.is_dir():
        received = f"{shown}, which does not exist"
        fix = f"train a model with `keras-nplm train --output {shown}`."
    elif not (directory / "config.json").exists():
        received = f"{shown}, a directory without config.json"
    if received:
        raise InputError(f"A model directory is needed. Received: {received}. Fix: {fix}")
    config = read_config(directory)
    return config, load_vocabulary(directory, config["tokenizer"])


def _is_arpa_file(path: Path) -> bool:
    if ".arpa" in path.suffixes:
        return True
    with open_text(path) as file:
        return b"\\data\\" in file.read(_HEAD)


def read_metrics(directory: Path, missing_ok: bool = False) -> dict:
    """Read `metrics.json` of a model directory and check its figures."""
    path = directory / "metrics.json"
    if missing_ok and not path.exists():
        return {}
    metrics = read_json(path)
    for split in metrics.keys() & set(SPLITS):
        _check_figures(path, metrics[split])
    for name, kind in _METRICS.items():
        if name in metrics:
            check_fields(path, metrics, {name: kind})
    return metrics


def is_unfinished_run(directory: Path) -> bool:
    """Return whether a command that trains or estimates in a directory has not come to its end."""
    return (directory / CORPUS_FILE).exists() and not (directory / "metrics.json").exists()


def read_finished_metrics(directory: Path, wanted: Mapping[str, type | tuple]) -> dict:
    """Return the content of `metrics.json` of a run that is finished, with the fields `wanted`."""
    print(
        f"The run in {display_url(directory)} is finished: reading its metrics.json.",
        file=sys.stderr,
    )
    with explain_damage(directory):
        metrics = read_metrics(directory)
        check_fields(directory / "metrics.json", metrics, wanted)
    return metrics


def _check_figures(path: Path, figures: dict) -> None:
    """Check the figures of a split, of which some may be missing or None."""
    check_fields(path, figures, _FIGURES)
    for name in _MAYBE_NONE:
        if figures.get(name) is not None:
            check_fields(path, figures, {name: NUMBER})
    figures.setdefault("perplexity_without_unk", None)
    if "ln_z" in figures:
        check_fields(path, figures["ln_z"], {"mean_absolute": NUMBER})


@contextlib.contextmanager
def remove_config_if_refused(directory: Path, unless: Collection[str] = ()) -> Iterator[None]:
    """Delete `config.json` if the block raises an InputError, so that the next try may have other
    options.

    The other files of the refused run are deleted, too, except for the corpus. Nothing is deleted
    if one of the files `unless` exists: they hold finished work, such as a checkpoint.
    """
    try:
        yield
    except InputError:
        if not any((directory / name).exists() for name in unless):
            for name in ("components", "logs"):
                shutil.rmtree(directory / name, ignore_errors=True)
            # last: without it, a directory with these is not taken for a run to resume
            (directory / "config.json").unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def explain_damage(directory: Path) -> Iterator[None]:
    """Name the directory to remove if the block cannot read the files of an earlier call there."""
    try:
        yield
    except InputError as error:
        fix = f"Fix: restore the file, or remove {directory} and run the same command again."
        raise InputError(f"The run in {directory} is damaged. {drop_fix(error)} {fix}") from error


@contextlib.contextmanager
def lock_new_directory(directory: Path) -> Iterator[None]:
    """Lock a model directory that must be empty or absent, until the end of the block."""
    check_output_directory(directory)
    with lock_directory(directory):
        check_output_directory(directory)
        remove_temporary_files(directory)
        yield


def check_output_directory(
    directory: Path, allowed: Collection[str] = (), argument: str = "--output"
) -> None:
    """Check that an output directory is empty, but for the lock and temporary files, or does not
    exist.
    """
    check_output_path(directory)
    if directory.exists() and not directory.is_dir():
        fix = f"{advise_new_output(directory.with_suffix(''), argument)}."
        check_argument(argument, False, "a directory", f"{directory}, a file", fix)
    paths = directory.iterdir() if directory.is_dir() else []
    if not all(path.name in {LOCK_NAME, *allowed} or is_temporary(path) for path in paths):
        is_model = (directory / "config.json").exists()
        held = "already holds a model" if is_model else "exists and is not a model directory"
        raise InputError(
            f"{directory} {held}. Fix: {advise_new_output(directory, argument)}. "
            "Or delete the directory, if an interrupted command left it."
        )


def advise_new_output(directory: Path, argument: str = "--output") -> str:
    """Return the advice to write elsewhere, with a path that is free."""
    advice = f"choose a new `{argument}`"
    if display_url(directory) != str(directory):  # the copy of a remote directory
        return advice
    return f"{advice}, such as {find_free_path(directory)}"


def check_output_file(target: str | os.PathLike) -> None:
    """Check that an output file can exist, and not in a model directory, whose files must stay
    unchanged.
    """
    check_output_path(target)
    parent = Path(target).parent
    if (parent / "config.json").exists():
        raise InputError(
            f"{target} lies in the model directory {parent}. Fix: choose a different directory."
        )
