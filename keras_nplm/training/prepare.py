"""Count the vocabulary, encode the corpus and write config.json or prepared.json; or resume all of this."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_nplm.data.corpora import SPLITS, Corpus
from keras_nplm.data.corpora.pieces import get_piece_runner
from keras_nplm.data.corpora.text_files import TextSplit
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import count_vocabulary, describe_text, encode_corpus
from keras_nplm.data.prepared_corpus import PREPARED_FILE, PreparedCorpus
from keras_nplm.data.unusual_text import describe_unusual_text
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json, remove_temporary_files, write_json
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.paths import check_output_path, is_remote
from keras_nplm.io.remote import name_source, upload
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
    text_options = {"vocabulary_scope": vocabulary_scope, "min_count": min_count, "max_size": max_size}
    if isinstance(corpus, PreparedCorpus):
        _check_fixed_options(corpus, text_options)
        encoded, vocabulary = corpus.link(directory)
    else:
        encoded, vocabulary = _count_and_encode(corpus, directory, **text_options)
    if vocabulary.subwords is None:  # subwords have no <unk>
        SpellingModel.from_vocabulary(vocabulary, encoded.unknown_words("train")).save(directory / SPELLING_FILE)
    (directory / _COUNT_RECORD).unlink(missing_ok=True)
    options = _complete_options(options, encoded, corpus)
    for warning in describe_unusual_text(corpus, encoded, options["boundary"]):
        print(f"Warning: {warning}", file=sys.stderr)
    write_json(directory / "config.json", options)  # last: its presence says that the preparation is complete
    upload(directory)
    return encoded, vocabulary


def prepare_corpus(
    corpus: Corpus,
    directory: Path,
    *,
    vocabulary_scope: str = "train",
    min_count: int = 2,
    max_size: int | None = None,
) -> tuple[EncodedCorpus, Vocabulary]:
    """Count and encode a corpus for several models (`keras-nplm prepare`), or resume an interrupted preparation.

    The directory holds `vocabulary.txt` and `corpus/` as a model directory, and `prepared.json` when all is complete.
    `open_corpus(directory)` opens it.

    Args:
        corpus: the text.
        directory: the directory to write. It must be absent or empty, or hold a preparation with the same options.
        vocabulary_scope: as for `prepare_directory`.
        min_count: as for `prepare_directory`.
        max_size: as for `prepare_directory`.

    Raises:
        InputError: the directory holds something else, or the text is invalid.
        RunError: a file cannot be written, or a different process writes the directory.

    Example:

    >>> from keras_nplm import open_corpus
    >>> directory = getfixture("tmp_path") / "prepared"
    >>> encoded, vocabulary = prepare_corpus(open_corpus("python_reference"), directory)
    >>> open_corpus(str(directory)).fixed_options
    {'vocabulary_scope': 'train', 'min_count': 2, 'max_size': None}
    """
    if isinstance(corpus, PreparedCorpus):
        raise InputError(f"The corpus to prepare must be a text. Received: {corpus.directory}, which is prepared.")
    text_options = {"vocabulary_scope": vocabulary_scope, "min_count": min_count, "max_size": max_size}
    options = corpus.describe() | text_options
    if get_piece_runner() and not all(isinstance(split, TextSplit) for split in corpus.splits.values()):
        raise InputError(
            f"`runner` must be local for the corpus {corpus.name}. Fix: leave `--runner` out, or name text files or a "
            "TFDS set."
        )
    check_prepared_directory(directory)
    with lock_directory(directory):
        if (directory / PREPARED_FILE).exists():
            _check_same_run(directory, read_json(directory / PREPARED_FILE), options)
            vocabulary = load_vocabulary(directory, corpus.tokenizer)
            return load_encoded_corpus(directory, len(vocabulary)), vocabulary
        remove_temporary_files(directory)
        encoded, vocabulary = _count_and_encode(corpus, directory, **text_options)
        for warning in describe_unusual_text(corpus, encoded, "sentence"):
            print(f"Warning: {warning}", file=sys.stderr)
        (directory / _COUNT_RECORD).unlink(missing_ok=True)
        write_json(directory / PREPARED_FILE, options)
    return encoded, vocabulary


def check_prepared_directory(directory: Path) -> None:
    """Refuse a directory that is neither absent or empty nor a preparation.

    Raises:
        InputError: the path is invalid, or the directory holds a model or foreign files.
    """
    check_output_path(directory)
    if not (directory / PREPARED_FILE).exists():
        check_output_directory(directory, _PREPARED)


def _count_and_encode(
    corpus: Corpus, directory: Path, *, vocabulary_scope: str, **options: Any
) -> tuple[EncodedCorpus, Vocabulary]:
    """Count the vocabulary and encode the corpus, or go on where an interrupted call ended."""
    splits = SPLITS if vocabulary_scope == "corpus" else ("train",)
    vocabulary = _count_or_load(corpus, directory, splits=splits, **options)
    return encode_corpus(corpus, vocabulary, directory / "corpus"), vocabulary


def _check_fixed_options(corpus: PreparedCorpus, options: dict) -> None:
    """Refuse options of the vocabulary with which a text was not prepared."""
    for name, value in corpus.fixed_options.items():
        if options[name] != value:
            raise InputError(
                f"`{name}` must be {value}, with which {corpus.directory} was prepared. Received: {options[name]}. "
                "Fix: leave it out, or prepare the text again."
            )


def _load_prepared(
    directory: Path, corpus: Corpus, options: dict | Callable[[EncodedCorpus], dict]
) -> tuple[EncodedCorpus, Vocabulary]:
    """Load what an earlier call prepared, if it is the same run."""
    encoded = EncodedCorpus.load(directory / "corpus") if callable(options) else None
    completed = _complete_options(options, encoded, corpus)
    _check_same_run(directory, read_json(directory / "config.json"), completed)
    if not (directory / "metrics.json").exists():
        print(f"Resuming the run in {name_source(directory)}.", file=sys.stderr)
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
    if is_remote(directory):  # `train` and `estimate` check what they download from there
        return
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
