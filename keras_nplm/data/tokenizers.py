"""Tokenizers (words, whitespace, characters, subwords) and normalisation: lower case, numbers, lemmas."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_nplm.data.arguments import check_lines
from keras_nplm.io.errors import InputError, import_extra
from keras_nplm.io.text import split_fields

STEPS = ("lower", "numbers", "lemmas")  # normalisation steps in the order of their application
NUMBER = "_number_"  # every tokenizer keeps it as one token
_CACHED = 1 << 20  # normalised tokens that a process caches: about 150 MB


def lower(text: str) -> str:
    """Lower-case a text character by character, as graphs can do it: `str.lower` differs for a last Σ and for İ."""
    return text.lower() if text.isascii() else "".join(character.lower()[0] for character in text)


def is_number(token: str) -> bool:
    """Return whether a token has a character of numeric value and no letter: `3rd`, `1960s` and `B-52` are words."""
    return any(map(str.isnumeric, token)) and not any(map(str.isalpha, token))


def build_normalizer(steps: Sequence[str], forms: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """Return a function that applies all steps to a token. Results are cached."""
    functions: dict[str, Callable[[str], str]] = {
        "lower": lower,
        "numbers": lambda token: NUMBER if is_number(token) else token,
        "lemmas": lambda token: (forms or {}).get(token, token),
    }

    @functools.lru_cache(_CACHED)
    def normalise(token: str) -> str:
        return functools.reduce(lambda word, step: functions[step](word), steps, token)

    return normalise


def load_english_lemmas() -> Mapping[str, str]:
    """Load the English dictionary of simplemma (Barbaresi, https://github.com/adbar/simplemma): forms with lemmas."""
    dictionaries = import_extra("simplemma.strategies.dictionaries", "lemmas", "The normalisation lemmas")
    return dict(dictionaries.DefaultDictionaryFactory().get_dictionary("en"))


def build_form_table(dictionary: Mapping[str, str], tokens: Callable[[str], list[str]]) -> dict[str, str]:
    """Build the table from the forms in tokenised text to the words that replace them: meetings -> meet, Went -> Go.

    A chain of lemmas is followed to its end, so that lemmatising twice equals lemmatising once. A form or a lemma that
    is not exactly one of `tokens`, the tokenizer with the steps before lemmas, is skipped.
    """
    pairs = [(form, tokens(form), tokens(lemma)) for form, lemma in dictionary.items()]
    pairs = [(form, *found, *lemma) for form, found, lemma in pairs if len(found) == len(lemma) == 1]
    lemmas = {token: lemma for form, token, lemma in pairs if form == token}
    for _, token, lemma in pairs:
        lemmas.setdefault(token, lemma)
    if tokens("A") == ["A"]:  # case matters
        for _, token, lemma in pairs:
            lemmas.setdefault(_capitalise(token), _capitalise(lemma))
    table = {form: _follow_lemmas(form, lemmas) for form in lemmas}
    return {form: word for form, word in table.items() if form != word}


def _capitalise(word: str) -> str:
    first = word[0].upper()
    return first + word[1:] if len(first) == 1 else word


def _follow_lemmas(word: str, lemmas: Mapping[str, str]) -> str:
    """Follow a chain of lemmas to its last word."""
    chain = [word]
    while (lemma := lemmas.get(chain[-1], chain[-1])) not in chain:
        chain.append(lemma)
    return min(chain[chain.index(lemma) :])


CHARACTERS = "characters"  # the tokenizer whose tokens are characters
SPACE = "▁"  # the token for white space between characters
_WORDS = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def split_words(line: str) -> list[str]:
    """Split a line into punctuation marks and words: runs of `\\w`, with single `'`, `’` or `-` between them."""
    return _WORDS.findall(line)


def split_characters(line: str) -> list[str]:
    """Split a line into its characters. White space between words becomes one `▁`."""
    return list(SPACE.join(line.split()))


def split_beginning(text: str, tokenizer_name: str, tokenize: Callable[[str], list[str]]) -> list[str]:
    """Split the beginning of a line into tokens, such as a prompt: white space at its end counts.

    At the end of a line white space is no token. Here the next word follows, so between characters it is a `▁`.
    White space at the beginning of a line is no token.

    >>> split_beginning("of ", "characters", split_characters), split_beginning("of ", "words", split_words)
    (['o', 'f', '▁'], ['of'])
    """
    tokens = tokenize(text)
    is_characters = parse_tokenizer(tokenizer_name)[0] == CHARACTERS
    return [*tokens, SPACE] if is_characters and tokens and ends_with_space(text, tokenizer_name) else tokens


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "words": split_words,
    "whitespace": split_fields,
    CHARACTERS: split_characters,
}
WORD_TOKENIZERS = tuple(name for name in TOKENIZERS if name != CHARACTERS)
SUBWORDS = "sentencepiece"  # the tokenizer whose tokens are pieces of words
_BASES = (*TOKENIZERS, SUBWORDS)


def join_tokens(tokens: Sequence[str], name: str) -> str:
    """Join the tokens of the tokenizer `name` to a line of text."""
    if uses_subwords(name):
        return continue_line(tokens).removeprefix(" ")
    line = get_separator(name).join(tokens)
    return line if get_separator(name) else line.replace(SPACE, " ")


def ends_with_space(text: str, name: str) -> bool:
    """Return whether a text ends with white space of the tokenizer `name`; a no-break space is a word of some."""
    split = split_fields if parse_tokenizer(name)[0] == "whitespace" else str.split
    return bool(text) and not split(text[-1])


def get_separator(name: str) -> str:
    """Return the separator between tokens in a line: a space, or an empty string between characters or subwords."""
    return "" if parse_tokenizer(name)[0] in (CHARACTERS, SUBWORDS) else " "


def get_tokenizer(
    name: str, forms: Mapping[str, str] | None = None, subwords: Any = None, *, apart: bool = False
) -> Callable[[str], list[str]]:
    """Return the tokenizer with a name, as in `"words+lower+numbers"`: a function from a line to its normalised tokens.

    `"words"` is for running text (see `split_words`), `"whitespace"` for text whose tokens are separated by spaces.
    With `apart` both split at spaces. `forms` are for the step `lemmas`, by default those of `load_forms`.
    """
    base, steps = parse_tokenizer(name)
    if base == SUBWORDS:
        if subwords is None:
            raise InputError(
                "The tokenizer `sentencepiece` needs a vocabulary with subwords. Received: words. Fix: use the "
                "vocabulary of a model that was trained with `--tokenizer sentencepiece`."
            )
        return (lambda line: subwords.encode(lower(line))) if steps else subwords.encode
    split = split_fields if apart and base != CHARACTERS else TOKENIZERS[base]
    if not steps:
        return split
    normalise = build_normalizer(steps, load_forms(name) if "lemmas" in steps and forms is None else forms)
    return lambda line: [*map(normalise, split(line))]


def parse_tokenizer(name: str) -> tuple[str, tuple[str, ...]]:
    """Split the name of a tokenizer, such as `"words+lower"`, into its base and its normalisation steps."""
    base, *steps = name.split("+")
    if base not in _BASES or steps != [step for step in STEPS if step in steps]:
        raise InputError(
            f"`tokenizer` must be one of {', '.join(_BASES)}. Received: {name!r}. The steps +{', +'.join(STEPS)} may "
            "follow, in this order."
        )
    if base in (CHARACTERS, SUBWORDS) and {*steps} - {"lower"}:
        raise InputError(f"The tokenizer `{base}` must have no step but +lower. Received: {name!r}.")
    return base, tuple(steps)


def add_steps(name: str, steps: Sequence[str]) -> str:
    """Add normalisation steps to the name of a tokenizer."""
    base, taken = parse_tokenizer(name)
    steps = [*taken, *check_lines(steps, "normalise")]
    if unknown := [step for step in steps if step not in STEPS]:
        raise InputError(f"`normalise` must be some of {', '.join(STEPS)}. Received: {unknown[0]!r}.")
    return "+".join([base, *(step for step in STEPS if step in steps)])


def uses_lemmas(name: str) -> bool:
    """Return whether a tokenizer replaces words by lemmas. Its vocabulary then has forms."""
    return "lemmas" in parse_tokenizer(name)[1]


def uses_subwords(name: str) -> bool:
    """Return whether the tokens of a tokenizer are subwords. Its vocabulary then has a SentencePiece model."""
    return parse_tokenizer(name)[0] == SUBWORDS


_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_WHITE_SPACE = re.compile(r"<U\+([0-9A-F]{4,6})>")


def name_piece(piece: str) -> str:
    """Return the name of a subword in a vocabulary: white space, and `<` before `U+`, are written as in `<U+00A0>`."""
    return re.sub(r"\s|<(?=U\+)", lambda found: f"<U+{ord(found[0]):04X}>", piece)


def continue_line(pieces: Sequence[str]) -> str:
    """Join the names of subwords to text. `▁` becomes a space; bytes become characters, or U+FFFD if they are none."""
    return b"".join(map(spell_piece, pieces)).decode("utf-8", "replace")


@functools.lru_cache(maxsize=1 << 16)
def spell_piece(name: str) -> bytes:
    """Return the UTF-8 bytes of the text of a subword; a byte of a character is itself."""
    if byte := _BYTE.fullmatch(name):
        return bytes([int(byte[1], 16)])
    text = name.replace(SPACE, " ")
    return (_WHITE_SPACE.sub(lambda code: chr(int(code[1], 16)), text) if "<" in text else text).encode("utf-8")


@functools.cache
def load_forms(name: str) -> dict[str, str]:
    """Load all English forms for a tokenizer with lemmas, each with its word; see `build_form_table`."""
    return build_form_table(load_english_lemmas(), get_tokenizer(name.removesuffix("+lemmas")))
