"""Figures of a text under a language model: the pass over its n-grams, and the perplexity."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_nplm.data.ids import convert_ids
from keras_nplm.data.ngram_arrays import ngram_blocks
from keras_nplm.models.base import NextWordModel, choose_boundary, row_blocks
from keras_nplm.models.collectors import Block, Collector, Perplexity

BLOCK_SIZE = 1 << 16  # n-grams in a call of `log_prob`
_BLOCK_IDS = 1 << 22  # ids of these n-grams: a cache has hundreds of words of context
PART_SIZE = 1 << 20  # ids of an array that are arranged as n-grams at a time


def log_probs(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the log-probability of every n-gram of a text, in the order of the text, in blocks."""
    for ngrams in iterate_ngrams(model, ids, boundary):
        yield model.log_prob(ngrams[:, :-1], ngrams[:, -1]), ngrams[:, -1]


def iterate_ngrams(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None
) -> Iterator[np.ndarray]:
    """Iterate over the n-grams of a text, in blocks."""
    if not isinstance(ids, Iterator):
        whole = convert_ids(ids)
        ids = (whole[part] for part in row_blocks(len(whole), PART_SIZE))
    size = min(BLOCK_SIZE, max(1, _BLOCK_IDS // model.order))
    return ngram_blocks(ids, model.order, choose_boundary(model, boundary), size)


def evaluate(
    model: NextWordModel,
    ids: np.ndarray | Iterator[np.ndarray],
    collectors: Sequence[Collector] | Collector | None = None,
    boundary: str | None = None,
) -> dict[str, Any]:
    """Return the perplexity of a text, summed in float64, or other figures of it, in one pass.

        perplexity = exp(-1/T sum_t ln P(w_t | context))

    Args:
        model: any language model; `order` and `log_prob` suffice for the perplexity.
        ids: int32 [T], each sentence closed by `</s>`; or an iterator over parts of them, for a
            text larger than memory. The figures do not depend on where the text is cut.
        collectors: what is measured, one or a list: those of `keras_nplm.models.collectors`,
            `LogZ()` of `keras_nplm.models.networks.log_z`, or a class of one's own. Default: the
            collector `Perplexity`.
        boundary: `"sentence"`: contexts end at the sentence's start, and words and `</s>` are
            predicted. `"text"`: contexts cross sentence ends, and words and `</s>` are predicted.
            `"stream"`: contexts cross sentence ends, and only words are predicted: its
            perplexities are not comparable with the others'. Default: `model.boundary`, or
            `"sentence"` for a model without one.

    Returns:
        dict: the figures of all collectors. Those of `Perplexity`: `perplexity` over all predicted
        tokens, out-of-vocabulary tokens counted as the word `<unk>`; `perplexity_without_unk` over
        the predicted tokens other than `<unk>`; `tokens` and `unk_tokens`, their numbers;
        `log_prob`, the sum in nats; `bits_per_word`, bits per token. A perplexity over 0 tokens is
        None.

    Raises:
        InputError: the text has no word to predict, or `boundary` differs from the model's.
        RunError: a word of the text has probability 0, or a log-probability is NaN.

    Example:

    >>> class UniformOverEight:
    ...     order = 2
    ...     def log_prob(self, context_ids, target_ids):
    ...         return np.full(len(target_ids), -np.log(8))
    >>> result = evaluate(UniformOverEight(), np.array([4, 1, 5, 3]))
    >>> numbers = result["tokens"], result["unk_tokens"]
    >>> round(result["perplexity"], 6), *numbers, round(result["bits_per_word"], 6)
    (8.0, 4, 1, 3.0)
    """
    if collectors is None:
        collectors = [Perplexity()]
    elif isinstance(collectors, Collector):
        collectors = [collectors]
    for collector in collectors:
        collector.start(model)
    for ngrams in iterate_ngrams(model, ids, boundary):
        block = Block(model, ngrams)
        for collector in collectors:
            collector.add(block)
    figures: dict[str, Any] = {}
    for collector in collectors:
        figures.update(collector.compute_figures())
    return figures


def format_perplexity(perplexity: float | None, digits: int = 2) -> str:
    """Format a perplexity for a table, with a dash in place of None."""
    return "–" if perplexity is None else f"{perplexity:.{digits}f}"
