"""A prepared corpus: the vocabulary and the shards that `keras-nplm prepare` wrote, to be used by
several models.
"""

import dataclasses
import functools
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_nplm.data.corpus import Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.fixed_vocabulary import FixedVocabulary
from keras_nplm.data.ids import BOS, EOS
from keras_nplm.data.subwords import SubwordOptions
from keras_nplm.data.text_counts import name_text_counts
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import check_fields, check_is_file, read_json, replace_file
from keras_nplm.io.paths import find_free_path

PREPARED_FILE = "prepared.json"  # written last: its presence says that the preparation is complete
VOCABULARY_OPTIONS = ("vocabulary_scope", "min_count", "max_size")


@dataclasses.dataclass(frozen=True, repr=False)
class PreparedCorpus(Corpus):
    """The text of a directory that `keras-nplm prepare` wrote.

    Its sentences have `<unk>` for unknown words.
    """

    directory: Path = Path()
    # the content of `prepared.json`
    record: dict[str, Any] = dataclasses.field(default_factory=dict)

    def describe(self) -> dict:
        return {
            name: value for name, value in self.record.items() if name not in VOCABULARY_OPTIONS
        }

    @property
    def fixed_options(self) -> dict[str, Any]:
        return {
            name: self.record[name]
            for name in (*VOCABULARY_OPTIONS, "boundary")
            if name in self.record
        }

    def link(self, directory: Path) -> tuple[EncodedCorpus, Vocabulary]:
        """Write the vocabulary and the shards to a model directory, as counting and encoding would
        have done.
        """
        vocabulary = Vocabulary.load(self.directory / "vocabulary.txt")
        encoded = EncodedCorpus.load(self.directory / "corpus")
        vocabulary.save(directory / "vocabulary.txt")
        for shard in itertools.chain.from_iterable(
            described["shards"] for described in encoded.splits.values()
        ):
            for name in (shard, name_text_counts(shard)):
                _link_file(encoded.directory / name, directory / "corpus" / name)
        _link_file(encoded.directory / "corpus.json", directory / "corpus" / "corpus.json")
        return EncodedCorpus.load(directory / "corpus"), vocabulary


def open_prepared_corpus(
    directory: Path,
    tokenizer: str | None,
    subwords: SubwordOptions | None,
    vocabulary: FixedVocabulary | None,
) -> PreparedCorpus:
    """Open a directory that `keras-nplm prepare` wrote.

    A tokenizer, subwords and a vocabulary, if given, must be the same.
    """
    if not (directory / PREPARED_FILE).exists():
        raise InputError(
            "`corpus` must be the name of a corpus or a directory written by `prepare`. Received: "
            f"{directory}, without {PREPARED_FILE}. Fix: prepare the text with `keras-nplm prepare "
            f"--output {find_free_path(directory)}`, and name that directory."
        )
    record = read_json(directory / PREPARED_FILE)
    fields = dict(corpus=str, tokenizer=str, vocabulary_scope=str, min_count=int)
    check_fields(directory / PREPARED_FILE, record, fields)
    given = {} if tokenizer is None else {"tokenizer": tokenizer}
    if subwords is not None:
        given |= subwords.describe()
    if vocabulary is not None:
        given |= vocabulary.describe()
    for name, value in given.items():
        if record.get(name) != value:
            raise InputError(
                f"`{name}` must be {record.get(name)!r}, with which {directory} was prepared. "
                f"Received: {value!r}. "
                "Fix: leave it out, or prepare the text again."
            )

    stored = get_tokenizer(record["tokenizer"])

    def read(split: str) -> Iterator[Any]:
        vocabulary = Vocabulary.load(directory / "vocabulary.txt")
        parts = EncodedCorpus.load(directory / "corpus").shards(split).parts(1 << 16)
        sentence: list[str] = []
        for word in filter(
            BOS.__ne__, itertools.chain.from_iterable(map(vocabulary.decode, parts))
        ):
            if word != EOS:
                sentence.append(word)
                continue
            yield stored.join(sentence) if stored.is_trained else sentence
            sentence = []

    names = EncodedCorpus.load(directory / "corpus").splits
    splits = {split: functools.partial(read, split) for split in names}
    return PreparedCorpus(
        record["corpus"], record["tokenizer"], splits, directory=directory, record=record
    )


def _link_file(source: Path, target: Path) -> None:
    """Make `target` a hard link of `source`, or a copy where the file system has no such link."""
    with replace_file(target) as temporary:
        temporary.unlink(missing_ok=True)
        check_is_file(source)
        try:
            os.link(os.path.realpath(source), temporary)  # not a link of a symbolic link
        except OSError:
            shutil.copyfile(source, temporary)
