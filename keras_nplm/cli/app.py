"""The commands of `keras-nplm`, and the parsing of a command line. A command is imported late."""

import dataclasses
import typing
from collections.abc import Callable, Collection, Iterable, Sequence
from inspect import BoundArguments
from typing import Any, cast

from cyclopts import App, Argument, Group, Parameter

from keras_nplm.cli.parameters import SET_GROUP, Call, Fetched, suggest
from keras_nplm.io.errors import InputError
from keras_nplm.io.paths import STANDARD_INPUT, is_remote

NAME = "keras-nplm"
RESUME = ". Finished work is saved. Run the same command again to resume."


@dataclasses.dataclass(frozen=True)
class Command:
    """A command: its function and what is known of it before its module is imported."""

    name: str
    path: str
    """module and function"""
    help: str
    """one sentence, the first of the function's docstring"""
    after_interrupt: str = "."
    """what an interruption adds to its message"""
    has_checkpoint: bool = False
    """whether an interruption writes a checkpoint; then SIGTERM is as Ctrl-C"""

    @property
    def interruption(self) -> str:
        """The message after an interruption."""
        return f"interrupted{self.after_interrupt}"


_COMMANDS = (
    Command("train", "training:train", "Train a network and evaluate it.", RESUME, True),
    Command("size", "training:size", "Count a network's parameters and floating-point operations."),
    Command(
        "prepare",
        "preparing:prepare",
        "Count and encode a text for several models.",
        RESUME,
    ),
    Command("ngram", "estimating:ngram", "Estimate an n-gram model and evaluate it.", RESUME),
    Command("mix", "estimating:mix", "Mix models, with weights fitted on the validation split."),
    Command("adapt", "adapting:adapt", "Adapt a network to a text by fine-tuning."),
    Command(
        "add-words",
        "adapting:add_words",
        "Add out-of-vocabulary words to a network from a text that has them, without training.",
    ),
    Command(
        "evaluate", "evaluating:evaluate", "Compute the exact perplexity of a split or a text."
    ),
    Command("score", "evaluating:score", "Compute log-probabilities of sentences, in nats."),
    Command("complete", "completing:complete", "Print the most probable next words of a context."),
    Command(
        "generate", "completing:generate", "Generate text: sample word after word from the model."
    ),
    Command("rescore", "rescoring:rescore", "Rescore and re-rank the N-best lists of a decoder."),
    Command(
        "nearest",
        "word_vectors:nearest",
        "Print the nearest neighbours of words by cosine similarity.",
    ),
    Command("analogy", "word_vectors:analogy", "Print the words that are to C as B is to A."),
    Command(
        "map",
        "word_vectors:draw_map",
        "Draw a t-SNE map of word vectors: similar words lie close together.",
    ),
    Command("export", "exporting:export", "Write a model for other programs."),
    Command(
        "paper",
        "experiments:paper",
        "Train the models of the paper's Table 1 on Brown, and report them.",
        RESUME,
    ),
)
COMMANDS = {command.name: command for command in _COMMANDS}

# The same for all commands: `main` takes them off the line
HELP_FLAGS = {"--help", "-h", "--help-all"}
COMMON_FLAGS = {"--json", "--version", *HELP_FLAGS}
_DEFAULTS = Parameter(
    negative_iterable="",
    negative_none="",
    json_dict=False,
    json_list=False,
    allow_repeating=True,
    show_choices=True,
)


class _Hyphen(str):
    """`-` as a value: cyclopts takes every word that starts with a hyphen for an option."""

    def startswith(self, *_: Any) -> bool:
        return False


def build_app() -> App:
    """Return the cyclopts app of all commands."""
    app = App(
        name=NAME,
        help_flags=(),
        version_flags=(),
        group_arguments="arguments",
        group_parameters="options",
    )
    for command in COMMANDS.values():
        app.command(
            f"keras_nplm.cli.{command.path}",
            name=command.name,
            help=command.help,
            default_parameter=_DEFAULTS,
        )
    return app


def parse(
    words: Sequence[str], *, is_json: bool = False
) -> tuple[Callable[..., dict], BoundArguments]:
    """Return the function of a command line and its arguments.

    Raises:
        CycloptsError: the command line is invalid.
        InputError: options contradict each other.
    """
    app = build_app()
    tokens = [_Hyphen(word) if word == "-" else word for word in expand_set(app, words)]
    function, bound, not_parsed = app.parse_args(tokens, exit_on_error=False, print_error=False)
    for name in not_parsed:
        bound.arguments[name] = Call(tuple(words), is_json)
    return function, bound


def select_set_options(arguments: Iterable[Argument]) -> dict[str, Argument]:
    """Return the arguments of a command that `--set` gives, by their names in Python."""
    return {
        argument.name.removeprefix("--").replace("-", "_"): argument
        for argument in arguments
        if name_group(argument) == SET_GROUP
    }


def name_group(argument: Argument) -> str:
    """Return the title below which the help shows an argument."""
    groups = cast(tuple[Group, ...], argument.parameter.group or ())
    return groups[0].name if groups else ""


def expand_set(app: App, words: Sequence[str]) -> list[str]:
    """Return a command line whose `--set name=value …` are flags, which cyclopts reads.

    Raises:
        InputError: a name is unknown, or a flag stands in place of `--set`.
    """
    known = select_set_options(app[words[0]].assemble_argument_collection())
    end = words.index("--") if "--" in words else len(words)
    expanded: list[str] = []
    is_set = False
    for word in words[:end]:
        name, equals, value = word.partition("=")
        option = name.removeprefix("--").removeprefix("no-").replace("-", "_")
        if name == "--set":
            is_set = True
            if equals:
                expanded.append(_make_flag(value, known))
        elif name.startswith("--") and option in known:
            default = "yes" if known[option].is_flag() else "VALUE"
            given = "no" if name.startswith("--no-") else value or default
            raise InputError(f"Unknown option {name}. Fix: write --set {option}={given}.")
        elif is_set and not word.startswith("-"):
            expanded.append(_make_flag(word, known))
        else:
            is_set = False
            expanded.append(word)
    return [*expanded, *words[end:]]


def _make_flag(word: str, known: Collection[str]) -> str:
    name, equals, value = word.partition("=")
    name = name.replace("-", "_")
    if not equals or name not in known:
        raise InputError(
            f"`--set` must be NAME=VALUE of an option of the command. Received: {word!r}."
            f"{suggest(name, known)} Fix: see the end of --help-all."
        )
    return f"--{name.replace('_', '-')}={value}"


def format_completion(words: Sequence[str]) -> str:
    """Return the script with which a shell completes commands and flags."""
    match words:
        case ["bash" | "zsh" | "fish" as shell]:
            return build_app().generate_completion(shell=shell)
    received = repr(" ".join(words))
    fix = f'write eval "$({NAME} --completion bash)" in ~/.bashrc.'
    raise InputError(
        f"`--completion` must be one of bash, zsh, fish. Received: {received}. Fix: {fix}"
    )


def fetch_inputs(function: Callable[..., dict], bound: BoundArguments) -> None:
    """Download remote models and files, save standard input where `-` names a file, and name the
    local copies in the arguments.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    for name, value in bound.arguments.items():
        for mark in getattr(hints[name], "__metadata__", ()):
            if isinstance(mark, Fetched):
                bound.arguments[name] = _fetch(value, mark)


def _fetch(value: object, mark: Fetched) -> object:
    if isinstance(value, list | tuple):
        return tuple(_fetch(part, mark) for part in value)
    if not is_remote(value) and not (mark.is_file and value == STANDARD_INPUT):
        return value
    from keras_nplm.io.remote import fetch

    return str(fetch(str(value)))
