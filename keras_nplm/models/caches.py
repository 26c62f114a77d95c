"""Cache language models: a unigram, an n-gram and a continuous cache of the previous words, to mix
with other models.

A cache predicts the words of the recent text again. Alone it gives a word outside its window
probability 0. In a `Mixture` it adapts a model to the topic and the names of a text, without
training. Its context is long: 500 words by default. With the boundary `"sentence"` it ends at the
start of the sentence, so use `"text"` or `"stream"`.
"""

import abc
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.boundary import check_boundary_name, predicted_ids
from keras_nplm.data.ids import find_distinct_rows
from keras_nplm.io.files import read_json, write_json_text
from keras_nplm.models.base import ModelFolder, NextWordModel, row_blocks, saved_as
from keras_nplm.models.defaults import DECAY, FLATNESS, LENGTH

SETTINGS_FILE = "cache.json"

FACTORS = (1000.0, 10.0, 10.0)  # of an n-gram cache
# contexts whose cached words, [rows, length], are weighed together: they fit in the processor's
# cache
_ROWS = 128
TOKENS = 1 << 15  # words whose features are in memory together
_LOWEST = -700.0  # ln of the least weight of a cached word: exp of it is above 0 in float64


class Cache(NextWordModel, abc.ABC):
    """Base class of caches: P(w | context) is the weight of the cached words w among all cached
    words.
    """

    # the arguments beside |V| and the boundary, or beside the network
    settings: Sequence[str]
    figure: str  # the name in `metrics.json` of the first one, which is chosen

    def __init__(self, vocabulary_size: int, boundary: str, length: int, before: int):
        check_boundary_name(boundary)
        LENGTH.check(length, "length")
        self.order = length + before
        self.vocabulary_size = vocabulary_size
        self.boundary = boundary
        self.length = int(length)
        predicted = predicted_ids(vocabulary_size, boundary)
        self._is_word = np.zeros(vocabulary_size, bool)
        self._is_word[predicted] = True
        self._uniform = 1 / len(predicted)

    def _describe_parts(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.settings)

    def list_chosen_values(self) -> dict[str, float]:
        return {self.figure: getattr(self, self.settings[0])}

    def list_files(self) -> Mapping[str, Callable[[Path], object]]:
        values = {name: getattr(self, name) for name in self.settings}
        return {SETTINGS_FILE: functools.partial(write_json_text, value=values)}

    @classmethod
    def read_files(cls, folder: ModelFolder) -> "Cache":
        values = read_json(folder.path / SETTINGS_FILE)
        return cls(folder.vocabulary_size, folder.boundary, **values)

    @abc.abstractmethod
    def _weigh(self, context_ids: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield (rows, their cached words int32 [R, L], the weights of these [R, L]: 0 if never
        predicted).
        """

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        parts = np.zeros(len(target_ids))
        totals = np.zeros(len(target_ids))
        for rows, words, weights in self._weigh(context_ids):
            parts[rows] = np.where(words == target_ids[rows, None], weights, 0).sum(axis=1)
            totals[rows] = weights.sum(axis=1)
        return self._log_share(parts, totals, target_ids)

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        size = self.vocabulary_size
        ids = np.arange(size)
        result = np.empty((len(context_ids), size))
        for rows, words, weights in self._weigh(context_ids):
            cells = np.arange(len(words))[:, None] * size + words
            parts = np.bincount(cells.ravel(), weights.ravel(), len(words) * size).reshape(-1, size)
            result[rows] = self._log_share(parts, weights.sum(axis=1)[:, None], ids)
        return result

    def _log_share(self, parts: np.ndarray, totals: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return ln(parts / totals) of the words `ids`; uniform where the cache is empty, so where
        a total is 0.
        """
        uniform = self._is_word[ids] * self._uniform
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.where(totals > 0, parts / totals, uniform))


@saved_as("ngram-cache")
class NgramCache(Cache):
    """N-gram cache: the words that followed the last words in the recent text.

        P(w | w_{t-L-K} … w_{t-1}) = sum_i λ^i F_m(i) [w_{t-i} = w] / sum_i λ^i F_m(i),    i = 1 … L
        F_m = f_1 f_2 … f_m,    λ = exp(-1 / decay)

    m(i), at most K, is the number of words before w_{t-i} that equal the words before the target,
    counted backwards from both. So a word weighs more if it followed the last word, and more again
    if it followed the last two. Where no word did, and without factors, this is the unigram cache.
    The sums run over the words that can be predicted, `<unk>` included: not over `<pad>`, `<s>`,
    and `</s>` of a stream. Where the window has no such word, P is uniform.

    Args:
        vocabulary_size: |V|.
        boundary: `"sentence"`, `"text"` or `"stream"`. In sentences, the cache sees one sentence.
        decay: number of words after which a word weighs 1/e, 1 or more.
        length: L, number of words in the cache, 1 to 65,535. The order of the model is L + K + 1.
        factors: f_1 … f_K, with a finite product. The default is the best of a few on validation
            text of Brown, mixed with a network and a Kneser-Ney model.

    Reference: Jelinek, Merialdo, Roukos & Strauss (1991), A dynamic language model for speech
    recognition. They interpolate a trigram, a bigram and a unigram cache. Here factors take the
    place of the interpolation.
    """

    description = "An n-gram cache"
    settings: Sequence[str] = ("decay", "length", "factors")
    figure = "ngram_decay"

    def __init__(
        self,
        vocabulary_size: int,
        boundary: str = "sentence",
        decay: float = DECAY.default,
        length: int = LENGTH.default,
        factors: Sequence[float] = FACTORS,
    ):
        DECAY.check(decay)
        super().__init__(vocabulary_size, boundary, length, before=len(factors) + 1)
        self.decay = float(decay)
        self.factors = tuple(map(float, factors))
        distances = np.arange(self.length - 1, -1, -1)
        self._weights = np.exp(np.maximum(-distances / self.decay, _LOWEST))

    def _weigh(self, context_ids: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        before = len(self.factors)
        for rows in row_blocks(len(context_ids), _ROWS):
            contexts = context_ids[rows]
            words = contexts[:, before:]
            weights = self._is_word[words] * self._weights
            row, column = np.divmod(np.arange(words.size), self.length)
            # the words after the last `back` words of a context
            for back, factor in enumerate(self.factors, start=1):
                matches = contexts[row, column + before - back] == contexts[row, -back]
                row = row[matches]
                column = column[matches]
                weights[row, column] *= factor
            yield rows, words, weights


@saved_as("unigram-cache")
class UnigramCache(NgramCache):
    """Unigram cache with exponential decay: recent words, the last ones with the most weight.

        P(w | w_{t-L} … w_{t-1}) = sum_i λ^i [w_{t-i} = w] / sum_i λ^i,
        λ = exp(-1 / decay), i = 1 … L

    An `NgramCache` without factors: its order is L + 1.

    Reference: Kuhn & De Mori (1990), A cache-based natural language model for speech recognition;
    Clarkson & Robinson (1997), Language model adaptation using mixtures and an exponentially
    decaying cache.
    """

    description = "A unigram cache"
    settings = ("decay", "length")
    figure = "decay"

    def __init__(
        self,
        vocabulary_size: int,
        boundary: str = "sentence",
        decay: float = DECAY.default,
        length: int = LENGTH.default,
    ):
        super().__init__(vocabulary_size, boundary, decay, length, factors=())


@saved_as("continuous-cache")
class ContinuousCache(Cache):
    """Continuous (neural) cache: the words that followed contexts like the present one.

        P(w | context) = sum_i exp(θ h_t · h_i) [w_{t-i} = w] / sum_i exp(θ h_t · h_i),    i = 1 … L

    h_i are the features of a network (`ContextNetwork.features`) after the n-1 words before
    w_{t-i}, and h_t after the last n-1 words. The sums run over the words that can be predicted, as
    in `NgramCache`. The window has L + n-1 words, so that each cached word has its whole context.
    The features of n-grams in text order are computed once per word of the text, not per word of
    each window.

    Args:
        network: the NPLM whose features are compared. Its vocabulary and boundary are those of the
            cache.
        flatness: θ, 0 or more. 0 gives all cached words the same weight.
        length: L, number of words in the cache, 1 to 65,535. The order of the model is L + n.

    Reference: Grave, Joulin & Usunier (2017), Improving neural language models with a continuous
    cache.
    """

    description = "A continuous cache"
    settings = ("flatness", "length")
    figure = "flatness"

    def __init__(
        self, network: Any, flatness: float = FLATNESS.default, length: int = LENGTH.default
    ):
        FLATNESS.check(flatness)
        super().__init__(network.vocabulary_size, network.boundary, length, before=network.order)
        self.network = network
        self.flatness = float(flatness)

    def list_saved_models(self) -> Sequence[NextWordModel]:
        """Return the network. It is not a part: its probabilities are not used."""
        return [self.network]

    @classmethod
    def read_files(cls, folder: ModelFolder) -> "ContinuousCache":
        return cls(folder.load_part(0), **read_json(folder.path / SETTINGS_FILE))

    def _weigh(self, context_ids: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        if not len(context_ids):
            return
        size = context_ids.shape[1]
        is_shifted = np.zeros(len(context_ids), bool)  # by one word, from the row before
        is_shifted[1:] = (context_ids[1:, :-1] == context_ids[:-1, 1:]).all(axis=1)
        piece = np.cumsum(np.where(is_shifted, 1, size)) // TOKENS
        cuts = np.flatnonzero(np.diff(piece, prepend=-1, append=piece[-1] + 1))
        for start, end in itertools.pairwise(cuts):
            weighed = self._weigh_piece(context_ids[start:end], is_shifted[start:end])
            for rows, words, weights in weighed:
                yield slice(start + rows.start, start + rows.stop), words, weights

    def _weigh_piece(
        self, context_ids: np.ndarray, is_shifted: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield as `_weigh` for some contexts, whose features are in memory together.

        The contexts are written as one text, in which a shifted context adds one word.
        """
        number, size = context_ids.shape
        before = self.network.order - 1
        whole = ~is_shifted
        whole[0] = True
        starts = np.cumsum(np.where(whole, size, 1)) - size  # of the contexts in the text
        text = np.empty(starts[-1] + size, np.int32)
        text[starts + size - 1] = context_ids[:, -1]
        text[starts[whole, None] + np.arange(size)] = context_ids[whole]
        # context i precedes the word i + n-1
        contexts = np.lib.stride_tricks.sliding_window_view(text, before)
        is_needed = np.append(self._is_word[text[before:]], True)
        is_needed[starts + self.length] = True  # the contexts of the next words
        distinct, which = find_distinct_rows(contexts[is_needed])
        computed = self.network.compute_features(distinct)[which]
        features = np.zeros((len(contexts), computed.shape[1]), computed.dtype)
        features[is_needed] = computed
        for rows in row_blocks(number, _ROWS):
            begins = starts[rows]
            first = begins[0]
            end = begins[-1] + self.length
            # the cached words of each context, as places among those of all of them
            index = begins[:, None] - first + np.arange(self.length)
            products = features[begins + self.length] @ features[first:end].T
            words = text[first + before + index]
            exponents = np.take_along_axis(products, index, axis=1) * np.float64(self.flatness)
            exponents[~self._is_word[words]] = -np.inf
            # from a power of 1 down, so that none overflows
            highest = exponents.max(axis=1, keepdims=True)
            exponents -= np.where(np.isfinite(highest), highest, 0)
            yield slice(rows.start, rows.start + len(words)), words, np.exp(exponents)
