"""The interface of KenLM's Python package, `kenlm.Model` and `kenlm.State`, over any language model.

Programs written for `import kenlm` run on a network after `from keras_nplm.language_model import kenlm`.
"""

import dataclasses
import math
import operator
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from keras_nplm.data.special_ids import BOS, BOS_ID, EOS, PAD_ID, UNK_ID
from keras_nplm.language_model import scorer
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.rescoring.features import MIN_LOG_PROB
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.ngrams.arpa import read_arpa_as_written

_LN10 = math.log(10)
_MARKERS = {BOS: np.int32(BOS_ID).tobytes(), EOS: scorer.EOS}


@dataclasses.dataclass(unsafe_hash=True)
class State:
    """A context, which the methods of `KenlmModel` write."""

    ids: scorer.State = b""


class FullScoreReturn(NamedTuple):
    """The score of a word, log10 P; the order of its n-gram; whether it is out of the vocabulary."""

    log_prob: float
    ngram_length: int
    oov: bool


class KenlmModel:
    """A language model with the interface of `kenlm.Model`: log10 probabilities of words between spaces.

    All numbers of an ARPA file are KenLM's, to the last digit: it computes in float32. In text, `<s>`, `</s>` and
    `<pad>` are words of the file like others. Unlike KenLM, files of order 1 are read, and orders above 6.
    In a model directory a word may have several tokens: its probability is their product, its n-gram the last one.
    Models with the boundary `"stream"` predict no `</s>`: use `eos=False`.

    Args:
        path: a model directory or an ARPA file, compressed or not; no binary file of KenLM.
        self_normalised: whether the logits of a network are log-probabilities; see `LanguageModel.load`.

    Example:

    >>> from keras_nplm.language_model.presets import find_preset
    >>> model, state, after = KenlmModel(find_preset("reference")), State(), State()
    >>> model.BeginSentenceWrite(state)
    >>> total = model.BaseScore(state, "The", after) + model.BaseScore(after, "value", State())
    >>> round(total, 3) == round(model.score("The value", eos=False), 3), "value" in model, model.order
    (True, True, 21)
    """

    def __init__(self, path: str | os.PathLike, self_normalised: bool = False):
        self._arpa_words: dict[str, bytes] | None = None
        if os.path.isfile(path):
            model, place = read_arpa_as_written(path)
            self._arpa_words = {word: np.int32(i).tobytes() for word, i in place.items()}
            self._scorer = _Log10Scorer(scorer.self_normalise(model) if self_normalised else model)
        else:
            self._scorer = LanguageModel.load(path).scorer(self_normalised)
        self.path = os.fsencode(os.path.abspath(path))
        self.order = self._scorer.model.order
        self._null = np.full(self.order - 1, PAD_ID, np.int32).tobytes()
        self._begin = self._scorer.begin()
        if self._arpa_words is not None and self.order > 1:
            self._begin = self._null[scorer.ID_BYTES :] + self._arpa_words[BOS]

    def score(self, sentence: str, bos: bool = True, eos: bool = True) -> float:
        """Return log10 P(sentence): after `<s>` unless `bos` is False, with `</s>` unless `eos` is False."""
        log_probs = [log_prob for log_prob, _, _ in self.full_scores(sentence, bos, eos)]
        # KenLM adds the words of a sentence one by one in float32
        dtype = np.float64 if self._arpa_words is None else np.float32
        return float(np.cumsum([0.0, *log_probs], dtype=dtype)[-1])

    def full_scores(self, sentence: str, bos: bool = True, eos: bool = True) -> Iterator[tuple[float, int, bool]]:
        """Return an iterator over the words: log10 P, n-gram order, whether it is out of the vocabulary."""
        states, ids = [self._begin if bos else self._null], []
        for word in _split_words(sentence) + [EOS] * eos:
            ids.append(self._find_ids(states[-1], word))
            states.append((states[-1] + ids[-1])[len(ids[-1]) :])
        return map(tuple, self._score(states[:-1], ids))

    def perplexity(self, sentence: str) -> float:
        """Return the perplexity of a sentence, over its words and `</s>`."""
        return 10.0 ** (-self.score(sentence) / (len(_split_words(sentence)) + 1))

    def BeginSentenceWrite(self, state: State) -> None:
        """Set a state to the beginning of a sentence."""
        state.ids = self._begin

    def NullContextWrite(self, state: State) -> None:
        """Set a state to no context."""
        state.ids = self._null

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:
        """Return log10 P(word | in_state), and set `out_state` to the state after the word."""
        before = in_state.ids or self._null
        log_probs, [out_state.ids] = self._scorer.score_encoded([before], [self._find_ids(before, word)])
        return float(self._to_log10(log_probs)[0])

    def BaseFullScore(self, in_state: State, word: str, out_state: State) -> FullScoreReturn:
        """Return the `FullScoreReturn` of a word, and set `out_state` as `BaseScore` does."""
        before = in_state.ids or self._null
        ids = self._find_ids(before, word)
        out_state.ids = (before + ids)[len(ids) :]
        return next(self._score([before], [ids]))

    def __contains__(self, word: str) -> bool:
        if self._arpa_words is not None:
            return self._arpa_words.get(word, scorer.UNK) != scorer.UNK
        return word in _MARKERS or word in self._scorer

    def _find_ids(self, state: scorer.State, word: str) -> bytes:
        if self._arpa_words is not None:
            return self._arpa_words.get(word, scorer.UNK)
        return _MARKERS.get(word) or self._scorer.encode(state, word) or scorer.UNK

    def _score(self, states: list[scorer.State], ids: list[bytes]) -> Iterator[FullScoreReturn]:
        log_probs, _ = self._scorer.score_encoded(states, ids)
        last = [(state + word)[-len(state) - len(scorer.UNK) :] for state, word in zip(states, ids, strict=True)]
        ngrams = np.frombuffer(b"".join(last), np.int32).reshape(len(ids), self.order)
        orders = self._scorer.model.find_orders(ngrams[:, :-1], ngrams[:, -1])
        unknown = (UNK_ID in np.frombuffer(word, np.int32) for word in ids)
        return map(FullScoreReturn, self._to_log10(log_probs).tolist(), orders.tolist(), unknown)

    def _to_log10(self, log_probs: np.ndarray) -> np.ndarray:
        if self._arpa_words is not None:  # the scorer's numbers are log10
            return log_probs
        return np.where(np.isneginf(log_probs), MIN_LOG_PROB, log_probs) / _LN10


class _Log10Scorer(scorer.Scorer):
    """Scorer of the ids of an ARPA file, whose numbers are log10 as in the file; `KenlmModel` finds the ids."""

    def __init__(self, model: NextWordModel):
        self.model = model
        self._begin = np.full(model.order - 1, PAD_ID, np.int32).tobytes()
        self._cut = operator.itemgetter(slice(scorer.ID_BYTES, None))


def _split_words(sentence: str) -> list[str]:
    """Split a sentence as KenLM's package does: at ASCII white space, vertical tabs and form feeds included."""
    return [word.decode() for word in sentence.encode().split()]


Model = KenlmModel
