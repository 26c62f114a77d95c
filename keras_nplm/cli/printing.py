"""Results of commands, printed for people or as JSON, and errors."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from keras_nplm.io.text import escape_controls

_Command = TypeVar("_Command", bound=Callable[..., dict])

_LARGEST_RATIO = 4 / 3  # of the perplexities of validation and test that need no word
_MAX_ERROR = 1000  # characters of a printed error, which may quote an argument of any length
_PRINTERS: dict[Callable[..., dict], Callable[[dict], None]] = {}


def printed_by(printer: Callable[[dict], None]) -> Callable[[_Command], _Command]:
    """Register the function that prints the result of a command for people."""

    def register(command: _Command) -> _Command:
        _PRINTERS[command] = printer
        return command

    return register


def printed_as(*templates: str) -> Callable[[_Command], _Command]:
    """Register the sentences that print the result of a command; see `print_lines`."""
    return printed_by(lambda result: print_lines(result, *templates))


def print_result(command: Callable[..., dict], result: dict) -> None:
    """Print the result of a command for people."""
    _PRINTERS[command](result)


def print_json(result: dict) -> None:
    """Print an object as one line of JSON, in bounded memory.

    An iterator becomes a list, printed item by item.
    """
    is_ascii = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    opening = "{"
    for name, value in result.items():
        is_list = isinstance(value, Iterator)
        items = value if is_list else [value]
        texts = (json.dumps(item, ensure_ascii=is_ascii) for item in items)
        first = next(texts, "")  # before anything is printed: it may be refused
        key = json.dumps(name, ensure_ascii=is_ascii)
        sys.stdout.write(f"{opening}{key}: {'[' * is_list}{first}")
        sys.stdout.writelines(f", {text}" for text in texts)
        sys.stdout.write("]" * is_list)
        opening = ", "
    print("}" if result else "{}")


_SPLITS = ("validation", "test")
# the columns of tables: the name of a figure and its format
_COLUMNS = {
    "tokens": ("tokens", ","),
    "sentences": ("sentences", ","),
    "<unk>": ("unk_tokens", ","),
    "perplexity": ("perplexity", ".2f"),
    "bits per character": ("bits_per_character", ".3f"),
    "bits per byte": ("bits_per_byte", ".3f"),
    "per word": ("perplexity_per_word", ".2f"),
    "without <unk>": ("perplexity_without_unk", ".2f"),
    "accuracy": ("accuracy", ".2%"),
    "network alone": ("network", ".2f"),
    "Kneser-Ney": ("kneser_ney", ".2f"),
    "vs Kneser-Ney": ("change", "+.1%"),
}


def print_table(rows: Mapping[str, Mapping[str, Any]], titles: Iterable[str]) -> None:
    """Print a table of figures: a row for each name, and the columns that the first row has.

    Names are to the left and numbers to the right; a figure of None is "none".
    """
    first = next(iter(rows.values()))
    columns = {title: _COLUMNS[title] for title in titles if _COLUMNS[title][0] in first}
    lines = [["", *columns]]
    for name, figures in rows.items():
        values = [(figures[figure], form) for figure, form in columns.values()]
        lines.append([name, *("none" if x is None else format(x, form) for x, form in values)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        others = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join([line[0].ljust(widths[0]), *others]).rstrip())


def print_lines(result: Mapping[str, Any], *templates: str) -> None:
    """Print sentences with figures of a result; a sentence whose figures it lacks is left out."""
    for template in templates:
        with contextlib.suppress(KeyError):
            print(template.format_map(result))


def print_ranked(result: dict, after: str = "") -> None:
    """Print words with their probabilities or cosines below each question, with words after it."""
    for question, answers in result.items():
        print(f"{escape_controls(question)}{after}")
        # small numbers with two significant digits
        cells = [f"{x:.1e}" if 0 < x < 0.001 else f"{x:.4f}" for x in answers.values()]
        width = max(map(len, cells), default=0)
        for word, cell in zip(answers, cells, strict=True):
            print(f"  {cell:>{width}} {escape_controls(word)}")


VOCABULARY = (
    "vocabulary: {vocabulary[words]:,} words of {vocabulary[file]}; {vocabulary[absent]:,} do not "
    "occur in the training text"
)
NEXT = 'the model is in {directory}; next: keras-nplm complete {directory} "a context"'


def print_splits(result: dict) -> None:
    """Print weights of a mixture, a table of validation and test, and a command to try next."""
    if len(result.get("weights", ())) == 1:
        from keras_nplm.language_model.description import TITLES

        titles = dict(TITLES)
        if "kneser_ney" in result:  # `train` estimates the n-gram model itself
            titles["back-off"] = "Kneser-Ney"
        components = result.get("sources", result["components"])
        pairs = zip(components, result["weights"][0], strict=True)
        shares = [f"{weight:.4f} {titles.get(kind, kind)}" for kind, weight in pairs]
        print("weights: " + ", ".join(shares))
    rows = {}
    for split in filter(result.__contains__, _SPLITS):
        rows[split] = {"bits_per_character": None, **result[split]}
        for part in ("network", "kneser_ney"):
            if part in result:
                rows[split][part] = result[part][split]
        if "kneser_ney" in result:
            change = result[split]["perplexity"] / result["kneser_ney"][split] - 1
            rows[split]["change"] = change
    if rows:
        columns = ("network alone", "Kneser-Ney", "vs Kneser-Ney")
        print_table(rows, ["tokens", "perplexity", "bits per character", *columns])
        _explain_difference([row["perplexity"] for row in rows.values()])
    else:
        command = "keras-nplm evaluate {directory} --text FILE"
        print_lines(result, f"no validation or test text; for a perplexity: {command}")
    print_lines(result, NEXT)


def _explain_difference(perplexities: list[float]) -> None:
    """Say why the perplexities of validation and test are far apart, if they are."""
    if max(perplexities) > _LARGEST_RATIO * min(perplexities):
        print(
            f"test against validation {perplexities[1] / perplexities[0] - 1:+.0%}: the two texts "
            "differ; with --train alone, --shuffle splits its lines at random"
        )


def print_error(command: str, message: str) -> None:
    """Print an error in one line. Control characters of quoted names and text are escaped."""
    characters = (mark if mark.isprintable() else repr(mark)[1:-1] for mark in message)
    line = "".join(characters)
    if len(line) > _MAX_ERROR:
        line = f"{line[: _MAX_ERROR // 2]} … {line[-_MAX_ERROR // 2 :]}"
    print(f"keras-nplm {command}".rstrip() + f": {line}", file=sys.stderr)
