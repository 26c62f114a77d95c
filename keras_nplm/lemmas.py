"""Forms -> lemmas: the English dictionary of simplemma as a table in which a word that is a lemma stays one."""

from collections.abc import Callable, Mapping

from keras_nplm.errors import InputError


def english() -> Mapping[str, str]:
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


def table_of_forms(dictionary: Mapping[str, str], tokens: Callable[[str], list[str]]) -> dict[str, str]:
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
    >>> table_of_forms(dictionary, str.split)
    {'meetings': 'meet', 'meeting': 'meet', 'went': 'go', 'polish': 'Pole',
     'Meetings': 'Meet', 'Meeting': 'Meet', 'Went': 'Go'}
    >>> table_of_forms(dictionary, lambda text: text.lower().split())["polish"]
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
