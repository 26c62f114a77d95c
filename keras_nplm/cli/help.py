"""The help of commands: plain lines, as wide as the terminal, without colours or boxes.

`--help` leaves out rare flags; `--help-all` shows them, and describes the options of `--set`, too.
Each option has its range, its choices and its default.
"""

import inspect
import shutil
import textwrap
from collections.abc import Iterator

from cyclopts import App, Argument

from keras_nplm.cli.app import COMMANDS, NAME, build_app, name_group, select_set_options
from keras_nplm.cli.parameters import SET_GROUP, SEVERAL, Reader, format_default

_INDENT = 28  # columns before the text of an option
_SHORT_INDENT = 18  # and before that of a command or a named configuration
_DESCRIPTION = (
    "Neural probabilistic language models (Bengio et al. 2003), n-gram models and their mixtures. "
    "Texts, models and outputs may be gs:// and s3:// paths; one file may be -, standard input."
)
_JSON = ("--json", "one JSON object on standard output (default: off)")
_HELP = ("-h, --help", "show the usual options and exit")
_COMPLETION = f'print completion for a shell; for bash: eval "$({NAME} --completion bash)"'
_SET = "further options: see --help-all (default: none)"
_HELP_ALL = ("--help-all", "show all options and exit")


def format_help() -> str:
    """Return the help of all commands."""
    lines = [f"usage: {NAME} [options] COMMAND …", "", *_wrap(_DESCRIPTION), "", "commands:"]
    for command in COMMANDS.values():
        lines += _format_row(command.name, command.help, _SHORT_INDENT)
    lines += ["", "options:", *_format_row("-h, --help", "show this help and exit", _SHORT_INDENT)]
    lines += _format_row("--version", "show the version and exit", _SHORT_INDENT)
    lines += _format_row("--completion {bash,zsh,fish}", _COMPLETION, _SHORT_INDENT)
    lines += ["", f"{NAME} COMMAND --help shows the options of a command."]
    return "\n".join(lines) + "\n"


def format_command_help(name: str, *, is_whole: bool) -> str:
    """Return the help of a command; the advanced options are left out unless it is whole."""
    command = build_app()[name]
    collection = command.assemble_argument_collection(parse_docstring=True)
    arguments = [argument for argument in collection if _is_shown(argument)]
    lines = [_format_usage(name, arguments), "", *_wrap(COMMANDS[name].help)]
    for paragraph in _read_paragraphs(command):
        lines += ["", *_wrap(paragraph)]
    of_set = select_set_options(arguments)
    groups: dict[str, list[str]] = {}
    for argument in arguments:
        group = name_group(argument)
        if (argument.show or is_whole) and group != SET_GROUP:
            groups.setdefault(group, []).extend(_format_argument(argument))
    options = groups.setdefault("options", [])
    for row in (_JSON, _HELP, _HELP_ALL):
        options += _format_row(*row)
    if of_set:
        options += _format_row("--set NAME=VALUE…", _SET)
    if is_whole and of_set:
        groups[SET_GROUP] = [
            line
            for option, argument in of_set.items()
            for line in _format_row(_format_assignment(option, argument), _format_text(argument))
        ]
    if "--config" in [argument.name for argument in arguments if argument.show or is_whole]:
        groups["named configurations"] = _format_configurations()
    for title, rows in groups.items():
        lines += ["", f"{title}:", *rows]
    return "\n".join(lines) + "\n"


def _format_configurations() -> list[str]:
    from keras_nplm.training.configurations import CONFIGURATIONS

    rows = []
    for named in CONFIGURATIONS.values():
        rows += _format_row(named.name, named.description, indent=_SHORT_INDENT)
    return rows


def _is_shown(argument: Argument) -> bool:
    """Return whether an argument is on the command line itself, and not only the parts of it."""
    return argument.parse and not argument.children


def _read_paragraphs(command: App) -> Iterator[str]:
    """Yield the paragraphs of a function's docstring after the first, up to its sections."""
    _, *paragraphs = inspect.cleandoc(command.default_command.__doc__ or "").split("\n\n")
    for paragraph in paragraphs:
        if paragraph.startswith(("Args:", "Returns:", "Raises:")):
            return
        yield paragraph


def _format_usage(name: str, arguments: list[Argument]) -> str:
    words = []
    for argument in arguments:
        if argument.required and argument.index is None:
            words.append(_format_names(argument))
    for argument in arguments:
        if argument.index is not None:
            dots = "…" if argument.is_var_positional() else ""
            word = f"{argument.name}{dots}"
            words.append(word if argument.required else f"[{word}]")
    start = f"usage: {NAME} {name} [options] "
    width = _get_width() - len(start)
    rows = textwrap.wrap(" ".join(words), max(width, 20), break_on_hyphens=False)
    return (start + f"\n{' ' * len(start)}".join(rows)).rstrip()


def _format_argument(argument: Argument) -> list[str]:
    return _format_row(_format_names(argument), _format_text(argument))


def _format_names(argument: Argument) -> str:
    if argument.index is not None:
        return argument.name
    if argument.is_flag():
        return ", ".join(argument.names)
    choices = argument.get_choices()
    values = f"{{{','.join(choices)}}}" if choices else argument.parameter.metavar
    dots = "…" if argument.parameter.consume_multiple == SEVERAL.consume_multiple else ""
    return f"{', '.join(argument.names)} {values}{dots}"


def _format_assignment(option: str, argument: Argument) -> str:
    """Return an option of `--set` with its choices or the name of its value."""
    choices = ("yes", "no") if argument.is_flag() else argument.get_choices()
    values = f"{{{','.join(choices)}}}" if choices else argument.parameter.metavar
    return f"{option}={values}"


def _format_text(argument: Argument) -> str:
    """Return the help of an argument with its range and its default."""
    notes = []
    reader = argument.parameter.converter
    if isinstance(reader, Reader) and reader.facts.range and not argument.get_choices():
        notes.append(reader.facts.range)
    shown = argument.parameter.show_default
    if argument.required:
        notes.append("required")
    elif isinstance(shown, str):
        notes.append(f"default: {shown}")
    else:
        notes.append(f"default: {format_default(argument.field_info.default)}")
    return f"{argument.parameter.help} ({'; '.join(notes)})"


def _format_row(names: str, text: str, indent: int = _INDENT) -> list[str]:
    """Return the lines of an option: its names, and its text to the right of them or below."""
    start = f"  {names}"
    rows = _wrap(text, indent)
    lines = [" " * indent + row for row in rows]
    if len(start) > indent - 2:
        return [start, *lines]
    return [start.ljust(indent) + rows[0], *lines[1:]]


def _wrap(text: str, indent: int = 0) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), _get_width() - indent, break_on_hyphens=False)


def _get_width() -> int:
    """Return the width of the terminal, 80 in a pipe; at most 100, as longer lines read badly."""
    return max(50, min(shutil.get_terminal_size().columns - 2, 100))
