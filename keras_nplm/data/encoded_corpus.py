"""An encoded corpus on disk: shards of ids with their description in `corpus.json`."""

import dataclasses
import itertools
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.ids import BOS_ID, EOS_ID
from keras_nplm.data.resampling import Resampled, TextIds, count_resampled
from keras_nplm.data.shards import DTYPE, ShardedIds
from keras_nplm.data.text_counts import TOTALS, name_text_counts, read_word_counts
from keras_nplm.io.errors import InputError, check_choice
from keras_nplm.io.files import check_fields, read_json

IN_MEMORY = 1 << 27  # largest number of training ids that are held in memory: 512 MiB
PART = 1 << 20  # ids that are read at a time
_ENCODE_AGAIN = "Fix: encode the corpus again."


def name_shard(split: str, number: int) -> str:
    return f"{split}.{number:05d}.ids"


@dataclasses.dataclass(frozen=True)
class EncodedCorpus:
    """The shards of ids that `encode_corpus` wrote.

    Attributes:
        directory: directory of the shards.
        name: name of the corpus.
        tokenizer: name of the tokenizer, for more text of this kind.
        vocabulary_size: |V|; all ids are below it.
        splits: for `"train"`, and for `"validation"` and `"test"` where the corpus has them, the
            counts `sentences`, `document_ends` (`<s>`), `tokens` and `unk_tokens`, and the names of
            its `shards` with the `crc32` of each; also `characters`, `bytes` and `words` of the
            text, without line ends (see `TextCounter`). With resampling also `shares`: (number of
            shards, share of their n-grams in an epoch).
    """

    directory: Path
    name: str
    tokenizer: str
    vocabulary_size: int
    splits: dict[str, dict]

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "EncodedCorpus":
        """Load the description `corpus.json` from a directory."""
        path = Path(directory) / "corpus.json"
        fields = {field.name for field in dataclasses.fields(cls)} - {"directory"}
        description = read_json(path)
        if set(description) != fields or not _are_splits(description["splits"]):
            raise InputError(f"{path} does not describe an encoded corpus. {_ENCODE_AGAIN}")
        check_fields(path, description, {"name": str, "tokenizer": str, "vocabulary_size": int})
        for split, described in description["splits"].items():
            counts = dict.fromkeys(("sentences", "tokens", "unk_tokens", *TOTALS), int)
            check_fields(path, described, counts | {"shards": list, "crc32": list})
            names = [name_shard(split, number) for number in range(len(described["shards"]))]
            # no name may lead out of the directory
            if (
                described["shards"] != names
                or not 0 < described["words"] <= described["characters"] <= described["bytes"]
                or not _divides(described.get("shares", [[len(names), 1]]), len(names))
            ):
                raise InputError(
                    f"The {split} split in {path} must have shards named {name_shard(split, 0)} …, "
                    "each with a share in (0, 1] if any has one, and a word or more. "
                    f"{_ENCODE_AGAIN}"
                )
        return cls(Path(directory), **description)

    def ids(self, split: str) -> np.ndarray:
        """Read and verify all ids of a split, int32 [T], each sentence closed by `</s>`; see
        `encode_corpus`.
        """
        ids = np.empty(len(self.shards(split)), np.int32)
        place = 0
        for part in self.parts(split):
            ids[place : place + len(part)] = part
            place += len(part)
        return ids

    def parts(self, split: str) -> Iterator[np.ndarray]:
        """Read the ids of a split as int32 arrays, for a text larger than memory.

        They are verified after the last.
        """
        shards = self.shards(split)
        checksums = []
        for start, stop in itertools.pairwise([0, *shards.ends.tolist()]):
            checksum = 0
            for first in range(start, stop, PART):
                ids = shards.read(first, min(first + PART, stop))
                checksum = zlib.crc32(ids.astype(DTYPE, copy=False).data, checksum)
                yield ids
            checksums.append(checksum)
        if self.splits[split]["crc32"] != checksums:
            raise InputError(
                f"The {split} shards in {self.directory} do not match corpus.json. {_ENCODE_AGAIN}"
            )

    def unknown_words(self, split: str) -> Iterator[dict[str, int]]:
        """Read the out-of-vocabulary words of a split with their counts, in dicts of bounded size.

        A word may be in several.
        """
        described = self.splits[split]
        total = 0
        for shard in described["shards"]:
            for counts in read_word_counts(self.directory / name_text_counts(shard)):
                total += sum(counts.values())
                yield counts
        if total != described["unk_tokens"]:
            text = f"The out-of-vocabulary words of the {split} split in {self.directory}"
            raise InputError(f"{text} do not match corpus.json. {_ENCODE_AGAIN}")

    def shards(self, split: str) -> ShardedIds:
        """Open the ids of a split without reading them into memory."""
        check_choice("split", split, [*self.splits])
        described = self.splits[split]
        shards = ShardedIds(
            [self.directory / shard for shard in described["shards"]], self.vocabulary_size
        )
        wanted = sum(described.get(name, 0) for name in ("tokens", "sentences", "document_ends"))
        held = sum(map(os.path.getsize, shards.paths))
        if held != wanted * DTYPE.itemsize:
            text = f"The {split} shards in {self.directory} hold {held / DTYPE.itemsize:.10g} ids"
            raise InputError(f"{text} where corpus.json says {wanted}. {_ENCODE_AGAIN}")
        return shards

    def for_training(self) -> TextIds:
        """Open the training split for `NgramSource`: its ids, or if more than 2**27 its shards."""
        shards = self._open_training_texts()
        texts: Sequence[np.ndarray | ShardedIds] = shards
        if sum(map(len, shards)) <= IN_MEMORY:
            texts = np.split(self.ids("train"), np.cumsum(list(map(len, shards)))[:-1])
        if "shares" not in self.splits["train"]:
            return texts[0]
        return Resampled(list(zip(texts, self._shares, strict=True)))

    @property
    def _shares(self) -> list[float]:
        return [share for _, share in self.splits["train"].get("shares", [(0, 1.0)])]

    def _open_training_texts(self) -> list[ShardedIds]:
        """Open the texts of the training split: one text, or with resampling one for each share."""
        paths = self.shards("train").paths
        ends = np.cumsum(
            [number for number, _ in self.splits["train"].get("shares", [(len(paths), 1.0)])]
        )
        return [
            ShardedIds(paths[a:b], self.vocabulary_size) for a, b in itertools.pairwise([0, *ends])
        ]

    def count_tokens_per_epoch(self, boundary: str = "sentence") -> int:
        """Count the targets of the training split, each text by its share: in a stream no `</s>` is
        one.
        """
        name, special = (
            ("document_ends", BOS_ID) if predicts_end(boundary) else ("sentences", EOS_ID)
        )
        texts = self._open_training_texts()
        number = self.splits["train"].get(name, 0)
        ends = (
            [number]
            if len(texts) == 1
            else [text.frequencies()[special] if number else 0 for text in texts]
        )
        numbers = [len(text) - number for text, number in zip(texts, ends, strict=True)]
        return sum(map(count_resampled, self._shares, numbers))

    def frequencies_by_share(self) -> tuple[np.ndarray, np.ndarray]:
        """Count the ids of each of K training texts, int64 [K, |V|], and list their shares, float64
        [K].
        """
        return np.stack([text.frequencies() for text in self._open_training_texts()]), np.array(
            self._shares
        )

    def frequencies(self) -> np.ndarray:
        """Count how often each id occurs in the training split, int64 [|V|]."""
        return self.shards("train").frequencies()


def _are_splits(splits: object) -> TypeGuard[dict]:
    """Whether an object has the names of splits: training, and perhaps validation and test."""
    return isinstance(splits, dict) and {"train"} <= set(splits) <= set(SPLITS)


def _divides(shares: Any, shards: int) -> bool:
    """Whether pairs [number of shards, share] have all shards."""
    try:
        are_pairs = all(
            type(number) is int and number > 0 and 0 < share <= 1 for number, share in shares
        )
        return are_pairs and sum(number for number, _ in shares) == shards
    except (TypeError, ValueError):  # no list of pairs
        return False
