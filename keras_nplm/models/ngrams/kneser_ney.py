"""Kneser-Ney smoothing: interpolated, modified (three discounts for each order)."""

import numpy as np

from keras_nplm.data.boundary import predicted_ids
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.counts import NgramCounts, count_ngrams

_FALLBACK = (0.5, 1.0, 1.5)  # discounts for texts too small to estimate them


def kneser_ney(
    ids: np.ndarray,
    vocabulary_size: int,
    order: int,
    boundary: str = "sentence",
    predicted: np.ndarray | None = None,
) -> BackoffModel:
    """Estimate an interpolated modified Kneser-Ney n-gram model from a text.

        P(w | h) = (a(h w) - D(a(h w))) / a(h •) + γ(h) P(w | h'),
        unigrams are interpolated with 1/|V'|
        γ(h) = (D_1 N_1(h •) + D_2 N_2(h •) + D_3+ N_3+(h •)) / a(h •)
        D_j = j - (j+1) Y t_(j+1) / t_j,    Y = t_1 / (t_1 + 2 t_2)

    a is the count at order n; at lower orders it is the number of different words before the n-gram
    (Chen & Goodman's equation 27 on). N_j(h •) is the number of words that follow h with a = j, and
    N_3+ counts those with a of 3 or more. t_j is the number of n-grams of the order with a = j. V'
    are the predicted words, which must hold all words of the text. Those that are not in the text
    share the uniform distribution.

    Args:
        ids: int32 [T], each sentence closed by `</s>`.
        vocabulary_size: |V|.
        order: n, 1 or more. At 1, discounted counts are interpolated with the uniform distribution,
            as by `lmplz -o 1`.
        boundary: `"sentence"`, `"text"` or `"stream"`; see `ngram_positions`.
        predicted: the ids of V'. Default: `<unk>`, the words, and `</s>` unless the boundary is
            `"stream"`; see `predicted_ids`.

    Returns:
        the model, a distribution over V' in every context. `kneser_ney_on_disk` writes the same for
        larger texts.

    Reference: Chen & Goodman (1999), An empirical study of smoothing techniques for language
    modeling; Heafield et al. (2013), Scalable modified Kneser-Ney language model estimation, whose
    `lmplz --vocab_pad` gives the same numbers.
    """
    counts = count_ngrams(ids, vocabulary_size, order, boundary)
    if predicted is None:
        predicted = predicted_ids(vocabulary_size, boundary)
    lower = np.zeros(vocabulary_size)
    lower[predicted] = 1 / len(predicted)
    discounted, gamma = _discount_order(counts, 1, num_contexts=1)
    probability = gamma * lower
    probability[counts.keys[0]] += discounted
    unigrams = compute_logs(probability)
    # P(w | h') of the n-grams of the order below
    lower = probability[counts.keys[0]]
    log_probs = []
    backoffs = []
    for k in range(2, order + 1):
        discounted, gamma = _discount_order(counts, k, counts.contexts.sizes[k - 2])
        lower = discounted + gamma[counts.nodes(k)] * lower[counts.suffixes[k - 1]]
        log_probs.append(compute_logs(lower))
        backoffs.append(compute_logs(gamma))
    return BackoffModel(counts.contexts, unigrams, counts.keys[1:], log_probs, backoffs, boundary)


def _discount_order(
    counts: NgramCounts, k: int, num_contexts: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (a - D(a)) / a(h •) of the n-grams of order k, and γ of their contexts."""
    a = counts.continuation_counts[k - 1]
    discounts = estimate_discounts(np.bincount(np.minimum(a, 5), minlength=6))
    return discount(a, counts.nodes(k), num_contexts, discounts)


def discount(
    counts: np.ndarray, nodes: np.ndarray, num_contexts: int, discounts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the discounted relative frequencies of the n-grams of an order, and γ of each context
    (1 if unseen).
    """
    by_count = np.concatenate([[0.0], discounts])
    subtracted = by_count[np.minimum(counts, 3)]
    total = np.bincount(nodes, counts, minlength=num_contexts)
    gamma = np.bincount(nodes, subtracted, minlength=num_contexts) / np.maximum(total, 1)
    return (counts - subtracted) / total[nodes], np.where(total > 0, gamma, 1.0)


def estimate_discounts(frequencies: np.ndarray) -> np.ndarray:
    """Return D_1, D_2 and D_3+ from the numbers t_j of n-grams with (continuation) counts j = 0 …
    5+, as KenLM does.
    """
    t = frequencies[1:5].astype(np.float64)
    if not t[:3].all():
        return np.array(_FALLBACK)
    j = np.arange(1, 4)
    estimate = j - (j + 1) * t[0] / (t[0] + 2 * t[1]) * t[1:] / t[:-1]
    if not np.all((estimate > 0) & (estimate <= j)):
        return np.array(_FALLBACK)
    return estimate


def compute_logs(probability: np.ndarray | float) -> np.ndarray:
    """Return ln p in float32, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(probability).astype(np.float32)
