"""The interface of KenLM's Python package, `kenlm.Model` and `kenlm.State`, over any language
model.

Decoders written for `import kenlm` run on a network after `from keras_nplm.language_model import
kenlm`.
"""

import dataclasses
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_nplm.data.ids import BOS, BOS_ID, EOS, UNK_ID
from keras_nplm.io.remote import fetch
from keras_nplm.language_model import scorer
from keras_nplm.language_model.arpa_models import check_arpa_file
from keras_nplm.language_model.language_model import LanguageModel as TextModel
from keras_nplm.language_model.scoring import MIN_LOG_PROB
from keras_nplm.models.ngrams.arpa import read_arpa_as_written

_LN10 = math.log(10)
# of PAD_ID, which means no word: states begin without it, and are filled up with it
_PADDING = b"\0"
_WORD = re.compile("[^ \t\n\r\v\f]+")


@dataclasses.dataclass(order=True, unsafe_hash=True, slots=True)
class State:
    """A context, which the methods of `KenlmModel` write: the ids of the words that count.

    States with equal continuations are equal, and so are a new state and that of no context.
    """

    ids: bytes = b""


class FullScoreReturn(NamedTuple):
    """The score of a word, log10 P; the order of its n-gram; whether it is out of the
    vocabulary.
    """

    log_prob: float
    ngram_length: int
    oov: bool


class KenlmModel:
    """A language model with the interface of `kenlm.Model`: log10 probabilities of words between
    spaces.

    The numbers of an ARPA file are KenLM's, up to rounding. In text, `<s>`, `</s>` and `<pad>` are
    words of the file like others. Unlike KenLM, files of order 1 are read, and orders above 6.
    N-grams that are listed twice are refused. In a model directory a word may have several tokens:
    its probability is their product, its n-gram the last one. Models with the boundary `"stream"`
    predict no `</s>`: use `eos=False` in scores; `perplexity` does.

    A model can be pickled, as in `pool.map(model.score, sentences)`.

    Args:
        path: a model directory or an ARPA file, compressed or not; str, bytes or a path. No binary
            file of KenLM.
        self_normalised: whether the logits of a network are log-probabilities; see
            `LanguageModel.load`.

    Example:

    >>> from keras_nplm.language_model.presets import find_preset
    >>> from keras_nplm.language_model.kenlm import State
    >>> model, state, after = KenlmModel(find_preset("starter")), State(), State()
    >>> model.BeginSentenceWrite(state)
    >>> total = model.BaseScore(state, "The", after) + model.BaseScore(after, "value", State())
    >>> is_sum = round(total, 3) == round(model.score("The value", eos=False), 3)
    >>> is_sum, "value" in model, model.order
    (True, True, 21)
    """

    def __init__(self, path: str | bytes | os.PathLike, *, self_normalised: bool = False):
        path = os.fsdecode(path)
        self.path = os.fsencode(path)
        self._scorer: scorer.Scorer | _ArpaScorer
        if fetch(path).is_dir():
            self._scorer = TextModel.load(path, self_normalised, as_arrays=True).scorer()
            self._markers = {BOS: np.int32(BOS_ID).tobytes(), EOS: scorer.EOS}
        else:
            check_arpa_file(path)
            self._scorer = _ArpaScorer(fetch(path))
            self._markers = {}  # they are words of the file
        self.order = self._scorer.model.order
        self._begin = self._scorer.begin()
        self._null = bytes(len(self._begin))

    def score(self, sentence: str | bytes, bos: bool = True, eos: bool = True) -> float:
        """Return log10 P(sentence): after `<s>` unless `bos` is False, with `</s>` unless `eos` is
        False.
        """
        return math.fsum(score.log_prob for score in self.full_scores(sentence, bos, eos))

    def full_scores(
        self, sentence: str | bytes, bos: bool = True, eos: bool = True
    ) -> Iterator[FullScoreReturn]:
        """Return an iterator over the `FullScoreReturn` of each word."""
        state = self._begin if bos else self._null
        states = []
        ids = []
        ngrams = []
        for word in _split_words(sentence) + [EOS] * eos:
            states.append(state)
            ids.append(self._find_ids(state, word))
            path = state + ids[-1]
            ngrams.append(path[-len(state) - scorer.ID_BYTES :])
            state = path[len(ids[-1]) :]
        log_probs, _ = self._scorer.score_encoded(states, ids)
        rows = np.frombuffer(b"".join(ngrams), np.int32).reshape(len(ids), self.order)
        orders = self._scorer.model.find_orders(rows[:, :-1], rows[:, -1])
        unknown = (UNK_ID in np.frombuffer(word, np.int32) for word in ids)
        return map(FullScoreReturn, _to_log10(log_probs).tolist(), orders.tolist(), unknown)

    def perplexity(self, sentence: str | bytes) -> float:
        """Return the perplexity of a sentence, over its words and `</s>`, if that is predicted."""
        eos = bool(self._scorer.end_ids)
        number = len(_split_words(sentence)) + eos
        return 10.0 ** (-self.score(sentence, eos=eos) / max(1, number))

    def BeginSentenceWrite(self, state: State) -> None:
        """Set a state to the beginning of a sentence."""
        state.ids = self._begin.lstrip(_PADDING)

    def NullContextWrite(self, state: State) -> None:
        """Set a state to no context."""
        state.ids = b""

    def BaseScore(self, in_state: State, word: str | bytes, out_state: State) -> float:
        """Return log10 P(word | in_state), and set `out_state` to the state after the word."""
        before = in_state.ids.rjust(len(self._null), _PADDING)
        log_probs, [after] = self._scorer.score_encoded([before], [self._find_ids(before, word)])
        out_state.ids = after.lstrip(_PADDING)
        return float(_to_log10(log_probs)[0])

    def __contains__(self, word: str | bytes) -> bool:
        word = _decode(word)
        return word in self._markers or word in self._scorer

    def _find_ids(self, state: scorer.State, word: str | bytes) -> bytes:
        word = _decode(word)
        return self._markers.get(word) or self._scorer.encode(state, word) or scorer.UNK


class _ArpaScorer(scorer.IdScorer):
    """Scorer of the words of an ARPA file, with its numbers as they are written."""

    end_ids = scorer.EOS  # in each file, as in KenLM

    def __init__(self, path: Path):
        model, place = read_arpa_as_written(path)
        self._words = {word: np.int32(i).tobytes() for word, i in place.items()}
        before = bytes(scorer.ID_BYTES * (model.order - 1))
        super().__init__(model, (before + self._words[BOS])[scorer.ID_BYTES :])

    def encode(self, state: scorer.State, word: str) -> bytes:
        return self._words.get(word, scorer.UNK)

    def __contains__(self, word: str) -> bool:
        return self._words.get(word, scorer.UNK) != scorer.UNK


def _to_log10(log_probs: np.ndarray) -> np.ndarray:
    return np.where(np.isneginf(log_probs), MIN_LOG_PROB, log_probs) / _LN10


def _decode(text: str | bytes) -> str:
    """Return text. Bytes that are not UTF-8 are in no word of a model."""
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text


def _split_words(sentence: str | bytes) -> list[str]:
    """Split a sentence as KenLM's package does: at ASCII white space, vertical tabs and form feeds
    included.
    """
    return _WORD.findall(_decode(sentence))


Model = LanguageModel = KenlmModel
