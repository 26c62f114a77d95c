"""Lines of text -> tokens: the words and punctuation marks that a vocabulary counts."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence

from keras_nplm.io.errors import InputError

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


class Normalizer(dict):
    """Tokens -> words: `words[token]` is the token after some steps; tokens repeat, so each is worked out once.

    Args:
        steps: of `STEPS`.
        forms: for the step `lemmas`, the forms of words; any other token is left as it is.

    Example:

    >>> words = Normalizer(["lower", "numbers", "lemmas"], {"cats": "cat"})
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


def load_english_lemmas() -> Mapping[str, str]:
    """The forms that simplemma's dictionary of English has, each with its lemma.

    Raises:
        InputError: simplemma is not installed.

    Reference: Barbaresi, Simplemma (https://github.com/adbar/simplemma); its dictionaries come with it.
    """
    try:
        from simplemma.strategies.dictionaries import DefaultDictionaryFactory
    except ImportError as error:
        raise InputError("Lemmas need the package simplemma: `pip install 'keras-nplm[lemmas]'`.") from error
    return dict(DefaultDictionaryFactory().get_dictionary("en"))


def build_form_table(dictionary: Mapping[str, str], tokens: Callable[[str], list[str]]) -> dict[str, str]:
    """The forms of a dictionary as they stand in tokenised text, each with the word that stands for it.

    Args:
        dictionary: forms with their lemmas.
        tokens: what splits a text and takes the steps before lemmas. A form or a lemma that is not one token is left
            out.

    Returns:
        for each form that is not its own lemma the word at the end of the chain, as in meetings -> meeting -> meet (the
        first in the order of characters, where it is a circle): so taking lemmas twice is taking them once. Where case
        counts, a form at the beginning of a sentence has a lemma of its own: Went -> Go.

    Example:

    >>> dictionary = {"meetings": "meeting", "meeting": "meet", "went": "go", "Polish": "Polish", "polish": "Pole"}
    >>> build_form_table(dictionary, str.split)
    {'meetings': 'meet', 'meeting': 'meet', 'went': 'go', 'polish': 'Pole',
     'Meetings': 'Meet', 'Meeting': 'Meet', 'Went': 'Go'}
    >>> build_form_table(dictionary, lambda text: text.lower().split())["polish"]
    'pole'
    """
    pairs = [(form, tokens(form), tokens(lemma)) for form, lemma in dictionary.items()]
    pairs = [(form, *found, *lemma) for form, found, lemma in pairs if len(found) == len(lemma) == 1]
    lemmas = {token: lemma for form, token, lemma in pairs if form == token}
    for _, token, lemma in pairs:
        lemmas.setdefault(token, lemma)
    if tokens("A") == ["A"]:  # case counts
        for _, token, lemma in pairs:
            lemmas.setdefault(_capitalised(token), _capitalised(lemma))
    table = {form: _last(form, lemmas) for form in lemmas}
    return {form: word for form, word in table.items() if form != word}


def _capitalised(word: str) -> str:
    first = word[0].upper()
    return first + word[1:] if len(first) == 1 else word


def _last(word: str, lemmas: Mapping[str, str]) -> str:
    """The word that a chain of lemmas ends with."""
    chain = [word]
    while (lemma := lemmas.get(chain[-1], chain[-1])) not in chain:
        chain.append(lemma)
    return min(chain[chain.index(lemma) :])


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


def join_tokens(tokens: Sequence[str], name: str) -> str:
    """The line that tokens make up, as a tokenizer of that name has them.

    Example:

    >>> join_tokens(["an", "apple"], "words"), join_tokens(split_characters("an apple"), "characters")
    ('an apple', 'an apple')
    """
    line = get_separator(name).join(tokens)
    return line if get_separator(name) else line.replace(SPACE, " ")


def get_separator(name: str) -> str:
    """What stands between tokens in a line: a space, or nothing between characters."""
    return "" if parse_tokenizer(name)[0] == CHARACTERS else " "


def get_tokenizer(
    name: str, forms: Mapping[str, str] | None = None, *, apart: bool = False
) -> Callable[[str], list[str]]:
    """The function that splits a line, and normalises what it has split, by its name.

    Args:
        name: `"words"` for running text (`split_words`), `"whitespace"` for text whose tokens are already apart, or
            `"characters"`, followed by the steps of `keras_nplm.data.tokenizers.STEPS` that are taken, as in
            `"words+lower+numbers"`.
        forms: of the step `lemmas`: the forms of the words of a vocabulary. Default: `load_forms`.
        apart: the words of this text are already apart, whatever the name says.

    Raises:
        InputError: there is no tokenizer of that name, or simplemma, which its lemmas need, is not installed.

    Example:

    >>> get_tokenizer("whitespace")("the jury said .")
    ['the', 'jury', 'said', '.']
    >>> get_tokenizer("words+lower+numbers")("The jury of 12 said:")
    ['the', 'jury', 'of', '_number_', 'said', ':']
    """
    base, steps = parse_tokenizer(name)
    split = str.split if apart and base != CHARACTERS else TOKENIZERS[base]
    if not steps:
        return split
    words = Normalizer(steps, load_forms(name) if "lemmas" in steps and forms is None else forms)
    return lambda line: [*map(words.__getitem__, split(line))]


def parse_tokenizer(name: str) -> tuple[str, tuple[str, ...]]:
    """What splits, and the steps after it.

    Raises:
        InputError: there is no tokenizer of that name.

    Example:

    >>> parse_tokenizer("words+lower")
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


def add_steps(name: str, steps: Sequence[str]) -> str:
    """The name of a tokenizer that takes more steps.

    Raises:
        InputError: there is no such tokenizer or step.

    Example:

    >>> add_steps("words+numbers", ["lower"])
    'words+lower+numbers'
    """
    base, taken = parse_tokenizer(name)
    return "+".join([base, *check_steps([*taken, *steps])])


def uses_lemmas(name: str) -> bool:
    """Whether the last step of a tokenizer is lemmas, so that its vocabulary has forms."""
    return "lemmas" in parse_tokenizer(name)[1]


@functools.cache
def load_forms(name: str) -> dict[str, str]:
    """All forms that are known for a tokenizer that takes lemmas, each with its word; see `build_form_table`.

    Raises:
        InputError: simplemma is not installed.
    """
    return build_form_table(load_english_lemmas(), get_tokenizer(name.removesuffix("+lemmas")))
