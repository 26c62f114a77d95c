"""The help of commands: cyclopts' own. `--help-all` adds the options that it hides."""

import inspect
from collections.abc import Iterable
from typing import Any, Literal

from cyclopts import App, Argument, ArgumentCollection, Group, Parameter
from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel, create_parameter_help_panel

from keras_nplm.cli.app import build_app, find_title, select_set_options
from keras_nplm.cli.parameters import SET_TITLE
from keras_nplm.training.configurations import CONFIGURATIONS

_FORMAT: Literal["plaintext"] = "plaintext"  # backticks and <unk> stay as they are


class _Formatter(DefaultFormatter):
    """Prints panels of options, with the texts of docstrings as one paragraph."""

    def __call__(self, console: Any, options: Any, panel: HelpPanel) -> None:
        for position, entry in enumerate(panel.entries):
            text = entry.description.primary_renderable.plain
            panel.entries[position] = entry.copy(description=" ".join(text.split()))
        super().__call__(console, options, panel)


def print_help(name: str = "", *, is_whole: bool = False) -> None:
    """Print the help of a command, or of all commands without a name."""
    app = build_app()
    app.help_format = _FORMAT
    app.help_formatter = _Formatter()
    if not name:
        app.help_print([])
        return
    command = app[name]
    text, *_ = (inspect.getdoc(command.default_command) or "").partition("\n\nArgs:")
    command.help = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
    app.help_print([name])
    if is_whole:
        arguments = command.assemble_argument_collection(parse_docstring=True)
        if any(argument.name == "--config" for argument in arguments):
            _print_configurations(app)
        _print_hidden_options(app, arguments)


def _print_configurations(app: App) -> None:
    entries = [
        HelpEntry(positive_names=(named.name,), description=named.description)
        for named in CONFIGURATIONS.values()
    ]
    panel = HelpPanel(title="named configurations", entries=entries, format="parameter")
    DefaultFormatter()(app.console, app.console.options, panel)


def _print_hidden_options(app: App, arguments: Iterable[Argument]) -> None:
    """Print hidden options by group, those of `--set` by their own names."""
    hidden: dict[str, list[Argument]] = {}
    for argument in arguments:
        if argument.parse and argument.parameter.show is False:
            hidden.setdefault(find_title(argument), []).append(argument)
    for title in sorted(hidden, key=lambda title: title.startswith(SET_TITLE)):
        group = hidden[title]
        for argument in group:
            argument.parameter = Parameter.combine(argument.parameter, Parameter(show=True))
        panel = create_parameter_help_panel(Group(title), ArgumentCollection(group), _FORMAT)
        for position, name in enumerate(select_set_options(group)):
            entry = panel.entries[position]
            value = entry.metavar or "yes|no"
            panel.entries[position] = entry.copy(
                positive_names=(f"{name}={value}",), negative_names=(), metavar=None
            )
        _Formatter()(app.console, app.console.options, panel)
