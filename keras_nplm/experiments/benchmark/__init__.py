"""Benchmarks: n-grams per CPU second, as a ratio to peers and as a share of the processor's peak.

Contenders run on one core and take turns, so that each round compares them under the same load. A
rate is the median over the rounds. A ratio is the median of the ratios within the rounds. Each peer
runs in its own process. With a GPU they are not bound to a core, and the seconds are wall time.
"""

import dataclasses
import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_nplm.experiments.benchmark.contenders import Contender, measure_group
from keras_nplm.experiments.origin import Origin
from keras_nplm.experiments.study import Declaration
from keras_nplm.experiments.tables import Column, Frame, Table, join_paragraphs
from keras_nplm.io.memory import keep_freed_memory
from keras_nplm.io.processor import read_processor_name

if TYPE_CHECKING:
    from keras_nplm.data.corpus import Corpus


@dataclasses.dataclass(frozen=True)
class Settings:
    corpus: "Corpus"  # for n-gram models
    rounds: int = 5
    seconds: Sequence[int] = (300,)  # CPU seconds of training of the PyTorch models of `quality`
    directory: Path = Path("paper")  # of the models of `quality`, as of `keras-nplm paper`
    data_dir: str | None = None  # of Brown's archive


def format_ratios(row: dict) -> str:
    ratios = row.get("ratio_to", {}).items()
    return "; ".join(
        f"{name}: {ratio:.2f} ({low:.2f} to {high:.2f})" for name, (ratio, low, high) in ratios
    )


def format_range(row: dict) -> str:
    return f"{row['low']:,.0f} to {row['high']:,.0f}"


SPEED_COLUMNS: list[Column] = [
    ("contender", "name", ""),
    ("n-grams/s (median)", "rate", ",.0f"),
    ("min to max", format_range, ""),
    ("share of peak", "share_of_peak", ".0%"),
    ("ratio to peer (min to max)", format_ratios, ""),
]


def _list_no_origins(settings: Settings) -> dict[str, list[Origin]]:
    return {}


@dataclasses.dataclass(frozen=True)
class Benchmark(Declaration):
    """A benchmark: `measure` returns its rows, each with `name`, and `failure` or figures."""

    measure: Callable[[Settings], list[dict]] = dataclasses.field(kw_only=True)
    # the origins of the models that are kept between two calls, by path
    list_origins: Callable[[Settings], dict[str, list[Origin]]] = _list_no_origins


def declare_speed(
    text: str,
    build_groups: Callable[[Settings], Iterable[list[Contender]]],
    columns: Sequence[Column] = SPEED_COLUMNS,
) -> Benchmark:
    """Return a benchmark of groups of contenders, which take turns within their group."""

    def measure(settings: Settings) -> list[dict]:
        rows = []
        for group in build_groups(settings):
            rows += measure_group(group, settings.rounds)
        return rows

    return Benchmark(text, [Table("rows", columns)], measure=measure)


def load_benchmark(name: str) -> Benchmark:
    """Import and return the declaration of a benchmark."""
    return importlib.import_module(f"{__package__}.{name}").BENCHMARK


class _Benchmarks(Declaration):
    """The report of several benchmarks."""

    def format(self, report: Mapping, frame: Frame | None = None) -> str:
        """Return the tables of the benchmarks that ran."""
        names = dict.fromkeys(row["benchmark"] for row in report["rows"])
        return join_paragraphs(*(self.format_one(name, report, frame) for name in names))

    def format_one(self, name: str, report: Mapping, frame: Frame | None) -> str:
        """Return the table of a benchmark, on the page with the text of its module."""
        benchmark = load_benchmark(name)
        title, text = benchmark.split_text()
        rows = [row for row in report["rows"] if row["benchmark"] == name]
        if frame is not None:
            frame = dataclasses.replace(frame, text=text)
        return join_paragraphs(f"### `{name}`: {title}", benchmark.format({"rows": rows}, frame))


ALL = _Benchmarks(__doc__)


def list_origins(names: Sequence[str], settings: Settings) -> dict[str, list[Origin]]:
    """Return the origins of the models of benchmarks that are made, by path."""
    origins = {}
    for name in names:
        origins.update(load_benchmark(name).list_origins(settings))
    return origins


def run_benchmarks(names: Sequence[str], settings: Settings) -> dict:
    """Return the rows of benchmarks, each with `benchmark`, `name`, and `failure` or figures; the
    machine; and the origins of kept models.
    """
    keep_freed_memory()
    # TensorFlow would take all memory of a GPU, and peers train on it too
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    import tensorflow as tf

    rows = []
    for name in names:
        for row in load_benchmark(name).measure(settings):
            rows.append({"benchmark": name, **row})
    return {
        "rows": rows,
        "rounds": settings.rounds,
        "cpu": read_processor_name(),
        "tensorflow": tf.__version__,
        "origins": list_origins(names, settings),
    }
