"""Random text of any length, sampled from an interpolated trigram model of a real text, with a growing vocabulary."""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import Corpus

HELD_OUT_TOKENS = 10_000  # of validation, and of test
_WEIGHTS = (0.5, 0.35)  # of the trigram and the bigram; the unigram has the rest
_NEW = 0.02  # share of tokens that are words which the corpus lacks
_TYPES, _EXPONENT = 2_000_000, 1.05  # of these words: their number, and that of their frequencies, rank**-1.05
_STREAMS, _LENGTH = 4096, 256  # a block is 4096 passages of 256 tokens


def sample_texts(directory: Path, corpus: Corpus, tokens: int) -> None:
    """Sample `train.txt` with a number of tokens, and `validation.txt` and `test.txt` with 10,000 each.

    The same corpus and number give the same text. A token is the successor of the last two words at a random place of
    the training text (probability 0.5), the successor of the last word (0.35), or any word. 2% of tokens are replaced
    by words that the corpus lacks, with frequencies proportional to rank**-1.05, so that the vocabulary grows with the
    text.

    Args:
        directory: receives the files, one sentence a line.
        corpus: the text whose training split is sampled.
        tokens: words of the training text.

    Example:

    >>> directory = getfixture("tmp_path")
    >>> words = [["the", "cat", "sat"], ["the", "dog", "sat", "down"]] * 50
    >>> sample_texts(directory, Corpus("example", "whitespace", {"train": lambda: iter(words)}), 1000)
    >>> len((directory / "train.txt").read_text().split())
    1000
    """
    words, ids = _encode_sentences(corpus)
    sizes = {"train": tokens, "validation": HELD_OUT_TOKENS, "test": HELD_OUT_TOKENS}
    for seed, (split, size) in enumerate(sizes.items()):
        random = np.random.default_rng(seed)
        with open(directory / f"{split}.txt", "w", encoding="utf-8") as file:
            for block in _cut_blocks(_sample_blocks(ids, random), size):
                file.write(_join_words(block, words, random))
            file.write("\n")


def _encode_sentences(corpus: Corpus) -> tuple[Sequence[str], np.ndarray]:
    """Return the words of the training text and its ids; id 0 is the end of a sentence."""
    numbers = {"\n": 0}
    ids = [0]
    for sentence in corpus.sentences("train"):
        ids += [numbers.setdefault(word, len(numbers)) for word in sentence]
        if ids[-1]:
            ids.append(0)
    return [*numbers], np.array(ids[1:], np.int64)


def _sample_blocks(ids: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Sample blocks of ids without end. The state of a passage is the place of its last word in the text."""
    previous = np.roll(ids, 1)
    orders = [_Contexts(previous * (ids.max() + 1) + ids), _Contexts(ids)]
    ends = np.flatnonzero(ids == 0)
    places = random.choice(ends, _STREAMS)
    while True:
        block = np.empty((_STREAMS, _LENGTH), np.int64)
        for column in range(_LENGTH):
            level = random.random(_STREAMS)
            by_trigram = orders[0].choose_places(places, random)
            by_bigram = orders[1].choose_places(places, random)
            anywhere = np.where(ids[places] == 0, by_bigram, random.integers(len(ids), size=_STREAMS))
            chosen = np.where(level < sum(_WEIGHTS), by_bigram, anywhere)
            places = (np.where(level < _WEIGHTS[0], by_trigram, chosen) + 1) % len(ids)
            block[:, column] = ids[places]
        yield block.ravel()


class _Contexts:
    """The places of a text, grouped by context.

    Args:
        keys: the context of each place.
    """

    def __init__(self, keys: np.ndarray):
        self._sorted = np.argsort(keys, kind="stable")
        _, groups, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        self._starts, self._sizes = (np.cumsum(sizes) - sizes)[groups], sizes[groups]

    def choose_places(self, places: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Choose for each place a random place with the same context."""
        chosen = (random.random(len(places)) * self._sizes[places]).astype(np.int64)
        return self._sorted[self._starts[places] + chosen]


def _cut_blocks(blocks: Iterator[np.ndarray], tokens: int) -> Iterator[np.ndarray]:
    """Yield blocks until they have a number of words. A sentence end after a sentence end is left out."""
    last = 0
    while tokens:
        block = next(blocks)
        ends = block == 0
        block = block[~(ends & np.concatenate([[last == 0], ends[:-1]]))]
        places = np.flatnonzero(block)
        block = block[: places[min(tokens, len(places)) - 1] + 1] if tokens <= len(places) else block
        tokens -= min(tokens, len(places))
        last = block[-1]
        yield block


def _join_words(block: np.ndarray, words: Sequence[str], random: np.random.Generator) -> str:
    """Return a block of ids as lines of text, with words that the corpus lacks."""
    text = np.array(words, dtype=object)[block]
    new = np.flatnonzero((random.random(len(block)) < _NEW) & (block > 0))
    cumulative = _sum_frequencies()
    ranks = np.searchsorted(cumulative, random.random(len(new)) * cumulative[-1])
    text[new] = [f"w{rank:x}" for rank in ranks]
    return " ".join(text.tolist()).replace(" \n ", "\n") + " "


@functools.cache
def _sum_frequencies() -> np.ndarray:
    """Return the cumulative frequencies of the words that the corpus lacks."""
    return np.cumsum(1 / np.arange(1, _TYPES + 1) ** _EXPONENT)
