"""Errors of a command line as one sentence, with a close name: "Did you mean"."""

import difflib
from collections.abc import Iterable
from typing import Any

from cyclopts import (
    Argument,
    CoercionError,
    ConsumeMultipleError,
    CycloptsError,
    MissingArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from keras_nplm.cli.app import COMMON_FLAGS, NAME
from keras_nplm.io.errors import InputError, shorten_value

# what names the text of a command
_TEXT = {
    "train": "--train",
    "ngram": "--train",
    "prepare": "--train",
    "adapt": "--text",
    "add-words": "--text",
    "generate": "--prompt",
    "score": "MODEL",
}
_FLAGS_OF_TEXT = ("--text", "--train", "--file", "--prompt")


def explain(error: CycloptsError) -> str:
    """Return the message of an invalid command line."""
    if isinstance(error.__cause__, InputError):
        return str(error.__cause__)  # of a converter
    command = " ".join([NAME, *error.command_chain, ""]) if error.command_chain else ""
    fix = f"Fix: see `{command}--help`."
    text = _TEXT.get(error.command_chain[-1], "") if error.command_chain else ""
    hint = f" A text follows {text}." if text.startswith("--") else ""
    match error:
        case UnknownOptionError():
            word = error.token.keyword or error.token.value
            known = [name for one in error.argument_collection for name in one.names]
            names = [name for name in known if name.startswith("--")]
            fix = f"Fix: see `{command}--help-all`."
            if text and word.partition("=")[0] in _FLAGS_OF_TEXT:
                return f"Unknown option {word}. A text follows {text}. {fix}"
            return f"Unknown option {word}.{suggest(word, [*names, *COMMON_FLAGS])} {fix}"
        case UnusedCliTokensError():
            (word, *_) = error.unused_tokens or [""]
            return f"Unexpected argument {shorten_value(word)}.{hint} {fix}"
        case ConsumeMultipleError(argument=Argument() as argument):
            return f"{_count_values(error, argument)} {fix}"
        case MissingArgumentError(argument=Argument() as argument):
            if error.keyword is None:
                name = name_argument(argument)
                (word, *_) = error.unused_tokens or [""]
                is_text = word and (not word.startswith("-") or word in _FLAGS_OF_TEXT)
                return f"`{name}` is required.{hint if is_text and name != text else ''} {fix}"
            return f"`{error.keyword}` must be followed by {_describe_number(argument)}. {fix}"
        case CoercionError(argument=Argument() as argument):
            return f"{_describe_refusal(error, argument)} {fix}"
    return f"{' '.join(str(error).split())} {fix}"


def suggest(word: str, names: Iterable[str]) -> str:
    """Return a question with a close name, or an empty string if none is close."""
    close = difflib.get_close_matches(word.partition("=")[0], list(names), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def name_argument(argument: Argument) -> str:
    """Return the flag of an argument, or the name of a positional one."""
    return argument.name if argument.name.startswith("-") else argument.name.lstrip("*").upper()


def _count_values(error: ConsumeMultipleError, argument: Argument) -> str:
    name = error.keyword or name_argument(argument)
    if error.actual_count < error.min_required:
        number = f"{error.min_required} or more"
    else:
        number = f"{error.max_allowed} at most"
    return f"`{name}` must be followed by values, {number}. Received: {error.actual_count}."


def _describe_number(argument: Argument) -> str:
    number, _ = argument.token_count()
    return "a value" if number == 1 else f"{number} values"


def _describe_refusal(error: CoercionError, argument: Argument) -> str:
    token: Any = error.token
    name = token.keyword if token and token.keyword else name_argument(argument)
    received = f" Received: {shorten_value(token.value)}." if token else ""
    choices = argument.get_choices(force=True)
    wanted = "yes or no" if error.target_type is bool else "valid"
    if choices:
        wanted = f"one of {', '.join(choices)}"
    return f"`{name}` must be {wanted}.{received}"
