"""Lines of text -> tokens: the words and punctuation marks that a vocabulary counts."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence

from keras_nplm.errors import InputError
from keras_nplm.lemmas import english, table_of_forms
from keras_nplm.normalisation import STEPS, Words, check_steps

CHARACTERS = "characters"  # the tokenizer whose tokens are no words
SPACE = "▁"  # what stands for white space where characters are tokens
_WORDS = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def split_words(line: str) -> list[str]:
    """Split a line into words and punctuation marks; case, apostrophes and hyphens within a word are kept.

    A word is a run of letters, digits and underscores, with single `'`, `’` or `-` between such runs; any other
    character that is not white space is a token of its own. Tokens joined by spaces split into the same tokens again.

    Example:

    >>> split_words('The cat\\'s well-fed, "isn\\'t" it?')
    ['The', "cat's", 'well-fed', ',', '"', "isn't", '"', 'it', '?']
    """
    return _WORDS.findall(line)


def split_characters(line: str) -> list[str]:
    """Split a line into its characters, white space between words being one `▁`.

    Example:

    >>> split_characters(" an  apple ")
    ['a', 'n', '▁', 'a', 'p', 'p', 'l', 'e']
    """
    return list(SPACE.join(line.split()))


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "words": split_words,
    "whitespace": str.split,
    CHARACTERS: split_characters,
}
WORD_TOKENIZERS = tuple(name for name in TOKENIZERS if name != CHARACTERS)


def joined(tokens: Sequence[str], name: str) -> str:
    """The line that tokens make up, as a tokenizer of that name has them.

    Example:

    >>> joined(["an", "apple"], "words"), joined(split_characters("an apple"), "characters")
    ('an apple', 'an apple')
    """
    line = between_tokens(name).join(tokens)
    return line if between_tokens(name) else line.replace(SPACE, " ")


def between_tokens(name: str) -> str:
    """What stands between tokens in a line: a space, or nothing between characters."""
    return "" if name_parts(name)[0] == CHARACTERS else " "


def tokenizer(name: str, forms: Mapping[str, str] | None = None, *, apart: bool = False) -> Callable[[str], list[str]]:
    """The function that splits a line, and normalises what it has split, by its name.

    Args:
        name: `"words"` for running text (`split_words`), `"whitespace"` for text whose tokens are already apart, or
            `"characters"`, followed by the steps of `keras_nplm.normalisation.STEPS` that are taken, as in
            `"words+lower+numbers"`.
        forms: of the step `lemmas`: the forms of the words of a vocabulary. Default: `lemma_forms`.
        apart: the words of this text are already apart, whatever the name says.

    Raises:
        InputError: there is no tokenizer of that name, or simplemma, which its lemmas need, is not installed.

    Example:

    >>> tokenizer("whitespace")("the jury said .")
    ['the', 'jury', 'said', '.']
    >>> tokenizer("words+lower+numbers")("The jury of 12 said:")
    ['the', 'jury', 'of', '_number_', 'said', ':']
    """
    base, steps = name_parts(name)
    split = str.split if apart and base != CHARACTERS else TOKENIZERS[base]
    if not steps:
        return split
    words = Words(steps, lemma_forms(name) if "lemmas" in steps and forms is None else forms)
    return lambda line: [*map(words.__getitem__, split(line))]


def name_parts(name: str) -> tuple[str, tuple[str, ...]]:
    """What splits, and the steps after it.

    Raises:
        InputError: there is no tokenizer of that name.

    Example:

    >>> name_parts("words+lower")
    ('words', ('lower',))
    """
    base, *steps = name.split("+")
    if base not in TOKENIZERS or steps != [step for step in STEPS if step in steps]:
        after = ", ".join(f"+{step}" for step in STEPS)
        raise InputError(
            f"`tokenizer` must be one of {', '.join(TOKENIZERS)}. Received: {name!r}. After it may stand {after}, in "
            "this order."
        )
    if base == CHARACTERS and {*steps} - {"lower"}:
        raise InputError(f"Of characters only `lower` can be had: {steps[-1]} are of words. Received: {name!r}.")
    return base, tuple(steps)


def with_steps(name: str, steps: Sequence[str]) -> str:
    """The name of a tokenizer that takes more steps.

    Raises:
        InputError: there is no such tokenizer or step.

    Example:

    >>> with_steps("words+numbers", ["lower"])
    'words+lower+numbers'
    """
    base, taken = name_parts(name)
    return "+".join([base, *check_steps([*taken, *steps])])


def takes_lemmas(name: str) -> bool:
    """Whether the last step of a tokenizer is lemmas, so that its vocabulary has forms."""
    return "lemmas" in name_parts(name)[1]


@functools.cache
def lemma_forms(name: str) -> dict[str, str]:
    """All forms that are known for a tokenizer that takes lemmas, each with its word; see `table_of_forms`.

    Raises:
        InputError: simplemma is not installed.
    """
    return table_of_forms(english(), tokenizer(name.removesuffix("+lemmas")))
