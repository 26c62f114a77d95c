"""Errors of a command line as one sentence, with a close name: "Did you mean"."""

import itertools
import shlex
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
from keras_nplm.cli.parameters import SEVERAL, suggest
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
            return _explain_unknown(error.token.keyword or error.token.value, text, error)
        case MissingArgumentError() if flag := _find_unknown_flag(error):
            return _explain_unknown(flag, text, error)
        case UnusedCliTokensError():
            (word, *_) = error.unused_tokens or [""]
            return f"Unexpected argument {shorten_value(word)}.{hint} {fix}"
        case ConsumeMultipleError(argument=Argument() as argument):
            if error.actual_count < error.min_required:
                fix = _fix_value(error) or fix
            else:
                fix = f"Fix: put other words before {error.keyword}."
            return f"{_count_values(error, argument)} {fix}"
        case MissingArgumentError(argument=Argument() as argument):
            if error.keyword is None:
                name = name_argument(argument)
                (word, *_) = error.unused_tokens or [""]
                is_text = word and (not word.startswith("-") or word in _FLAGS_OF_TEXT)
                if argument.index is not None and (flag := _find_flag_of_several(error)):
                    values = "whose values are all words up to the next flag"
                    fix = f"Fix: put {name} before {flag}, {values}."
                return f"`{name}` is required.{hint if is_text and name != text else ''} {fix}"
            fix = _fix_value(error) or fix
            return f"`{error.keyword}` must be followed by {_describe_number(argument)}. {fix}"
        case CoercionError(argument=Argument() as argument):
            return f"{_describe_refusal(error, argument)} {fix}"
    return f"{' '.join(str(error).split())} {fix}"


def _explain_unknown(word: str, text: str, error: CycloptsError) -> str:
    """Return the message of an unknown option. A flag named `text` is followed by a text."""
    if _has_space(word):
        return f"Unknown option {word}. Fix: write -- before words that start with a hyphen."
    command = " ".join([NAME, *(error.command_chain or ())])
    fix = f"Fix: see `{command} --help-all`."
    if text and word.partition("=")[0] in _FLAGS_OF_TEXT:
        return f"Unknown option {word}. A text follows {text}. {fix}"
    return f"Unknown option {word}.{suggest(word, [*_list_flags(error), *COMMON_FLAGS])} {fix}"


def _find_unknown_flag(error: CycloptsError) -> str:
    """Return the first flag that the command does not have, or an empty string.

    cyclopts looks for missing arguments first: a mistyped flag is the likely cause.
    """
    known = _list_flags(error)
    words = [word.partition("=")[0] for word in error.root_input_tokens or []]
    flags = itertools.takewhile(lambda word: word != "--", words)
    return next((word for word in flags if word.startswith("--") and word not in known), "")


def _list_flags(error: CycloptsError) -> list[str]:
    """Return the flags of the command of an error."""
    arguments = error.app.assemble_argument_collection() if error.app else ()
    return [name for one in arguments for name in one.names if name.startswith("--")]


def name_argument(argument: Argument) -> str:
    """Return the flag of an argument, or the name of a positional one."""
    return argument.name if argument.name.startswith("-") else argument.name.lstrip("*").upper()


def _has_space(word: str) -> bool:
    """Return whether a word is no name of a flag, as it has white space before a value."""
    return len(word.partition("=")[0].split()) > 1


def _fix_value(error: ConsumeMultipleError | MissingArgumentError) -> str:
    """Return the remedy if the word after a flag is a value that starts with a hyphen."""
    words = error.root_input_tokens or []
    after = words[words.index(error.keyword) + 1 :] if error.keyword in words else []
    (word, *_) = after or [""]
    if not word.startswith("-") or (word.startswith("--") and not _has_space(word)):
        return ""
    return f"Fix: write an equals sign before the hyphen: {error.keyword}={shlex.quote(word)}."


def _find_flag_of_several(error: CycloptsError) -> str:
    """Return the last flag of the line that takes several words; an empty string without one."""
    flags: list[str] = []
    for argument in error.app.assemble_argument_collection() if error.app else ():
        if argument.parameter.consume_multiple == SEVERAL.consume_multiple:
            flags += argument.names
    words = error.root_input_tokens or []
    return next((word for word in reversed(words) if word in flags), "")


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
