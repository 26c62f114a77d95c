"""Beam search for CTC, as in speech recognition: a language model for the decoder of pyctcdecode."""

import dataclasses
from typing import TYPE_CHECKING, Any

from keras_nplm.data.prefixes import PrefixIndex
from keras_nplm.io.errors import check_argument
from keras_nplm.language_model.scorer import State

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel

_LONG = 6  # letters of a word from which the offset of an unknown word grows, as in pyctcdecode


@dataclasses.dataclass(repr=False)
class CtcLanguageModel:
    """Language model for the beam search of pyctcdecode, with the interface of its `AbstractLanguageModel`.

        score(word | state) = α ln P(word | state) + β + offset of an out-of-vocabulary word

    The last word's score includes α ln P(</s>). KenLM is not needed.

    Args:
        language_model: a `LanguageModel`.
        alpha: α, the weight of the language model.
        beta: β, a bonus for each word.
        unk_score_offset: added to an out-of-vocabulary word, and to a partial word with which no word begins.
        self_normalised: whether the logits of a network are log-probabilities; see `LanguageModel.load`.

    Example:

    >>> from keras_nplm import LanguageModel
    >>> language_model = CtcLanguageModel(LanguageModel.from_preset("reference"), alpha=0.5, beta=1.5)
    >>> language_model.score_partial_token("val"), language_model.score_partial_token("vbl")
    (0.0, -10.0)

    Use: `BeamSearchDecoderCTC(Alphabet.build_alphabet(labels), language_model).decode(logits)`.
    """

    language_model: "LanguageModel"
    alpha: float = 0.5
    beta: float = 1.5
    unk_score_offset: float = -10.0
    self_normalised: bool = False

    def __post_init__(self) -> None:
        self.order = self.language_model.model.order
        self._scorer = self.language_model.scorer(self.self_normalised)

    def reset_params(self, **params: Any) -> None:
        """Set `alpha`, `beta` or `unk_score_offset`."""
        for name, value in params.items():
            check_argument(name, name in ("alpha", "beta", "unk_score_offset"), "left out", value)
            setattr(self, name, value)

    def get_start_state(self) -> State:
        """Return the state at the beginning of a text."""
        return self._scorer.begin()

    def score_partial_token(self, partial_token: str) -> float:
        """Return 0 for the beginning of a word of the vocabulary, else the offset, which grows with the length."""
        *_, last = self._scorer.tokenize(partial_token)
        index = self.language_model.word_index
        if not isinstance(index, PrefixIndex) or index.find(last):
            return 0.0
        return self.unk_score_offset * max(1, len(partial_token) / _LONG)

    def score(self, prev_state: State, word: str, is_last_word: bool = False) -> tuple[float, State]:
        """Return the score of a word and the state after it. An empty word, at the end of a text, scores 0."""
        log_prob, state = self._scorer.score(prev_state, word)
        if is_last_word:
            log_prob += self._scorer.end(state)
        offset = self.beta + (word not in self._scorer) * self.unk_score_offset if word else 0.0
        return self.alpha * log_prob + offset, state
