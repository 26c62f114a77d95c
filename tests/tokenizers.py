"""Every registered tokenizer, and vocabularies and models of it: a new one needs no line."""

import io
from collections.abc import Sequence

import sentencepiece

from keras_nplm import LanguageModel, Subwords, Tokenizer, Vocabulary, kneser_ney
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.tokenizers.registry import TOKENIZERS, get_tokenizer

KINDS = [*TOKENIZERS]
PARTS_OF_WORDS = [kind for kind in KINDS if not TOKENIZERS[kind].tokens_are_words]


class CommaTokenizer(Tokenizer):
    """A tokenizer of one's own, fields between commas, with what training needs alone."""

    kind = "commas"
    unit = "words"
    tokens_are_words = True

    def split(self, line):
        return self.normalise([*filter(None, "".join(line.split()).split(","))])

    def describe(self):
        return "Tokens are fields between commas."


def build_vocabulary(
    tokenizer: str,
    lines: Sequence[str],
    pieces: int = 300,
    **options,
) -> Vocabulary:
    """Count the tokens of lines, or train subwords on them."""
    if get_tokenizer(tokenizer).is_trained:
        return Vocabulary.from_subwords(Subwords.train(lines, pieces))
    return Vocabulary.build(lines, tokenizer=tokenizer, **options)


def train_with_the_library(lines: Sequence[str], **options: object) -> bytes:
    """Train subwords with sentencepiece alone."""
    model = io.BytesIO()
    defaults = dict(vocab_size=320, hard_vocab_limit=False, byte_fallback=True, minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, **defaults | options
    )
    return model.getvalue()


def build_model(
    tokenizer: str,
    lines: Sequence[str],
    order: int = 3,
    boundary: str = "sentence",
    vocabulary: Vocabulary | None = None,
) -> LanguageModel:
    """Estimate a Kneser-Ney model of the tokens of lines."""
    vocabulary = vocabulary or build_vocabulary(tokenizer, lines)
    ids = encode_lines(lines, vocabulary, tokenizer, boundary)
    model = kneser_ney(ids, len(vocabulary), order, boundary)
    return LanguageModel(model, vocabulary, tokenizer, boundary)
