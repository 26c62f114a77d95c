"""Tables in Markdown."""


def markdown_table(header: list[str], rows: list[list]) -> str:
    """Format a Markdown table. A `|` in a cell of the body is escaped.

    Args:
        header: the names of the columns.
        rows: the cells of each row, converted by `str`.

    Example:

    >>> print(markdown_table(["model", "perplexity"], [["NPLM", 272.8]]))
    | model | perplexity |
    |---|---|
    | NPLM | 272.8 |
    """
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    cells = ([str(cell).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in cells)])
