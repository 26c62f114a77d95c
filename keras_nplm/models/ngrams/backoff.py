"""Back-off n-gram model: the form of ARPA files and of interpolated Kneser-Ney smoothing."""

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_nplm.data.ids import EOS_ID
from keras_nplm.io.arrays import free_mapped_pages, is_mapped
from keras_nplm.io.files import check_is_file, iterate_blocks, read_arrays
from keras_nplm.models.base import saved_as
from keras_nplm.models.ngrams.base import NgramModel
from keras_nplm.models.ngrams.tables import (
    ContextTrie,
    find,
    find_followers,
    search,
    sort_with_places,
    take,
)

_MIN_MASS = 1e-9  # of the words that a context does not list
_LEAST_SHARE = 1e-6  # of probability that is no rounding of float32
MAPPED_FROM = 1 << 28  # bytes of a file from which its tables are memory-mapped
# bytes of a mapped file whose pages are dropped after use, or else all of it stays in memory
FREED_FROM = 1 << 31


@saved_as("back-off")
@dataclasses.dataclass(repr=False, eq=False)
class BackoffModel(NgramModel):
    """Back-off n-gram language model of any order, queried in batches without a loop over n-grams.

        P(w | h) = p(h w)                 if the n-gram h w is listed
                 = γ(h) P(w | h')         else

    h' is h without its oldest word. γ of an unlisted context is 1.

    `unigrams` are ln p(w), float32 [|V|]. For k = 2 … n, `keys` are the sorted keys of the listed
    n-grams, context number * |V| + word, int64, and `log_probs` their ln p. For k = 1 … n-1,
    `backoffs` are ln γ of the contexts of k words.

    Reference: Katz (1987), Estimation of probabilities from sparse data.
    """

    description = "An n-gram model in back-off form"
    looks_up_ngrams = True

    contexts: ContextTrie
    unigrams: np.ndarray
    keys: list[np.ndarray]
    log_probs: list[np.ndarray]
    backoffs: list[np.ndarray]
    boundary: str | None = None

    def __post_init__(self) -> None:
        if self.boundary is None:
            predicts_end = np.isfinite(self.unigrams[EOS_ID])
            self.boundary = "sentence" if predicts_end else "stream"
        self.order = len(self.keys) + 1
        self.vocabulary_size = len(self.unigrams)

    def _describe_parts(self) -> str:
        return f"n-grams={sum(self.num_ngrams):,}"

    @property
    def num_ngrams(self) -> list[int]:
        """The number of listed n-grams of each order."""
        return [int(np.isfinite(self.unigrams).sum()), *map(len, self.keys)]

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        log_prob, _ = self._search(context_ids, target_ids, [])
        return log_prob

    def _search(
        self, context_ids: np.ndarray, target_ids: np.ndarray, used_ngrams: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ln P(target | context), and the used lengths of the contexts after the targets.

        `used_ngrams` are the flags of `UsedContexts`. Without flags the lengths are 0.
        """
        log_prob = take(self.unigrams, target_ids)
        lengths = np.zeros(len(target_ids), np.int64)
        if used_ngrams:
            lengths[:] = take(used_ngrams[0], target_ids)
        for k, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            wanted = nodes * self.vocabulary_size + take(target_ids, rows)
            place, is_listed = search(self.keys[k], wanted)
            scores = take(log_prob, rows) + take(self.backoffs[k], nodes)
            if len(self.keys[k]):
                np.copyto(scores, take(self.log_probs[k], place), where=is_listed)
            log_prob[rows] = scores
            if k + 1 < len(used_ngrams):
                is_listed &= take(used_ngrams[k + 1], place)
                lengths[rows[is_listed]] = k + 2
            free_mapped_pages(self.keys[k], FREED_FROM)
        return log_prob, lengths

    @functools.cached_property
    def _used(self) -> "UsedContexts | None":
        """The used contexts.

        None: all words of a context may count, as a used context is not listed as an n-gram, so
        that its own beginning may not be used; or the tables are memory-mapped, and reading all of
        them would take long.
        """
        if any(map(is_mapped, self.keys)):
            return None
        contexts = []
        ngrams = []
        tables = [np.arange(self.vocabulary_size), *self.keys]
        for k, (backoffs, keys) in enumerate(zip(self.backoffs, self.keys, strict=True)):
            is_used = backoffs != 0
            is_used[keys // self.vocabulary_size] = True
            words = self.contexts.words(k + 1, np.flatnonzero(is_used))
            places = find(tables[k], self.contexts.find_keys(words))
            if (places < 0).any():
                return None
            flags = np.zeros(len(tables[k]) + 1, bool)
            flags[places] = True
            contexts.append(is_used)
            ngrams.append(flags)
        return UsedContexts(contexts, ngrams)

    @property
    def uses_whole_contexts(self) -> bool:
        return self._used is None

    def find_used_lengths(self, context_ids: np.ndarray) -> np.ndarray:
        """As the base class: the longest context with a back-off weight, or with an n-gram that
        continues it.
        """
        if self._used is None:
            return super().find_used_lengths(context_ids)
        lengths = np.zeros(len(context_ids), np.int64)
        for k, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            lengths[rows[self._used.contexts[k][nodes]]] = k + 1
        return lengths

    def log_prob_and_lengths(
        self, context_ids: np.ndarray, target_ids: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._used is None:
            return super().log_prob_and_lengths(context_ids, target_ids)
        return self._search(context_ids, target_ids, self._used.ngrams)

    def find_orders(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Return the order of the longest n-gram that ends with each target, int [B].

        An n-gram counts if it is listed, or if a longer listed one ends with it, as in KenLM.
        """
        orders = np.ones(len(target_ids), np.int64)
        for k, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            wanted = nodes * self.vocabulary_size + target_ids[rows]
            is_listed = find(self.keys[k], wanted) >= 0
            ends_a_listed_one = find(self._unlisted_endings[k], wanted) >= 0
            orders[rows[is_listed | ends_a_listed_one]] = k + 2
        return orders

    @functools.cached_property
    def _unlisted_endings(self) -> list[np.ndarray]:
        """For k = 2 … n, the sorted keys of n-grams that are not listed, though a longer listed one
        ends with them.

        A pruned model has them: "a b c" is listed, "b c" is not. KenLM calls them blanks.
        """
        unlisted = [np.zeros(0, np.int64) for _ in self.keys]
        for k in range(self.order, 2, -1):
            # without n-grams of order k there is no block
            endings = [np.zeros(0, np.int64)]
            for keys in (self.keys[k - 2], unlisted[k - 2]):
                for block in iterate_blocks(keys):
                    of_block = self.contexts.find_endings(k, block)
                    endings.append(of_block[find(self.keys[k - 3], of_block) < 0])
            unlisted[k - 3] = np.unique(np.concatenate(endings))
            free_mapped_pages(self.keys[k - 2], FREED_FROM)
        return unlisted

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        log_probs = np.tile(self.unigrams, (len(context_ids), 1))
        for k, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            # a slice of all rows copies nothing
            selected = slice(None) if len(rows) == len(context_ids) else rows
            log_probs[selected] += self.backoffs[k][nodes, None]
            owner, places = find_followers(self.keys[k], nodes, self.vocabulary_size)
            words = self.keys[k][places] % self.vocabulary_size
            log_probs[rows[owner], words] = self.log_probs[k][places]
            free_mapped_pages(self.keys[k], FREED_FROM)
        return log_probs

    @classmethod
    def normalised(
        cls,
        contexts: ContextTrie,
        unigrams: np.ndarray,
        keys: list[np.ndarray],
        log_probs: list[np.ndarray],
        boundary: str | None = None,
    ) -> "BackoffModel":
        """Build a model from listed n-grams, with the back-off weights that make every context a
        distribution.

        γ(h) = (1 - sum_listed P(w | h)) / (1 - sum_listed P(w | h')),    sums in float64

        An estimator must leave each context a share for words that are not listed: 1e-6 or more, or
        γ is the rounding of float32. A context that lists every word has no use for a share: its
        probabilities are divided by their sum, unless that is 1 up to rounding.
        """
        # the weights of an order need those of the orders below
        model = cls(contexts, unigrams, keys, [*log_probs], [], boundary)
        for k in range(2, len(keys) + 2):
            model.log_probs[k - 2] = model._scale_full_contexts(k)
            model.backoffs.append(model.compute_backoffs(k))
        return model

    def _scale_full_contexts(self, k: int) -> np.ndarray:
        """Return ln P of the n-grams of order k, whose sum is 1 after a context that lists every
        word.
        """
        nodes, words = np.divmod(self.keys[k - 2], self.vocabulary_size)
        log_probs = self.log_probs[k - 2]
        is_word = np.isfinite(self.unigrams)
        is_full = np.bincount(nodes, is_word[words]) == is_word.sum()
        sums = np.bincount(nodes, np.exp(log_probs, dtype=np.float64))
        is_scaled = is_full & (np.abs(1 - sums) > _LEAST_SHARE)
        scale = np.log(np.where(is_scaled, sums, 1))
        return (log_probs - scale[nodes]).astype(log_probs.dtype)

    def compute_backoffs(self, k: int) -> np.ndarray:
        """Return ln γ of the contexts of n-grams of order k, float32: see `normalised`."""
        num_contexts = self.contexts.sizes[k - 2]
        nodes = self.keys[k - 2] // self.vocabulary_size
        above = backoff_mass(nodes, np.exp(self.log_probs[k - 2]), num_contexts)
        below = backoff_mass(nodes, np.exp(compute_backoff_log_probs(self, k)), num_contexts)
        return np.log(above / below).astype(np.float32)

    @classmethod
    def from_ngrams(
        cls,
        unigrams: np.ndarray,
        ngrams: Sequence[tuple[np.ndarray, np.ndarray]],
        contexts: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
        boundary: str | None = None,
    ) -> "BackoffModel":
        """Build a model from the n-grams of each order from 2 on, in any order: int [N, k], and
        ln P.

        `contexts` are those of 1 to n-1 words with a back-off weight: int [M, k], and ln γ. None:
        the weights of `normalised`.
        """
        words = [ids for ids, _ in contexts or ()] + [ids[:, :-1] for ids, _ in ngrams]
        trie = ContextTrie.from_contexts(len(unigrams), words, len(ngrams))
        keys = []
        log_probs = []
        for ids, values in ngrams:
            in_order, places = sort_with_places(trie.find_keys(ids))
            keys.append(in_order)
            log_probs.append(values[places])
        if contexts is None:
            return cls.normalised(trie, unigrams, keys, log_probs, boundary)
        backoffs = []
        for (ids, values), size in zip(contexts, trie.sizes, strict=False):
            weights = np.zeros(size, np.float32)
            weights[trie.find_nodes(ids)] = values
            backoffs.append(weights)
        return cls(trie, unigrams, keys, log_probs, backoffs, boundary)

    def cut(self, order: int) -> "BackoffModel":
        """Return the model of the n-grams up to an order, with the same tables."""
        return BackoffModel(
            ContextTrie(self.vocabulary_size, self.contexts.keys[: max(order - 2, 0)]),
            self.unigrams,
            self.keys[: order - 1],
            self.log_probs[: order - 1],
            self.backoffs[: order - 1],
            self.boundary,
        )

    def ngrams(self, order: int, chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the words of listed n-grams of an order, int64 [N, order]."""
        nodes, last = np.divmod(self.keys[order - 2][chosen], self.vocabulary_size)
        return np.column_stack([self.contexts.words(order - 1, nodes), last])

    def arrays(self) -> dict[str, np.ndarray | list[np.ndarray]]:
        return {
            "contexts": self.contexts.keys,
            "keys": self.keys,
            "log_probs": self.log_probs,
            "unigrams": self.unigrams,
            "backoffs": self.backoffs,
        }

    @classmethod
    def load(cls, path: str | os.PathLike, boundary: str | None = None) -> "BackoffModel":
        """Read the tables that `save` wrote.

        Tables of a file of 256 MiB or more are memory-mapped.
        """
        check_is_file(path)
        is_large = os.path.getsize(path) >= MAPPED_FROM
        tables = read_arrays(
            path, ["unigrams"], ["contexts", "keys", "log_probs", "backoffs"], mapped=is_large
        )
        trie = ContextTrie(len(tables["unigrams"]), tables.pop("contexts"))
        return cls(trie, **tables, boundary=boundary)


class UsedContexts(NamedTuple):
    """Which contexts of 1 to n-1 words have a back-off weight or a listed n-gram: bool by number.

    `ngrams` are the same contexts by their places among the listed n-grams of orders 1 to n-1, and
    a last False. With them, the search for a probability also finds the used length of the context
    after the word.
    """

    contexts: list[np.ndarray]
    ngrams: list[np.ndarray]


def compute_backoff_log_probs(
    model: BackoffModel, k: int, chosen: np.ndarray | slice = slice(None)
) -> np.ndarray:
    """Return ln P(w | h') of listed n-grams h w of order k, float64 [N], from the lower orders of
    `model`.
    """
    ngrams = model.ngrams(k, chosen)
    return model.cut(k - 1).log_prob(ngrams[:, 1:-1], ngrams[:, -1]).astype(np.float64)


def backoff_mass(nodes: np.ndarray, probabilities: np.ndarray, num_contexts: int = 0) -> np.ndarray:
    """Return 1 - sum P over the listed n-grams of each context, float64, at least 1e-9 (rounding).

    It has `num_contexts` contexts, or those up to the last in `nodes`.
    """
    return np.maximum(1 - np.bincount(nodes, probabilities, minlength=num_contexts), _MIN_MASS)
