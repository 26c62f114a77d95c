"""The base class of language models over ids: P(w | context)."""

import numpy as np

from keras_nplm.data.ngram_arrays import check_ngrams


class NextWordModel:
    """Base class of language models: P(w | context) for a context of n-1 word ids.

    A subclass sets the attributes and implements `_log_prob` and `_next_log_probs`, which receive checked int32 ids,
    a block of rows at a time. Evaluation, mixing, scoring and rescoring use `log_prob` and `next_log_probs` only.

    Attributes:
        order: int, n. A context has n-1 words.
        vocabulary_size: int, |V|, special tokens included.
        boundary: `"sentence"` or `"stream"`, how the training text was cut into n-grams. None: not known.
    """

    order: int
    vocabulary_size: int
    boundary: str | None = None

    rows = 1 << 14  # n-grams that `_log_prob` receives at a time
    distribution_rows = 512  # contexts that `_next_log_probs` receives at a time

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Return ln P(target | context), the log-probability of given words.

        Args:
            context_ids: int [B, n-1], oldest word first.
            target_ids: int [B].

        Returns:
            float [B], nats; -inf for a word that the model never predicts.

        Raises:
            InputError: ids out of range, or shapes that do not match.
        """
        context_ids, target_ids = check_ngrams(context_ids, target_ids, self.order, self.vocabulary_size)
        parts = [self._log_prob(context_ids[block], target_ids[block]) for block in _blocks(len(target_ids), self.rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(w | context) for every word w, the distribution over the next word.

        Args:
            context_ids: int [B, n-1], oldest word first.

        Returns:
            float [B, |V|], nats; exp of a row sums to 1; -inf for words that the model never predicts.

        Raises:
            InputError: ids out of range, or contexts of another length.
        """
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        blocks = _blocks(len(context_ids), self.distribution_rows)
        parts = [self._next_log_probs(context_ids[block]) for block in blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Return ln P(target | context), float [B], for checked int32 [B, n-1] and [B]."""
        raise NotImplementedError

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(w | context), float [B, |V|], for checked int32 [B, n-1]."""
        raise NotImplementedError


def _blocks(number: int, size: int) -> list[slice]:
    """Slices of at most `size` rows that cover `number` rows; one empty slice where there are none."""
    return [slice(start, start + size) for start in range(0, max(number, 1), size)]
