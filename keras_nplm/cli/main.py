"""The command line: `keras-nplm COMMAND …`, and how a command ends."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence

from keras_nplm import __version__
from keras_nplm.cli.commands import FAMILIES
from keras_nplm.io.errors import InputError, RunError

_MOST_SHOWN = 1000  # characters of an error: an argument within it may have any number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: the words after `keras-nplm`. Default: those of this process.

    Returns:
        the exit status: 0, 1 where the work failed, 2 where it was asked for wrongly, 130 where it was interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        _refuse_no_text(options)
        result = options.run(options)
        if options.json:
            print(json.dumps(result, ensure_ascii=False))
        else:
            options.show(result)
        sys.stdout.flush()
    except (InputError, RunError) as error:
        _complain(options.command, str(error))
        return 2 if isinstance(error, InputError) else 1
    except BrokenPipeError:  # whoever read the output has gone: as the shell's own tools do, end quietly
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        _complain(options.command, f"{error}. Is the disk full, or a file out of reach?")
        return 1
    except MemoryError as error:
        _complain(options.command, f"There is not enough memory for this ({error}).")
        return 1
    except KeyboardInterrupt:
        _complain(options.command, f"interrupted{options.after_interrupt}")
        return 130
    return 0


def _complain(command: str, message: str) -> None:
    """Print an error as one line, whatever characters a file's name or its text brought into it."""
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in message)
    shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[: _MOST_SHOWN // 2]} … {shown[-_MOST_SHOWN // 2 :]}"
    print(f"keras-nplm {command}: {shown}", file=sys.stderr)


def _refuse_no_text(options: argparse.Namespace) -> None:
    """Refuse arguments of bytes that are not UTF-8, which neither a file of ours nor TensorFlow can hold."""
    for part in _parts(list(vars(options).values())):
        if isinstance(part, str) and any("\ud800" <= character <= "\udfff" for character in part):
            raise InputError(f"The argument {part!r} holds half a surrogate pair, which is no character: give UTF-8.")


def _parts(value: object) -> Iterator:
    """What lists, and lists of lists, hold."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keras-nplm", description="Neural probabilistic language models (Bengio et al. 2003)."
    )
    parser.add_argument("--version", action="version", version=f"keras-nplm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, run, show, help, after_interrupt="."):
        subparser = commands.add_parser(name, help=help, description=help)
        subparser.set_defaults(run=run, show=show, after_interrupt=after_interrupt)
        subparser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")
        return subparser

    for family in FAMILIES:
        family.add(command)
    for name, subparser in commands.choices.items():
        if name not in ("train", "generate", "rescore"):  # nothing in the others is random
            subparser.add_argument("--seed", type=int, default=0, help="accepted, as by every command")
    return parser
