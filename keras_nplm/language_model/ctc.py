"""Beam search for CTC, as in speech recognition: a language model for the decoder of
pyctcdecode.
"""

import dataclasses
import math

from keras_nplm.data.prefixes import WordIndex
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.scorer import State

_LN10 = math.log(10)
_LONG = 6  # letters of a word from which the offset of an unknown word grows, as in pyctcdecode


@dataclasses.dataclass(repr=False)
class CtcLanguageModel:
    """Language model for the beam search of pyctcdecode, with the interface of its `LanguageModel`.

        score(word | state) = α (ln P(word | state) + offset ln 10) + β;
        offset 0 for words of the vocabulary

    The last word's score includes α ln P(</s>). Scores are those of pyctcdecode over the same model
    in KenLM, so that α, β and the offset that were tuned there are right here. One score differs:
    an empty word, of a text that ends in a space, is no unknown word, but only the end. KenLM is
    not needed.

    Args:
        language_model: a `LanguageModel`.
        alpha: α, the weight of the language model.
        beta: β, a bonus for each word.
        unk_score_offset: log10, added to ln P of an out-of-vocabulary word; not weighed by α and
            without ln 10, the score of a partial word with which no word begins.
        score_boundary: whether a text begins after `<s>` and ends in `</s>`. False: its first state
            is no context.

    Example:

    >>> from keras_nplm import LanguageModel
    >>> starter = LanguageModel.from_preset("starter")
    >>> language_model = CtcLanguageModel(starter, alpha=0.5, beta=1.5)
    >>> language_model.score_partial_token("val"), language_model.score_partial_token("vbl")
    (0.0, -10.0)

    Use: `BeamSearchDecoderCTC(Alphabet.build_alphabet(labels), language_model).decode(logits)`.
    The decoder's `save_to_dir` and `load_from_dir` know KenLM alone: save `language_model` itself.
    """

    language_model: LanguageModel
    alpha: float = 0.5
    beta: float = 1.5
    unk_score_offset: float = -10.0
    score_boundary: bool = True

    def __post_init__(self) -> None:
        self._scorer = self.language_model.scorer()

    @property
    def order(self) -> int:
        """The order of the language model."""
        return self._scorer.model.order

    def reset_params(
        self,
        alpha: float | None = None,
        beta: float | None = None,
        unk_score_offset: float | None = None,
        score_boundary: bool | None = None,
    ) -> None:
        """Set parameters; None leaves one as it is."""
        given = (alpha, beta, unk_score_offset, score_boundary)
        names = ("alpha", "beta", "unk_score_offset", "score_boundary")
        for name, value in zip(names, given, strict=True):
            if value is not None:
                setattr(self, name, value)

    def get_start_state(self) -> State:
        """Return the state at the beginning of a text."""
        begin = self._scorer.begin()
        return begin if self.score_boundary else bytes(len(begin))  # of the id 0, PAD_ID

    def score_partial_token(self, partial_token: str) -> float:
        """Return 0 for the beginning of a word of the vocabulary, else the offset, which grows with
        the length.
        """
        tokens = self._scorer.tokenizer.split(partial_token)
        index = self.language_model.codec.word_index
        if not tokens or not isinstance(index, WordIndex) or index.find(tokens[-1]):
            return 0.0
        return self.unk_score_offset * max(1, len(partial_token) / _LONG)

    def score(
        self, prev_state: State, word: str, is_last_word: bool = False
    ) -> tuple[float, State]:
        """Return the score of a word and the state after it.

        An empty word, at the end of a text, has only the end.
        """
        log_prob, state = self._scorer.score(prev_state, word)
        bonus = 0.0
        if word:
            bonus = self.beta
            if word not in self._scorer:
                log_prob += self.unk_score_offset * _LN10
        if is_last_word and self.score_boundary:
            log_prob += self._scorer.end(state)
        return self.alpha * log_prob + bonus, state
