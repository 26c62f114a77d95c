"""Prepare a model directory: count the vocabulary, encode the corpus, write config.json; or resume all of this."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_nplm.data.corpora import SPLITS, Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import count_vocabulary, describe_text, encode_corpus
from keras_nplm.data.unusual_text import describe_unusual_text
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json, write_json
from keras_nplm.io.paths import check_output_path
from keras_nplm.language_model.directory import check_output_directory, load_encoded_corpus, load_vocabulary
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel

_COUNT_RECORD = Path("corpus", "counted.json")  # until all is encoded: the text and options that vocabulary.txt is of
_CONTENT = re.compile(r" \(\d+ bytes, crc32 [0-9a-f]{8}\)")  # of a file in the name of a corpus
_PREPARED = {
    "corpus",
    "vocabulary.txt",
    "forms.tsv",
    SPELLING_FILE,
    "sentencepiece.model",
}  # names that a run killed before config.json may leave


def prepare_directory(
    directory: Path,
    corpus: Corpus,
    options: dict | Callable[[EncodedCorpus], dict],
    *,
    vocabulary_scope: str,
    min_count: int,
    max_size: int | None,
) -> tuple[EncodedCorpus, Vocabulary]:
    """Count the vocabulary and encode the corpus in a model directory, or resume an interrupted preparation.

    The caller holds the lock of the directory, unless the preparation is complete.

    Args:
        directory: the model directory. It must be absent, or hold a run with the same options.
        corpus: the text.
        options: the options of the run, or a function that chooses them for the encoded corpus. `config.json` records
            them with the corpus's name and tokenizer.
        vocabulary_scope: `"train"` or `"corpus"` (all splits): the splits in which words are counted.
        min_count: rarer words become `<unk>`.
        max_size: size limit of the vocabulary.

    Raises:
        InputError: the directory holds a run with other options or foreign files, or the text is invalid.
        RunError: a file cannot be written.
    """
    if (directory / "config.json").exists():
        return _load_prepared(directory, corpus, options)
    check_run_directory(directory)
    splits = SPLITS if vocabulary_scope == "corpus" else ("train",)
    vocabulary = _count_or_load(corpus, directory, splits=splits, min_count=min_count, max_size=max_size)
    encoded = encode_corpus(corpus, vocabulary, directory / "corpus")
    if vocabulary.subwords is None:  # subwords have no <unk>
        SpellingModel.from_vocabulary(vocabulary, encoded.unknown_words("train")).save(directory / SPELLING_FILE)
    (directory / _COUNT_RECORD).unlink(missing_ok=True)
    options = _complete_options(options, encoded, corpus)
    for warning in describe_unusual_text(corpus, encoded, options["boundary"]):
        print(f"Warning: {warning}", file=sys.stderr)
    write_json(directory / "config.json", options)  # last: its presence says that the preparation is complete
    return encoded, vocabulary


def _load_prepared(
    directory: Path, corpus: Corpus, options: dict | Callable[[EncodedCorpus], dict]
) -> tuple[EncodedCorpus, Vocabulary]:
    """Load what an earlier call prepared, if it is the same run."""
    encoded = EncodedCorpus.load(directory / "corpus") if callable(options) else None
    completed = _complete_options(options, encoded, corpus)
    _check_same_run(directory, read_json(directory / "config.json"), completed)
    if not (directory / "metrics.json").exists():
        print(f"Resuming the run in {directory}.", file=sys.stderr)
    vocabulary = load_vocabulary(directory, corpus.tokenizer)
    return load_encoded_corpus(directory, len(vocabulary)), vocabulary


def _complete_options(
    options: dict | Callable[[EncodedCorpus], dict], encoded: EncodedCorpus | None, corpus: Corpus
) -> dict:
    """Return what `config.json` records: the options, chosen for the encoded corpus if they are a function."""
    return (options(encoded) if callable(options) else options) | corpus.describe()


def _check_same_run(directory: Path, recorded: dict, options: dict) -> None:
    """Refuse a directory whose run has other options, or a text that has changed."""
    if recorded == options:
        return
    differing = sorted(name for name in recorded.keys() | options.keys() if recorded.get(name) != options.get(name))
    fix = f"Fix: choose a different --output, or remove {directory}."
    before, now = (_CONTENT.sub("", str(described.get("corpus"))) for described in (recorded, options))
    if differing == ["corpus"] and before == now:
        raise InputError(f"The text files of the run in {directory} have changed since it began. {fix}")
    raise InputError(f"{directory} holds a run with other options: {', '.join(differing)}. {fix}")


def check_run_directory(directory: Path) -> None:
    """Refuse a directory that is neither absent or empty nor a run to resume.

    Raises:
        InputError: the path is invalid, or the directory holds foreign files.
    """
    check_output_path(directory)
    if not (directory / "config.json").exists():
        check_output_directory(directory, _PREPARED)


def _count_or_load(corpus: Corpus, directory: Path, **options: Any) -> Vocabulary:
    """Count the vocabulary, or load the one that an interrupted call counted in the same, unchanged text files."""
    text = describe_text(corpus)
    described = {name: value for name, value in corpus.describe().items() if name != "corpus"}
    record = described | options | {"splits": list(options["splits"])} | text
    if text and (directory / _COUNT_RECORD).exists():
        if read_json(directory / _COUNT_RECORD) == record:
            return load_vocabulary(directory, corpus.tokenizer)
        (directory / _COUNT_RECORD).unlink()
    vocabulary = count_vocabulary(corpus, **options)
    vocabulary.save(directory / "vocabulary.txt")
    if text:
        write_json(directory / _COUNT_RECORD, record)
    return vocabulary
