"""Subwords as tokens: the pieces of a SentencePiece model."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_nplm.data.tokenizers.base import Tokenizer, WordList
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.normalisation import lower_text
from keras_nplm.data.tokenizers.pieces import SPACE, join_pieces
from keras_nplm.io.errors import InputError

if TYPE_CHECKING:
    from keras_nplm.data.subwords import Subwords


class SubwordTokenizer(Tokenizer):
    """Pieces of words, trained on text; see `Subwords`. The first piece of a word has a `▁`.

    Args:
        steps: normalisation steps: `lower` or none.
        model: the SentencePiece model. Default: none, and `bind` takes that of a vocabulary.
    """

    kind = "sentencepiece"
    summary = "subwords"
    unit = "subwords"
    tokens_are_words = False
    allowed_steps = ("lower",)
    searches_words = True
    is_trained = True

    def __init__(self, steps: Sequence[str] = (), model: "Subwords | None" = None):
        super().__init__(steps)
        self._model = model

    def __reduce__(self) -> tuple:
        return type(self), (self.steps, self._model)

    @property
    def model(self) -> "Subwords":
        """The SentencePiece model."""
        if self._model is None:
            raise InputError(
                "The tokenizer `sentencepiece` needs a vocabulary with subwords. Received: words. "
                "Fix: use the vocabulary of a model that was trained with "
                "`--tokenizer sentencepiece`."
            )
        return self._model

    def describe(self) -> str:
        return (
            f"Tokens are subwords of SentencePiece, see `sentencepiece.model`. `{SPACE}` is a "
            "space: a token without it continues the word before. A character without a token is "
            "spelled in bytes, such as `<0xE2>`, so that no text is out of vocabulary. "
            "`predict_next` and `complete_prefix` return whole words, which a beam search finds."
        )

    def split(self, line: str) -> list[str]:
        return self.model.encode(lower_text(line) if self.lowers else line)

    def split_sentence(self, line: str) -> list[str]:
        line = clean_text(line)
        return [] if line.isspace() else self.split(line)

    def encode_bytes(self, line: str) -> bytes:
        """Encode a line of clean text as the bytes of its ids; see `Subwords.encode_bytes`."""
        return self.model.encode_bytes(lower_text(line) if self.lowers else line)

    def join_rest(self, tokens: Sequence[str]) -> str:
        return join_pieces(tokens)

    @property
    def blanks(self) -> str:
        return self.model.blanks

    def with_forms(self, forms: Mapping[str, str] | None) -> "Tokenizer":
        return self

    def bind(self, vocabulary: WordList) -> "SubwordTokenizer":
        bound = SubwordTokenizer(self.steps, vocabulary.subwords)
        _ = bound.model  # refuses a vocabulary of words
        return bound

    def build_graph(self, look_up: Callable[[Any], Any]) -> Any:
        from keras_nplm.data.tokenizers.subword_graph import SubwordGraph

        return SubwordGraph(self.model, self.lowers)
