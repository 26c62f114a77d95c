"""`Corpus`: a name, a tokenizer and the splits of a text as sentences of tokens."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from keras_nplm.data.fixed_vocabulary import FixedVocabulary
from keras_nplm.data.subwords import SubwordOptions
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer

SPLITS = ("train", "validation", "test")
HELD_OUT = ("validation", "test")  # what a model is evaluated on
FRACTIONS = (0.8, 0.1, 0.1)  # shares of the lines for the splits, if only --train is given


@dataclasses.dataclass(frozen=True, repr=False)
class Corpus:
    """A corpus: its name, its tokenizer and its splits. Each sentence is a list of tokens.

    Args:
        name: the name that `config.json` records.
        tokenizer: the tokenizer for more text of this kind, kept by its name; see `get_tokenizer`.
        splits: for each of "train", "validation" and "test" a function that returns an iterator
            over its sentences, which are lines of text with the tokenizer `sentencepiece`.
        subwords: for the tokenizer `sentencepiece`: how the subwords are made.
        vocabulary: the words that count. Default: they are counted in the text.

    Example:

    >>> sentences = [["the", "cat"], ["a", "dog"]]
    >>> corpus = Corpus("two", "whitespace", {"train": lambda: iter(sentences)})
    >>> corpus
    Corpus('two', tokenizer='whitespace', splits=['train'])
    """

    name: str
    tokenizer: str
    # a sentence is a list of tokens, or a line
    splits: Mapping[str, Callable[[], Iterator[Sequence[str]]]]
    subwords: SubwordOptions = dataclasses.field(default_factory=SubwordOptions)
    vocabulary: FixedVocabulary | None = None

    def __post_init__(self) -> None:
        if isinstance(self.tokenizer, Tokenizer):
            object.__setattr__(self, "tokenizer", self.tokenizer.name)

    def __repr__(self) -> str:
        return f"Corpus({self.name!r}, tokenizer={self.tokenizer!r}, splits={[*self.splits]})"

    def sentences(self, split: str) -> Iterator[Sequence[str]]:
        """Iterate over the tokenised sentences of a split, from the first; see `splits`."""
        return self.splits[split]()

    @property
    def fixed_options(self) -> dict[str, Any]:
        """Options of the vocabulary that cannot be chosen any more, because the text is encoded
        already.
        """
        return {}

    def describe(self) -> dict:
        """Return what `config.json` records: the corpus, the tokenizer and, if used, the options of
        the subwords or the file of the vocabulary.
        """
        subwords = self.subwords.describe() if get_tokenizer(self.tokenizer).is_trained else {}
        words = {} if self.vocabulary is None else self.vocabulary.describe()
        return {"corpus": self.name, "tokenizer": self.tokenizer, **subwords, **words}
