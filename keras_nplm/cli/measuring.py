"""`keras-nplm benchmark`, `paper` and `study`: what the package reaches, in speed and on Brown."""

import argparse
from pathlib import Path

from keras_nplm.cli.options import (
    AGAIN,
    AddCommand,
    corpus_of,
    corpus_options,
    data_dir,
    jobs,
)
from keras_nplm.experiments.benchmark import (
    BENCHMARKS,
    DEFAULT_BENCHMARKS,
    LARGE_TOKENS,
    SMALL_TOKENS,
    run_benchmarks,
)
from keras_nplm.experiments.paper_rows import PAPER_ROWS
from keras_nplm.experiments.studies import STUDIES, load_study
from keras_nplm.experiments.tables import format_benchmark
from keras_nplm.io.errors import InputError
from keras_nplm.training.distribution import use_one_core


def add(command: AddCommand) -> None:
    """Add the commands."""
    help = "What one core does in a second, against the peers that are installed."
    _benchmark_flags(command("benchmark", _benchmark, _show_benchmark, help))
    help = "Make the rows of the paper's Table 1 on Brown, and report them."
    _paper_flags(command("paper", _paper, _show_paper, help, AGAIN))
    help = "Make the models of a study on Brown, and show what it finds."
    _study_flags(command("study", _study, _show_study, help, AGAIN))


def _benchmark_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "benchmarks", metavar="NAME", nargs="*", help=f"of {', '.join(BENCHMARKS)}; default: all but cost, corpora"
    )
    parser.add_argument("--rounds", type=int, metavar="N", default=5, help="turns of each contender; default: 5")
    help = f"of the larger text of `corpora`; default: {LARGE_TOKENS:,}"
    parser.add_argument("--tokens", type=int, metavar="N", default=LARGE_TOKENS, help=help)
    corpus_options(parser, resample=False)


def _benchmark(options: argparse.Namespace) -> dict:
    if unknown := [name for name in options.benchmarks if name not in BENCHMARKS]:
        raise InputError(f"There is no benchmark {unknown[0]!r}: choose of {', '.join(BENCHMARKS)}.")
    if options.rounds < 1:
        raise InputError(f"`rounds` must be 1 or more. Received: {options.rounds}.")
    if options.tokens < SMALL_TOKENS:
        raise InputError(f"`tokens` must be {SMALL_TOKENS} or more. Received: {options.tokens}.")
    use_one_core()
    return run_benchmarks(options.benchmarks or DEFAULT_BENCHMARKS, corpus_of(options), options.rounds, options.tokens)


def _show_benchmark(result: dict) -> None:
    print(f"one core of {result['cpu']}, TensorFlow {result['tensorflow']}, {result['rounds']} rounds\n")
    print(format_benchmark(result))


def _paper_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", metavar="DIR", default="paper", help="where rows and report go; default: paper")
    parser.add_argument(
        "--rows", metavar="NAME", nargs="+", default=(), help=f"of {', '.join(r.name for r in PAPER_ROWS)}"
    )
    jobs(parser)
    data_dir(parser)


def _paper(options: argparse.Namespace) -> dict:
    from keras_nplm.experiments.paper import reproduce

    report = reproduce(options.output, rows=options.rows, jobs=options.jobs, data_dir=options.data_dir)
    return report | {"directory": options.output}


def _show_paper(result: dict) -> None:
    print((Path(result["directory"]) / "table.md").read_text(encoding="utf-8"), end="")


def _study_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=f"of {', '.join(STUDIES)}")
    parser.add_argument("--output", metavar="DIR", default="paper", help="where models and report go; default: paper")
    jobs(parser)
    data_dir(parser)


def _study(options: argparse.Namespace) -> dict:
    if options.name not in STUDIES:
        raise InputError(f"There is no study {options.name!r}: choose of {', '.join(STUDIES)}.")
    from keras_nplm.experiments.studies.study import make_study

    report = make_study(
        options.name, load_study(options.name), options.output, jobs=options.jobs, data_dir=options.data_dir
    )
    return report | {"study": options.name}


def _show_study(result: dict) -> None:
    print(load_study(result["study"]).format_report(result))
