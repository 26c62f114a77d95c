"""`keras-nplm benchmark`, `paper` and `study`: speed, the paper's Table 1, and studies on Brown."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from keras_nplm.cli.corpus import NO_TEXTS, CorpusFlags, Texts, open_given_corpus
from keras_nplm.cli.parameters import (
    NONE_GIVEN,
    SEVERAL,
    DataDirectory,
    Output,
    Switch,
    check_left_out,
    integer,
    make_parameter,
)
from keras_nplm.cli.printing import printed_by
from keras_nplm.data.corpus import SPLITS
from keras_nplm.experiments.study import BENCHMARKS, STUDIES
from keras_nplm.io.errors import check_argument
from keras_nplm.io.fields import FieldFacts

_ROUNDS = 5
_SECONDS = (300,)
_HELP = "CPU seconds of training of the PyTorch models of the benchmark quality"
_SECONDS_FACTS = FieldFacts("seconds", tuple, _SECONDS, _HELP, example=(300, 3000))
_HELP = (
    "replace the recorded report of this checkout, and write saved_models/measured again; models "
    "of another commit or processor are refused"
)
Record = Annotated[Switch, Parameter(help=_HELP)]
Reports = Annotated[Output, Parameter(help="directory of the models and reports")]
Jobs = Annotated[
    int | None,
    integer(
        least=1,
        example=2,
        help="models trained side by side",
        show_default="2 on two or more cores",
    ),
]


def _print_report(result: dict) -> None:
    from keras_nplm.experiments.records import format_report

    if "cpu" in result:
        cores = "one core of" if result.get("is_bound", True) else "not bound to one core:"
        machine = f"{cores} {result['cpu']}, TensorFlow {result['tensorflow']}"
        print(f"{machine}, {result['rounds']} rounds\n")
    print(format_report(result["study"], result))


@printed_by(_print_report)
def benchmark(
    *benchmarks: Annotated[
        str,
        Parameter(
            name="NAME", help=f"benchmarks: {', '.join(BENCHMARKS)}", show_default="all but quality"
        ),
    ],
    rounds: Annotated[int, integer(least=1, example=_ROUNDS)] = _ROUNDS,
    seconds: Annotated[
        tuple[int, ...] | None, make_parameter(_SECONDS_FACTS, metavar="N[,N…]")
    ] = None,
    output: Reports = "paper",
    record: Record = False,
    corpus: CorpusFlags = NONE_GIVEN,
    texts: Texts = NO_TEXTS,
) -> dict:
    """Measure speed on one core, or perplexity by training time, beside installed peers.

    Args:
        rounds: measurements of each contender
    """
    from keras_nplm.experiments.benchmark import Settings, list_origins, run_benchmarks
    from keras_nplm.experiments.benchmark.contenders import has_gpu

    for name in benchmarks:
        _check_name(name, BENCHMARKS)
    names = benchmarks or BENCHMARKS[:-1]
    if "quality" not in names:
        fix = "name the benchmark: `benchmark quality`."
        check_left_out({"seconds": seconds}, "without quality", fix)
    seconds = _SECONDS if seconds is None else seconds
    is_positive = bool(seconds) and seconds[0] > 0
    check_argument("seconds", is_positive, "1 or more", repr(seconds), "choose 300.")
    opened = open_given_corpus(corpus, texts)
    has_all = all(split in opened.splits for split in SPLITS)
    fix = "drop --all, or name both --validation and --test."
    wanted = "of train, validation and test text"
    check_argument("corpus", has_all, wanted, ", ".join(opened.splits), fix)
    settings = Settings(opened, rounds, seconds, Path(output), texts.data_dir)
    # one core; TensorFlow counts those that it may use. macOS cannot bind a process to cores
    is_bound = hasattr(os, "sched_setaffinity") and not has_gpu()
    if is_bound:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if record:
        _check_can_record(list_origins(names, settings))
    report = run_benchmarks(names, settings)
    report["is_bound"] = is_bound
    report["command"] = _name_command(benchmarks, rounds, seconds, corpus.get("corpus"))
    return _finish("benchmark", report, record)


def _name_command(
    benchmarks: Sequence[str], rounds: int, seconds: Sequence[int], corpus: str | None
) -> str:
    """Return the command of the report, without paths and options that have their default."""
    words = ["keras-nplm", "benchmark", *benchmarks]
    if rounds != _ROUNDS:
        words += ["--rounds", str(rounds)]
    if seconds != _SECONDS:
        words += ["--seconds", ",".join(map(str, seconds))]
    if corpus is not None:
        words += ["--corpus", corpus]
    return " ".join(words)


@printed_by(_print_report)
def paper(
    *,
    rows: Annotated[tuple[str, ...], SEVERAL, Parameter(metavar="NAME", show_default="all")] = (),
    jobs: Jobs = None,
    output: Reports = "paper",
    record: Record = False,
    data_dir: DataDirectory = None,
) -> dict:
    """Train the models of the paper's Table 1 on Brown, and report them.

    Args:
        rows: rows of Table 1, such as mlp1, trigram, kneser-ney-5
    """
    from keras_nplm.experiments.paper import write_figure
    from keras_nplm.experiments.study import make_study

    if record:
        _check_study("paper", output)
    report = make_study("paper", Path(output), jobs=jobs, data_dir=data_dir, rows=rows)
    report = _finish("paper", report, record)
    write_figure(Path(output) / "studies" / "paper.png", report)
    report["directory"] = output
    return report


@printed_by(_print_report)
def study(
    name: Annotated[str, Parameter(name="NAME", help=f"study: {', '.join(STUDIES)}")],
    /,
    *,
    texts: Annotated[tuple[str, ...], SEVERAL, Parameter(metavar="FILE")] = (),
    jobs: Jobs = None,
    output: Reports = "paper",
    record: Record = False,
    data_dir: DataDirectory = None,
) -> dict:
    """Train the models of a study on Brown, and report them.

    Args:
        texts: study default: texts of your own, with a sentence in each line
    """
    from keras_nplm.experiments.study import make_study

    _check_name(name, STUDIES)
    if record:
        _check_study(name, output, texts)
    report = make_study(name, Path(output), jobs=jobs, data_dir=data_dir, texts=texts)
    if texts:
        files = [Path(text).name for text in texts]
        words = ["keras-nplm", "study", name, "--texts", *files]
        report["command"] = shlex.join(words)
    return _finish(name, report, record)


def _check_name(name: str, choices: Sequence[str]) -> None:
    fix = "choose a name of this list."
    check_argument("NAME", name in choices, f"one of {', '.join(choices)}", repr(name), fix)


def _check_study(name: str, output: str, texts: Sequence[str] = ()) -> None:
    """Refuse to record a study that has models of other origins, before further ones are made."""
    from keras_nplm.experiments.rows import read_origins
    from keras_nplm.experiments.study import load_study

    _check_can_record(read_origins(load_study(name, texts).rows, Path(output)))


def _check_can_record(origins: dict) -> None:
    from keras_nplm.experiments.records import check_can_record

    check_can_record(origins)


def _finish(name: str, report: dict, record: bool) -> dict:
    """Return a report with its name, recorded with `--record`."""
    from keras_nplm.experiments.records import record_report

    if record:
        record_report(name, report)
    report["study"] = name
    return report
