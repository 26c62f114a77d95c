"""`keras-nplm evaluate`, `score`, `complete` and `generate`: perplexity, log-probabilities, next words, new text."""

import argparse
import dataclasses
import itertools
import math
import sys
from collections.abc import Iterator
from pathlib import Path

from keras_nplm.cli import flags
from keras_nplm.cli.flags import Option
from keras_nplm.cli.printing import format_figures
from keras_nplm.data.corpora.text_files import read_files, read_lines
from keras_nplm.data.ids import UNK
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.unusual_text import warn_of_tokens
from keras_nplm.io.errors import InputError
from keras_nplm.io.paths import check_output_path
from keras_nplm.io.remote import display_url, upload
from keras_nplm.io.text import STANDARD_INPUT, escape_controls
from keras_nplm.language_model.dynamics import DYNAMICS_FILE, save_dynamics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.presets import find_preset
from keras_nplm.language_model.scoring import SentenceScore, TokenScore

_TOP_K = Option("top_k", int, 5, "number of words per context", least=1, metavar="K")
_DRAW_FROM = Option("top_k", int, None, "most probable words to sample from", least=1, example=40, metavar="K")
_NUM_WORDS = Option("num_words", int, 50, "number of words", least=1, below=1_000_001)
_SEED = Option("seed", int, 0, "random seed of the text", least=0)
_HELP = "sampling temperature; below 1 frequent words become more probable, 0 takes the most probable word"
_TEMPERATURE = Option("temperature", float, 1.0, _HELP, least=0)


def add(command: flags.AddCommand) -> None:
    evaluate = command("evaluate", _evaluate, _show_evaluate, "Compute the exact perplexity of a split or a text.")
    flags.add_directory(evaluate)
    source = evaluate.add_mutually_exclusive_group()
    splits = ("train", "validation", "test")
    source.add_argument("--split", choices=splits, default="test", help="split of the corpus (default: test)")
    help = "text files or globs, one sentence per line, or - for standard input, instead of a split"
    flags.add_files(source, "--text", help)
    flags.add_switch(evaluate, "--ln-z", "report log Z; a self-normalised network has log Z close to 0")
    help = "also evaluate a copy that learns from the text as it reads, with settings tuned on validation text"
    flags.add_switch(evaluate, "--dynamic", help)

    score = command("score", _score, _show_score, "Compute log-probabilities of sentences, in nats.")
    score.description += " Prints a line per sentence: log-probability, tokens, out-of-vocabulary tokens."
    score.description += " A blank line is no sentence: it has 0 tokens."
    score.description += " A model of the boundary text sees the lines before, up to a blank one."
    flags.add_directory(score)
    flags.add_switch(score, "--self-normalised", flags.SELF_NORMALISED)
    help = "print a line per token: token, log-probability, n-gram order or <unk>, number of the sentence"
    flags.add_switch(score, "--tokens", help)
    flags.add_switch(score, "--dynamic", "a copy of the model learns from each sentence before the next is scored")
    help = "text file, one sentence per line, or - for standard input (default: standard input)"
    score.add_argument("file", metavar="FILE", nargs="?", help=help)

    complete = command("complete", _complete, _show_complete, "Print the most probable next words of a context.")
    flags.add_directory(complete, has_preset=True)
    help = 'words before the next word, as in "the result of"'
    complete.add_argument("context", metavar="CONTEXT", nargs="+", help=help)
    flags.add_switch(complete, "--prefix", 'complete the last, unfinished word of each CONTEXT, as in "the val"')
    flags.add_flag(complete, _TOP_K)

    generate = command("generate", _generate, _show_generate, "Generate text: sample word after word from the model.")
    flags.add_directory(generate, has_preset=True)
    help = "text to continue; after a space at its end a new word begins (default: none)"
    generate.add_argument("--prompt", metavar="TEXT", default="", help=help)
    for option in (_NUM_WORDS, _SEED, _TEMPERATURE):
        flags.add_flag(generate, option)
    flags.add_flag(generate, _DRAW_FROM, shown="all words")


def _evaluate(options: argparse.Namespace) -> dict:
    text = _read_first(read_files(options.text)) if options.text else options.split
    model = LanguageModel.load(options.directory)
    if options.text:
        text = warn_of_tokens(model.tokenizer)(text)
    if options.dynamic:
        flags.check_left_out(options, ["ln_z"], "with `--dynamic`", "evaluate twice.")
        _ensure_dynamics(model, Path(options.directory))
    return model.evaluate(text, ln_z=options.ln_z, dynamic=options.dynamic)


def _ensure_dynamics(model: LanguageModel, directory: Path) -> None:
    """Tune dynamic evaluation and write `dynamic.json`, unless the model directory has it."""
    if model.dynamics is None:
        path = directory / DYNAMICS_FILE
        check_output_path(path)
        tuned = model.tune_dynamic()
        for written in save_dynamics(directory, tuned):
            upload(written)
        print(
            f"Tuned on {tuned.tokens:,} tokens of validation text: {tuned.settings}. Perplexity there: "
            f"{tuned.static:.2f} static, {tuned.dynamic:.2f} dynamic. Written to {display_url(path)}.",
            file=sys.stderr,
        )


def _read_first(lines: Iterator[str]) -> Iterator[str]:
    """Read the first line now: a file that cannot be read is refused before the model is loaded."""
    return itertools.chain(list(itertools.islice(lines, 1)), lines)


def _show_evaluate(result: dict) -> None:
    print(format_figures(result))
    if reason := result.get("bits_per_character_missing"):
        print(f"bits per character: none. {reason}")
    if "ln_z" in result:
        print("log Z:", ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in result["ln_z"].items()))
    if "dynamic" in result:
        print(f"dynamic: {format_figures(result['dynamic'])}")


def _score(options: argparse.Namespace) -> dict:
    if options.self_normalised:
        flags.check_left_out(options, ["dynamic"], "with `--self-normalised`", "leave one of them out.")
    is_stream = options.file in (None, STANDARD_INPUT)
    lines = _read_first(read_files([STANDARD_INPUT]) if is_stream else read_lines([Path(options.file)]))
    model = LanguageModel.load(options.directory, self_normalised=options.self_normalised)
    if options.dynamic:
        _ensure_dynamics(model, Path(options.directory))
    if options.self_normalised:
        print("Scores are off by log Z: see `evaluate --ln-z`.", file=sys.stderr)
    lines = warn_of_tokens(model.tokenizer)(lines)
    if options.tokens:
        scores = model.score_tokens(lines, dynamic=options.dynamic)
        return {"sentences": ([*map(_list_score, tokens)] for tokens in scores)}
    return {"sentences": map(_list_score, model.score(lines, dynamic=options.dynamic))}


def _list_score(score: SentenceScore | TokenScore) -> dict:
    log_prob = score.log_prob if math.isfinite(score.log_prob) else None  # JSON has no infinity
    return dataclasses.asdict(score) | {"log_prob": log_prob}


def _show_score(result: dict) -> None:
    for number, sentence in enumerate(result["sentences"], start=1):
        for score in sentence if isinstance(sentence, list) else [sentence]:
            log_prob = "-inf" if score["log_prob"] is None else f"{score['log_prob']:.4f}"
            if "token" in score:
                order = UNK if score["is_unknown"] else score["order"]
                print(escape_controls(score["token"]), log_prob, order, number, sep="\t")
            else:
                print(log_prob, score["tokens"], score["unk_tokens"], sep="\t")


def _complete(options: argparse.Namespace) -> dict:
    directory, contexts = options.directory, options.context
    if directory and not Path(directory).exists() and len(directory.split()) != 1:  # text, not a name
        directory, contexts = None, [directory, *contexts]
    if not directory and Path(contexts[0]).is_dir():
        raise InputError(
            f'`CONTEXT` must follow the model directory {contexts[0]}. Received: none. Fix: add it, as in "the cat".'
        )
    model = LanguageModel.load(directory or _find_reference())
    predict = model.complete_prefix if options.prefix else model.next_words
    return {context: dict(predict(context, options.top_k)) for context in contexts}


def _find_reference() -> Path:
    print("No model directory is given: using the reference model of the Python language reference.", file=sys.stderr)
    return find_preset("reference")


def _show_complete(result: dict) -> None:
    for context, words in result.items():
        print(f"{escape_controls(context)} …")
        for word, probability in words.items():
            print(f"  {probability:.4f} {escape_controls(word)}")


def _generate(options: argparse.Namespace) -> dict:
    model = LanguageModel.load(options.directory or _find_reference())
    given = {name: getattr(options, name) for name in ("seed", "temperature", "top_k")}
    text = model.generate(options.prompt, options.num_words, **given)
    whole = _continue_prompt(options.prompt, text, model.tokenizer)
    return {"prompt": options.prompt, "text": text, "whole": whole}


def _continue_prompt(prompt: str, text: str, tokenizer: Tokenizer) -> str:
    """Return a prompt as it was given, and the text generated after it, without white space at its end."""
    text = text.rstrip()
    has_space = not prompt or tokenizer.ends_with_space(prompt) or not text or text[0].isspace()
    return f"{prompt}{'' if has_space else tokenizer.separator}{text}"


def _show_generate(result: dict) -> None:
    print(escape_controls(result["whole"]))
