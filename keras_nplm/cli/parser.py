"""The parser of a command: `--help` shows its usual options, `--help-all` shows all of them."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose `--help` leaves out advanced options, and whose usage line leaves out optional ones."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, formatter_class=_Formatter, **kwargs)
        self.set_defaults(advanced=set(), full_epilog=None)  # names of options; the end of the full help
        self._is_parsing = False

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments; options may stand between positional arguments, before Python 3.13 too."""
        if self._is_parsing:  # `parse_known_intermixed_args` calls this method
            return super().parse_known_args(args, namespace)
        self._is_parsing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_parsing = False

    def add_help_all(self) -> None:
        """Add `--help-all` if an option is advanced."""
        if self.get_default("advanced"):
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options and exit")

    def format_usage(self) -> str:
        if self.usage:  # set while arguments are parsed
            return super().format_usage()
        with self._hide(lambda action: action.option_strings and not action.required):
            return super().format_usage().replace(self.prog, f"{self.prog} [options]", 1)

    def format_help(self) -> str:
        with self._hide(lambda action: action.dest in self.get_default("advanced")):
            return self._format_help()

    def format_full_help(self) -> str:
        epilog, self.epilog = self.epilog, self.get_default("full_epilog") or self.epilog
        try:
            return self._format_help()
        finally:
            self.epilog = epilog

    def _format_help(self) -> str:
        self.usage = self.format_usage().removeprefix("usage: ").strip().replace("%", "%%")
        try:
            return super().format_help()
        finally:
            self.usage = None

    @contextmanager
    def _hide(self, condition: Callable[[argparse.Action], bool]) -> Iterator[None]:
        """Leave actions out of help and usage within the block."""
        hidden = [(action, action.help) for action in self._actions if condition(action)]
        for action, _ in hidden:
            action.help = argparse.SUPPRESS
        try:
            yield
        finally:
            for action, help in hidden:
                action.help = help


def hide_in_help(parser: argparse.ArgumentParser | argparse._ArgumentGroup, *names: str) -> None:
    """Make options advanced: only `--help-all` shows them."""
    parser.get_default("advanced").update(names)


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *args: Any) -> None:
        print(parser.format_full_help(), end="")
        parser.exit()


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions, and leaves more room for the text of an option."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=28)
