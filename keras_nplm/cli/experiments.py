"""`keras-nplm benchmark`, `paper` and `study`: speed measurements, the paper's Table 1, and studies on Brown."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.cli.flags import (
    JOBS,
    RESUME,
    AddCommand,
    add_corpus_flags,
    add_data_dir,
    add_flag,
    add_switch,
    open_named_corpus,
)
from keras_nplm.experiments.benchmark import BENCHMARKS, DEFAULT_BENCHMARKS, Settings, run_benchmarks
from keras_nplm.experiments.studies import STUDIES, load_study
from keras_nplm.io.errors import check_argument
from keras_nplm.io.options import OPTIONS, Option, name_flag, parse_integers

_LIST = dict(is_list=True, metavar="N[,N…]")
_HELP = "CPU seconds of training of the PyTorch models of the benchmark quality"
_TOKENS = Option("tokens", str, "1000000", "tokens of the texts of `estimation`", example="1000000,100000000", **_LIST)
_SECONDS = Option("seconds", str, "300", _HELP, example="300,3000", **_LIST)
_ROUNDS = Option("rounds", int, 5, "measurements of each contender", least=1)


def add(command: AddCommand) -> None:
    help = "Measure speed on one core, or perplexity by training time, beside the peers that are installed."
    resume = ". Finished models of the benchmark quality are kept. Run the same command again to resume."
    parser = command("benchmark", _benchmark, _show, help, resume)
    help = f"benchmarks: {', '.join(BENCHMARKS)} (default: all but quality)"
    parser.add_argument("benchmarks", metavar="NAME", nargs="*", help=help)
    for option in (_ROUNDS, _TOKENS, _SECONDS):
        add_flag(parser, option)
    _add_report_flags(parser, "benchmark", "directory of the models of the benchmark quality")
    add_corpus_flags(parser, resample=False)

    help = "Train the models of the paper's Table 1 on Brown, and report them."
    parser = command("paper", _paper, _show, help, RESUME)
    _add_study_flags(parser)
    help = "rows of Table 1, such as mlp1, trigram, kneser-ney-5 (default: all)"
    parser.add_argument("--rows", metavar="NAME", nargs="+", default=(), help=help)

    parser = command("study", _study, _show, "Train the models of a study on Brown, and report them.", RESUME)
    parser.add_argument("name", metavar="NAME", help=f"study: {', '.join(STUDIES)}")
    _add_study_flags(parser)


def _add_study_flags(parser: argparse.ArgumentParser) -> None:
    add_flag(parser, JOBS, shown="2 on two or more cores")
    _add_report_flags(parser, "report", "directory of the models and the report")
    add_data_dir(parser)


def _add_report_flags(parser: argparse.ArgumentParser, what: str, directory: str) -> None:
    parser.add_argument("--output", metavar="DIR", default="paper", help=f"{directory} (default: paper)")
    help = f"replace the recorded {what} of this checkout, and write saved_models/measured/README.md again"
    add_switch(parser, "--record", help)


def _check_name(name: str, choices: Sequence[str]) -> None:
    wanted = f"one of {', '.join(choices)}"
    check_argument("NAME", name in choices, wanted, repr(name), "choose a name of this list.")


def _read_positive(options: argparse.Namespace, option: Option) -> tuple[int, ...]:
    text = getattr(options, option.name)
    numbers = parse_integers(text)
    check_argument(option.name, numbers and numbers[0] > 0, "1 or more", repr(text), f"choose {option.default}.")
    return numbers


def _benchmark(options: argparse.Namespace) -> dict:
    for name in options.benchmarks:
        _check_name(name, BENCHMARKS)
    tokens, seconds = _read_positive(options, _TOKENS), _read_positive(options, _SECONDS)
    _check_record(options)
    corpus = open_named_corpus(options)

    from keras_nplm.training.distribution import use_one_core

    use_one_core()
    settings = Settings(corpus, options.rounds, tokens, seconds, Path(options.output), options.data_dir)
    report = run_benchmarks(options.benchmarks or DEFAULT_BENCHMARKS, settings)
    _record(options, "benchmark", report | {"command": _name_command(options)})
    return report


def _name_command(options: argparse.Namespace) -> str:
    """Return the command that gives the report, without options that have their default and without paths."""
    words = ["keras-nplm", "benchmark", *options.benchmarks]
    for option in (_ROUNDS, _TOKENS, _SECONDS, OPTIONS["corpus"]):
        if (value := getattr(options, option.name)) not in (None, option.default):
            words += [name_flag(option.name), str(value)]
    return " ".join([*words, "--record"])


def _paper(options: argparse.Namespace) -> dict:
    from keras_nplm.experiments.paper import reproduce

    _check_record(options)
    report = reproduce(Path(options.output), options.rows, options.jobs, options.data_dir)
    _record(options, "paper", report)
    return report | {"directory": options.output}


def _study(options: argparse.Namespace) -> dict:
    _check_name(options.name, STUDIES)
    from keras_nplm.experiments.study import make_study

    _check_record(options)
    report = make_study(options.name, load_study(options.name), Path(options.output), options.jobs, options.data_dir)
    _record(options, options.name, report)
    return report | {"study": options.name}


def _check_record(options: argparse.Namespace) -> None:  # before the work begins
    if options.record:
        from keras_nplm.experiments.records import check_can_record

        check_can_record()


def _record(options: argparse.Namespace, name: str, report: dict) -> None:
    if options.record:
        from keras_nplm.experiments.records import record_report

        record_report(name, report)


def _show(result: dict) -> None:
    from keras_nplm.experiments.records import format_report

    if "cpu" in result:
        print(f"one core of {result['cpu']}, TensorFlow {result['tensorflow']}, {result['rounds']} rounds\n")
    print(format_report(result.get("study") or ("benchmark" if "cpu" in result else "paper"), result))
