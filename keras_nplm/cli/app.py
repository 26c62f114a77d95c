"""The commands of `keras-nplm`, and the parsing of a command line. A command is imported late."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from inspect import BoundArguments
from typing import Any

from cyclopts import (
    App,
    Argument,
    CycloptsError,
    Group,
    Parameter,
    UnusedCliTokensError,
)

from keras_nplm.cli.parameters import (
    ARGUMENTS,
    OPTIONS,
    SET_TITLE,
    Call,
    format_default,
    suggest,
)
from keras_nplm.io.errors import InputError

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
    example: str
    """its arguments in the example at the end of its help"""
    after_interrupt: str = "."
    """what an interruption adds to its message"""
    has_checkpoint: bool = False
    """whether an interruption writes a checkpoint; then SIGTERM is as Ctrl-C"""

    @property
    def interruption(self) -> str:
        """The message after an interruption."""
        return f"interrupted{self.after_interrupt}"


_COMMANDS = (
    Command(
        "train",
        "training:train",
        "Train a network and evaluate it.",
        "--train my.txt --output runs/mine",
        RESUME,
        has_checkpoint=True,
    ),
    Command(
        "size",
        "training:size",
        "Count a network's parameters and floating-point operations.",
        "--config bengio2003 --vocabulary-size 16383",
    ),
    Command(
        "prepare",
        "preparing:prepare",
        "Count and encode a text for several models.",
        "--train my.txt --output runs/text",
        RESUME,
    ),
    Command(
        "ngram",
        "estimating:ngram",
        "Estimate an n-gram model and evaluate it.",
        "--train my.txt --output runs/ngrams",
        RESUME,
    ),
    Command(
        "mix",
        "estimating:mix",
        "Mix models, with weights fitted on the validation split.",
        "runs/network runs/ngrams --uniform --output runs/mixed",
    ),
    Command(
        "adapt",
        "adapting:adapt",
        "Adapt a network to a text by fine-tuning.",
        "runs/mine --text letters.txt --output runs/adapted",
    ),
    Command(
        "add-words",
        "adapting:add_words",
        "Add out-of-vocabulary words to a network from a text that has them, without training.",
        "runs/network --text letters.txt --output runs/more",
    ),
    Command(
        "evaluate",
        "evaluating:evaluate",
        "Compute the exact perplexity of a split or a text.",
        "runs/mine runs/ngrams --text letters.txt",
    ),
    Command(
        "score",
        "evaluating:score",
        "Compute log-probabilities of sentences, in nats.",
        "runs/mine letters.txt --tokens",
    ),
    Command(
        "complete",
        "completing:complete",
        "Print the most probable next words of a context.",
        'runs/mine "The value of the"',
    ),
    Command(
        "generate",
        "completing:generate",
        "Generate text: sample word after word from the model.",
        'runs/mine --prompt "The value" --num-words 10',
    ),
    Command(
        "rescore",
        "rescoring:rescore",
        "Rescore and re-rank the N-best lists of a decoder.",
        "runs/mine nbest.txt --output best.txt",
    ),
    Command(
        "nearest",
        "word_vectors:nearest",
        "Print the nearest neighbours of words by cosine similarity.",
        "runs/mine value object --top-k 3",
    ),
    Command(
        "analogy",
        "word_vectors:analogy",
        "Print the words that are to C as B is to A.",
        "runs/mine value values object",
    ),
    Command(
        "map",
        "word_vectors:draw_map",
        "Draw a t-SNE map of word vectors: similar words lie close together.",
        "runs/mine words.svg --num-words 100",
    ),
    Command(
        "export",
        "exporting:export",
        "Write a model for other programs.",
        "runs/mine served/mine",
    ),
    Command(
        "paper",
        "experiments:paper",
        "Train the models of the paper's Table 1 on Brown, and report them.",
        "--rows trigram kneser-ney-5 --output runs/paper",
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
    show_default=format_default,
)
_DESCRIPTION = (
    "Neural probabilistic language models (Bengio et al. 2003), n-gram models and their mixtures. "
    "Texts, models and outputs may be gs:// and s3:// paths; one file may be -, standard input."
)
_EPILOGUE = """\
--json prints the result as JSON. --help-all shows all options, also of --set.
Example: {name} {command.name} {command.example}
"""
_OPTIONS_WITHOUT_COMMAND = f"""\
{NAME} COMMAND --help  show the options of a command
{NAME} --version       show the version
{NAME} --completion bash, zsh or fish
                           print completion for a shell; for bash:
                           eval "$({NAME} --completion bash)"
"""


class _Text(str):
    """A value that starts with a hyphen, which cyclopts would take for a flag."""

    def startswith(self, prefix: str | tuple[str, ...], *place: Any) -> bool:
        return prefix != "-" and super().startswith(prefix, *place)


def build_app() -> App:
    """Return the cyclopts app of all commands."""
    app = App(
        name=NAME,
        help=_DESCRIPTION,
        help_epilogue=_OPTIONS_WITHOUT_COMMAND,
        help_flags=(),
        version_flags=(),
        group_commands="commands",
        group_arguments=ARGUMENTS,
        group_parameters=OPTIONS,
    )
    for position, command in enumerate(COMMANDS.values()):
        app.command(
            f"keras_nplm.cli.{command.path}",
            name=command.name,
            help=command.help,
            help_epilogue=_EPILOGUE.format(name=NAME, command=command),
            sort_key=position,
            default_parameter=_DEFAULTS,
        )
    return app


def parse(
    words: Sequence[str], *, is_json: bool = False
) -> tuple[Callable[..., dict], BoundArguments]:
    """Return the function of a command line and its arguments.

    Raises:
        InputError: the command line is invalid.
    """
    app = build_app()
    tokens = _mark_words(app, words)
    try:
        function, bound, not_parsed = app.parse_args(tokens, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        if isinstance(error.__cause__, InputError):  # of a converter
            raise error.__cause__ from error
        flags = _list_flags(app[words[0]].assemble_argument_collection())
        raise InputError(_describe_error(error, words[0], flags)) from error
    for name in not_parsed:
        bound.arguments[name] = Call(tuple(words), is_json)
    return function, bound


def _describe_error(error: CycloptsError, command: str, flags: Collection[str]) -> str:
    """Return the message of a command line that cannot be read, with its remedy."""
    error.verbose = False
    message = " ".join(str(error).split())
    fix = f"see `{NAME} {command} --help`"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        given = " ".join(error.unused_tokens)
        message = f"Unexpected argument {given!r}."
        if "--train" in flags:
            fix = f"write --train {given}"
    return f"{message} Fix: {fix}."


def select_set_options(arguments: Iterable[Argument]) -> dict[str, Argument]:
    """Return the arguments of a command that `--set` gives, by their names in Python."""
    return {
        argument.name.removeprefix("--").replace("-", "_"): argument
        for argument in arguments
        if find_title(argument).startswith(SET_TITLE)
    }


def _list_flags(arguments: Iterable[Argument]) -> set[str]:
    """List the flags of a command."""
    return {name for argument in arguments if argument.parse for name in argument.names}


def find_title(argument: Argument) -> str:
    """Return the title of the group of an argument."""
    group = argument.parameter.group
    first = group[0] if isinstance(group, tuple) and group else OPTIONS
    return first.name if isinstance(first, Group) else first


def _mark_words(app: App, words: Sequence[str]) -> list[str]:
    """Return a command line whose `--set name=value …` are flags, which cyclopts reads, and whose
    values may start with a hyphen.

    Unknown flags are refused here: cyclopts would look for missing arguments first.
    """
    arguments = app[words[0]].assemble_argument_collection()
    advanced = select_set_options(arguments)
    flags = _list_flags(arguments)
    hidden = {argument.name for argument in advanced.values()}
    end = words.index("--") if "--" in words else len(words)
    marked: list[str] = []
    is_set = False
    for word in words[:end]:
        name, equals, value = word.partition("=")
        option = name.lstrip("-").removeprefix("no-").replace("-", "_")
        if not word.startswith("-") or not option[:1].isalpha() or len(name.split()) > 1:
            marked.append(_make_flag(word, advanced, flags) if is_set else _Text(word))
            continue
        is_set = name == "--set"
        if is_set and equals:
            marked.append(_make_flag(value, advanced, flags))
        elif option in advanced:
            longer = [flag for flag in sorted(flags - hidden) if flag.startswith(f"{name}-")]
            close = f" Did you mean {longer[0]}?" if longer else ""
            fix = f"write --set {option}={value or 'VALUE'}."
            raise InputError(f"Unknown option {name}.{close} Fix: {fix}")
        elif not is_set and name in flags:
            marked.append(word)
        elif not is_set:
            close = suggest(name, flags | COMMON_FLAGS) if name.startswith("--") else ""
            fix = "" if close else ", and write = before a value that starts with a hyphen"
            help = f"`{NAME} {words[0]} --help-all`"
            raise InputError(f"Unknown option {name}.{close} Fix: see {help}{fix}.")
    return [*marked, *words[end:]]


def _make_flag(word: str, known: Collection[str], flags: Collection[str]) -> str:
    name, equals, value = word.partition("=")
    name = name.replace("-", "_")
    flag = f"--{name.replace('_', '-')}"
    if not equals or name not in known:
        close = suggest(name, {other.lstrip("-").replace("-", "_") for other in flags})
        fix = "see the end of --help-all"
        if flag in flags:
            close, fix = "", f"write {flag} {value}"
        raise InputError(
            f"`--set` must be NAME=VALUE of an option that has no flag. Received: {word!r}.{close} "
            f"Fix: {fix}."
        )
    return f"{flag}={value}"
