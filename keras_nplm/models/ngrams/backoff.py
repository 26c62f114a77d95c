"""N-gram models in back-off form, as ARPA files hold them and as interpolated Kneser-Ney is stored."""

import dataclasses
import os

import numpy as np

from keras_nplm.data.ngram_arrays import check_ngrams
from keras_nplm.io.files import read_arrays, write_arrays
from keras_nplm.models.ngrams.counts import (
    ContextTrie,
    check_tables,
    find,
    followers,
    refuse_unless,
)

_LEAST = 1e-9  # mass of the words that a context does not list
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
            some = slice(None) if len(rows) == len(context_ids) else rows  # of all of them no copy is made
            log_probs[some] += self.backoffs[k][nodes, None]
            owner, places = followers(self.keys[k], nodes, self.vocabulary_size)
            log_probs[rows[owner], self.keys[k][places] % self.vocabulary_size] = self.log_probs[k][places]
        return log_probs

    @classmethod
    def normalised(
        cls, contexts: ContextTrie, unigrams: np.ndarray, keys: list[np.ndarray], log_probs: list[np.ndarray]
    ) -> "BackoffModel":
        """The model of some n-grams whose back-off weights make every context a distribution.

            γ(h) = (1 - sum_listed P(w | h)) / (1 - sum_listed P(w | h')),    sums in float64

        Args:
            contexts, unigrams, keys, log_probs: as above; the unigrams sum to 1, the n-grams of a context to less.

        Example:

        >>> unigrams = np.log(np.array([0.5, 0.3, 0.2], np.float32))
        >>> model = BackoffModel.normalised(ContextTrie(3, []), unigrams, [np.array([1 * 3 + 1])], [np.log([0.6])])
        >>> np.exp(model.next_log_probs(np.array([[1]]))).round(3)
        array([[0.286, 0.6  , 0.114]], dtype=float32)
        """
        model = cls(contexts, unigrams, keys, log_probs, [])
        for k, number in enumerate(contexts.sizes, start=2):
            nodes = keys[k - 2] // len(unigrams)
            above = unlisted_mass(nodes, np.exp(log_probs[k - 2], dtype=np.float64), number)
            below = unlisted_mass(nodes, np.exp(backed_off(model, k)), number)
            model.backoffs.append(np.log(above / below).astype(np.float32))
        return model

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


def backed_off(model: BackoffModel, order: int) -> np.ndarray:
    """ln P(w | h') of each listed n-gram h w of an order: what it would have but for γ if it were not listed.

    Args:
        model: of which only the orders below count.
        order: k, 2 or more.

    Returns:
        float64 [N_k], nats.
    """
    k, size = order, model.vocabulary_size
    nodes, words = np.divmod(model.keys[k - 2], size)
    trie = ContextTrie(size, model.contexts.keys[: max(k - 3, 0)])
    lower = BackoffModel(trie, model.unigrams, model.keys[: k - 2], model.log_probs[: k - 2], model.backoffs[: k - 2])
    return lower.log_prob(model.contexts.words(k - 1)[nodes, 1:], words).astype(np.float64)


def unlisted_mass(nodes: np.ndarray, probabilities: np.ndarray, number: int) -> np.ndarray:
    """1 - sum P of the n-grams listed of each context, float64 [number].

    Where all the mass is listed, rounding leaves a little on either side of 0: the least that is given is 1e-9.

    Args:
        nodes: the context of each n-gram, int64 [N].
        probabilities: P of each, float64 [N].
        number: of contexts.
    """
    return np.maximum(1 - np.bincount(nodes, probabilities, minlength=number), _LEAST)


def _are_log_probs(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool((array <= _ROUNDING).all())
