"""The help of commands: cyclopts' own. `--help-all` adds the options that it hides."""

import inspect
from collections.abc import Sequence
from typing import Any, Literal

from cyclopts import App, Argument, ArgumentCollection, Group, Parameter
from cyclopts.help import DefaultFormatter, HelpPanel, create_parameter_help_panel

from keras_nplm.cli.app import build_app, select_set_options

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
        hidden = [
            argument
            for argument in arguments
            if argument.parse and argument.parameter.show is False
        ]
        advanced = select_set_options(hidden)
        _print_options(app, "rare options", [x for x in hidden if x not in advanced.values()])
        _print_options(app, "options of --set", [*advanced.values()], [*advanced])


def _print_options(
    app: App, title: str, arguments: Sequence[Argument], names: Sequence[str] = ()
) -> None:
    """Print hidden options as cyclopts prints others; those of `--set` by their own names."""
    for argument in arguments:
        argument.parameter = Parameter.combine(argument.parameter, Parameter(show=True))
    panel = create_parameter_help_panel(Group(title), ArgumentCollection(arguments), _FORMAT)
    for position, name in enumerate(names):
        entry = panel.entries[position]
        value = entry.metavar or "yes|no"
        panel.entries[position] = entry.copy(
            positive_names=(f"{name}={value}",), negative_names=(), metavar=None
        )
    _Formatter()(app.console, app.console.options, panel)
