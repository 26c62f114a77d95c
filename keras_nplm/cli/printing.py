"""Results of commands, printed for people or as JSON, and errors."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

_Command = TypeVar("_Command", bound=Callable[..., dict])

# characters; text with longer words has no spaces between its words, as Chinese
_LONGEST_MEAN_WORD = 15
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


def print_splits(result: dict) -> None:
    """Print weights of a mixture, perplexities of a model directory, and a command to try next."""
    if len(result.get("weights", ())) == 1:
        pairs = zip(result["components"], result["weights"][0], strict=True)
        print("weights: " + ", ".join(f"{weight:.4f} {kind}" for kind, weight in pairs))
    for split in ("validation", "test"):
        if split in result:
            print(f"{split:10}", format_figures(result[split]))
    directory = result["directory"]
    print(f'the model is in {directory}; next: keras-nplm complete {directory} "a context"')


def format_figures(figures: dict) -> str:
    """Return the figures of `evaluate` in one line."""
    known = figures["perplexity_without_unk"]
    without = ""
    if figures["unk_tokens"]:
        without = ", all of them <unk>"
        if known:
            without = f" ({known:.2f} without {figures['unk_tokens']:,} <unk>)"
    perplexity = f"perplexity {figures['perplexity']:.2f} over {figures['tokens']:,} tokens"
    if figures.get("bits_per_character") is None:
        return f"{perplexity}{without}, {figures['bits_per_word']:.3f} bits per token"
    of = " of the normalised text" if figures.get("normalised") else ""
    has_words = figures["characters"] < _LONGEST_MEAN_WORD * figures["words"]
    per_word = f", {figures['perplexity_per_word']:.2f} per word" if has_words else ""
    bits = f"{figures['bits_per_character']:.3f} bits per character"
    return f"{perplexity}{without}{per_word}; {bits}{of}"


def print_error(command: str, message: str) -> None:
    """Print an error in one line. Control characters of quoted names and text are escaped."""
    characters = (mark if mark.isprintable() else repr(mark)[1:-1] for mark in message)
    line = "".join(characters)
    if len(line) > _MAX_ERROR:
        line = f"{line[: _MAX_ERROR // 2]} … {line[-_MAX_ERROR // 2 :]}"
    print(f"keras-nplm {command}".rstrip() + f": {line}", file=sys.stderr)
