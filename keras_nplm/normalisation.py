"""What is done to tokens before the vocabulary counts them: lower case, one symbol for numbers, lemmas for forms."""

from collections.abc import Callable, Mapping, Sequence

from keras_nplm.errors import InputError

STEPS = ("lower", "numbers", "lemmas")  # in the order in which they are taken
NUMBER = "_number_"  # which every tokenizer leaves whole
_HELD = 1 << 20  # tokens whose words a process remembers: about 150 MB


def lower(text: str) -> str:
    """The text in lower case, each character by itself, whatever stands beside it.

    `str.lower` knows contexts (a Σ at the end of a word) and one letter that becomes two characters (İ): neither is
    anything that a graph could do alike.

    Example:

    >>> lower("Straße ΟΔΟΣ İzmir")
    'straße οδοσ izmir'
    """
    return text.lower() if text.isascii() else "".join(character.lower()[0] for character in text)


def is_number(token: str) -> bool:
    """Whether a token is a numeric form: it has a character of numeric value, and no letter.

    Signs, currencies, points and strokes may stand in it; a letter makes it a word, as in `3rd`, `1960s` and `B-52`.

    Example:

    >>> [token for token in "7 1,234.5 $12 50% 1960-61 ½ 3rd 1960s B-52 - $".split() if is_number(token)]
    ['7', '1,234.5', '$12', '50%', '1960-61', '½']
    """
    return any(map(str.isnumeric, token)) and not any(map(str.isalpha, token))


def check_steps(steps: Sequence[str]) -> tuple[str, ...]:
    """The steps, each once, in the order in which they are taken.

    Raises:
        InputError: there is no such step.

    Example:

    >>> check_steps(["numbers", "lower"])
    ('lower', 'numbers')
    """
    if unknown := [step for step in steps if step not in STEPS]:
        raise InputError(f"`normalise` takes {', '.join(STEPS)}. Received: {unknown[0]!r}.")
    return tuple(step for step in STEPS if step in steps)


class Words(dict):
    """Tokens -> words: `words[token]` is the token after some steps; tokens repeat, so each is worked out once.

    Args:
        steps: of `STEPS`.
        forms: for the step `lemmas`, the forms of words; any other token is left as it is.

    Example:

    >>> words = Words(["lower", "numbers", "lemmas"], {"cats": "cat"})
    >>> [words[token] for token in ["Cats", "cats", "Cat", "9", "<unk>"]]
    ['cat', 'cat', 'cat', '_number_', '<unk>']
    """

    def __init__(self, steps: Sequence[str], forms: Mapping[str, str] | None = None):
        super().__init__()
        functions: dict[str, Callable[[str], str]] = {
            "lower": lower,
            "numbers": lambda token: NUMBER if is_number(token) else token,
            "lemmas": lambda token: (forms or {}).get(token, token),
        }
        self._functions = [functions[step] for step in check_steps(steps)]

    def __missing__(self, token: str) -> str:
        word = token
        for function in self._functions:
            word = function(word)
        if len(self) >= _HELD:
            self.clear()
        self[token] = word
        return word
