"""N-gram models in back-off form, as ARPA files hold them and as interpolated Kneser-Ney is stored."""

import dataclasses
import os

import numpy as np

from keras_nplm.files import read_arrays, write_arrays
from keras_nplm.ngrams.counts import ContextTrie, check_tables, find, followers, refuse_unless
from keras_nplm.windows import check_ngrams

_ROUNDING = 1e-3  # by which a log-probability may be above 0


@dataclasses.dataclass(frozen=True)
class BackoffModel:
    """An n-gram model of any order, queried in batches without a loop over n-grams.

        P(w | h) = p(h w)                 if the n-gram h w is listed
                 = γ(h) P(w | h')         else; h' is h without its oldest word, and γ of an unlisted context is 1

    Args:
        contexts: the listed contexts.
        unigrams: ln p(w), float32 [|V|]; -inf for what is never predicted.
        keys: for k = 2 … n the keys of the listed n-grams, context number * |V| + word, sorted, int64.
        log_probs: for k = 2 … n ln p of them, float32.
        backoffs: for k = 1 … n-1 ln γ of the contexts of k words, float32.

    Example:

    >>> unigrams = np.log(np.array([0.5, 0.5], np.float32))
    >>> backoff = np.log(np.array([0.8, 1], np.float32))
    >>> model = BackoffModel(ContextTrie(2, []), unigrams, [np.array([0 * 2 + 1])], [np.log([0.6])], [backoff])
    >>> np.exp(model.next_log_probs(np.array([[1]]))).round(2)
    array([[0.5, 0.5]], dtype=float32)

    Reference: Katz (1987), Estimation of probabilities from sparse data for the language model component of a speech
    recognizer.
    """

    contexts: ContextTrie
    unigrams: np.ndarray
    keys: list[np.ndarray]
    log_probs: list[np.ndarray]
    backoffs: list[np.ndarray]

    @property
    def order(self) -> int:
        """n."""
        return len(self.keys) + 1

    @property
    def vocabulary_size(self) -> int:
        """|V|."""
        return len(self.unigrams)

    @property
    def num_ngrams(self) -> list[int]:
        """How many n-grams of each order are listed."""
        return [int(np.isfinite(self.unigrams).sum()), *map(len, self.keys)]

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """ln P(target | context).

        Args:
            context_ids: int [B, n-1], oldest first.
            target_ids: int [B].

        Returns:
            float32 [B], nats.

        Raises:
            InputError: ids out of range, or another shape.
        """
        context_ids, target_ids = check_ngrams(context_ids, target_ids, self.order, self.vocabulary_size)
        log_prob = self.unigrams[target_ids]
        for k, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            place = find(self.keys[k], nodes * self.vocabulary_size + target_ids[rows])
            backed_off = log_prob[rows] + self.backoffs[k][nodes]
            log_prob[rows] = (
                np.where(place < 0, backed_off, self.log_probs[k][place]) if len(self.keys[k]) else backed_off
            )
        return log_prob

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """ln P(w | context) for every word w.

        Args:
            context_ids: int [B, n-1], oldest first.

        Returns:
            float32 [B, |V|], nats; -inf for what is never predicted.

        Raises:
            InputError: ids out of range, or contexts of another length.
        """
        context_ids, _ = check_ngrams(context_ids, None, self.order, self.vocabulary_size)
        log_probs = np.tile(self.unigrams, (len(context_ids), 1))
        for k, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            log_probs[rows] += self.backoffs[k][nodes, None]
            owner, places = followers(self.keys[k], nodes, self.vocabulary_size)
            log_probs[rows[owner], self.keys[k][places] % self.vocabulary_size] = self.log_probs[k][places]
        return log_probs

    def save(self, path: str | os.PathLike) -> None:
        """Write the tables to `path` (.npz)."""
        write_arrays(path, self.arrays())

    def arrays(self) -> dict[str, np.ndarray | list[np.ndarray]]:
        """What `load` needs of a file that holds more than this model."""
        tables = {"contexts": self.contexts.keys, "keys": self.keys, "log_probs": self.log_probs}
        return tables | {"unigrams": self.unigrams, "backoffs": self.backoffs}

    @classmethod
    def load(cls, path: str | os.PathLike) -> "BackoffModel":
        """Read the tables that `save` wrote.

        Raises:
            InputError: the file is absent, damaged, or not such a file.
        """
        tables = read_arrays(path, ["unigrams"], ["contexts", "keys", "log_probs", "backoffs"])
        unigrams, contexts, log_probs = tables["unigrams"], tables["contexts"], tables["log_probs"]
        refuse_unless(path, unigrams.ndim == 1 and all(_are_log_probs(array) for array in [unigrams, *log_probs]))
        check_tables(path, len(unigrams), contexts, tables["keys"], log_probs)
        sizes = [(len(unigrams),), *(keys.shape for keys in contexts)]
        refuse_unless(path, [backoffs.shape for backoffs in tables["backoffs"]] == sizes)
        refuse_unless(path, all(backoffs.dtype.kind == "f" for backoffs in tables["backoffs"]))
        return cls(ContextTrie(len(unigrams), tables.pop("contexts")), **tables)


def _are_log_probs(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool((array <= _ROUNDING).all())
