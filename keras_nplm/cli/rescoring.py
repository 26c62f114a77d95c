"""`keras-nplm rescore`: rescore and re-rank the N-best lists of a decoder."""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.cli.flags import SELF_NORMALISED, AddCommand, Option, add_directory, add_flag, add_switch
from keras_nplm.data.tokenizers.registry import TOKENIZERS, get_tokenizer
from keras_nplm.data.unusual_text import warn_of_tokens
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.remote import open_output_file
from keras_nplm.language_model.directory import check_output_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.rescoring.features import FEATURE_NAME, MIN_LOG_PROB
from keras_nplm.language_model.rescoring.files import rescore_file
from keras_nplm.language_model.rescoring.line_formats import parse_number
from keras_nplm.language_model.rescoring.losses import WordErrors, read_references
from keras_nplm.language_model.rescoring.minimum_error_rate import RESTARTS
from keras_nplm.language_model.rescoring.nbest import FORMATS, NBestFile

_FORMAT = Option("format", str, None, "format of the N-best lists", choices=FORMATS)
_RESTARTS = Option("restarts", int, RESTARTS, "random restarts of the tuning of weights", least=0)
_NAME = Option("name", str, FEATURE_NAME, "name of the model's feature in the output", metavar="NAME")
_SEED = Option("seed", int, 0, "random seed of the restarts", least=0)
_WORD_TOKENIZERS = tuple(kind for kind, tokenizer in TOKENIZERS.items() if tokenizer.tokens_are_words)
_TOKENIZER = Option("tokenizer", str, None, "word tokenizer of the hypotheses", choices=_WORD_TOKENIZERS)


def add(command: AddCommand) -> None:
    parser = command("rescore", _rescore, _show_rescore, "Rescore and re-rank the N-best lists of a decoder.")
    add_directory(parser)
    help = "file of N-best lists of any size, plain or compressed"
    parser.add_argument("nbest", metavar="NBEST", help=help)
    add_flag(parser, _FORMAT, shown="by the first line, tsv by the file's name")
    help = "names and archives of Kaldi's costs, -ln P (default: none)"
    parser.add_argument("--scores", metavar="NAME=FILE", nargs="+", default=(), help=help)
    help = f"weights of features (default: 1 for the decoder's score, or for each feature, and for {FEATURE_NAME})"
    parser.add_argument("--weights", metavar="NAME=W", nargs="+", default=(), help=help)
    references = parser.add_mutually_exclusive_group()
    help = "reference texts to tune the weights with: line i for list i (Moses) or after its name (default: none)"
    references.add_argument("--tune", metavar="FILE", help=help)
    help = "reference texts to report errors with, without tuning (default: none)"
    references.add_argument("--references", metavar="FILE", help=help)
    for option in (_RESTARTS, _SEED):
        add_flag(parser, option)
    help = "file to write in the same format, gzipped if it ends in .gz (default: standard output; with --json no file)"
    parser.add_argument("--output", metavar="FILE", help=help)
    add_flag(parser, _NAME)
    add_flag(parser, _TOKENIZER, shown="the model's")
    add_switch(parser, "--self-normalised", SELF_NORMALISED)


def _rescore(options: argparse.Namespace) -> dict:
    is_word = options.name.split() == [options.name] and not set("=:|/") & set(options.name)
    check_argument("name", is_word, "one word without = : | or /", repr(options.name), "give a word such as nplm.")
    with contextlib.nullcontext() if options.output is None else open_output_file(options.output) as output:
        return _rescore_to(options, output) | {"output": options.output}


def _rescore_to(options: argparse.Namespace, output: Path | None) -> dict:
    if output is not None:
        check_output_file(output)
    nbest = NBestFile(options.nbest, options.format, _split_pairs("--scores", options.scores))
    pairs = _split_pairs("--weights", options.weights)
    weights = {name: _parse_weight(name, text) for name, text in pairs.items()} or None
    losses = None
    if references := options.tune or options.references:
        losses = WordErrors(read_references(references, nbest.format))
    language_model = LanguageModel.load(options.directory, self_normalised=options.self_normalised)
    if options.tokenizer:
        _change_tokenizer(language_model, options.tokenizer)
    watch = warn_of_tokens(language_model.tokenizer)
    result = rescore_file(
        lambda texts: language_model.score(watch(texts), min_log_prob=MIN_LOG_PROB, alone=True),
        nbest,
        output,
        weights=weights,
        losses=losses,
        tune_weights=bool(options.tune),
        write=output is not None or not options.json,
        name=options.name,
        restarts=options.restarts,
        seed=options.seed,
    )
    if losses:
        result |= {key: result[key] / max(1, losses.denominator) for key in ("baseline", "oracle", "rescored")}
    return result


def _change_tokenizer(language_model: LanguageModel, tokenizer: str) -> None:
    """Split hypotheses with a different word tokenizer, and normalise their tokens as the model does."""
    given = language_model.tokenizer
    wanted = f"left out if the model's tokens are not words ({given.kind})"
    check_argument("--tokenizer", given.tokens_are_words, wanted, tokenizer, "leave it out.")
    changed = get_tokenizer(tokenizer).with_steps(given.steps)
    language_model.tokenizer = language_model.vocabulary.tokenizer(changed)


def _split_pairs(flag: str, values: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for value in values:
        name, equals, text = value.rpartition("=") if flag == "--weights" else value.partition("=")
        is_pair = name and equals and text and name not in pairs
        fix = f"write, for example, {flag} {'nplm=0.5' if flag == '--weights' else 'lm=lm.scores'}."
        check_argument(flag, is_pair, "NAME=VALUE, each name once", repr(value), fix)
        pairs[name] = text
    return pairs


def _parse_weight(name: str, text: str) -> float:
    try:
        return parse_number(text)
    except ValueError as error:
        raise InputError(
            f"The weight of {name} must be a number. Received: {text!r}. Fix: write, for example, {name}=0.5."
        ) from error


def _show_rescore(result: dict) -> None:
    file = sys.stdout if result["output"] else sys.stderr  # standard output has the lists themselves
    print(f"{result['hypotheses']:,} hypotheses in {result['lists']:,} lists", file=file)
    if result["weights"]:
        print("--weights", *(f"{name}={weight:.6g}" for name, weight in result["weights"].items()), file=file)
    if "oracle" in result:
        names = {"baseline": "before", "rescored": "after rescoring", "oracle": "oracle"}
        print(f"word error rate: {', '.join(f'{result[key]:.4f} {name}' for key, name in names.items())}", file=file)
    print(f"the first hypothesis changed in {result['changed']:,} lists", file=file)
