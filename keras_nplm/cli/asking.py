"""`keras-nplm evaluate`, `score`, `complete` and `generate`: what a model says of a text, and how it goes on."""

import argparse
import dataclasses
import math
import sys
from pathlib import Path

from keras_nplm.cli.options import AddCommand, directory
from keras_nplm.cli.shown import line
from keras_nplm.data.corpora.compressed import decode_lines
from keras_nplm.data.corpora.text_files import expand_patterns, read_lines
from keras_nplm.data.tokenizers import get_separator
from keras_nplm.language_model.directory import read_metrics
from keras_nplm.language_model.language_model import LanguageModel


def add(command: AddCommand) -> None:
    """Add the commands."""
    evaluate = command("evaluate", _evaluate, _show_evaluate, "The exact perplexity of a split or a text.")
    directory(evaluate)
    what = evaluate.add_mutually_exclusive_group()
    what.add_argument("--split", choices=("train", "validation", "test"), default="test", help="default: test")
    what.add_argument("--text", metavar="FILE", nargs="+", help="text files or globs instead, one sentence a line")
    evaluate.add_argument("--ln-z", action="store_true", help="how near to 0 a network keeps ln Z, too")

    score = command("score", _score, _show_score, "A line a sentence: log-probability in nats, tokens, unknown words.")
    directory(score)
    score.add_argument(
        "--self-normalised", action="store_true", help="a network's logits as they are: fast, off by ln Z a word"
    )
    score.add_argument("file", metavar="FILE", nargs="?", help="one sentence a line; default: standard input")

    complete = command("complete", _complete, _show_complete, "The most probable next words.")
    directory(complete)
    complete.add_argument("context", metavar="CONTEXT", nargs="+", help='words to go on from, as in "the result of"')
    complete.add_argument("--top-k", type=int, default=5, help="how many words; default: 5")

    generate = command("generate", _generate, _show_generate, "Draw a text from the model.")
    directory(generate)
    generate.add_argument("--prompt", default="", help="text to continue")
    generate.add_argument("--num-words", type=int, default=50, help="default: 50")
    generate.add_argument("--seed", type=int, default=0, help="the same seed draws the same text; default: 0")
    generate.add_argument("--temperature", type=float, default=1.0, help="below 1: likelier words; default: 1")
    generate.add_argument("--top-k", type=int, default=None, help="draw from this many words; default: all")


def _evaluate(options: argparse.Namespace) -> dict:
    model = LanguageModel.load(options.directory)
    if options.text:
        return model.evaluate(list(read_lines(expand_patterns(options.text))), ln_z=options.ln_z)
    return model.evaluate(options.split, ln_z=options.ln_z)


def _show_evaluate(result: dict) -> None:
    print(line(result))
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
    metrics = read_metrics(directory, missing_ok=True)
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
    model = LanguageModel.load(options.directory)
    text = model.generate(
        options.prompt,
        options.num_words,
        seed=options.seed,
        temperature=options.temperature,
        top_k=options.top_k,
    )
    between = get_separator(model.tokenizer_name)
    prompt = options.prompt if between else " ".join(options.prompt.split())  # as characters are told apart
    whole = f"{prompt}{between}{text}".strip()
    return {"prompt": options.prompt, "text": text, "whole": whole}


def _show_generate(result: dict) -> None:
    print(result["whole"])
