"""`keras-nplm benchmark`, `paper` and `study`: speed measurements, the paper's Table 1, and studies on Brown."""

import argparse
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from keras_nplm.cli import flags
from keras_nplm.cli.flags import Option
from keras_nplm.experiments.benchmark import Settings, run_benchmarks
from keras_nplm.experiments.paper import write_figure
from keras_nplm.experiments.records import check_can_record, format_report, record_report
from keras_nplm.experiments.study import BENCHMARKS, STUDIES, make_study
from keras_nplm.io.errors import check_argument
from keras_nplm.training.configurations import format_flag
from keras_nplm.training.options import CorpusOptions, describe_fields

_HELP = "CPU seconds of training of the PyTorch models of the benchmark quality"
_SECONDS = Option("seconds", tuple, (300,), _HELP, example=(300, 3000), metavar="N[,N…]")
_ROUNDS = Option("rounds", int, 5, "measurements of each contender", least=1)


def add(command: flags.AddCommand) -> None:
    help = "Measure speed on one core, or perplexity by training time, beside the peers that are installed."
    resume = ". Finished models of the benchmark quality are kept. Run the same command again to resume."
    parser = command("benchmark", _benchmark, _show, help, resume)
    help = f"benchmarks: {', '.join(BENCHMARKS)} (default: all but quality)"
    parser.add_argument("benchmarks", metavar="NAME", nargs="*", help=help)
    for option in (_ROUNDS, _SECONDS):
        flags.add_flag(parser, option)
    _add_report_flags(parser)
    flags.add_corpus_flags(parser, resample=False)

    help = "Train the models of the paper's Table 1 on Brown, and report them."
    parser = command("paper", _paper, _show, help, flags.RESUME)
    _add_study_flags(parser)
    help = "rows of Table 1, such as mlp1, trigram, kneser-ney-5 (default: all)"
    parser.add_argument("--rows", metavar="NAME", nargs="+", default=(), help=help)

    parser = command("study", _study, _show, "Train the models of a study on Brown, and report them.", flags.RESUME)
    parser.add_argument("name", metavar="NAME", help=f"study: {', '.join(STUDIES)}")
    help = "study default: texts of your own, with a sentence in each line"
    parser.add_argument("--texts", metavar="FILE", nargs="+", default=(), help=help)
    _add_study_flags(parser)


def _add_study_flags(parser: argparse.ArgumentParser) -> None:
    flags.add_flag(parser, flags.JOBS, shown="2 on two or more cores")
    _add_report_flags(parser)
    flags.add_data_dir(parser)


def _add_report_flags(parser: argparse.ArgumentParser) -> None:
    help = "directory of the models and reports (default: paper)"
    parser.add_argument("--output", metavar="DIR", default="paper", help=help)
    help = "replace the recorded report of this checkout, and write saved_models/measured/README.md again"
    flags.add_switch(parser, "--record", help)


def _check_name(name: str, choices: Sequence[str]) -> None:
    check_argument("NAME", name in choices, f"one of {', '.join(choices)}", repr(name), "choose a name of this list.")


def _benchmark(options: argparse.Namespace) -> dict:
    for name in options.benchmarks:
        _check_name(name, BENCHMARKS)
    seconds = options.seconds
    check_argument("seconds", bool(seconds) and seconds[0] > 0, "1 or more", repr(seconds), "choose 300.")

    def measure() -> dict:
        corpus = flags.open_named_corpus(options)
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core; TensorFlow counts those that it may use
        settings = Settings(corpus, options.rounds, seconds, Path(options.output), options.data_dir)
        return run_benchmarks(options.benchmarks or BENCHMARKS[:-1], settings) | {"command": _name_command(options)}

    return _report(options, "benchmark", measure)


def _name_command(options: argparse.Namespace) -> str:
    """Return the command that gives the report, without options that have their default and without paths."""
    words = ["keras-nplm", "benchmark", *options.benchmarks]
    for option in (_ROUNDS, _SECONDS, describe_fields(CorpusOptions)["corpus"]):
        if (value := getattr(options, option.name)) not in (None, option.default):
            words += format_flag(option.name, value)
    return " ".join([*words, "--record"])


def _paper(options: argparse.Namespace) -> dict:
    report = _make(options, "paper", {}, rows=options.rows)
    write_figure(Path(options.output) / "studies" / "paper.png", report)
    return report | {"directory": options.output}


def _study(options: argparse.Namespace) -> dict:
    _check_name(options.name, STUDIES)
    words = ["keras-nplm", "study", options.name, "--texts", *(Path(text).name for text in options.texts), "--record"]
    command = {"command": shlex.join(words)} if options.texts else {}
    return _make(options, options.name, command, texts=options.texts)


def _make(options: argparse.Namespace, name: str, more: Mapping[str, str], **parts: Sequence[str]) -> dict:
    settings = dict(jobs=options.jobs, data_dir=options.data_dir)
    return _report(options, name, lambda: make_study(name, Path(options.output), **settings, **parts) | more)


def _report(options: argparse.Namespace, name: str, make: Callable[[], dict]) -> dict:
    """Return a report, recorded with `--record`."""
    if options.record:
        check_can_record()
    report = make()
    if options.record:
        record_report(name, report)
    return report | {"study": name}


def _show(result: dict) -> None:
    if "cpu" in result:
        print(f"one core of {result['cpu']}, TensorFlow {result['tensorflow']}, {result['rounds']} rounds\n")
    print(format_report(result["study"], result))
