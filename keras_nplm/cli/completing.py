"""`keras-nplm complete` and `generate`: the next words of a context, and new text."""

import functools
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from keras_nplm.cli.parameters import FETCHED, Switch, number
from keras_nplm.cli.printing import print_ranked, printed_by
from keras_nplm.io.errors import InputError, shorten_value
from keras_nplm.io.paths import is_remote
from keras_nplm.io.text import escape_controls

_STARTER = "the starter model, which was trained on the Python language reference"
PresetDirectory = Annotated[
    str | None,
    FETCHED,
    Parameter(name="DIR", help="model directory or ARPA file", show_default=_STARTER),
]


@printed_by(functools.partial(print_ranked, after=" …"))
def complete(
    *words: Annotated[str, Parameter(name="[DIR] CONTEXT", required=True)],
    prefix: Switch = False,
    top_k: Annotated[int, number(int, least=1, metavar="K")] = 5,
) -> dict:
    """Print the most probable next words of a context.

    Args:
        words: model directory or ARPA file, and contexts such as "the result of"; without a model
            the starter model, which was trained on the Python language reference
        prefix: complete the last, unfinished word of each CONTEXT, as in "the val"; prints
            P(word | words before it), which does not depend on the prefix
        top_k: number of words per context
    """
    from keras_nplm.io.remote import fetch
    from keras_nplm.language_model.completion import split_prompt
    from keras_nplm.language_model.language_model import LanguageModel

    directory, contexts = _split_directory(words)
    path = fetch(directory) if directory else _find_starter()
    model = LanguageModel.load(path, as_arrays=True)
    predict = model.complete_prefix if prefix else model.next_words
    found = {context: dict(predict(context, top_k)) for context in contexts}
    for context, words_of_context in found.items():
        if prefix and not words_of_context:
            unfinished = split_prompt(model.codec, context)[1]
            print(f"No word of the vocabulary begins with {unfinished!r}.", file=sys.stderr)
    return found


def _split_directory(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the model directory, None if it is left out, and the contexts.

    A directory behind contexts is refused: the starter model would answer.
    """
    first, *others = words
    is_directory = os.path.isdir(first) or is_remote(first)
    for word in () if is_directory else others:
        if is_remote(word) or os.path.isfile(os.path.join(word, "config.json")):
            raise InputError(
                f"The model directory must be the first argument. Received: {word}, after "
                f'{shorten_value(first)}. Fix: keras-nplm complete {word} "{first:.50}".'
            )
    if others and (is_directory or os.path.exists(first) or len(first.split()) == 1):
        return first, tuple(others)
    if is_directory:
        raise InputError(
            f"`CONTEXT` must follow the model directory {first}. Received: none. Fix: add it, as "
            'in "the cat".'
        )
    return None, words


def _find_starter() -> Path:
    from keras_nplm.language_model.presets import find_preset

    print(
        "No model directory is given: using the starter model of the Python language reference.",
        file=sys.stderr,
    )
    return find_preset("starter")


_ALL_WORDS = Parameter(show_default="all words")


@printed_by(lambda result: print(escape_controls(result["whole"])))
def generate(
    directory: PresetDirectory = None,
    /,
    *,
    prompt: Annotated[str, Parameter(metavar="TEXT")] = "",
    num_words: Annotated[int, number(int, least=1, below=1_000_001, example=50)] = 50,
    seed: Annotated[int, number(int, least=0)] = 0,
    temperature: Annotated[float, number(float, least=0, example=1.0)] = 1.0,
    top_k: Annotated[int | None, number(int, least=1, example=40, metavar="K"), _ALL_WORDS] = None,
) -> dict:
    """Generate text: sample word after word from the model.

    Args:
        prompt: text to continue; after a space at its end a new word begins
        num_words: number of words
        seed: random seed of the text
        temperature: sampling temperature; below 1 frequent words become more probable, 0 takes the
            most probable word
        top_k: most probable words to sample from
    """
    from keras_nplm.language_model.generation import join_prompt
    from keras_nplm.language_model.language_model import LanguageModel

    model = LanguageModel.load(directory or _find_starter(), as_arrays=True)
    text = model.generate(prompt, num_words, seed=seed, temperature=temperature, top_k=top_k)
    whole = join_prompt(prompt, text, model.tokenizer)
    return {"prompt": prompt, "text": text, "whole": whole}
