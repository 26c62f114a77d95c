"""The command line: `keras-nplm train | ngram | mix | evaluate | score | complete | generate | export | paper`."""

import argparse
import dataclasses
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.configuration import CONFIGURATIONS, Configuration
from keras_nplm.corpora import Corpus, open_corpus
from keras_nplm.corpora.corpus import FRACTIONS
from keras_nplm.corpora.text_files import decode_lines, expand, read_lines
from keras_nplm.errors import InputError, RunError
from keras_nplm.estimation import METHODS, estimate, import_arpa, mix
from keras_nplm.experiments import ROWS, reproduce
from keras_nplm.language_model import LanguageModel
from keras_nplm.ngrams import BackoffModel, write_arpa
from keras_nplm.tokenization import TOKENIZERS
from keras_nplm.training import train
from keras_nplm.version import __version__

_TEXT_OPTIONS = ("boundary", "vocabulary_scope", "min_count", "max_size")  # of a configuration, on the text alone


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: the words after `keras-nplm`. Default: those of this process.

    Returns:
        the exit status: 0, 1 where the work failed, 2 where it was asked for wrongly, 130 where it was interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        result = options.run(options)
        if options.json:
            print(json.dumps(result, ensure_ascii=False))
        else:
            options.show(result)
        sys.stdout.flush()
    except (InputError, RunError) as error:
        print(f"keras-nplm {options.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except BrokenPipeError:  # whoever read the output has gone: as the shell's own tools do, end quietly
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"keras-nplm {options.command}: {error}. Is the disk full, or a file out of reach?", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"keras-nplm {options.command}: interrupted{options.after_interrupt}", file=sys.stderr)
        return 130
    return 0


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
    _train_options(command("train", _train, _show_train, "Train a model and evaluate it.", again))

    _ngram_options(command("ngram", _ngram, _show_ngram, "Estimate a count-based model and evaluate it.", again))

    mix_models = command("mix", _mix, _show_mix, "Combine models into one, weights fitted on the validation split.")
    mix_models.add_argument("directories", metavar="DIR", nargs="+", help="model directories of one vocabulary")
    mix_models.add_argument("--output", metavar="DIR", required=True, help="the model directory to write")
    mix_models.add_argument("--weights", metavar="W", nargs="+", type=float, help="fixed weights, one a model")
    mix_models.add_argument("--by-frequency", action="store_true", help="fit weights a bin of the context's frequency")
    mix_models.add_argument(
        "--uniform", action="store_true", help="add the uniform distribution; its weight comes last"
    )

    evaluate = command("evaluate", _evaluate, _show_evaluate, "The exact perplexity of a split or a text.")
    _directory(evaluate)
    what = evaluate.add_mutually_exclusive_group()
    what.add_argument("--split", choices=("train", "validation", "test"), default="test", help="default: test")
    what.add_argument("--text", metavar="FILE", nargs="+", help="text files or globs instead, one sentence a line")

    score = command("score", _score, _show_score, "A line a sentence: log-probability in nats, tokens, unknown words.")
    _directory(score)
    score.add_argument("file", metavar="FILE", nargs="?", help="one sentence a line; default: standard input")

    complete = command("complete", _complete, _show_complete, "The most probable next words.")
    _directory(complete)
    complete.add_argument("context", metavar="CONTEXT", nargs="+", help='words to go on from, as in "the result of"')
    complete.add_argument("--top-k", type=int, default=5, help="how many words; default: 5")

    generate = command("generate", _generate, _show_generate, "Draw a text from the model.")
    _directory(generate)
    generate.add_argument("--prompt", default="", help="text to continue")
    generate.add_argument("--num-words", type=int, default=50, help="default: 50")
    generate.add_argument("--seed", type=int, default=0, help="the same seed draws the same text; default: 0")
    generate.add_argument("--temperature", type=float, default=1.0, help="below 1: likelier words; default: 1")
    generate.add_argument("--top-k", type=int, default=None, help="draw from this many words; default: all")

    export = command("export", _export, _show_export, "Write a model in the form that other programs read.")
    _directory(export)
    export.add_argument("target", metavar="TARGET", help="the file to write; gzipped if it ends in .gz")
    export.add_argument("--format", choices=("arpa",), default="arpa", help="arpa: of Kneser-Ney and ARPA models")

    paper = command(
        "paper", _paper, _show_paper, "Make the rows of the paper's Table 1 on Brown, and report them.", again
    )
    paper.add_argument("--output", metavar="DIR", default="paper", help="where rows and report go; default: paper")
    paper.add_argument("--rows", metavar="NAME", nargs="+", default=(), help=f"of {', '.join(r.name for r in ROWS)}")
    paper.add_argument("--jobs", type=int, metavar="N", help="rows made side by side; default: 2 where there are cores")
    paper.add_argument("--data-dir", metavar="DIR", help="where Brown's archive lies or is downloaded to")
    for name in (
        "ngram",
        "mix",
        "evaluate",
        "score",
        "complete",
        "export",
        "paper",
    ):  # as every command; nothing is random
        commands.choices[name].add_argument("--seed", type=int, default=0, help="accepted, as by every command")
    return parser


def _directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a model directory, as `train`, `ngram` or `mix` wrote it")


def _train_options(parser: argparse.ArgumentParser) -> None:
    _corpus_options(parser)
    parser.add_argument("--output", metavar="DIR", required=True, help="the model directory to write")
    _configuration_options(parser, [field.name for field in dataclasses.fields(Configuration)])


def _ngram_options(parser: argparse.ArgumentParser) -> None:
    _corpus_options(parser)
    parser.add_argument("--output", metavar="DIR", required=True, help="the model directory to write")
    parser.add_argument("--method", choices=tuple(METHODS), default="kneser-ney", help="default: kneser-ney")
    parser.add_argument("--num-classes", type=int, default=500, help="of class-based models alone; default: 500")
    parser.add_argument(
        "--word-classes", metavar="FILE", help="use these classes: a line a word, its class after a tab"
    )
    parser.add_argument(
        "--paper-bins",
        action="store_true",
        help="deleted interpolation: weights by the whole context's frequency alone",
    )
    arpa = parser.add_argument_group("or read a model of another program")
    arpa.add_argument("--arpa", metavar="FILE", help="an ARPA file, gzipped or not, instead of a corpus")
    arpa.add_argument("--vocabulary", metavar="FILE", help="the vocabulary.txt of a model to mix it with")
    _configuration_options(parser, ["order", *_TEXT_OPTIONS])


def _corpus_options(parser: argparse.ArgumentParser) -> None:
    corpus = parser.add_argument_group("corpus")
    corpus.add_argument(
        "--corpus", metavar="NAME", default="python_reference", help="python_reference, brown, brown/marks, tfds:NAME"
    )
    for split in ("train", "validation", "test"):
        corpus.add_argument(
            f"--{split}", metavar="FILE", nargs="+", default=(), help=f"text files for the {split} split"
        )
    corpus.add_argument(
        "--fractions", metavar="F", nargs=3, type=float, default=FRACTIONS, help="how --train alone is split by lines"
    )
    corpus.add_argument(
        "--tokenizer", choices=tuple(TOKENIZERS), default="words", help="of text files and tfds:NAME; default: words"
    )
    corpus.add_argument("--data-dir", metavar="DIR", help="where a corpus's archive lies or is downloaded to")


def _configuration_options(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """`--config`, and a flag for each named option of a configuration."""
    parser.add_argument("--config", choices=tuple(CONFIGURATIONS), default="default", help="a named set of options")
    single = parser.add_argument_group("options, over those of --config")
    for field in dataclasses.fields(Configuration):
        if field.name not in names:
            continue
        default = getattr(CONFIGURATIONS["default"], field.name)
        help = f"{field.metadata['help']} (default: {default})"
        flag, settings = f"--{field.name.replace('_', '-')}", dict(dest=field.name, help=help)
        if field.type is bool:
            single.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, **settings)
        elif field.metadata["choices"]:
            single.add_argument(flag, choices=field.metadata["choices"], default=None, **settings)
        else:
            kind = float if field.type is float else int
            single.add_argument(flag, type=kind, metavar=kind.__name__.upper(), default=None, **settings)


def _configuration(options: argparse.Namespace) -> Configuration:
    """The named set of options with those that were given over it."""
    chosen = {field.name: getattr(options, field.name, None) for field in dataclasses.fields(Configuration)}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    return dataclasses.replace(CONFIGURATIONS[options.config], **chosen)


def _corpus(options: argparse.Namespace) -> Corpus:
    return open_corpus(
        options.corpus,
        train=options.train,
        validation=options.validation,
        test=options.test,
        fractions=tuple(options.fractions),
        tokenizer=options.tokenizer,
        data_dir=options.data_dir,
    )


def _train(options: argparse.Namespace) -> dict:
    metrics = train(_configuration(options), _corpus(options), options.output)
    return metrics | {"directory": str(options.output)}


def _show_train(result: dict) -> None:
    print(
        f"trained {result['parameters']:,} parameters: {result['seconds']} s, {result['cpu_seconds']} CPU s, "
        f"{result['ngrams_per_second']:,} n-grams/s, best epoch {result['best_epoch']}"
    )
    _show_splits(result)


def _show_splits(result: dict) -> None:
    for split in ("validation", "test"):
        if split in result:
            print(f"{split:10}", _line(result[split]))
    print(f'the model is in {result["directory"]}; next: keras-nplm complete {result["directory"]} "a context"')


def _ngram(options: argparse.Namespace) -> dict:
    configuration = _configuration(options)
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
            _corpus(options),
            options.output,
            order=configuration.order,
            num_classes=options.num_classes,
            word_classes=options.word_classes,
            paper_bins=options.paper_bins,
            **{name: getattr(configuration, name) for name in _TEXT_OPTIONS},
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
    language_model = LanguageModel.load(options.directory)
    if not isinstance(language_model.model, BackoffModel):
        raise InputError(f"{options.directory} is no model in back-off form: estimate one with `ngram`.")
    write_arpa(options.target, language_model.model, language_model.vocabulary)
    return {"target": options.target, "ngrams": language_model.model.num_ngrams}


def _show_export(result: dict) -> None:
    print(f"wrote {sum(result['ngrams']):,} n-grams to {result['target']}")


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
        return model.evaluate_text(list(read_lines(expand(options.text))))
    return model.evaluate(options.split)


def _show_evaluate(result: dict) -> None:
    print(_line(result))


def _score(options: argparse.Namespace) -> dict:
    model = LanguageModel.load(options.directory)
    if options.file:
        sentences = list(read_lines([Path(options.file)]))
    else:
        sentences = list(decode_lines(sys.stdin.buffer, "standard input"))
    scores = [dataclasses.asdict(score) for score in model.score(sentences)]
    for score in scores:
        score["log_prob"] = score["log_prob"] if math.isfinite(score["log_prob"]) else None  # JSON has no infinity
    return {"sentences": scores}


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
