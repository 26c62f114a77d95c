"""The stages `vocabulary` and `text` of a directory: count the words of a text, and encode it."""

import dataclasses
import functools
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.boundary import has_documents
from keras_nplm.data.corpora.chunks import CHUNK_RUNNER
from keras_nplm.data.corpora.text_files import find_text_splits
from keras_nplm.data.corpus import SPLITS, Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import count_vocabulary, describe_text, encode_corpus
from keras_nplm.data.forms import FORMS, SUBWORDS
from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.prepared_corpus import PreparedCorpus
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.unusual_text import check_spaces, describe_unusual_text
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import remove_contents
from keras_nplm.io.stages import Stages, lock_stages, verify_stages
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel
from keras_nplm.training.options import TextOptions

_VOCABULARY_FILES = ("vocabulary.txt", FORMS, SUBWORDS)
_TEXT_FILES = (SPELLING_FILE, "corpus")


def prepare_text(
    directory: Path, corpus: Corpus, text: TextOptions, checkpoints: Sequence[str] = ()
) -> tuple[EncodedCorpus, Vocabulary]:
    """Count the vocabulary and encode the corpus in the directory of a run, or open what is there.

    The caller has locked the directory by `lock_stages`. `checkpoints` are files that only the same
    text can use.

    Raises:
        InputError: the directory holds a text with other options, or its files are damaged.
    """
    if isinstance(corpus, PreparedCorpus):
        _check_match(corpus, text)
    make = functools.partial(_make_text, directory, corpus, text)
    key = describe_options(corpus, text)
    Stages(directory).make("text", key, _TEXT_FILES, make, checkpoints=checkpoints)
    verify_stages(directory, ["vocabulary"])
    encoded = EncodedCorpus.load(directory / "corpus")
    return encoded, Vocabulary.load(directory / "vocabulary.txt")


def describe_options(corpus: Corpus, text: TextOptions) -> dict[str, Any]:
    """Return the options of a text. The same ids serve sentences and streams."""
    options = {**dataclasses.asdict(text), **corpus.describe()}
    if not has_documents(text.boundary):
        del options["boundary"]
    return options


def _check_match(corpus: PreparedCorpus, text: TextOptions) -> None:
    """Refuse options of a text that differ from those with which it was prepared."""
    for name, prepared in corpus.fixed_options.items():
        given = getattr(text, name)
        accepted = f"{prepared}, with which {corpus.directory} was prepared"
        fix = "leave it out, or prepare it again."
        check_argument(name, given == prepared, accepted, given, fix)
    check_argument(
        "boundary",
        "boundary" in corpus.fixed_options or not has_documents(text.boundary),
        "of the prepared text",
        text.boundary,
        f"prepare it again with --boundary {text.boundary}.",
    )


def prepare_corpus(
    corpus: Corpus, directory: Path, text: TextOptions = TextOptions()
) -> tuple[EncodedCorpus, Vocabulary]:
    """Count and encode a corpus for several models.

    They have all or none the boundary `"text"`.
    """
    check_argument(
        "corpus",
        not isinstance(corpus, PreparedCorpus),
        "a text",
        f"{getattr(corpus, 'directory', '')}, which is prepared",
        "give this directory to `train` or `ngram`, or prepare the text again.",
    )
    check_argument(
        "runner",
        CHUNK_RUNNER.get() is None or find_text_splits(corpus, corpus.splits) is not None,
        f"local for the corpus {corpus.name}",
        "a different one",
        "leave `--runner` out, or name text files or a TFDS set.",
    )
    with lock_stages(directory) as stages:
        if not stages.is_made("text"):
            for stale in directory.glob(".beam.nplm-*"):  # of a killed driver
                shutil.rmtree(stale, ignore_errors=True)
        return prepare_text(directory, corpus, text)


def _make_text(directory: Path, corpus: Corpus, text: TextOptions) -> None:
    """Count, encode, and warn of unusual text."""
    if isinstance(corpus, PreparedCorpus):
        vocabulary = Vocabulary.load(corpus.directory / "vocabulary.txt")
        _save_vocabulary(directory, corpus.record, lambda: vocabulary)
        encoded = EncodedCorpus.read(corpus.directory / "corpus").link(directory / "corpus")
    else:
        splits = ["train"]
        if text.vocabulary_scope == "corpus":
            splits = [split for split in SPLITS if split in corpus.splits]
        key = {**describe_options(corpus, text), "splits": splits, "text": describe_text(corpus)}
        count = functools.partial(_count, corpus, splits, text)
        vocabulary = _save_vocabulary(directory, key, count)
        encoded = encode_corpus(corpus, vocabulary, directory / "corpus", text.boundary)
    if get_tokenizer(corpus.tokenizer).has_unknown:
        spelling = SpellingModel.from_vocabulary(vocabulary, encoded.unknown_words("train"))
        spelling.save(directory / SPELLING_FILE)
    for warning in (
        *_check_fixed_vocabulary(corpus, encoded),
        *describe_unusual_text(corpus, encoded, text.boundary),
    ):
        print(f"Warning: {warning}", file=sys.stderr)


def _save_vocabulary(
    directory: Path, key: Mapping[str, Any], count: Callable[[], Vocabulary]
) -> Vocabulary:
    """Save a vocabulary with the files beside it; or load it where it is there with this key."""
    path = directory / "vocabulary.txt"
    Stages(directory).make(
        "vocabulary", key, _VOCABULARY_FILES, lambda: count().save(path), replace=True
    )
    return Vocabulary.load(path)


def _count(corpus: Corpus, splits: Sequence[str], text: TextOptions) -> Vocabulary:
    check_spaces(corpus)
    return count_vocabulary(corpus, splits, min_count=text.min_count, max_size=text.max_size)


def describe_fixed_vocabulary(corpus: Corpus, encoded: EncodedCorpus) -> dict[str, Any]:
    """Return the file of a fixed vocabulary, its number of words, and how many of them do not occur
    in the training text, under the name `vocabulary`; {} if the words were counted.
    """
    described = corpus.describe()
    if "vocabulary" not in described:
        return {}
    counts = encoded.frequencies()[len(SPECIALS) :]
    absent = int((counts == 0).sum())
    file = remove_contents(described["vocabulary"])
    return {"vocabulary": {"file": file, "words": len(counts), "absent": absent}}


def _check_fixed_vocabulary(corpus: Corpus, encoded: EncodedCorpus) -> Iterator[str]:
    """Refuse a fixed vocabulary of which no word occurs; warn of words that cannot occur."""
    if corpus.vocabulary is None:
        return
    figures = describe_fixed_vocabulary(corpus, encoded)["vocabulary"]
    unreachable = corpus.vocabulary.describe_unreachable(get_tokenizer(corpus.tokenizer))
    if figures["absent"] == figures["words"]:
        raise InputError(
            f"`vocabulary` must have words of the training text. Received: {figures['file']}, of "
            f"which no word occurs in it. "
            f"{unreachable or 'Fix: give the words of this text, in its language and case.'}"
        )
    if unreachable:
        yield unreachable
