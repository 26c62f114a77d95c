"""The tokenizers by name: `TOKENIZERS` has each kind once."""

from collections.abc import Sequence

from keras_nplm.data.arguments import check_lines
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.characters import CharacterTokenizer
from keras_nplm.data.tokenizers.normalisation import STEPS
from keras_nplm.data.tokenizers.subwords import SubwordTokenizer
from keras_nplm.data.tokenizers.utf8_bytes import ByteTokenizer
from keras_nplm.data.tokenizers.words import WhitespaceTokenizer, WordTokenizer
from keras_nplm.io.errors import InputError, check_argument

# in the order in which `--help` and error messages list them
TOKENIZERS: dict[str, type[Tokenizer]] = {
    tokenizer.kind: tokenizer
    for tokenizer in (
        WordTokenizer,
        WhitespaceTokenizer,
        CharacterTokenizer,
        SubwordTokenizer,
        ByteTokenizer,
    )
}


def register_tokenizer(tokenizer: type[Tokenizer]) -> type[Tokenizer]:
    """Register a class of your own by its `kind`, so that a name in `config.json` finds it.

    Register it before you load a model of it, in each process.

    Raises:
        InputError: a different class has this name.
    """
    kind = tokenizer().kind
    is_new = TOKENIZERS.get(kind, tokenizer) is tokenizer
    check_argument("kind", is_new, "the name of no other tokenizer", repr(kind), "rename yours.")
    TOKENIZERS[kind] = tokenizer
    return tokenizer


def get_tokenizer(tokenizer: str | Tokenizer) -> Tokenizer:
    """Return the tokenizer with a name, a kind and its normalisation steps, as in `"words+lower"`.

    A `Tokenizer` is returned as it is.

    Raises:
        InputError: no kind has this name, or the kind has
            not these steps, or not in this order.

    >>> get_tokenizer("words+lower").split("The cat's mat.")
    ['the', "cat's", 'mat', '.']
    """
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    kind, *steps = tokenizer.split("+")
    if kind not in TOKENIZERS or steps != [step for step in STEPS if step in steps]:
        raise InputError(
            f"`tokenizer` must be one of {', '.join(TOKENIZERS)}. Received: {tokenizer!r}. "
            f"The steps +{', +'.join(STEPS)} may follow, in this order. Fix: register a class of "
            "your own with `register_tokenizer`."
        )
    return TOKENIZERS[kind](steps)


def add_steps(tokenizer: str | Tokenizer, steps: Sequence[str]) -> Tokenizer:
    """Return a tokenizer with further normalisation steps."""
    given = get_tokenizer(tokenizer)
    return given.with_steps([*given.steps, *check_lines(steps, "normalise")])


def list_word_tokenizers() -> list[str]:
    """List the kinds of tokens that are words."""
    return [kind for kind, tokenizer in TOKENIZERS.items() if tokenizer.tokens_are_words]


def list_choices() -> dict[str, str]:
    """List the values of `--tokenizer`, each with its meaning."""
    chosen = [kind for kind in TOKENIZERS.values() if kind.flag == "--tokenizer"]
    return {kind.kind: kind.summary for kind in chosen}
