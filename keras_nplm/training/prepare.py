"""TODO doc."""

import sys
from pathlib import Path

from keras_nplm.data.corpora import SPLITS, Corpus
from keras_nplm.data.encoding import EncodedCorpus, count_vocabulary, encode_corpus, text_state
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import (
    read_json,
    write_json,
)
from keras_nplm.language_model.directory import load_vocabulary, open_encoded, refuse_foreign

_COUNTED = Path("corpus", "counted.json")  # until all is encoded: where the words of vocabulary.txt were counted
_PREPARED = {"corpus", "vocabulary.txt", "forms.tsv"}  # all that a run killed before its first step leaves


def prepare_directory(
    directory: Path, corpus: Corpus, options: dict, *, vocabulary_scope: str, min_count: int, max_size: int | None
) -> tuple[EncodedCorpus, Vocabulary]:
    """Encode a corpus into a model directory, or find there what an earlier call with the same options left.

    Args:
        directory: absent, or of a run with the same options.
        corpus: the text.
        options: what describes the run; with the corpus's name and tokenizer they become `config.json`.
        vocabulary_scope: `"train"` or `"corpus"`: where words are counted.
        min_count: words seen less often become `<unk>`.
        max_size: keep this many words at most.

    Raises:
        InputError: the directory holds something else, or the text cannot be used.
        RunError: a file cannot be written.
    """
    options = options | {"corpus": corpus.name, "tokenizer": corpus.tokenizer}
    if (directory / "config.json").exists():
        if read_json(directory / "config.json") != options:
            raise InputError(f"{directory} holds a run with other options: choose another --output, or remove it.")
        if not (directory / "metrics.json").exists():
            print(f"Going on with the run in {directory}.", file=sys.stderr)
        vocabulary = load_vocabulary(directory, corpus.tokenizer)
        return open_encoded(directory, len(vocabulary)), vocabulary
    refuse_foreign(directory, _PREPARED)
    counted = SPLITS if vocabulary_scope == "corpus" else ("train",)
    vocabulary = _count(corpus, directory, splits=counted, min_count=min_count, max_size=max_size)
    encoded = encode_corpus(corpus, vocabulary, directory / "corpus")
    (directory / _COUNTED).unlink(missing_ok=True)
    write_json(directory / "config.json", options)  # last: where it stands, the rest is whole
    return encoded, vocabulary


def _count(corpus: Corpus, directory: Path, **options) -> Vocabulary:
    """Count the words, or read what a call that was interrupted since has counted in the same text files."""
    text = text_state(corpus)
    counted = {"tokenizer": corpus.tokenizer} | options | {"splits": list(options["splits"])} | text
    if text and (directory / _COUNTED).exists():
        if read_json(directory / _COUNTED) == counted:
            return load_vocabulary(directory, corpus.tokenizer)
        (directory / _COUNTED).unlink()
    vocabulary = count_vocabulary(corpus, **options)
    vocabulary.save(directory / "vocabulary.txt")
    if text:
        write_json(directory / _COUNTED, counted)
    return vocabulary
