"""The interface of KenLM's Python package, `kenlm.Model` and `kenlm.State`, over any language
model.

Programs written for `import kenlm` run on a network after `from keras_nplm.language_model import
kenlm`.
"""

import dataclasses
import functools
import math
import operator
import os
import re
from collections.abc import Iterator
from typing import NamedTuple, SupportsIndex

import numpy as np

from keras_nplm.data.ids import BOS, BOS_ID, EOS, PAD_ID, UNK_ID
from keras_nplm.io.errors import InputError
from keras_nplm.io.paths import is_remote
from keras_nplm.language_model import language_model as language_models
from keras_nplm.language_model import scorer
from keras_nplm.language_model.pickling import Origin, Pickled
from keras_nplm.language_model.scoring import MIN_LOG_PROB
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.ngrams.arpa import read_arpa_as_written

_LN10 = math.log(10)
_PADDING = re.compile(rb"(?:\0{%d})*" % scorer.ID_BYTES)
_WORD = re.compile("[^ \t\n\r\v\f]+")
_BINARY = b"mmap lm http://kheafield.com/code"  # the beginning of a binary file of KenLM
_MARKERS = {BOS: np.int32(BOS_ID).tobytes(), EOS: scorer.EOS}


class LoadMethod:
    """How KenLM reads a binary file. Here it changes nothing: there are no binary files."""

    LAZY = 0
    POPULATE_OR_LAZY = 1
    POPULATE_OR_READ = 2
    READ = 3
    PARALLEL_READ = 4


class ARPALoadComplain:
    """Which faults of an ARPA file KenLM prints.

    Here it changes nothing: faults are errors, and nothing is printed.
    """

    ALL = 0
    EXPENSIVE = 1
    NONE = 2


class Config:
    """Options of loading, with the attributes and the defaults of `kenlm.Config`.

    They change nothing here.
    """

    load_method = LoadMethod.POPULATE_OR_READ
    show_progress = True
    arpa_complain = ARPALoadComplain.ALL

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("load_method", "show_progress", "arpa_complain"):
            raise AttributeError(f"'kenlm.Config' object has no attribute {name!r}")
        if name == "show_progress":
            super().__setattr__(name, bool(value))
        elif isinstance(value, SupportsIndex):
            super().__setattr__(name, operator.index(value))
        else:
            # as in KenLM
            raise TypeError(f"{type(value).__name__!r} object cannot be interpreted as an integer")


@dataclasses.dataclass(order=True, unsafe_hash=True, slots=True)
class State:
    """A context, which the methods of `KenlmModel` write: the ids of the words that count.

    States with equal continuations are equal, and so are a new state and that of no context.
    """

    ids: bytes = b""

    def __copy__(self) -> "State":
        return State(self.ids)

    def __deepcopy__(self, memo: dict) -> "State":
        return State(self.ids)


class FullScoreReturn(NamedTuple):
    """The score of a word, log10 P; the order of its n-gram; whether it is out of the
    vocabulary.
    """

    log_prob: float
    ngram_length: int
    oov: bool

    def __repr__(self) -> str:
        return f"FullScoreReturn({self.log_prob}, {self.ngram_length}, {self.oov})"


class ReadError(InputError, OSError):
    """A model that cannot be read; an OSError, as KenLM raises it."""


class KenlmModel(Pickled):
    """A language model with the interface of `kenlm.Model`: log10 probabilities of words between
    spaces.

    All numbers of an ARPA file are KenLM's, to the last digit: it computes in float32. In text,
    `<s>`, `</s>` and `<pad>` are words of the file like others. Unlike KenLM, files of order 1 are
    read, and orders above 6. In a model directory a word may have several tokens: its probability
    is their product, its n-gram the last one. Models with the boundary `"stream"` predict no
    `</s>`: use `eos=False` in scores; `perplexity` does.

    A model can be pickled, as in `pool.map(model.score, sentences)`: by its path, where the file
    must be the same.

    Args:
        path: a model directory or an ARPA file, compressed or not; str, bytes or a path. No binary
            file of KenLM.
        config: a `Config`, which changes nothing.
        self_normalised: whether the logits of a network are log-probabilities; see
            `LanguageModel.load`.

    Example:

    >>> from keras_nplm.language_model.presets import find_preset
    >>> model, state, after = KenlmModel(find_preset("starter")), State(), State()
    >>> model.BeginSentenceWrite(state)
    >>> total = model.BaseScore(state, "The", after) + model.BaseScore(after, "value", State())
    >>> is_sum = round(total, 3) == round(model.score("The value", eos=False), 3)
    >>> is_sum, "value" in model, model.order
    (True, True, 21)
    """

    def __init__(
        self,
        path: str | bytes | os.PathLike,
        config: Config | None = None,
        self_normalised: bool = False,
    ):
        if not (config is None or isinstance(config, Config)):
            received = type(config).__name__
            raise TypeError(
                f"`config` must be a kenlm.Config. Received: {received}. Fix: name "
                "`self_normalised`."
            )
        path = os.fsdecode(path)
        self._arpa_words: dict[str, bytes] | None = None
        try:
            self._load(path, self_normalised)
        except InputError as error:
            raise ReadError(str(error)) from error
        self._path = os.fsencode(path if is_remote(path) else os.path.abspath(path))
        self._order = self._scorer.model.order
        self._null = np.full(self.order - 1, PAD_ID, np.int32).tobytes()
        self._begin = self._scorer.begin()
        if self._arpa_words is not None and self.order > 1:
            self._begin = self._null[scorer.ID_BYTES :] + self._arpa_words[BOS]
        self._register()

    def _load(self, path: str, self_normalised: bool) -> None:
        load = functools.partial(_load_again, type(self))
        if not os.path.isfile(path):
            origin = (
                Origin.read(load, path, self_normalised)
                if is_remote(path) or os.path.isdir(path)
                else None
            )
            self._scorer = language_models.LanguageModel.load(path).scorer(self_normalised)
            self._origin = origin
            return
        with open(path, "rb") as file:
            if file.read(len(_BINARY)) == _BINARY:
                fix = "name the ARPA file that `build_binary` read."
                raise InputError(
                    f"{path} must be an ARPA file. Received: a binary file of KenLM. Fix: {fix}"
                )
        self._origin = Origin.read(load, path, self_normalised)
        model, place = read_arpa_as_written(path)
        self._arpa_words = {word: np.int32(i).tobytes() for word, i in place.items()}
        self._scorer = _Log10Scorer(scorer.self_normalise(model) if self_normalised else model)

    def _pickled_model(self) -> NextWordModel:
        return self._scorer.model

    def __getstate__(self) -> dict:
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_token", "_origin")
        }

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._register()

    @property
    def path(self) -> bytes:
        """The absolute path of the model."""
        return self._path

    @property
    def order(self) -> int:
        """The order of the model."""
        return self._order

    def __repr__(self) -> str:
        return f"<Model from {os.path.basename(self._path)!r}>"

    def score(self, sentence: str | bytes, bos: bool = True, eos: bool = True) -> float:
        """Return log10 P(sentence): after `<s>` unless `bos` is False, with `</s>` unless `eos` is
        False.
        """
        log_probs = [log_prob for log_prob, _, _ in self.full_scores(sentence, bos, eos)]
        # KenLM adds the words of a sentence one by one in float32
        dtype = np.float64 if self._arpa_words is None else np.float32
        return float(np.cumsum([0.0, *log_probs], dtype=dtype)[-1])

    def full_scores(
        self, sentence: str | bytes, bos: bool = True, eos: bool = True
    ) -> Iterator[tuple[float, int, bool]]:
        """Return an iterator over the words: log10 P, n-gram order, whether it is out of the
        vocabulary.
        """
        states = [self._begin if bos else self._null]
        ids = []
        for word in _split_words(sentence) + [EOS] * eos:
            ids.append(self._find_ids(states[-1], word))
            states.append((states[-1] + ids[-1])[len(ids[-1]) :])
        scores, _ = self._score(states[:-1], ids)
        return ((score.log_prob, score.ngram_length, score.oov) for score in scores)

    def perplexity(self, sentence: str | bytes) -> float:
        """Return the perplexity of a sentence, over its words and `</s>`, if that is predicted."""
        # of ARPA files as in KenLM
        eos = self._arpa_words is not None or bool(self._scorer.end_ids)
        number = len(_split_words(sentence)) + eos
        return 10.0 ** (-self.score(sentence, eos=eos) / max(1, number))

    def BeginSentenceWrite(self, state: State) -> None:
        """Set a state to the beginning of a sentence."""
        state.ids = _strip(self._begin)

    def NullContextWrite(self, state: State) -> None:
        """Set a state to no context."""
        state.ids = b""

    def BaseScore(self, in_state: State, word: str | bytes, out_state: State) -> float:
        """Return log10 P(word | in_state), and set `out_state` to the state after the word."""
        before = self._pad(in_state)
        log_probs, [after] = self._scorer.score_encoded([before], [self._find_ids(before, word)])
        out_state.ids = _strip(after)
        return float(self._to_log10(log_probs)[0])

    def BaseFullScore(
        self, in_state: State, word: str | bytes, out_state: State
    ) -> FullScoreReturn:
        """Return the `FullScoreReturn` of a word, and set `out_state` as `BaseScore` does."""
        before = self._pad(in_state)
        [score], [after] = self._score([before], [self._find_ids(before, word)])
        out_state.ids = _strip(after)
        return score

    def _pad(self, state: State) -> scorer.State:
        """Return a state as the scorer has it, of n-1 ids."""
        return state.ids.rjust(len(self._null), b"\0")

    def __contains__(self, word: str | bytes) -> bool:
        word = _decode(word)
        if self._arpa_words is not None:
            return self._arpa_words.get(word, scorer.UNK) != scorer.UNK
        return word in _MARKERS or word in self._scorer

    def _find_ids(self, state: scorer.State, word: str | bytes) -> bytes:
        word = _decode(word)
        if self._arpa_words is not None:
            return self._arpa_words.get(word, scorer.UNK)
        return _MARKERS.get(word) or self._scorer.encode(state, word) or scorer.UNK

    def _score(
        self, states: list[scorer.State], ids: list[bytes]
    ) -> tuple[Iterator[FullScoreReturn], list[scorer.State]]:
        """Return the scores of words, each after its state, and the states after them."""
        log_probs, after = self._scorer.score_encoded(states, ids)
        last = [
            (state + word)[-len(state) - len(scorer.UNK) :]
            for state, word in zip(states, ids, strict=True)
        ]
        ngrams = np.frombuffer(b"".join(last), np.int32).reshape(len(ids), self.order)
        orders = self._scorer.model.find_orders(ngrams[:, :-1], ngrams[:, -1])
        unknown = (UNK_ID in np.frombuffer(word, np.int32) for word in ids)
        return map(
            FullScoreReturn, self._to_log10(log_probs).tolist(), orders.tolist(), unknown
        ), after

    def _to_log10(self, log_probs: np.ndarray) -> np.ndarray:
        if self._arpa_words is not None:  # the scorer's numbers are log10
            return log_probs
        return np.where(np.isneginf(log_probs), MIN_LOG_PROB, log_probs) / _LN10


class LanguageModel(KenlmModel):
    """The old name of `Model`, as in KenLM."""


class _Log10Scorer(scorer.Scorer):
    """Scorer of the ids of an ARPA file, whose numbers are log10 as in the file; `KenlmModel` finds
    the ids.
    """

    def __init__(self, model: NextWordModel):
        self._begin = np.full(model.order - 1, PAD_ID, np.int32).tobytes()
        self._keeps_last = False
        self._set_model(model)
        self._register()

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._register()


def _load_again(kind: type[KenlmModel], path: str, self_normalised: bool) -> KenlmModel:
    """Load the model of a pickle."""
    return kind(path, self_normalised=self_normalised)


def _strip(state: scorer.State) -> bytes:
    """Return the ids of a state without the padding before them, which means no word."""
    padding = _PADDING.match(state)
    assert padding is not None  # it may be empty
    return state[padding.end() :]


def _decode(text: str | bytes) -> str:
    """Return text. Bytes that are not UTF-8 are in no word of a model."""
    if isinstance(text, str):
        return text
    if not isinstance(text, bytes):
        raise TypeError(f"Cannot convert {type(text)} to string")  # as in KenLM
    return text.decode("utf-8", "surrogateescape")


def _split_words(sentence: str | bytes) -> list[str]:
    """Split a sentence as KenLM's package does: at ASCII white space, vertical tabs and form feeds
    included.
    """
    return _WORD.findall(_decode(sentence))


Model = KenlmModel
