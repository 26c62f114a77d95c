"""`keras-nplm benchmark`, `paper` and `study`: speed measurements, the paper's Table 1, and studies on Brown."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_nplm.cli.flags import (
    JOBS,
    RESUME,
    AddCommand,
    add_corpus_flags,
    add_data_dir,
    add_flag,
    open_named_corpus,
)
from keras_nplm.experiments.benchmark import (
    AVERAGE_EVERY,
    BENCHMARKS,
    DEFAULT_BENCHMARKS,
    SECONDS,
    TOKENS,
    run_benchmarks,
)
from keras_nplm.experiments.studies import STUDIES, load_study
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.options import OPTIONS, Option, name_flag, parse_integers

if TYPE_CHECKING:
    from keras_nplm.experiments.studies.study import Study

_TOKENS = Option(
    name="tokens",
    type=str,
    default=",".join(map(str, TOKENS)),
    is_list=True,
    example="1000000,100000000",
    metavar="N[,N…]",
    help="tokens of the sampled texts of the benchmarks estimation, preparation and tfds",
)
_SECONDS = Option(
    name="seconds",
    type=str,
    default=",".join(map(str, SECONDS)),
    is_list=True,
    example="300,3000",
    metavar="N[,N…]",
    help="CPU seconds of training of the PyTorch models of the benchmark quality",
)
_AVERAGE_EVERY = Option(
    name="average_every",
    type=str,
    default=",".join(map(str, AVERAGE_EVERY)),
    is_list=True,
    example="1,64,256",
    metavar="K[,K…]",
    help="updates between two averages of the weights of two workers, in the benchmark workers; 1: synchronous",
)
_ROUNDS = Option(name="rounds", type=int, default=5, least=1, help="measurements of each contender")


def add(command: AddCommand) -> None:
    """Add the commands."""
    help = "Measure speed on one core, or perplexity by training time, beside the peers that are installed."
    resume = ". Finished models of the benchmark quality are kept. Run the same command again to resume."
    _add_benchmark_flags(command("benchmark", _benchmark, _show_benchmark, help, resume))
    help = "Train the models of the paper's Table 1 on Brown, and report them."
    _add_paper_flags(command("paper", _paper, _show_paper, help, RESUME))
    help = "Train the models of a study on Brown, and report them."
    _add_study_flags(command("study", _study, _show_study, help, RESUME))


def _check_name(name: str, choices: Sequence[str], argument: str) -> None:
    if name not in choices:
        raise InputError(
            f"`{argument}` must be one of {', '.join(choices)}. Received: {name!r}. Fix: choose a name of this list."
        )


def _add_benchmark_flags(parser: argparse.ArgumentParser) -> None:
    help = f"benchmarks: {', '.join(BENCHMARKS)} (default: all but cost, preparation, tfds, workers and quality)"
    parser.add_argument("benchmarks", metavar="NAME", nargs="*", help=help)
    add_flag(parser, _ROUNDS)
    add_flag(parser, _TOKENS)
    add_flag(parser, _SECONDS)
    add_flag(parser, _AVERAGE_EVERY)
    help = "directory of the models of the benchmark quality (default: paper)"
    parser.add_argument("--output", metavar="DIR", default="paper", help=help)
    _add_record_flag(parser, "benchmark")
    add_corpus_flags(parser, resample=False)


def _parse_positive(name: str, text: str, fix: str) -> tuple[int, ...]:
    """Return the rising integers of a list, which must not be empty and begins with 1 or more."""
    numbers = parse_integers(text)
    check_argument(name, bool(numbers) and numbers[0] > 0, "1 or more", repr(text), fix)
    return numbers


def _benchmark(options: argparse.Namespace) -> dict:
    for name in options.benchmarks:
        _check_name(name, BENCHMARKS, "NAME")
    seconds = _parse_positive("seconds", options.seconds, "choose 300.")
    tokens = _parse_positive("tokens", options.tokens, "choose 1000000.")
    every = _parse_positive("average_every", options.average_every, "choose 64.")
    _check_record(options)
    corpus = open_named_corpus(options)

    from keras_nplm.training.distribution import use_one_core

    use_one_core()
    report = run_benchmarks(
        options.benchmarks or DEFAULT_BENCHMARKS,
        corpus,
        options.rounds,
        tokens,
        seconds=seconds,
        average_every=every,
        directory=options.output,
        data_dir=options.data_dir,
    )
    _record(options, "benchmark", report | {"command": _name_command(options)})
    return report


def _name_command(options: argparse.Namespace) -> str:
    """Return the command that gives the report, without options that have their default and without paths."""
    words = ["keras-nplm", "benchmark", *options.benchmarks]
    for option in (_ROUNDS, _TOKENS, _SECONDS, _AVERAGE_EVERY, OPTIONS["corpus"]):
        if (value := getattr(options, option.name)) not in (None, option.default):
            words += [name_flag(option.name), str(value)]
    return " ".join([*words, "--record"])


def _show_benchmark(result: dict) -> None:
    from keras_nplm.experiments.tables import format_benchmark

    print(f"one core of {result['cpu']}, TensorFlow {result['tensorflow']}, {result['rounds']} rounds\n")
    print(format_benchmark(result))


def _add_paper_flags(parser: argparse.ArgumentParser) -> None:
    _add_report_flags(parser)
    help = "rows of Table 1, such as mlp1, trigram, kneser-ney-5 (default: all)"
    parser.add_argument("--rows", metavar="NAME", nargs="+", default=(), help=help)


def _paper(options: argparse.Namespace) -> dict:
    from keras_nplm.experiments.paper import reproduce

    _check_record(options)
    report = reproduce(options.output, rows=options.rows, jobs=options.jobs, data_dir=options.data_dir)
    _record(options, "paper", report)
    return report | {"directory": options.output}


def _show_paper(result: dict) -> None:
    print((Path(result["directory"]) / "table.md").read_text(encoding="utf-8"), end="")


def _add_study_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=f"study: {', '.join(STUDIES)}")
    _add_report_flags(parser)
    help = "HTML pages of the study tokenization (default: those of the installed package debian-handbook)"
    parser.add_argument("--pages", metavar="DIR", help=help)
    help = "text files of the study default, or directories with train.txt, validation.txt, test.txt (default: none)"
    parser.add_argument("--texts", metavar="FILE", nargs="+", default=(), help=help)
    help = "the same, with characters as tokens (default: none)"
    parser.add_argument("--character-texts", metavar="FILE", nargs="+", default=(), help=help)


def _add_report_flags(parser: argparse.ArgumentParser) -> None:
    help = "directory of the models and the report (default: paper)"
    parser.add_argument("--output", metavar="DIR", default="paper", help=help)
    add_flag(parser, JOBS, shown="2 on two or more cores")
    _add_record_flag(parser, "report")
    add_data_dir(parser)


def _add_record_flag(parser: argparse.ArgumentParser, what: str) -> None:
    help = (
        f"replace the recorded {what} of this checkout, and write saved_models/measured/README.md again (default: off)"
    )
    parser.add_argument("--record", action="store_true", help=help)


def _check_record(options: argparse.Namespace) -> None:
    """Refuse `--record` without a checkout, before the work begins."""
    if options.record:
        from keras_nplm.experiments.records import check_can_record

        check_can_record()


def _record(options: argparse.Namespace, name: str, report: dict) -> None:
    if options.record:
        from keras_nplm.experiments.records import record_report

        record_report(name, report)


def _study(options: argparse.Namespace) -> dict:
    _check_name(options.name, STUDIES, "NAME")

    from keras_nplm.experiments.studies.study import make_study

    _check_record(options)
    study = _load_study(options)
    report = make_study(options.name, study, options.output, jobs=options.jobs, data_dir=options.data_dir)
    _record(options, options.name, report)
    return report | {"study": options.name}


def _load_study(options: argparse.Namespace) -> "Study":
    """Load the study, with the files and directories that flags name.

    Raises:
        InputError: a flag of a different study is given.
    """
    if options.pages is not None and options.name != "tokenization":
        raise InputError(
            f"`--pages` must be left out with the study {options.name}. Received: {options.pages}. Fix: leave it out."
        )
    if options.name == "default":
        from keras_nplm.experiments.studies.default import TextStudy

        return TextStudy(options.texts, options.character_texts)
    if options.texts or options.character_texts:
        raise InputError(
            f"`--texts` and `--character-texts` must be left out with the study {options.name}. Received: "
            f"{', '.join([*options.texts, *options.character_texts])}. Fix: choose the study default."
        )
    if options.pages is not None:
        from keras_nplm.experiments.studies.tokenization import HandbookStudy

        return HandbookStudy(options.pages)
    return load_study(options.name)


def _show_study(result: dict) -> None:
    print(load_study(result["study"]).format_report(result))
