"""Tables and quoted text in Markdown."""

import re

_LONGEST = 200  # characters of quoted text


def markdown_code(text: str) -> str:
    """Quote text of unknown origin as one Markdown code span.

    It cannot become markup, a heading or a script.
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    ticks = max(map(len, re.findall("`+", text)), default=0)
    return f"`{text}`" if not ticks else f"{'`' * (ticks + 1)} {text} {'`' * (ticks + 1)}"


def markdown_table(header: list[str], rows: list[list]) -> str:
    """Format a Markdown table.

    In a cell of the body a `|` is escaped, and a line end becomes a space.
    """
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    cells = ([" ".join(str(cell).splitlines()).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in cells)])
