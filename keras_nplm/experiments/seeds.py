"""Networks that are trained with several random seeds: a row of their means, least and greatest."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.experiments.rows import Row, is_made, read_row

_FIGURES = (*HELD_OUT, "training_cpu_seconds", "cpu_seconds")


@dataclasses.dataclass(frozen=True)
class Seeds:
    """Rows of one network that differ by their seed."""

    name: str
    title: str
    rows: Sequence[Row]

    def read(self, directory: Path) -> dict[str, Any]:
        return self.join([read_row(row, directory) for row in self.rows])

    def join(self, figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the figures of the rows as lists by seed; the command is that of the first."""
        line: dict[str, Any] = {"name": self.name, "title": self.title}
        for key in ("command", "parameters"):
            line[key] = figures[0][key]
        for key in _FIGURES:
            line[key] = [row[key] for row in figures]
        return line


def declare_seeds(name: str, title: str, flags: str, number: int) -> Seeds:
    """Declare a row NAME-SEED for each seed from 1."""
    rows = [
        Row(f"{name}-{seed}", title, f"train --config {flags} --seed {seed}")
        for seed in range(1, number + 1)
    ]
    return Seeds(name, title, rows)


def add_seeds(first: Row, number: int) -> Seeds:
    """Declare a row NAME-seed-SEED for each seed from 2, beside a row of the seed 1."""
    others = []
    for seed in range(2, number + 1):
        command = f"{first.command} --seed {seed}"
        others.append(Row(f"{first.name}-seed-{seed}", f"{first.title}, seed {seed}", command))
    title = f"{first.title} ({number} seeds)"
    return Seeds(f"{first.name}-seeds", title, [first, *others])


def list_rows(rows: Iterable[Row], groups: Iterable[Seeds]) -> list[Row]:
    """Return rows, and those of groups of seeds, each once."""
    both = [*rows, *(row for seeds in groups for row in seeds.rows)]
    return list(dict.fromkeys(both))


def read_made(groups: Sequence[Seeds], directory: Path) -> list[dict]:
    """Return the figures of the networks of which all seeds are made."""
    rows = [row for row in list_rows((), groups) if is_made(row, directory)]
    return join_measured(groups, [read_row(row, directory) for row in rows])


def join_measured(
    groups: Iterable[Seeds], figures: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Join the figures of the networks of which all seeds are measured."""
    measured = {row["name"]: row for row in figures}
    return [
        seeds.join([measured[row.name] for row in seeds.rows])
        for seeds in groups
        if all(row.name in measured for row in seeds.rows)
    ]
