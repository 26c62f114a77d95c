"""The interface of KenLM's Python package over any language model: `kenlm.Model` and `kenlm.State`.

Programs written for `import kenlm` run on a network after `from keras_nplm.language_model import kenlm`.
"""

import dataclasses
import math
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from keras_nplm.data.special_ids import BOS, BOS_ID, EOS, PAD_ID, UNK_ID
from keras_nplm.io.text import split_fields
from keras_nplm.language_model import scorer
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.rescoring.features import MIN_LOG_PROB
from keras_nplm.models.ngrams import read_arpa

_LN10 = math.log(10)
_MISSING = -100 * _LN10  # ln P of out-of-vocabulary words where an ARPA file has no <unk>
_MARKERS = {BOS: np.int32(BOS_ID).tobytes(), EOS: scorer.EOS}


@dataclasses.dataclass(unsafe_hash=True)
class State:
    """The context of a word, which `KenlmModel` writes; a new state has no context."""

    ids: scorer.State = b""


class FullScoreReturn(NamedTuple):
    """The score of a word: log10 P, the order of its n-gram, and whether it is out of vocabulary."""

    log_prob: float
    ngram_length: int
    oov: bool


class KenlmModel:
    """A language model with the methods of `kenlm.Model`: log10 probabilities of words separated by spaces.

    With an ARPA file all numbers are KenLM's. With a model directory a word may be several tokens: it has the sum of
    their log-probabilities and the n-gram order of the last. The boundary `"stream"` has no probability of `</s>`: use
    `eos=False` there. The least log10 P of a word is about -99, as in ARPA files.

    Args:
        path: a model directory, or an ARPA file, compressed or not. Binary files of KenLM are not read.
        self_normalised: take the logits of a network as log-probabilities; see `LanguageModel.load`.

    Raises:
        InputError: the path is no model directory and no valid ARPA file.

    Example:

    >>> from keras_nplm.language_model.presets import find_preset
    >>> model = KenlmModel(find_preset("reference"))
    >>> model.order, "value" in model
    (21, True)
    >>> state, after = State(), State()
    >>> model.BeginSentenceWrite(state)
    >>> total = model.BaseScore(state, "The", after) + model.BaseScore(after, "value", State())
    >>> round(total, 3) == round(model.score("The value", eos=False), 3)
    True
    """

    def __init__(self, path: str | bytes | os.PathLike, self_normalised: bool = False):
        path = os.fsdecode(path)
        if os.path.isfile(path):
            model, vocabulary = read_arpa(path)
            np.maximum(model.unigrams, MIN_LOG_PROB, out=model.unigrams)
            if model.unigrams[UNK_ID] == np.float32(MIN_LOG_PROB):
                model.unigrams[UNK_ID] = _MISSING
            language_model = LanguageModel(model, vocabulary, "whitespace")
        else:
            language_model = LanguageModel.load(path)
        self.path = os.fsencode(os.path.abspath(path))
        self.order = language_model.model.order
        self._scorer = language_model.scorer(self_normalised)
        self._null = np.full(self.order - 1, PAD_ID, np.int32).tobytes()

    def score(self, sentence: str, bos: bool = True, eos: bool = True) -> float:
        """Return log10 P(sentence): after `<s>` unless `bos` is False, with `</s>` unless `eos` is False."""
        return float(_to_log10(self._scorer.score_encoded(*self._find_words(sentence, bos, eos))[0]).sum())

    def full_scores(self, sentence: str, bos: bool = True, eos: bool = True) -> Iterator[tuple[float, int, bool]]:
        """Return an iterator over the words: log10 P, n-gram order, whether it is an out-of-vocabulary word."""
        return map(tuple, self._score_words(*self._find_words(sentence, bos, eos)))

    def perplexity(self, sentence: str) -> float:
        """Return the perplexity of a sentence, over its words and `</s>`."""
        return 10.0 ** (-self.score(sentence) / (len(split_fields(sentence)) + 1))

    def BeginSentenceWrite(self, state: State) -> None:
        """Set a state to the beginning of a sentence."""
        state.ids = self._scorer.begin()

    def NullContextWrite(self, state: State) -> None:
        """Set a state to no context."""
        state.ids = self._null

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:
        """Return log10 P(word | in_state), and set `out_state` to the state after the word."""
        before = in_state.ids or self._null
        log_probs, [out_state.ids] = self._scorer.score_encoded([before], [self._find_ids(before, word)])
        return float(_to_log10(log_probs)[0])

    def BaseFullScore(self, in_state: State, word: str, out_state: State) -> FullScoreReturn:
        """Return the log10 P of `BaseScore`, the n-gram order, and whether the word is out of the vocabulary."""
        before = in_state.ids or self._null
        ids = self._find_ids(before, word)
        out_state.ids = (before + ids)[-len(before) :]
        return next(self._score_words([before], [ids]))

    def __contains__(self, word: str) -> bool:
        return word in _MARKERS or word in self._scorer

    def _find_ids(self, state: scorer.State, word: str) -> bytes:
        return _MARKERS.get(word) or self._scorer.encode(state, word) or scorer.UNK

    def _find_words(self, sentence: str, bos: bool, eos: bool) -> tuple[list[scorer.State], list[bytes]]:
        """Return the state before each word of a sentence, and the ids of the word."""
        states, ids = [self._scorer.begin() if bos else self._null], []
        for word in split_fields(sentence) + [EOS] * eos:
            ids.append(self._find_ids(states[-1], word))
            states.append((states[-1] + ids[-1])[-len(self._null) :])
        return states[:-1], ids

    def _score_words(self, states: list[scorer.State], ids: list[bytes]) -> Iterator[FullScoreReturn]:
        log10_probs = _to_log10(self._scorer.score_encoded(states, ids)[0])
        last = b"".join(
            (state + word)[-len(self._null) - len(scorer.UNK) :] for state, word in zip(states, ids, strict=True)
        )
        ngrams = np.frombuffer(last, np.int32).reshape(len(ids), self.order)
        orders = self._scorer.model.find_orders(ngrams[:, :-1], ngrams[:, -1])
        unknown = (UNK_ID in np.frombuffer(word, np.int32) for word in ids)
        return map(FullScoreReturn, log10_probs.tolist(), orders.tolist(), unknown)


def _to_log10(log_probs: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(log_probs), MIN_LOG_PROB, log_probs) / _LN10


Model = KenlmModel
