"""Results of commands, printed for people or as JSON, and errors."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Command = TypeVar("_Command", bound=Callable[..., dict])

# characters; text with longer words has no spaces between its words, as Chinese
_LONGEST_MEAN_WORD = 15
_LARGEST_RATIO = 4 / 3  # of the perplexities of validation and test that need no word
_MAX_ERROR = 1000  # characters of a printed error, which may quote an argument of any length
_PRINTERS: dict[Callable[..., dict], Callable[[dict], None]] = {}


def printed_by(printer: Callable[[dict], None]) -> Callable[[_Command], _Command]:
    """Register the function that prints the result of a command for people."""

    def register(command: _Command) -> _Command:
        _PRINTERS[command] = printer
        return command

    return register


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
# of `components` in metrics.json
_TITLES = {
    "nplm": "network",
    "keras": "Keras model",
    "hybrid": "network with an n-gram model inside",
    "shortlist": "network of a short-list",
    "back-off": "n-gram model",
    "deleted-interpolation": "deleted interpolation",
    "class-based": "class-based model",
    "unigram-cache": "unigram cache",
    "ngram-cache": "n-gram cache",
    "continuous-cache": "continuous cache",
    "uniform": "uniform distribution",
    "mixture": "mixture",
}
KNESER_NEY = "Kneser-Ney"


def name_component(kind: str) -> str:
    """Return what users call a kind of model."""
    return _TITLES.get(kind, kind)


def print_vocabulary(result: dict) -> None:
    """Print the file of a fixed vocabulary, if there is one, and how many of its words the training
    text lacks.
    """
    if words := result.get("vocabulary"):
        print(
            f"vocabulary: {words['words']:,} words of {words['file']}; {words['absent']:,} do not "
            "occur in the training text"
        )


def print_splits(result: dict) -> None:
    """Print weights of a mixture, a table of validation and test, and a command to try next."""
    # `train` estimates the n-gram model itself
    ngram_title = KNESER_NEY if "kneser_ney" in result else _TITLES["back-off"]
    if len(result.get("weights", ())) == 1:
        components = result.get("sources", result["components"])
        pairs = zip(components, result["weights"][0], strict=True)
        titles = {**_TITLES, "back-off": ngram_title}
        shares = [f"{weight:.4f} {titles.get(kind, kind)}" for kind, weight in pairs]
        print("weights: " + ", ".join(shares))
    rows = [_list_cells(result, split) for split in _SPLITS if split in result]
    if rows:
        print_table(_list_header(result), rows)
    _explain_difference(result)
    directory = result["directory"]
    if not rows:
        command = f"keras-nplm evaluate {directory} --text FILE"
        print(f"no validation or test text; for a perplexity: {command}")
    print(f'the model is in {directory}; next: keras-nplm complete {directory} "a context"')


def _explain_difference(result: dict) -> None:
    """Say why the perplexities of validation and test are far apart, if they are."""
    perplexities = [result[split]["perplexity"] for split in _SPLITS if split in result]
    if len(perplexities) < 2 or max(perplexities) <= _LARGEST_RATIO * min(perplexities):
        return
    difference = f"{perplexities[1] / perplexities[0] - 1:+.0%}"
    print(
        f"test against validation {difference}: the two texts differ; with --train alone, "
        "--shuffle splits its lines at random"
    )


def _list_header(result: dict) -> list[str]:
    header = ["", "tokens", "perplexity", "bits per character"]
    if "network" in result:
        header.append("network alone")
    if "kneser_ney" in result:
        header += [KNESER_NEY, f"vs {KNESER_NEY}"]
    return header


def _list_cells(result: dict, split: str) -> list[str]:
    figures = result[split]
    bits = figures.get("bits_per_character")
    cells = [
        split,
        f"{figures['tokens']:,}",
        f"{figures['perplexity']:.2f}",
        "none" if bits is None else f"{bits:.3f}",
    ]
    if "network" in result:
        cells.append(f"{result['network'][split]:.2f}")
    if "kneser_ney" in result:
        other = result["kneser_ney"][split]
        change = figures["perplexity"] / other - 1
        cells += [f"{other:.2f}", f"{change:+.1%}"]
    return cells


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with the first column to the left, and numbers to the right."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        first = line[0].ljust(widths[0])
        others = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join([first, *others]).rstrip())


def format_figures(figures: dict, with_all: bool = False) -> str:
    """Return the figures of `evaluate` in one line: perplexity, `<unk>` and bits, or all of
    them.
    """
    parts = [f"perplexity {figures['perplexity']:.2f} over {figures['tokens']:,} tokens"]
    if figures["unk_tokens"] and not with_all:
        parts.append(f"{figures['unk_tokens']:,} of them <unk>")
    if figures.get("bits_per_character") is None:
        parts.append(f"{figures['bits_per_word']:.3f} bits per token")
    else:
        of = " of the normalised text" if figures.get("normalised") else ""
        parts.append(f"{figures['bits_per_character']:.3f} bits per character{of}")
        parts.append(f"{figures['bits_per_byte']:.3f} bits per byte")
    if with_all:
        parts += _list_more_figures(figures)
    return ", ".join(parts)


def _list_more_figures(figures: dict) -> list[str]:
    """List what few users need: the perplexity without `<unk>`, and that per word."""
    parts = []
    if figures["unk_tokens"]:
        known = figures["perplexity_without_unk"]
        number = f"{figures['unk_tokens']:,} <unk>"
        parts.append(f"{known:.2f} without {number}" if known else f"all {number}")
    per_word = figures.get("perplexity_per_word")
    if per_word is not None and figures["characters"] < _LONGEST_MEAN_WORD * figures["words"]:
        parts.append(f"{per_word:.2f} per word")
    return parts


def print_error(command: str, message: str) -> None:
    """Print an error in one line. Control characters of quoted names and text are escaped."""
    characters = (mark if mark.isprintable() else repr(mark)[1:-1] for mark in message)
    line = "".join(characters)
    if len(line) > _MAX_ERROR:
        line = f"{line[: _MAX_ERROR // 2]} … {line[-_MAX_ERROR // 2 :]}"
    print(f"keras-nplm {command}".rstrip() + f": {line}", file=sys.stderr)
