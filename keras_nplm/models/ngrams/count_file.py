"""n-gram counts from a file, as SRILM's `ngram-count -write` and others list them."""

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from keras_nplm.data.boundary import has_documents, predicts_end
from keras_nplm.data.ids import BOS, EOS, PAD_ID
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, shorten_value
from keras_nplm.io.text import check_is_file, read_lines, split_fields
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.kneser_ney import write_kneser_ney
from keras_nplm.models.ngrams.runs import MEMORY, choose_run_size, make_rows

_BATCH = 1 << 16  # n-grams whose words are encoded together
_MOST = 1 << 50  # tokens of all n-grams: sums of counts stay exact

Row = tuple[list[str], int]  # an n-gram, and its count


class CountFile:
    """The counts of n-grams in a text file, which is read several times.

    A line has the words of an n-gram, and its count after a tab or a space. `<s>` is the first word
    of an n-gram alone, and `</s>` the last. The n-grams of order n stand for the tokens of the text
    that they end with, and so do shorter ones after `<s>`. If the file lacks an order below n, its
    n-grams after `<s>` are those with which longer ones begin.

    Args:
        path: the file, plain or compressed.
        order: n. Default: the highest order in the file.
        boundary: as in `kneser_ney`, of the text that was counted.

    Attributes:
        order: n.
        words: how often each word occurs in the text, without `<s>` and `</s>`.
        num_rows: the number of n-grams that stand for tokens.

    Raises:
        InputError: a line has no n-gram with a count, or the file has no n-gram of order n.
    """

    def __init__(
        self, path: str | os.PathLike, order: int | None = None, boundary: str = "sentence"
    ):
        check_is_file(path)
        self._path = path
        self._boundary = boundary
        unigrams: Counter[str] = Counter()
        self._orders = set()
        for words, count in self._read():
            self._orders.add(len(words))
            if len(words) == 1:
                unigrams[words[0]] += count
        highest = max(self._orders, default=0)
        self.order = highest if order is None else order
        if self.order not in self._orders:
            listed = ", ".join(map(str, sorted(self._orders))) or "none"
            raise InputError(
                f"`order` must be an order of the n-grams in {path}: {listed}. "
                f"Received: {self.order}. Fix: add --order {highest or 5}, or count n-grams of "
                f"order {self.order}."
            )
        ends: Counter[str] = Counter()
        self.num_rows = total = 0
        for words, count in self._select():
            ends[words[-1]] += count
            self.num_rows += 1
            total += count
        if total > _MOST:
            raise InputError(
                f"{path} must have counts of at most {_MOST:,} tokens. Received: {total:,}. Fix: "
                "divide all counts by a number."
            )
        # rare n-grams may be left out of the higher orders
        self.words = unigrams or ends
        self.words.pop(EOS, None)

    def _read(self) -> Iterator[Row]:
        for number, line in enumerate(read_lines(self._path), start=1):
            if not (fields := split_fields(line)):
                continue
            *words, last = fields
            place = f"{self._path}, line {number:,}"
            if problem := self._find_problem(words, last):
                wanted, fix = problem
                raise InputError(f"{place}: {wanted}. Received: {shorten_value(line)}. Fix: {fix}.")
            if int(last) and words != [BOS]:  # no token
                yield words, int(last)

    def _find_problem(self, words: list[str], count: str) -> tuple[str, str] | None:
        """Return what an n-gram and its count must be, and the remedy; None for right ones."""
        if not words or not (count.isascii() and count.isdigit()):
            return "must be an n-gram and its count", "write lines such as `the cat<TAB>5`"
        if not predicts_end(self._boundary) and (BOS in words or EOS in words):
            return f"a stream must have no {BOS} and no {EOS}", "leave --boundary out"
        if BOS in words[1:]:
            return f"{BOS} must be the first word", f"count with one {BOS} for each sentence"
        if EOS in words[:-1] and not has_documents(self._boundary):
            return f"{EOS} must be the last word", "add --boundary text if n-grams cross lines"
        return None

    def _select(self) -> Iterator[Row]:
        """Yield the n-grams that stand for tokens; see the class."""
        absent = set(range(2, self.order)) - self._orders
        beginnings: Counter[tuple[str, ...]] = Counter()
        for words, count in self._read():
            if len(words) == self.order:
                yield words, count
                if absent and words[0] == BOS:
                    beginnings.update({tuple(words[:order]): count for order in absent})
            elif 1 < len(words) < self.order and words[0] == BOS:
                yield words, count
        for beginning, count in beginnings.items():
            yield list(beginning), count

    def _read_rows(self, vocabulary: Vocabulary, size: int) -> Iterator[np.ndarray]:
        rows = self._select()
        batch_size = min(size, _BATCH)
        batches = (
            self._encode(batch, vocabulary)
            for batch in iter(lambda: [*itertools.islice(rows, batch_size)], [])
        )
        while run := [*itertools.islice(batches, size // batch_size)]:
            yield np.concatenate(run)

    def _encode(self, batch: list[Row], vocabulary: Vocabulary) -> np.ndarray:
        ids = np.full((len(batch), self.order), PAD_ID, np.int32)
        lengths = np.array([len(words) for words, _ in batch])
        is_word = np.arange(self.order) >= self.order - lengths[:, None]
        ids[is_word] = vocabulary.encode([word for words, _ in batch for word in words])
        return make_rows(ids, np.array([count for _, count in batch], np.int64))

    def estimate(
        self, path: str | os.PathLike, vocabulary: Vocabulary, memory: int = MEMORY
    ) -> BackoffModel:
        """Write the model of `kneser_ney` of the text that was counted, and load it."""
        size = choose_run_size(self.order, memory)
        write_kneser_ney(
            path,
            self._read_rows(vocabulary, size),
            self.num_rows,
            len(vocabulary),
            self.order,
            self._boundary,
            size,
        )
        return BackoffModel.load(path, self._boundary)

    def count_unknown(self, vocabulary: Vocabulary) -> Mapping[str, int]:
        """Return the out-of-vocabulary words with their counts."""
        known = {*vocabulary.words}
        return {word: count for word, count in self.words.items() if word not in known}
