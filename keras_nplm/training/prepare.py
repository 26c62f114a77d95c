"""Count the vocabulary, encode the corpus, write config.json or prepared.json; or resume it."""

import contextlib
import dataclasses
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_nplm.data.boundary import has_documents
from keras_nplm.data.corpora.chunks import CHUNK_RUNNER
from keras_nplm.data.corpora.text_files import find_text_splits
from keras_nplm.data.corpus import SPLITS, Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import count_vocabulary, describe_text, encode_corpus, is_record
from keras_nplm.data.forms import check_companions
from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.prepared_corpus import PREPARED_FILE, PreparedCorpus
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.unusual_text import check_spaces, describe_unusual_text
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, RunError, check_argument
from keras_nplm.io.files import read_json, remove_contents, remove_temporary_files, write_json
from keras_nplm.io.lock import LOCK_NAME, lock_directory
from keras_nplm.io.parts import flatten_config
from keras_nplm.io.paths import check_output_path, is_remote
from keras_nplm.io.remote import display_url, upload
from keras_nplm.language_model.directory import (
    advise_new_output,
    check_output_directory,
    explain_damage,
    load_encoded_corpus,
    load_vocabulary,
)
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel, load_spelling
from keras_nplm.training.options import TextOptions, describe_run_options

# until all is encoded: the text and options that vocabulary.txt is of
_COUNT_RECORD = Path("corpus", "counted.json")
# of a killed run
_PREPARED = {"corpus", "vocabulary.txt", "forms.tsv", SPELLING_FILE, "sentencepiece.model"}


@contextlib.contextmanager
def lock_run(directory: Path) -> Iterator[None]:
    """Lock the directory of a run, which may be new, and remove temporary files there.

    A finished run is read without a lock.
    """
    check_output_path(directory)
    if not all((directory / name).exists() for name in ("config.json", "metrics.json")):
        with lock_directory(directory):
            check_run_directory(directory)  # before anything there is removed
            remove_temporary_files(directory)
            yield
        return
    # perhaps of a process that was killed as it wrote the report
    if (directory / LOCK_NAME).exists():
        with contextlib.suppress(InputError, RunError), lock_directory(directory):
            remove_temporary_files(directory)
    yield


def prepare_text(directory: Path, corpus: Corpus, text: TextOptions) -> EncodedCorpus:
    """Count the vocabulary and encode the corpus in the directory of a run, or open what is there.

    An interrupted preparation is resumed. `record_run` completes it. The caller has locked the
    directory by `lock_run`.
    """
    if (directory / "config.json").exists():
        with explain_damage(directory):
            encoded = EncodedCorpus.load(directory / "corpus")
            _check_sizes(encoded)
        return encoded
    if isinstance(corpus, PreparedCorpus):
        _check_match(corpus, text)
        encoded, vocabulary = corpus.link(directory)
    else:
        encoded, vocabulary = _count_and_encode(corpus, directory, text)
    if get_tokenizer(corpus.tokenizer).has_unknown:
        spelling = SpellingModel.from_vocabulary(vocabulary, encoded.unknown_words("train"))
        spelling.save(directory / SPELLING_FILE)
    return encoded


def record_run(
    directory: Path,
    corpus: Corpus,
    encoded: EncodedCorpus,
    options: Mapping[str, Any],
    *,
    is_chief: bool = True,
) -> Vocabulary:
    """Write `config.json`; of a run to resume, compare it. Return the vocabulary.

    `config.json` has the options, and name and tokenizer of the corpus. If it exists, the text is
    prepared. The chief alone prints that a run resumes: other workers may find its `config.json`.
    """
    config = {**options, **corpus.describe()}
    if not (directory / "config.json").exists():
        _complete(directory, corpus, encoded, "config.json", config)
        upload(directory)
        return load_vocabulary(directory, corpus.tokenizer)
    _, vocabulary = _load_prepared(directory, corpus, "config.json", config)
    if is_chief and not (directory / "metrics.json").exists():
        print(f"Resuming the run in {display_url(directory)}.", file=sys.stderr)
    return vocabulary


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
    """Count and encode a corpus for several models; `prepared.json` is written last.

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
    options = {**corpus.describe(), **dataclasses.asdict(text)}
    if not has_documents(text.boundary):
        del options["boundary"]  # the same ids serve sentences and streams
    check_prepared_directory(directory)
    with lock_directory(directory):
        if (directory / PREPARED_FILE).exists():
            return _load_prepared(directory, corpus, PREPARED_FILE, options)
        remove_temporary_files(directory)
        for stale in directory.glob(".beam.nplm-*"):  # of a killed driver
            shutil.rmtree(stale, ignore_errors=True)
        encoded, vocabulary = _count_and_encode(corpus, directory, text)
        _complete(directory, corpus, encoded, PREPARED_FILE, options)
    return encoded, vocabulary


def check_prepared_directory(directory: Path, record: str = PREPARED_FILE) -> None:
    """Refuse a directory that is neither absent or empty nor a preparation, complete or not."""
    check_output_path(directory)
    if not (directory / record).exists():
        check_output_directory(directory, _PREPARED)
        check_companions(directory / "vocabulary.txt")


def check_run_directory(directory: Path) -> None:
    """Refuse a directory that is neither absent or empty nor a run to resume."""
    if not is_remote(directory):  # `train` and `estimate` check what they download from there
        check_prepared_directory(directory, "config.json")


def _count_and_encode(
    corpus: Corpus, directory: Path, text: TextOptions
) -> tuple[EncodedCorpus, Vocabulary]:
    """Count and encode, or continue an interrupted call for the same, unchanged text files."""
    splits = ["train"]
    if text.vocabulary_scope == "corpus":
        splits = [split for split in SPLITS if split in corpus.splits]
    described = describe_text(corpus)
    record = {
        **corpus.describe(),
        "min_count": text.min_count,
        "max_size": text.max_size,
        "splits": splits,
        **described,
    }
    del record["corpus"]
    path = directory / _COUNT_RECORD
    if described and is_record(path, record):
        vocabulary = load_vocabulary(directory, corpus.tokenizer)
    else:
        path.unlink(missing_ok=True)
        check_spaces(corpus)
        vocabulary = count_vocabulary(
            corpus, splits, min_count=text.min_count, max_size=text.max_size
        )
        vocabulary.save(directory / "vocabulary.txt")
        if described:
            write_json(path, record)
    encoded = encode_corpus(corpus, vocabulary, directory / "corpus", text.boundary)
    return encoded, vocabulary


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


def _complete(
    directory: Path, corpus: Corpus, encoded: EncodedCorpus, record: str, options: dict
) -> None:
    """Warn of unusual text, and record the options. The record says that all is complete."""
    (directory / _COUNT_RECORD).unlink(missing_ok=True)
    for warning in (
        *_check_fixed_vocabulary(corpus, encoded),
        *describe_unusual_text(corpus, encoded, options.get("boundary", "sentence")),
    ):
        print(f"Warning: {warning}", file=sys.stderr)
    write_json(directory / record, options)


def _load_prepared(
    directory: Path, corpus: Corpus, record: str, options: dict
) -> tuple[EncodedCorpus, Vocabulary]:
    """Load a complete preparation; refuse one with other options, or of a text that has changed."""
    with explain_damage(directory):
        recorded = read_json(directory / record)
    recorded = flatten_config(recorded)
    options = flatten_config(json.loads(json.dumps(options)))  # tuples become lists
    # options of a part that one of the two has not chosen say no more than the choice
    of_parts = {name for name, facts in describe_run_options().items() if facts.homes}
    names = recorded.keys() & options.keys() | (recorded.keys() ^ options.keys()) - of_parts
    differing = sorted(name for name in names if recorded.get(name) != options.get(name))
    if differing:
        fix = f"Fix: {advise_new_output(directory)}, or remove {directory}."
        if differing == ["epochs"] and (directory / "metrics.json").exists():
            fix = (
                "A finished run does not continue: its learning rate was planned for its epochs, "
                f"and its optimiser state is gone. Fix: train anew, and "
                f"{advise_new_output(directory)}; or let the model learn from more text, by "
                f"`keras-nplm adapt {directory} --text FILE --output DIR`."
            )
        described = [
            _describe_change(name, recorded.get(name), options.get(name)) for name in differing
        ]
        raise InputError(
            f"{directory} holds a run with other options: {'; '.join(described)}. {fix}"
        )
    with explain_damage(directory):
        vocabulary = load_vocabulary(directory, corpus.tokenizer)
        encoded = load_encoded_corpus(directory, len(vocabulary))
        load_spelling(directory)  # checked now, and not after the last epoch
        _check_sizes(encoded)
    return encoded, vocabulary


def _describe_change(name: str, before: object, now: object) -> str:
    """Return an option with its value of the run and its value now."""
    values = ["none" if value is None else remove_contents(str(value)) for value in (before, now)]
    if values[0] == values[1]:
        return f"{name}: its files have changed"
    return f"{name}: {values[0]} there, {values[1]} now"


def _check_sizes(encoded: EncodedCorpus) -> None:
    """Refuse shards of other sizes than recorded. Reading verifies their checksums."""
    for split in encoded.splits:
        encoded.shards(split)
