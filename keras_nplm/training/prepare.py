"""Count the vocabulary, encode the corpus and write config.json or prepared.json; or resume all of this."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from keras_nplm.data.boundary import has_documents
from keras_nplm.data.corpora import SPLITS, Corpus
from keras_nplm.data.corpora.chunks import CHUNK_RUNNER
from keras_nplm.data.corpora.text_files import TextSplit
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import count_vocabulary, describe_text, encode_corpus
from keras_nplm.data.prepared_corpus import PREPARED_FILE, PreparedCorpus
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.unusual_text import describe_unusual_text
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import read_json, remove_temporary_files, write_json
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.paths import check_output_path, is_remote
from keras_nplm.io.remote import display_url, upload
from keras_nplm.language_model.directory import (
    check_output_directory,
    explain_damage,
    load_encoded_corpus,
    load_vocabulary,
)
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel, load_spelling

_COUNT_RECORD = Path("corpus", "counted.json")  # until all is encoded: the text and options that vocabulary.txt is of
_CONTENT = re.compile(r" \(\d+ bytes, crc32 [0-9a-f]{8}\)")  # of a file in the name of a corpus
_PREPARED = {"corpus", "vocabulary.txt", "forms.tsv", SPELLING_FILE, "sentencepiece.model"}  # of a killed run


def prepare_directory(
    directory: Path, corpus: Corpus, options: dict | Callable[[EncodedCorpus], dict], **text_options: str | int | None
) -> tuple[EncodedCorpus, Vocabulary]:
    """Count the vocabulary and encode the corpus in a model directory, or resume an interrupted preparation.

    `config.json` then records the options, which may be a function of the encoded corpus, with the corpus's name and
    tokenizer. `text_options` are `vocabulary_scope`, `min_count`, `max_size` and `boundary`. The caller holds the lock.
    """
    choose = options if callable(options) else lambda _: options
    if (directory / "config.json").exists():
        encoded = None
        if callable(options):
            with explain_damage(directory):
                read_json(directory / "config.json")
                encoded = EncodedCorpus.load(directory / "corpus")
                _check_sizes(encoded)
        prepared = _load_prepared(directory, corpus, "config.json", choose(encoded) | corpus.describe())
        if not (directory / "metrics.json").exists():
            print(f"Resuming the run in {display_url(directory)}.", file=sys.stderr)
        return prepared
    check_run_directory(directory)
    if isinstance(corpus, PreparedCorpus):
        for name, value in corpus.fixed_options.items():
            wanted, fix = f"{value}, with which {corpus.directory} was prepared", "leave it out, or prepare it again."
            check_argument(name, text_options[name] == value, wanted, text_options[name], fix)
        boundary = text_options["boundary"]
        has_marks, fix = "boundary" in corpus.fixed_options, f"prepare it again with --boundary {boundary}."
        check_argument("boundary", has_marks or not has_documents(boundary), "of the prepared text", boundary, fix)
        encoded, vocabulary = corpus.link(directory)
    else:
        encoded, vocabulary = _count_and_encode(corpus, directory, **text_options)
    if get_tokenizer(corpus.tokenizer).has_unknown:
        SpellingModel.from_vocabulary(vocabulary, encoded.unknown_words("train")).save(directory / SPELLING_FILE)
    _complete(directory, corpus, encoded, "config.json", choose(encoded) | corpus.describe())
    upload(directory)
    return encoded, vocabulary


def prepare_corpus(
    corpus: Corpus, directory: Path, boundary: str = "sentence", **text_options: str | int | None
) -> tuple[EncodedCorpus, Vocabulary]:
    """Count and encode a corpus for several models, all or none of the boundary `"text"`; `prepared.json` is last."""
    if isinstance(corpus, PreparedCorpus):
        raise InputError(f"The corpus to prepare must be a text. Received: {corpus.directory}, which is prepared.")
    if CHUNK_RUNNER.get() and not all(isinstance(split, TextSplit) for split in corpus.splits.values()):
        fix = "Fix: leave `--runner` out, or name text files or a TFDS set."
        raise InputError(f"`runner` must be local for the corpus {corpus.name}. {fix}")
    text_options = {"vocabulary_scope": "train", "min_count": 2, "max_size": None} | text_options
    options = corpus.describe() | text_options | ({"boundary": boundary} if has_documents(boundary) else {})
    check_prepared_directory(directory)
    with lock_directory(directory):
        if (directory / PREPARED_FILE).exists():
            return _load_prepared(directory, corpus, PREPARED_FILE, options)
        remove_temporary_files(directory)
        for stale in directory.glob(".beam.*"):  # of a killed driver
            shutil.rmtree(stale, ignore_errors=True)
        encoded, vocabulary = _count_and_encode(corpus, directory, boundary=boundary, **text_options)
        _complete(directory, corpus, encoded, PREPARED_FILE, options)
    return encoded, vocabulary


def check_prepared_directory(directory: Path, record: str = PREPARED_FILE) -> None:
    """Refuse a directory that is neither absent or empty nor a preparation, complete or not."""
    check_output_path(directory)
    if not (directory / record).exists():
        check_output_directory(directory, _PREPARED)


def check_run_directory(directory: Path) -> None:
    """Refuse a directory that is neither absent or empty nor a run to resume."""
    if not is_remote(directory):  # `train` and `estimate` check what they download from there
        check_prepared_directory(directory, "config.json")


def _count_and_encode(
    corpus: Corpus, directory: Path, *, vocabulary_scope: str, boundary: str = "sentence", **options: int | None
) -> tuple[EncodedCorpus, Vocabulary]:
    """Count and encode, or continue an interrupted call for the same, unchanged text files."""
    splits, text = SPLITS if vocabulary_scope == "corpus" else ("train",), describe_text(corpus)
    described = {name: value for name, value in corpus.describe().items() if name != "corpus"}
    record, path = described | options | {"splits": list(splits)} | text, directory / _COUNT_RECORD
    if text and path.exists() and _is_record(path, record):
        vocabulary = load_vocabulary(directory, corpus.tokenizer)
    else:
        path.unlink(missing_ok=True)
        vocabulary = count_vocabulary(corpus, splits, **options)
        vocabulary.save(directory / "vocabulary.txt")
        if text:
            write_json(path, record)
    return encode_corpus(corpus, vocabulary, directory / "corpus", boundary), vocabulary


def _is_record(path: Path, record: dict) -> bool:
    """Whether a file holds a record. A damaged one does not."""
    try:
        return read_json(path) == record
    except InputError:
        return False


def _complete(directory: Path, corpus: Corpus, encoded: EncodedCorpus, record: str, options: dict) -> None:
    """Warn of unusual text, and record the options: the presence of the record says that all is complete."""
    (directory / _COUNT_RECORD).unlink(missing_ok=True)
    for warning in describe_unusual_text(corpus, encoded, options.get("boundary", "sentence")):
        print(f"Warning: {warning}", file=sys.stderr)
    write_json(directory / record, options)


def _load_prepared(directory: Path, corpus: Corpus, record: str, options: dict) -> tuple[EncodedCorpus, Vocabulary]:
    """Load a complete preparation; refuse one with other options, or of a text that has changed."""
    with explain_damage(directory):
        recorded = read_json(directory / record)
    if recorded != options:
        differing = sorted(name for name in recorded.keys() | options.keys() if recorded.get(name) != options.get(name))
        fix = f"Fix: choose a different --output, or remove {directory}."
        before, now = (_CONTENT.sub("", str(described.get("corpus"))) for described in (recorded, options))
        if differing == ["corpus"] and before == now:
            raise InputError(f"The text files of the run in {directory} have changed since it began. {fix}")
        raise InputError(f"{directory} holds a run with other options: {', '.join(differing)}. {fix}")
    with explain_damage(directory):
        vocabulary = load_vocabulary(directory, corpus.tokenizer)
        encoded = load_encoded_corpus(directory, len(vocabulary))
        load_spelling(directory)  # checked now, and not after the last epoch
        _check_sizes(encoded)
    return encoded, vocabulary


def _check_sizes(encoded: EncodedCorpus) -> None:
    """Refuse shards of other sizes than recorded. Their checksums are verified as the ids are read."""
    for split in SPLITS:
        encoded.shards(split)
