"""Results of commands, printed for people or as JSON, and errors."""

import json
import sys
from collections.abc import Iterator

_LONGEST_MEAN_WORD = 15  # characters; text with longer words has no spaces between its words, as Chinese
_MAX_ERROR = 1000  # characters of a printed error, which may quote an argument of any length


def print_json(result: dict) -> None:
    """Print an object as one line of JSON, in bounded memory: an iterator becomes a list, printed item by item."""
    opening, is_ascii = "{", not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    for name, value in result.items():
        is_list = isinstance(value, Iterator)
        texts = (json.dumps(item, ensure_ascii=is_ascii) for item in (value if is_list else [value]))
        first = next(texts, "")  # before anything is printed: it may be refused
        sys.stdout.write(f"{opening}{json.dumps(name, ensure_ascii=is_ascii)}: {'[' * is_list}{first}")
        sys.stdout.writelines(f", {text}" for text in texts)
        sys.stdout.write("]" * is_list)
        opening = ", "
    print("}" if result else "{}")


def print_splits(result: dict) -> None:
    """Print the weights of a mixture, the perplexities of a model directory, and a command to try next."""
    if len(result.get("weights", ())) == 1:
        pairs = zip(result["components"], result["weights"][0], strict=True)
        print("weights: " + ", ".join(f"{weight:.4f} {kind}" for kind, weight in pairs))
    for split in ("validation", "test"):
        if split in result:
            print(f"{split:10}", format_figures(result[split]))
    print(f'the model is in {result["directory"]}; next: keras-nplm complete {result["directory"]} "a context"')


def format_figures(figures: dict) -> str:
    """Return the figures of `evaluate` in one line."""
    known = figures["perplexity_without_unk"]
    unknown = f" ({known:.2f} without {figures['unk_tokens']:,} <unk>)" if known else ", all of them <unk>"
    without = unknown if figures["unk_tokens"] else ""
    perplexity = f"perplexity {figures['perplexity']:.2f} over {figures['tokens']:,} tokens"
    if figures.get("bits_per_character") is None:
        return f"{perplexity}{without}, {figures['bits_per_word']:.3f} bits per token"
    of = " of the normalised text" if figures.get("normalised") else ""
    has_words = figures["characters"] < _LONGEST_MEAN_WORD * figures["words"]
    per_word = f", {figures['perplexity_per_word']:.2f} per word" if has_words else ""
    return f"{perplexity}{without}{per_word}; {figures['bits_per_character']:.3f} bits per character{of}"


def print_error(command: str, message: str) -> None:
    """Print an error in one line. Control characters of quoted names and text are escaped."""
    line = "".join(character if character.isprintable() else repr(character)[1:-1] for character in message)
    if len(line) > _MAX_ERROR:
        line = f"{line[: _MAX_ERROR // 2]} … {line[-_MAX_ERROR // 2 :]}"
    print(f"keras-nplm {command}: {line}", file=sys.stderr)
