"""Normalisation of tokens: lower case, one symbol for numbers, English lemmas."""

import functools
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_nplm.io.extras import import_extra

STEPS = ("lower", "numbers", "lemmas")  # in the order of their application
NUMBER = "_number_"  # every tokenizer keeps it as one token
# of each step its sentence for the model card
DESCRIPTIONS = {
    "lower": "Upper case is converted to lower case.",
    "numbers": f"A token with digits and no letter is replaced by `{NUMBER}`.",
    "lemmas": "Inflected forms are replaced by their lemmas, see `forms.tsv`.",
}
_CACHED = 1 << 20  # normalised tokens that a process caches: about 150 MB


def lower(text: str) -> str:
    """Lower-case a text character by character, as graphs can do it.

    `str.lower` differs for a last Σ and for İ.
    """
    if text.isascii():
        return text.lower()
    return "".join(character.lower()[0] for character in text)


def lower_text(text: str) -> str:
    """Lower-case a text in NFC; the result is in NFC: J̌ has one character in lower case alone."""
    return unicodedata.normalize("NFC", lower(text))


def upper(text: str) -> str:
    """Upper-case a text character by character; one without a single capital, such as ß, stays."""
    capitals = map(str.upper, text)
    return "".join(
        capital if len(capital) == 1 else character
        for character, capital in zip(text, capitals, strict=True)
    )


def is_upper(text: str) -> bool:
    """Return whether a text has two or more capitals and no other letters that have capitals."""
    return upper(text) == text and sum(lower(character) != character for character in text) > 1


def is_number(token: str) -> bool:
    """Return whether a token has a character of numeric value and no letter.

    `3rd`, `1960s` and `B-52` are words.
    """
    return any(map(str.isnumeric, token)) and not any(map(str.isalpha, token))


def build_normalizer(
    steps: Sequence[str],
    forms: Mapping[str, str] | None = None,
) -> Callable[[str], str]:
    """Return a function that applies all steps to a token. Results are cached."""
    words_of_forms = forms or {}

    @functools.lru_cache(_CACHED)
    def normalise(token: str) -> str:
        if "lower" in steps:
            token = lower_text(token)
        if "numbers" in steps and is_number(token):
            token = NUMBER
        if "lemmas" in steps:
            token = words_of_forms.get(token, token)
        return token

    return normalise


def load_english_lemmas() -> Mapping[str, str]:
    """Load the English dictionary of simplemma: forms with lemmas.

    Reference: Barbaresi, https://github.com/adbar/simplemma.
    """
    user = "The normalisation lemmas"
    dictionaries = import_extra("simplemma.strategies.dictionaries", user)
    return dict(dictionaries.DefaultDictionaryFactory().get_dictionary("en"))


@functools.cache
def load_forms(kind: Callable[[tuple[str, ...]], Any], steps: tuple[str, ...]) -> dict[str, str]:
    """Load all English forms of a kind of tokens, each with its word; see `build_form_table`.

    `steps` are the normalisation steps before `lemmas`.
    """
    return build_form_table(load_english_lemmas(), kind(steps).split)


def build_form_table(
    dictionary: Mapping[str, str],
    tokens: Callable[[str], list[str]],
) -> dict[str, str]:
    """Build the table from the forms in tokenised text to the words that replace them.

    Examples: meetings -> meet, Went -> Go. A chain of lemmas is followed to its end, so that
    lemmatising twice equals lemmatising once. A form or a lemma that is not exactly one of
    `tokens`, the tokenizer with the steps before lemmas, is skipped.
    """
    pairs = []
    for form, lemma in dictionary.items():
        found = tokens(form)
        words = tokens(lemma)
        if len(found) == len(words) == 1:
            pairs.append((form, found[0], words[0]))
    lemmas = {token: lemma for form, token, lemma in pairs if form == token}
    for _, token, lemma in pairs:
        lemmas.setdefault(token, lemma)
    case_matters = tokens("A") == ["A"]
    if case_matters:
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
