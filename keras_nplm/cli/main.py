"""The command line `keras-nplm COMMAND …`: its parser, its errors and its exit status."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from keras_nplm import __version__
from keras_nplm.cli.parser import CommandParser
from keras_nplm.cli.printing import print_error, print_json
from keras_nplm.io.errors import InputError, RunError, check_argument, was_caused_by
from keras_nplm.io.paths import is_remote
from keras_nplm.io.remote import fetch
from keras_nplm.io.startup import hide_messages

_FAMILIES = (  # modules, in the order of `--help`
    *("training", "preparing", "estimating", "adapting", "evaluating"),
    *("rescoring", "word_vectors", "exporting", "experiments"),
)
_INPUTS = (
    *("directory", "directories", "background", "file", "nbest", "scores", "tune", "references"),
    *("word_classes", "arpa", "vocabulary", "pieces_file"),
)  # arguments that name model directories or files


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit status: 0 success, 1 runtime failure, 2 invalid input, 130 interruption."""
    hide_messages()
    arguments = sys.argv[1:] if arguments is None else arguments
    _prepare_streams()
    options = argparse.Namespace(command="", after_interrupt=".", arguments=list(arguments), is_interrupted=False)
    try:
        try:
            options = build_parser().parse_args(arguments, options)
        finally:
            sys.stdout.flush()  # of `--help`
        _check_arguments(options)
        for option in options.checked:
            if (value := getattr(options, option.name)) is not None:
                option.check(value)
        _fetch_inputs(options)
        result = options.run(options)
        if options.json:
            print_json(result)
        else:
            options.show(result)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed the pipe: end quietly, as the shell's own tools do
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, Exception) as error:
        # an interruption within a library may come out as its own error, such as a file that cannot be read
        is_interrupted = options.is_interrupted or was_caused_by(error, KeyboardInterrupt)
        if is_interrupted and not isinstance(error, RunError | OSError | MemoryError):
            print_error(options.command, f"interrupted{options.after_interrupt}")
            return 130
        message = str(error)
        if isinstance(error, OSError):
            message = f"{error}. Fix: check free disk space and the permissions of the files."
        elif isinstance(error, MemoryError):
            message = f"Not enough memory ({error}). Fix: use less text or a smaller model."
        elif not isinstance(error, InputError | RunError):
            raise
        print_error(options.command, message)
        return 2 if isinstance(error, InputError) else 1
    return 0


def _prepare_streams() -> None:
    """Open closed standard streams, and let streams that are not UTF-8 print replacement characters."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif name != "stdin" and hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="replace")


def _check_arguments(options: argparse.Namespace) -> None:
    """Refuse a backend of Keras without TensorFlow's graphs, arguments that are not UTF-8, and `--output ""`."""
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow") or "tensorflow"  # no file of Keras chooses one
    fix = "`export KERAS_BACKEND=tensorflow`."
    check_argument("KERAS_BACKEND", backend == "tensorflow", "tensorflow", repr(backend), fix)
    for part in options.arguments:
        if any("\ud800" <= character <= "\udfff" for character in part):  # half a surrogate pair
            raise InputError(f"An argument must be UTF-8 text. Received: {part!r}. Fix: convert it to UTF-8.")
    is_path = getattr(options, "output", None) != ""  # a script without its variable would write where it runs
    check_argument("--output", is_path, "a path", "''", "name a directory or a file to write.")


def _fetch_inputs(options: argparse.Namespace) -> None:
    """Download remote models and files, and name their local copies. Text is downloaded as it is opened."""
    for name in _INPUTS:
        value = getattr(options, name, None)
        if isinstance(value, str):
            setattr(options, name, _fetch_input(name, value))
        elif isinstance(value, list):
            setattr(options, name, [_fetch_input(name, part) for part in value])


def _fetch_input(name: str, value: str) -> str:
    before, equals, path = value.partition("=") if name == "scores" else ("", "", value)
    if not is_remote(path):
        return value
    return before + equals + str(fetch(path))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="keras-nplm",
        description="Neural probabilistic language models (Bengio et al. 2003), n-gram models and their mixtures. "
        "Texts, models and outputs may be gs:// and s3:// paths.",
    )
    parser.add_argument("--version", action="version", version=f"keras-nplm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)

    def command(name: str, run: Callable, show: Callable, help: str, after_interrupt: str = ".") -> CommandParser:
        subparser = commands.add_parser(name, help=help, description=help)
        subparser.set_defaults(run=run, show=show, after_interrupt=after_interrupt, checked=[])
        subparser.add_argument("--json", action="store_true", help="one JSON object on standard output (default: off)")
        return subparser

    for family in _FAMILIES:
        importlib.import_module(f"keras_nplm.cli.{family}").add(command)
    for subparser in commands.choices.values():
        subparser.add_help_all()
    return parser
