"""The command line `keras-nplm COMMAND …`: its errors and its exit status."""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any, cast

from keras_nplm import __version__
from keras_nplm.cli import signals
from keras_nplm.cli.app import (
    COMMANDS,
    COMMON_FLAGS,
    HELP_FLAGS,
    NAME,
    build_app,
    parse,
)
from keras_nplm.cli.imports import leave_out_optional_libraries
from keras_nplm.cli.parameters import suggest
from keras_nplm.cli.printing import print_error, print_json, print_result
from keras_nplm.io.errors import (
    InputError,
    RunError,
    check_argument,
    check_choice,
    shorten_value,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Exit status: 0 success, 1 runtime failure, 2 invalid input, 130 interruption.
    """
    _prepare_streams()
    signals.forget_interruption()
    words, flags = _take_common_flags(list(sys.argv[1:] if arguments is None else arguments))
    command = words[0] if words and words[0] in COMMANDS else ""
    try:
        _run(words, flags)
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader of the output has closed the pipe: end quietly, as the shell's own tools do
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, Exception) as error:
        return _report(error, command)
    return 0


def _run(words: list[str], flags: set[str]) -> None:
    """Print help or the version, or run a command and print its result."""
    _check_encoding(words)
    is_help = bool(flags & HELP_FLAGS)
    if is_help:
        from keras_nplm.cli.help import print_help  # no other call needs its formatter
    if "--version" in flags:
        print(f"{NAME} {__version__}")
    elif words[:1] == ["--completion"]:
        shell = " ".join(words[1:])
        check_choice("--completion", shell, ("bash", "zsh", "fish"))
        print(build_app().generate_completion(shell=cast(Any, shell)))
    elif is_help and not words:
        print_help()
    else:
        _check_command(words)
        if is_help:
            print_help(words[0], is_whole="--help-all" in flags)
        else:
            _run_command(words, is_json="--json" in flags)


def _run_command(words: list[str], *, is_json: bool) -> None:
    _check_backend()
    function, bound = parse(words, is_json=is_json)
    command = COMMANDS[words[0]]
    with contextlib.ExitStack() as stack:
        stack.enter_context(leave_out_optional_libraries())
        if command.has_checkpoint:
            stack.enter_context(signals.save_on_signals(command.name, command.interruption))
        result = function(*bound.args, **bound.kwargs)
    if is_json:
        print_json(result)
    else:
        print_result(function, result)


def _report(error: BaseException, command: str) -> int:
    """Print an error in one line, and return the exit status. Unexpected ones are raised again."""
    status = 1
    message = str(error)
    if signals.is_interruption(error):
        status = 130
        message = COMMANDS[command].interruption if command else "interrupted."
    elif isinstance(error, InputError):
        status = 2
    elif isinstance(error, OSError):
        message = f"{error}. Fix: check free disk space and the permissions of the files."
    elif isinstance(error, MemoryError):
        message = f"Not enough memory ({error}). Fix: use less text or a smaller model."
    elif not isinstance(error, RunError):
        raise error
    print_error(command, message)
    return status


def _prepare_streams() -> None:
    """Open closed standard streams; let streams that are not UTF-8 print replacement characters."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif name != "stdin" and hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="replace")


def _check_encoding(words: list[str]) -> None:
    """Refuse arguments that are not UTF-8."""
    for word in words:
        if any("\ud800" <= character <= "\udfff" for character in word):  # half a surrogate pair
            raise InputError(
                f"An argument must be UTF-8 text. Received: {word!r}. Fix: convert it to UTF-8."
            )


def _check_command(words: list[str]) -> None:
    """Refuse a missing or unknown command."""
    fix = f"Fix: see `{NAME} --help`."
    if not words:
        raise InputError(f"COMMAND is required. {fix}")
    if words[0] not in COMMANDS:
        close = suggest(words[0], [*COMMANDS, *COMMON_FLAGS])
        raise InputError(f"Unknown command {shorten_value(words[0])}.{close} {fix}")


def _check_backend() -> None:
    """Refuse a backend of Keras without TensorFlow's graphs. No file of Keras chooses one."""
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow") or "tensorflow"
    fix = "`export KERAS_BACKEND=tensorflow`."
    check_argument("KERAS_BACKEND", backend == "tensorflow", "tensorflow", repr(backend), fix)


def _take_common_flags(words: list[str]) -> tuple[list[str], set[str]]:
    """Return the words without the flags of all commands, and these flags; not those after `--`."""
    end = words.index("--") if "--" in words else len(words)
    flags = {word for word in words[:end] if word in COMMON_FLAGS}
    others = [word for word in words[:end] if word not in COMMON_FLAGS]
    return others + words[end:], flags
