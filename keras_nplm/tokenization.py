"""Lines of text -> tokens: the words and punctuation marks that a vocabulary counts."""

import re
from collections.abc import Callable

from keras_nplm.errors import InputError

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


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {"words": split_words, "whitespace": str.split}


def tokenizer(name: str) -> Callable[[str], list[str]]:
    """The function that splits a line, by its name.

    Args:
        name: `"words"` for running text (`split_words`), `"whitespace"` for text whose tokens are already apart.

    Raises:
        InputError: there is no tokenizer of that name.

    Example:

    >>> tokenizer("whitespace")("the jury said .")
    ['the', 'jury', 'said', '.']
    """
    if name not in TOKENIZERS:
        raise InputError(f"`tokenizer` must be one of {', '.join(TOKENIZERS)}. Received: {name!r}.")
    return TOKENIZERS[name]
