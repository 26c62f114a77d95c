"""The command line: `keras-nplm train | ngram | mix | evaluate | score | complete | generate | export | …`."""

import argparse
import dataclasses
import json
import math
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import keras_nplm.flags as flags
from keras_nplm.benchmark import BENCHMARKS, SHORT, one_core
from keras_nplm.benchmark import run as run_benchmarks
from keras_nplm.corpora.lines import decode_lines
from keras_nplm.corpora.text_files import expand, read_lines
from keras_nplm.corpus_benchmark import SMALL
from keras_nplm.distribution import open_strategy
from keras_nplm.errors import InputError, RunError
from keras_nplm.estimation import estimate, import_arpa, mix
from keras_nplm.experiments import reproduce
from keras_nplm.language_model import LanguageModel
from keras_nplm.model_directory import read_config, read_metrics, refuse_within
from keras_nplm.ngrams import BackoffModel, write_arpa
from keras_nplm.report import benchmark_table
from keras_nplm.serving import export_litert, export_onnx, export_saved_model
from keras_nplm.training import train
from keras_nplm.version import __version__

_FORMATS = {"saved-model": "", "litert": ".tflite", "onnx": ".onnx", "arpa": ".arpa"}  # and their files' endings
_MOST_SHOWN = 1000  # characters of an error: an argument within it may have any number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: the words after `keras-nplm`. Default: those of this process.

    Returns:
        the exit status: 0, 1 where the work failed, 2 where it was asked for wrongly, 130 where it was interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        _refuse_no_text(options)
        result = options.run(options)
        if options.json:
            print(json.dumps(result, ensure_ascii=False))
        else:
            options.show(result)
        sys.stdout.flush()
    except (InputError, RunError) as error:
        _complain(options.command, str(error))
        return 2 if isinstance(error, InputError) else 1
    except BrokenPipeError:  # whoever read the output has gone: as the shell's own tools do, end quietly
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        _complain(options.command, f"{error}. Is the disk full, or a file out of reach?")
        return 1
    except MemoryError as error:
        _complain(options.command, f"There is not enough memory for this ({error}).")
        return 1
    except KeyboardInterrupt:
        _complain(options.command, f"interrupted{options.after_interrupt}")
        return 130
    return 0


def _complain(command: str, message: str) -> None:
    """Print an error as one line, whatever characters a file's name or its text brought into it."""
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in message)
    shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[: _MOST_SHOWN // 2]} … {shown[-_MOST_SHOWN // 2 :]}"
    print(f"keras-nplm {command}: {shown}", file=sys.stderr)


def _refuse_no_text(options: argparse.Namespace) -> None:
    """Refuse arguments of bytes that are not UTF-8, which neither a file of ours nor TensorFlow can hold."""
    for value in vars(options).values():
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, str) and any("\ud800" <= character <= "\udfff" for character in part):
                raise InputError(
                    f"The argument {part!r} holds half a surrogate pair, which is no character: give UTF-8."
                )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keras-nplm", description="Neural probabilistic language models (Bengio et al. 2003)."
    )
    parser.add_argument("--version", action="version", version=f"keras-nplm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, run, show, help, after_interrupt="."):
        subparser = commands.add_parser(name, help=help, description=help)
        subparser.set_defaults(run=run, show=show, after_interrupt=after_interrupt)
        subparser.add_argument("--json", action="store_true", help="print one JSON object, and nothing else")
        return subparser

    again = ": what was trained is kept; give the same command to go on."
    flags.train(command("train", _train, _show_train, "Train a model and evaluate it.", again))

    flags.ngram(command("ngram", _ngram, _show_ngram, "Estimate a count-based model and evaluate it.", again))

    flags.mix(command("mix", _mix, _show_mix, "Combine models into one, weights fitted on the validation split."))

    evaluate = command("evaluate", _evaluate, _show_evaluate, "The exact perplexity of a split or a text.")
    flags.directory(evaluate)
    what = evaluate.add_mutually_exclusive_group()
    what.add_argument("--split", choices=("train", "validation", "test"), default="test", help="default: test")
    what.add_argument("--text", metavar="FILE", nargs="+", help="text files or globs instead, one sentence a line")

    evaluate.add_argument("--ln-z", action="store_true", help="how near to 0 a network keeps ln Z, too")
    score = command("score", _score, _show_score, "A line a sentence: log-probability in nats, tokens, unknown words.")
    flags.directory(score)
    score.add_argument(
        "--self-normalised", action="store_true", help="a network's logits as they are: fast, off by ln Z a word"
    )
    score.add_argument("file", metavar="FILE", nargs="?", help="one sentence a line; default: standard input")

    complete = command("complete", _complete, _show_complete, "The most probable next words.")
    flags.directory(complete)
    complete.add_argument("context", metavar="CONTEXT", nargs="+", help='words to go on from, as in "the result of"')
    complete.add_argument("--top-k", type=int, default=5, help="how many words; default: 5")

    flags.generate(command("generate", _generate, _show_generate, "Draw a text from the model."))

    export = command("export", _export, _show_export, "Write a model in the form that other programs read.")
    flags.directory(export)
    export.add_argument("target", metavar="TARGET", help="the directory of SavedModel versions, or the file, to write")
    kinds = "saved-model: any model, for TF Serving; litert, onnx: networks; arpa (.gz: gzipped): Kneser-Ney, ARPA"
    export.add_argument("--format", choices=tuple(_FORMATS), help=f"{kinds}; default: by the ending of TARGET")
    export.add_argument("--top-k", type=int, help="saved-model: words that it suggests; default: 10")
    export.add_argument("--quantise", action="store_true", help="litert: matrices in 8 bits, a quarter of the size")

    help = "What one core does in a second, against the peers that are installed."
    flags.benchmark(command("benchmark", _benchmark, _show_benchmark, help))

    help = "Make the rows of the paper's Table 1 on Brown, and report them."
    flags.paper(command("paper", _paper, _show_paper, help, again))

    for name, subparser in commands.choices.items():
        if name not in ("train", "generate"):  # nothing in the others is random
            subparser.add_argument("--seed", type=int, default=0, help="accepted, as by every command")
    return parser


def _train(options: argparse.Namespace) -> dict:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: save, then end
    configuration, strategy = flags.configuration(options), open_strategy(options.strategy)  # before the corpus
    metrics = train(configuration, flags.corpus(options), options.output, strategy=strategy)
    return metrics | {"directory": str(options.output)}


def _show_train(result: dict) -> None:
    if "parameters" not in result:
        print("this worker is done; worker 0 has written the model")
        return
    print(
        f"trained {result['parameters']:,} parameters: {result['seconds']} s, {result['cpu_seconds']} CPU s, "
        f"{result['ngrams_per_second']:,} n-grams/s, best epoch {result['best_epoch']}"
    )
    _show_splits(result)
    if (report := Path(result["directory"], "report.html")).exists():
        print(f"{report} shows its curves, samples and words: open it in a browser")


def _show_splits(result: dict) -> None:
    for split in ("validation", "test"):
        if split in result:
            print(f"{split:10}", _line(result[split]))
    print(f'the model is in {result["directory"]}; next: keras-nplm complete {result["directory"]} "a context"')


def _ngram(options: argparse.Namespace) -> dict:
    configuration = flags.configuration(options)
    if options.vocabulary and not options.arpa:
        raise InputError("--vocabulary is for --arpa: words of a corpus are counted.")
    if options.arpa:
        if options.train or options.order:
            raise InputError("--arpa names a model, which has an order: leave --train and --order out.")
        result = import_arpa(
            options.arpa,
            options.output,
            vocabulary=options.vocabulary,
            tokenizer=options.tokenizer,
            boundary=configuration.boundary,
        )
    else:
        result = estimate(
            options.method,
            flags.corpus(options),
            options.output,
            order=configuration.order,
            num_classes=options.num_classes,
            word_classes=options.word_classes,
            paper_bins=options.paper_bins,
            **{name: getattr(configuration, name) for name in flags.TEXT_OPTIONS},
        )
    return result | {"directory": str(options.output)}


def _show_ngram(result: dict) -> None:
    listed = ", ".join(f"{number:,} {order}-grams" for order, number in enumerate(result["ngrams"], start=1))
    print(listed if "seconds" not in result else f"{listed}: {result['seconds']} s, {result['cpu_seconds']} CPU s")
    _show_splits(result)


def _mix(options: argparse.Namespace) -> dict:
    result = mix(
        options.directories,
        options.output,
        weights=options.weights,
        by_frequency=options.by_frequency,
        uniform=options.uniform,
    )
    return result | {"directory": str(options.output)}


def _show_mix(result: dict) -> None:
    if len(result["weights"]) == 1:
        named = zip(result["components"], result["weights"][0], strict=True)
        print("weights: " + ", ".join(f"{weight:.4f} {kind}" for kind, weight in named))
    else:
        print(f"weights for {len(result['weights'])} bins of frequency")
    _show_splits(result)


def _export(options: argparse.Namespace) -> dict:
    chosen = _format(options)
    language_model = LanguageModel.load(options.directory)
    told = {"format": chosen}
    if chosen == "arpa":
        if not isinstance(language_model.model, BackoffModel):
            raise InputError(f"{options.directory} is no model in back-off form: estimate one with `ngram`.")
        refuse_within(options.target)
        write_arpa(options.target, language_model.model, language_model.vocabulary)
        written = [options.target]
        told["ngrams"] = language_model.model.num_ngrams
    elif chosen == "saved-model":
        directory = Path(options.directory)
        known = {"config": read_config(directory), "metrics": _metrics_if_there(directory)}
        written = [export_saved_model(language_model, options.target, top_k=options.top_k or 10, **known)]
    elif chosen == "litert":
        written = export_litert(language_model, options.target, quantise=options.quantise)
    else:
        written = export_onnx(language_model, options.target)
    return told | {"written": list(map(str, written))}


def _format(options: argparse.Namespace) -> str:
    """The format that `export` is to write: the one that is named, or that of the target's ending."""
    if not options.target:
        raise InputError("TARGET is empty: name a directory or a file to write.")
    target = options.target.lower()
    zipped = target.endswith(".gz")
    endings = [name for name, ending in _FORMATS.items() if ending and target.removesuffix(".gz").endswith(ending)]
    chosen = options.format or (endings or ["saved-model"])[0]
    if (endings and chosen not in endings) or (zipped and chosen != "arpa"):
        raise InputError(f"The ending of {options.target} is not one of the format {chosen}: name another.")
    for flag, given, of in (("--quantise", options.quantise, "litert"), ("--top-k", options.top_k, "saved-model")):
        if given is not None and given is not False and chosen != of:
            raise InputError(f"{flag} is for the format {of}. Received: {chosen}.")
    if options.top_k is not None and options.top_k < 1:
        raise InputError(f"`top_k` must be 1 or more. Received: {options.top_k}.")
    return chosen


def _show_export(result: dict) -> None:
    what = f"{sum(result['ngrams']):,} n-grams to " if "ngrams" in result else ""
    print(f"wrote {what}{', '.join(result['written'])}")
    if result["format"] == "saved-model":
        target = Path(result["written"][0]).parent
        print(f"{target / 'README.md'} tells how to serve and ask it; next: docker compose up, in {target}")


def _metrics_if_there(directory: Path) -> dict:
    return read_metrics(directory) if (directory / "metrics.json").exists() else {}


def _benchmark(options: argparse.Namespace) -> dict:
    if unknown := [name for name in options.benchmarks if name not in BENCHMARKS]:
        raise InputError(f"There is no benchmark {unknown[0]!r}: choose of {', '.join(BENCHMARKS)}.")
    if options.rounds < 1:
        raise InputError(f"`rounds` must be 1 or more. Received: {options.rounds}.")
    if options.tokens < SMALL:
        raise InputError(f"`tokens` must be {SMALL} or more. Received: {options.tokens}.")
    one_core()
    return run_benchmarks(options.benchmarks or SHORT, flags.corpus(options), options.rounds, options.tokens)


def _show_benchmark(result: dict) -> None:
    print(f"one core of {result['cpu']}, TensorFlow {result['tensorflow']}, {result['rounds']} rounds\n")
    print(benchmark_table(result))


def _paper(options: argparse.Namespace) -> dict:
    report = reproduce(options.output, rows=options.rows, jobs=options.jobs, data_dir=options.data_dir)
    return report | {"directory": options.output}


def _show_paper(result: dict) -> None:
    print((Path(result["directory"]) / "table.md").read_text(encoding="utf-8"), end="")


def _line(figures: dict) -> str:
    known = figures["perplexity_without_unk"]
    without = f" ({known:.2f} without {figures['unk_tokens']:,} <unk>)" if known else ", all of them <unk>"
    perplexity = f"perplexity {figures['perplexity']:.2f} over {figures['tokens']:,} tokens"
    return f"{perplexity}{without}, {figures['bits_per_word']:.3f} bits a word"


def _evaluate(options: argparse.Namespace) -> dict:
    model = LanguageModel.load(options.directory)
    if options.text:
        return model.evaluate_text(list(read_lines(expand(options.text))), ln_z=options.ln_z)
    return model.evaluate(options.split, ln_z=options.ln_z)


def _show_evaluate(result: dict) -> None:
    print(_line(result))
    if "ln_z" in result:
        print("ln Z: " + ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in result["ln_z"].items()))


def _score(options: argparse.Namespace) -> dict:
    model = LanguageModel.load(options.directory, self_normalised=options.self_normalised)
    if options.file:
        sentences = list(read_lines([Path(options.file)]))
    else:
        sentences = list(decode_lines(sys.stdin.buffer, "standard input"))
    if options.self_normalised:
        print(_how_near(Path(options.directory)), file=sys.stderr)
    scores = [dataclasses.asdict(score) for score in model.score(sentences)]
    for score in scores:
        score["log_prob"] = score["log_prob"] if math.isfinite(score["log_prob"]) else None  # JSON has no infinity
    return {"sentences": scores}


def _how_near(directory: Path) -> str:
    """What is known of ln Z, which self-normalised scores leave in."""
    metrics = _metrics_if_there(directory)
    if "ln_z" in metrics.get("test", {}):
        return f"Scores are off by ln Z, on test {metrics['test']['ln_z']['mean_absolute']:.3f} nats a word on average."
    return "Scores are off by ln Z, which this network was not trained to keep near 0: see `evaluate --ln-z`."


def _show_score(result: dict) -> None:
    for score in result["sentences"]:
        log_prob = "-inf" if score["log_prob"] is None else f"{score['log_prob']:.4f}"
        print(f"{log_prob}\t{score['tokens']}\t{score['unk_tokens']}")


def _complete(options: argparse.Namespace) -> dict:
    model = LanguageModel.load(options.directory)
    return {context: dict(model.next_words(context, options.top_k)) for context in options.context}


def _show_complete(result: dict) -> None:
    for context, words in result.items():
        print(f"{context} …")
        for word, probability in words.items():
            print(f"  {probability:.4f} {word}")


def _generate(options: argparse.Namespace) -> dict:
    text = LanguageModel.load(options.directory).generate(
        options.prompt,
        options.num_words,
        seed=options.seed,
        temperature=options.temperature,
        top_k=options.top_k,
    )
    return {"prompt": options.prompt, "text": text}


def _show_generate(result: dict) -> None:
    print(f"{result['prompt']} {result['text']}".strip())
