"""An encoded corpus on disk: shards of ids with their description in `corpus.json`."""

import dataclasses
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.ids import BOS_ID, EOS_ID
from keras_nplm.data.resampling import Resampled, TextIds, count_resampled
from keras_nplm.data.shards import ShardedIds
from keras_nplm.data.text_counts import name_text_counts, read_word_counts
from keras_nplm.io.errors import check_argument, check_choice
from keras_nplm.io.files import read_json, replace_file
from keras_nplm.io.stages import MANIFEST, Stages, read_manifest, verify_stages

IN_MEMORY = 1 << 27  # largest number of training ids that are held in memory: 512 MiB
PART = 1 << 20  # ids that are read at a time


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
            its `shards`; also `characters`, `bytes` and `words` of the text, without line ends (see
            `TextCounter`). With resampling also `shares`: (number of shards, share of their n-grams
            in an epoch).
    """

    directory: Path
    name: str
    tokenizer: str
    vocabulary_size: int
    splits: dict[str, dict]

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "EncodedCorpus":
        """Load the description `corpus.json` from a directory, and verify all files."""
        if not Stages(Path(directory)).is_made("shards"):
            fix = "encode a corpus there."
            check_argument("directory", False, "that of an encoded corpus", directory, fix)
        verify_stages(Path(directory))
        return cls.read(Path(directory))

    @classmethod
    def read(cls, directory: Path) -> "EncodedCorpus":
        """Load the description of files that were just made or verified."""
        return cls(directory, **read_json(directory / "corpus.json"))

    def identify(self, split: str) -> list[list[int]]:
        """Return the bytes and the CRC-32 of the shards of a split: those of equal texts are
        equal.
        """
        files = read_manifest(self.directory)["shards"]["files"]
        return [files[name] for name in self.splits[split]["shards"]]

    def link(self, directory: Path) -> "EncodedCorpus":
        """Give another directory the same files, as hard links where the file system has them."""
        for name in (*read_manifest(self.directory)["shards"]["files"], MANIFEST):
            _link_file(self.directory / name, directory / name)
        return dataclasses.replace(self, directory=directory)

    def ids(self, split: str) -> np.ndarray:
        """Read all ids of a split, int32 [T], each sentence closed by `</s>`; see
        `encode_corpus`.
        """
        ids = np.empty(len(self.shards(split)), np.int32)
        place = 0
        for part in self.parts(split):
            ids[place : place + len(part)] = part
            place += len(part)
        return ids

    def parts(self, split: str) -> Iterator[np.ndarray]:
        """Read the ids of a split as int32 arrays, for a text larger than memory."""
        return self.shards(split).parts(PART)

    def unknown_words(self, split: str) -> Iterator[dict[str, int]]:
        """Read the out-of-vocabulary words of a split with their counts, in dicts of bounded size.

        A word may be in several.
        """
        for shard in self.splits[split]["shards"]:
            yield from read_word_counts(self.directory / name_text_counts(shard))

    def shards(self, split: str) -> ShardedIds:
        """Open the ids of a split without reading them into memory."""
        check_choice("split", split, [*self.splits])
        names = self.splits[split]["shards"]
        return ShardedIds([self.directory / name for name in names], self.vocabulary_size)

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


def _link_file(source: Path, target: Path) -> None:
    """Make `target` a hard link of `source`, or a copy where the file system has no such link."""
    with replace_file(target) as temporary:
        try:
            os.link(os.path.realpath(source), temporary)  # not a link of a symbolic link
        except OSError:
            shutil.copyfile(source, temporary)
