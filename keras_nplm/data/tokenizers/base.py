"""`Tokenizer`: all that a language model asks of a kind of tokens."""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NoReturn, Protocol

from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.normalisation import (
    DESCRIPTIONS,
    STEPS,
    build_normalizer,
    load_forms,
)
from keras_nplm.io.errors import InputError
from keras_nplm.io.text import WHITE_SPACE

Unit = Literal["words", "characters", "subwords"]


class WordList(Protocol):
    """What a tokenizer takes from a `Vocabulary`."""

    subwords: Any

    @property
    def words(self) -> Sequence[str]: ...

    @property
    def forms(self) -> Mapping[str, str] | None: ...


def _split_clean_text(split: Callable[[Any, str], list[str]]) -> Callable[[Any, str], list[str]]:
    """Return the method `split` of a tokenizer for any text."""

    @functools.wraps(split)
    def split_text(self: Any, line: str) -> list[str]:
        return split(self, clean_text(line))

    return split_text


class Tokenizer(abc.ABC):
    """A kind of tokens with normalisation steps: lines of text to tokens and back, and its facts.

    A subclass must define the class attributes `kind`, `unit` and `tokens_are_words`, and the
    methods `split` and `describe`. Its `split` receives clean text; see `clean_text`. Its tokens
    must be neither empty nor contain white space. To be served it must define `build_split_graph`
    and `match_partial_token`. If its tokens are words, prefix completion needs `unfinished_word`,
    and served completion `match_unfinished_word`. What is not defined is refused by name when it is
    needed. `register_tokenizer` makes the kind known by its name. Large text is read by several
    processes if a subclass is in a module that they can import, and by one process if it is in
    `__main__` or in a function.

    Args:
        steps: normalisation steps, some of `allowed_steps`, in any order.
        forms: with the step `lemmas`: further forms, each with its word. Default: the dictionary's.

    Attributes:
        kind: the name in `config.json` and on the command line.
        summary: a noun for `--help`, if `kind` does not say it.
        unit: which rules choose the default options of a training run: those of words, of
            characters or of subwords.
        tokens_are_words: whether each token is a word or a punctuation mark, rather than a part.
        allowed_steps: the normalisation steps that the tokens can have.
        flag, value: the option of the command line, `kind` unless `value` is set.
        separator: what stands between tokens in a line of text.
        space: the token of the white space between words; empty if white space is no token, or
            begins the first token of a word.
        searches_words: of parts of words: whether the next words are whole words, which a search
            finds. Otherwise they are single tokens.
        alphabet: all tokens that exist, if the vocabulary always has each of them.
        is_trained: whether the tokens are learned from lines of text, and a file has them.
        splits_tokens: whether text that is tokenised already would be split further.
            Otherwise token ids have no bits per character.

    Raises:
        InputError: a step is not allowed.

    Example: a tokenizer of fields between commas

    >>> class CommaTokenizer(Tokenizer):
    ...     kind = "commas"
    ...     unit = "words"
    ...     tokens_are_words = True
    ...     allowed_steps = ("lower",)
    ...
    ...     def split(self, line):
    ...         return self.normalise("".join(line.split()).split(","))
    ...
    ...     def describe(self):
    ...         return "Tokens are fields between commas."
    >>> tokenizer = CommaTokenizer(["lower"])
    >>> tokenizer.name, tokenizer.split("One, Two")
    ('commas+lower', ['one', 'two'])
    """

    kind: ClassVar[str]
    unit: ClassVar[Unit]
    tokens_are_words: ClassVar[bool]
    allowed_steps: ClassVar[tuple[str, ...]] = ()
    summary: ClassVar[str] = ""
    flag: ClassVar[str] = "--tokenizer"
    value: ClassVar[str] = ""
    space: ClassVar[str] = ""
    searches_words: ClassVar[bool] = False
    alphabet: ClassVar[tuple[str, ...]] = ()
    is_trained: ClassVar[bool] = False
    splits_tokens: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "split" in cls.__dict__:
            setattr(cls, "split", _split_clean_text(cls.__dict__["split"]))  # noqa: B010

    def __init__(self, steps: Sequence[str] = (), forms: Mapping[str, str] | None = None):
        given = {*steps}
        if given - {*self.allowed_steps}:
            steps = ", ".join(self.allowed_steps)
            raise InputError(
                f"`normalise` must be {f'some of {steps}' if steps else 'left out'} with the "
                f"tokenizer `{self.kind}`. Received: {', '.join(sorted(given))}."
            )
        self.steps = tuple(step for step in STEPS if step in given)
        self.forms = forms

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __reduce__(self) -> tuple:
        """Return the arguments alone: the cache of normalised tokens cannot be pickled."""
        return type(self), (self.steps, self.forms)

    # names

    @property
    def name(self) -> str:
        """The kind and the steps, such as `"words+lower"`, as in `config.json`."""
        return "+".join([self.kind, *self.steps])

    @property
    def flags(self) -> list[str]:
        """The options of the command line that choose this kind, without its steps."""
        return [self.flag, self.value or self.kind]

    @abc.abstractmethod
    def describe(self) -> str:
        """Return a sentence for the model card, without the steps."""

    def describe_steps(self) -> list[str]:
        """Return a sentence for the model card on each step."""
        sentences = [DESCRIPTIONS[step] for step in self.steps]
        if "lower" not in self.steps:
            sentences.append("Tokens are case-sensitive.")
        return sentences

    # text to tokens and back

    @abc.abstractmethod
    def split(self, line: str) -> list[str]:
        """Split a line, which is clean text, into tokens, normalised by the steps."""

    def split_sentence(self, line: str) -> list[str]:
        """Split a line that is a sentence: a blank line has no tokens."""
        return self.split(line)

    def split_beginning(self, text: str) -> list[str]:
        """Split the beginning of a line, such as a prompt: white space at its end counts.

        At the end of a line white space is no token. Here the next word follows, so that it is one,
        if white space is a token. White space at the beginning of a line is no token.
        """
        tokens = self.split(text)
        if self.space and tokens and self.ends_with_space(text):
            return [*tokens, self.space]
        return tokens

    def normalise(self, tokens: list[str]) -> list[str]:
        """Apply the steps to each token."""
        return [*map(self._normalise_token, tokens)] if self.steps else tokens

    @functools.cached_property
    def _normalise_token(self) -> Callable[[str], str]:
        forms = self.load_forms() if self.uses_lemmas and self.forms is None else self.forms
        return build_normalizer(self.steps, forms)

    def join(self, tokens: Sequence[str]) -> str:
        """Join tokens to a line of text: `join_rest` without the space before the first word."""
        text = self.join_rest(tokens)
        return text.removeprefix(" ") if self.searches_words else text

    def join_rest(self, tokens: Sequence[str]) -> str:
        """Join the tokens that continue a line, with the space before a word if it is theirs.

        Override this where tokens are not joined by `separator` alone.
        """
        return self.separator.join(tokens)

    @property
    def separator(self) -> str:
        return " " if self.tokens_are_words else ""

    @property
    def blanks(self) -> str:
        """The white space at the end of a prompt after which a word begins, for parts of words."""
        return WHITE_SPACE

    def ends_with_space(self, text: str) -> bool:
        """Return whether a text ends with white space; some kinds have words of no-break spaces."""
        return clean_text(text)[-1:].isspace()

    # the vocabulary

    @property
    def has_unknown(self) -> bool:
        """Whether a text can hold tokens that are not in the vocabulary, `<unk>`."""
        return not (self.alphabet or self.is_trained)

    @property
    def uses_lemmas(self) -> bool:
        """Whether words are replaced by their lemmas. The vocabulary then has forms."""
        return "lemmas" in self.steps

    @property
    def lowers(self) -> bool:
        """Whether upper case is converted to lower case."""
        return "lower" in self.steps

    def load_forms(self) -> dict[str, str]:
        """Load all English forms of the step `lemmas`, each with its word."""
        before = tuple(step for step in self.steps if step != "lemmas")
        return load_forms(type(self), before)

    def with_steps(self, steps: Sequence[str]) -> "Tokenizer":
        """Return the tokenizer with other steps, and without the forms of a vocabulary."""
        return type(self)(steps)

    def with_forms(self, forms: Mapping[str, str] | None) -> "Tokenizer":
        """Return the tokenizer with other forms of the step `lemmas`."""
        return type(self)(self.steps, forms)

    def bind(self, vocabulary: WordList) -> "Tokenizer":
        """Return the tokenizer with the forms of words or the subwords of a vocabulary.

        Raises:
            InputError: the tokens of the vocabulary are of a different kind.
        """
        if vocabulary.subwords is not None:
            wanted = "A vocabulary of subwords needs the tokenizer `sentencepiece`."
            raise InputError(f"{wanted} Received: {self.name!r}.")
        known = {*vocabulary.words} if self.alphabet else set()
        missing = {*self.alphabet} - known
        if missing:
            raise InputError(
                f"A vocabulary for the tokenizer `{self.kind}` must have all {len(self.alphabet)} "
                f"tokens. Received: {len(missing)} fewer. Fix: build it with "
                f"`Vocabulary.build(lines, tokenizer={self.kind!r})`."
            )
        return self if vocabulary.forms is None else self.with_forms(vocabulary.forms)

    # the unfinished last word of a text, if the tokens are words

    @property
    def unfinished_word(self) -> str:
        r"""The regular expression of the unfinished word at the end of a text, up to `\Z`.

        U+FFFD stands for bytes that are not text, and is in no word.
        """
        self._refuse_undefined("unfinished_word", "completes prefixes of words")

    def match_unfinished_word(self) -> str:
        """Return the regular expression of `unfinished_word` for RE2, without `\\Z`."""
        self._refuse_undefined("match_unfinished_word", "serves completions of prefixes")

    # the served graph

    def build_graph(self, look_up: Callable[[Any], Any]) -> Any:
        """Return the tokenizer as a `tf.Module` with the methods of `TokenGraph`.

        `look_up` is a function from a tensor of tokens to their ids.
        """
        from keras_nplm.data.tokenizers.token_graph import TokenGraph

        partial_token = self.match_partial_token()
        return TokenGraph(
            self.build_split_graph(),
            look_up,
            partial_token=partial_token,
            space=self.space,
            lowers=self.lowers,
            names_numbers="numbers" in self.steps,
        )

    def build_split_graph(self) -> Callable[[Any], Any]:
        """Return `split` without steps as a function of tensors.

        Its argument is clean text in valid UTF-8, string [B], in lower case with the step `lower`.
        It returns a ragged tensor of tokens, string [B, (T)].
        """
        self._refuse_undefined("build_split_graph", "is served")

    def match_partial_token(self) -> str:
        """Return the regular expression (RE2) of the start of clean text that was cut at any byte.

        It ends where a token surely begins. A character that is cut begins with at most three
        U+FFFD, or with what composes with a character before, such as an accent; see
        `match_cut_character`. So these say nothing about where tokens begin.
        """
        self._refuse_undefined("match_partial_token", "is served")

    def _refuse_undefined(self, method: str, purpose: str) -> NoReturn:
        owner = type(self).__name__
        raise InputError(
            f"`{owner}.{method}` must be defined if the tokenizer `{self.kind}` {purpose}. "
            "Received: none. Fix: define it, see `keras_nplm.Tokenizer`."
        )
