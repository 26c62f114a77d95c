"""Random text of any length, sampled from an interpolated trigram model of a real text, with a growing vocabulary.

The same corpus and number of tokens give the same text. A token is the successor of the last two words at a random
place of the training text (probability 0.5), the successor of the last word (0.35), or any word. 2% of tokens are
replaced by words that the corpus lacks, with frequencies proportional to rank**-1.05.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import Corpus

HELD_OUT_TOKENS = 10_000  # of validation, and of test
_TRIGRAM, _BIGRAM, _NEW = 0.5, 0.35, 0.02
_TYPES, _EXPONENT = 2_000_000, 1.05  # of the words that the corpus lacks
_STREAMS, _LENGTH = 4096, 256  # a block is 4096 passages of 256 tokens


def sample_texts(directory: Path, corpus: Corpus, tokens: int) -> None:
    """Sample `train.txt` with a number of words, and `validation.txt` and `test.txt` with 10,000 each, by lines."""
    numbers, ids = {"\n": 0}, []
    for sentence in corpus.sentences("train"):
        if sentence:
            ids += [*(numbers.setdefault(word, len(numbers)) for word in sentence), 0]
    words, frequencies = np.array([*numbers], dtype=object), np.cumsum(1 / np.arange(1, _TYPES + 1) ** _EXPONENT)
    sizes = {"train": tokens, "validation": HELD_OUT_TOKENS, "test": HELD_OUT_TOKENS}
    for seed, (split, size) in enumerate(sizes.items()):
        random = np.random.default_rng(seed)
        with open(directory / f"{split}.txt", "w", encoding="utf-8") as file:
            last = 0
            for block in _sample_blocks(np.array(ids, np.int64), random):
                ends = block == 0
                block = block[~(ends & np.concatenate([[last == 0], ends[:-1]]))]  # no empty line
                places = np.flatnonzero(block)
                if size <= len(places):
                    block = block[: places[size - 1] + 1]
                text = words[block]
                new = np.flatnonzero((random.random(len(block)) < _NEW) & (block > 0))
                ranks = np.searchsorted(frequencies, random.random(len(new)) * frequencies[-1])
                text[new] = [f"w{rank:x}" for rank in ranks]
                file.write(" ".join(text.tolist()).replace(" \n ", "\n") + " ")
                size, last = size - len(places), block[-1]
                if size <= 0:
                    break
            file.write("\n")


def _sample_blocks(ids: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Sample blocks of ids without end; 0 ends a sentence. The state of a passage is the place of its last word."""
    choose_by_trigram = _group_places(np.roll(ids, 1) * (ids.max() + 1) + ids, random)
    choose_by_bigram = _group_places(ids, random)
    places = random.choice(np.flatnonzero(ids == 0), _STREAMS)
    while True:
        block = np.empty((_STREAMS, _LENGTH), np.int64)
        for column in range(_LENGTH):
            level, by_trigram, by_bigram = random.random(_STREAMS), choose_by_trigram(places), choose_by_bigram(places)
            anywhere = np.where(ids[places] == 0, by_bigram, random.integers(len(ids), size=_STREAMS))
            chosen = np.where(level < _TRIGRAM + _BIGRAM, by_bigram, anywhere)
            places = (np.where(level < _TRIGRAM, by_trigram, chosen) + 1) % len(ids)
            block[:, column] = ids[places]
        yield block.ravel()


def _group_places(keys: np.ndarray, random: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that chooses for each place a random place with the same key."""
    ordered = np.argsort(keys, kind="stable")
    _, groups, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    starts, sizes = (np.cumsum(sizes) - sizes)[groups], sizes[groups]
    return lambda places: ordered[starts[places] + (random.random(len(places)) * sizes[places]).astype(np.int64)]
