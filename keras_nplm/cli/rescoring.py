"""`keras-nplm rescore`: N-best lists of a decoder, ranked with a language model's help."""

import argparse
import functools
import sys
from collections.abc import Sequence

from keras_nplm.cli.options import AddCommand, directory
from keras_nplm.data.tokenizers import CHARACTERS, WORD_TOKENIZERS, get_tokenizer, parse_tokenizer
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.directory import check_output_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.rescoring.features import FEATURE_NAME, MIN_LOG_PROB
from keras_nplm.language_model.rescoring.files import rescore_file
from keras_nplm.language_model.rescoring.line_formats import parse_number
from keras_nplm.language_model.rescoring.losses import LossFile, WordErrors, read_references
from keras_nplm.language_model.rescoring.nbest import FORMATS, NBestFile
from keras_nplm.language_model.rescoring.tuning import RESTARTS

METRICS = ("wer", "loss")


def add(command: AddCommand) -> None:
    """Add the command."""
    parser = command("rescore", _rescore, _show_rescore, "Rank the hypotheses of a decoder with a model's help.")
    directory(parser)
    parser.add_argument("nbest", metavar="NBEST", help="a file of N-best lists, .gz or not, of any size")
    parser.add_argument("--format", choices=FORMATS, help="default: by the first line, and .tsv in the name")
    help = "Kaldi's archives of costs, -ln P, and names for them"
    parser.add_argument("--scores", metavar="NAME=FILE", nargs="+", default=(), help=help)
    help = f"of features; default: 1 for the score (without one: for each feature) and for {FEATURE_NAME}"
    parser.add_argument("--weights", metavar="NAME=W", nargs="+", default=(), help=help)
    known = parser.add_mutually_exclusive_group()
    help = "tune the weights on these lists, from --weights; FILE has the references"
    known.add_argument("--tune", metavar="FILE", help=help)
    known.add_argument("--references", metavar="FILE", help="tell what was won; the same FILE")
    help = "what FILE has: words (Moses: line i for list i; else its name before them), or a loss a hypothesis"
    parser.add_argument("--metric", choices=METRICS, default="wer", help=help)
    parser.add_argument("--restarts", type=int, metavar="N", default=RESTARTS, help=f"default: {RESTARTS}")
    parser.add_argument("--seed", type=int, default=0, help="of the restarts; default: 0")
    help = "in the same format, gzipped where it ends in .gz; default: standard output, with --json nothing"
    parser.add_argument("--output", metavar="FILE", help=help)
    parser.add_argument("--name", default=FEATURE_NAME, help=f"of the features that are added; default: {FEATURE_NAME}")
    help = "of hypotheses; default: the model's"
    parser.add_argument("--tokenizer", choices=WORD_TOKENIZERS, help=help)
    help = "a network's logits as they are: fast, off by ln Z a word"
    parser.add_argument("--self-normalised", action="store_true", help=help)


def _rescore(options: argparse.Namespace) -> dict:
    if not options.name or options.name.split() != [options.name] or set("=:|/") & set(options.name):
        raise InputError(f"`name` must be a word without any of = : | /. Received: {options.name!r}.")
    if options.seed < 0:
        raise InputError(f"`seed` must be 0 or more. Received: {options.seed}.")
    if options.output is not None:
        check_output_file(options.output)
    nbest = NBestFile(options.nbest, options.format, _pairs("--scores", options.scores))
    weights = {name: _weight(name, text) for name, text in _pairs("--weights", options.weights).items()} or None
    known = options.tune or options.references
    losses = None
    if known:
        is_wer = options.metric == "wer"
        losses = WordErrors(read_references(known, nbest.format)) if is_wer else LossFile(known)
    language_model = LanguageModel.load(options.directory, self_normalised=options.self_normalised)
    if options.tokenizer:
        base, steps = parse_tokenizer(language_model.tokenizer_name)
        if base == CHARACTERS:
            raise InputError("The model's tokens are characters, not words: leave --tokenizer out.")
        named = "+".join([options.tokenizer, *steps])
        language_model.tokenize = get_tokenizer(named, language_model.vocabulary.forms)
    result = rescore_file(
        functools.partial(language_model.score, min_log_prob=MIN_LOG_PROB),
        nbest,
        options.output,
        weights=weights,
        losses=losses,
        tune_weights=bool(options.tune),
        write=options.output is not None or not options.json,
        name=options.name,
        restarts=options.restarts,
        seed=options.seed,
    )
    if losses:
        losses.check_end()
        result["metric"] = options.metric
        result |= {key: result[key] / losses.denominator for key in ("baseline", "oracle", "rescored")}
    return result | {"output": options.output}


def _pairs(flag: str, values: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE …` as a dictionary."""
    pairs = {}
    for value in values:
        name, equals, text = value.rpartition("=") if flag == "--weights" else value.partition("=")
        if not (name and equals and text) or name in pairs:
            raise InputError(f"{flag} must be of the form NAME=…, each name once. Received: {value!r}.")
        pairs[name] = text
    return pairs


def _weight(name: str, text: str) -> float:
    try:
        return parse_number(text)
    except ValueError as error:
        raise InputError(f"The weight of {name} must be a number: {error}.") from error


def _show_rescore(result: dict) -> None:
    file = sys.stdout if result["output"] else sys.stderr  # where the lists themselves went to standard output
    shared = f"{result['distinct_ngrams']:,} different ones in {result['contexts']:,} contexts"
    print(
        f"{result['hypotheses']:,} hypotheses in {result['lists']:,} lists: {result['ngrams']:,} n-grams, {shared}",
        file=file,
    )
    if result["weights"]:
        print("--weights", *(f"{name}={weight:.6g}" for name, weight in result["weights"].items()), file=file)
    if "metric" in result:
        what = "word error rate" if result["metric"] == "wer" else "loss a list"
        said = {"baseline": "as decoded", "rescored": "now", "oracle": "at best"}
        print(f"{what}: {', '.join(f'{result[key]:.4f} {words}' for key, words in said.items())}", file=file)
    print(f"{result['changed']:,} lists have another first hypothesis", file=file)
