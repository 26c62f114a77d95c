"""The command line: `keras-nplm train | evaluate | score | complete | generate`."""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.configuration import CONFIGURATIONS, Configuration
from keras_nplm.corpora import open_corpus
from keras_nplm.corpora.corpus import FRACTIONS
from keras_nplm.corpora.text_files import decode_lines, expand, read_lines
from keras_nplm.errors import InputError, RunError
from keras_nplm.language_model import LanguageModel
from keras_nplm.tokenization import TOKENIZERS
from keras_nplm.training import train
from keras_nplm.version import __version__


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
    for name in ("evaluate", "score", "complete"):  # as every command; nothing in these is random
        commands.choices[name].add_argument("--seed", type=int, default=0, help="accepted, as by every command")
    return parser


def _directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a model directory, as `train --output` wrote it")


def _train_options(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--output", metavar="DIR", required=True, help="the model directory to write")
    parser.add_argument("--config", choices=tuple(CONFIGURATIONS), default="default", help="a named set of options")
    single = parser.add_argument_group("options, over those of --config")
    for field in dataclasses.fields(Configuration):
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


def _train(options: argparse.Namespace) -> dict:
    chosen = {field.name: getattr(options, field.name) for field in dataclasses.fields(Configuration)}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    configuration = dataclasses.replace(CONFIGURATIONS[options.config], **chosen)
    corpus = open_corpus(
        options.corpus,
        train=options.train,
        validation=options.validation,
        test=options.test,
        fractions=tuple(options.fractions),
        tokenizer=options.tokenizer,
        data_dir=options.data_dir,
    )
    return train(configuration, corpus, options.output) | {"directory": str(options.output)}


def _show_train(result: dict) -> None:
    print(
        f"trained {result['parameters']:,} parameters: {result['seconds']} s, {result['cpu_seconds']} CPU s, "
        f"{result['ngrams_per_second']:,} n-grams/s, best epoch {result['best_epoch']}"
    )
    for split in ("validation", "test"):
        print(f"{split:10}", _line(result[split]))
    print(f'the model is in {result["directory"]}; next: keras-nplm complete {result["directory"]} "a context"')


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
    return {"sentences": [dataclasses.asdict(score) for score in model.score(sentences)]}


def _show_score(result: dict) -> None:
    for score in result["sentences"]:
        print(f"{score['log_prob']:.4f}\t{score['tokens']}\t{score['unk_tokens']}")


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
