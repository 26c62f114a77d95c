"""A prepared corpus: the vocabulary and the shards that `keras-nplm prepare` wrote, to be used by
several models.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_nplm.data.corpus import Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.fixed_vocabulary import FixedVocabulary
from keras_nplm.data.ids import BOS, EOS
from keras_nplm.data.subwords import SubwordOptions
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import CONTENT
from keras_nplm.io.paths import find_free_path
from keras_nplm.io.stages import Stages, read_manifest, verify_stages

VOCABULARY_OPTIONS = ("vocabulary_scope", "min_count", "max_size")


@dataclasses.dataclass(frozen=True, repr=False)
class PreparedCorpus(Corpus):
    """The text of a directory that `keras-nplm prepare` wrote.

    Its sentences have `<unk>` for unknown words.
    """

    directory: Path = Path()
    # the key of its stage `text`
    record: dict[str, Any] = dataclasses.field(default_factory=dict)

    def describe(self) -> dict:
        described = {
            name: value for name, value in self.record.items() if name not in VOCABULARY_OPTIONS
        }
        if not re.search(CONTENT, self.name):  # another text may have the same name
            described["shards"] = read_manifest(self.directory / "corpus")["shards"]["key"]["text"]
        return described

    @property
    def fixed_options(self) -> dict[str, Any]:
        return {
            name: self.record[name]
            for name in (*VOCABULARY_OPTIONS, "boundary")
            if name in self.record
        }


def open_prepared_corpus(
    directory: Path,
    tokenizer: str | None,
    subwords: SubwordOptions | None,
    vocabulary: FixedVocabulary | None,
) -> PreparedCorpus:
    """Open a directory that `keras-nplm prepare` wrote.

    A tokenizer, subwords and a vocabulary, if given, must be the same.
    """
    stages = Stages(directory)
    record = stages.read_key("text")
    if record is None or not stages.is_made("text"):
        raise InputError(
            "`corpus` must be the name of a corpus or a directory written by `prepare`. Received: "
            f"{directory}, without a prepared text. Fix: prepare the text with `keras-nplm prepare "
            f"--output {find_free_path(directory)}`, and name that directory."
        )
    verify_stages(directory, ["vocabulary", "text"])
    encoded = EncodedCorpus.load(directory / "corpus")
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
        parts = encoded.shards(split).parts(1 << 16)
        sentence: list[str] = []
        for word in filter(
            BOS.__ne__, itertools.chain.from_iterable(map(vocabulary.decode, parts))
        ):
            if word != EOS:
                sentence.append(word)
                continue
            yield stored.join(sentence) if stored.is_trained else sentence
            sentence = []

    splits = {split: functools.partial(read, split) for split in encoded.splits}
    return PreparedCorpus(
        record["corpus"], record["tokenizer"], splits, directory=directory, record=record
    )
