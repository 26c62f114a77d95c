"""`keras-nplm export`."""

import argparse
from pathlib import Path

from keras_nplm.cli.options import AddCommand, directory
from keras_nplm.data.corpora.text_files import expand_patterns, read_lines
from keras_nplm.data.encoding import encode_sentences
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.directory import check_output_file, read_config, read_metrics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import write_word2vec
from keras_nplm.models.ngrams import BackoffModel, prune, write_arpa
from keras_nplm.models.ngrams.approximation import MIN_EXPECTED_COUNT, ORDER, approximate, fit_unigrams
from keras_nplm.models.ngrams.pruning import check_threshold
from keras_nplm.serving import export_litert, export_onnx, export_saved_model

_FORMATS = {"saved-model": "", "litert": ".tflite", "onnx": ".onnx", "arpa": ".arpa", "word2vec": ".vec"}  # and endings
_ARPA_FLAGS = ("order", "text", "min_expected_count", "prune", "max_ngrams")


def add(command: AddCommand) -> None:
    """Add the command."""
    parser = command("export", _export, _show_export, "Write a model in the form that other programs read.")
    directory(parser)
    parser.add_argument("target", metavar="TARGET", help="the directory of SavedModel versions, or the file, to write")
    kinds = "saved-model: any model, for TF Serving; litert, onnx: networks; arpa (.gz: gzipped): any model"
    kinds += "; word2vec: the word vectors of a network"
    parser.add_argument("--format", choices=tuple(_FORMATS), help=f"{kinds}; default: by the ending of TARGET")
    parser.add_argument("--top-k", type=int, help="saved-model: words that it suggests; default: 10")
    parser.add_argument("--quantise", action="store_true", help="litert: matrices in 8 bits, a quarter of the size")
    arpa = parser.add_argument_group("arpa: any model as a back-off model; Kneser-Ney as it is without these")
    arpa.add_argument("--order", type=int, metavar="N", help=f"n, up to the model's; default: {ORDER} or the model's")
    arpa.add_argument("--text", metavar="FILE", nargs="+", help="whose n-grams are listed; default: that of training")
    help = f"list n-grams that are expected so often in the text, too; default: {MIN_EXPECTED_COUNT}"
    arpa.add_argument("--min-expected-count", type=float, metavar="C", help=help)
    help = "leave out n-grams without which perplexity rises by a smaller part than this, as 1e-7; default: none"
    arpa.add_argument("--prune", type=float, metavar="THETA", help=help)
    arpa.add_argument("--max-ngrams", type=int, metavar="N", help="prune until so many are left, of all orders")


def _export(options: argparse.Namespace) -> dict:
    chosen = _format(options)
    language_model = LanguageModel.load(options.directory)
    told = {"format": chosen}
    if chosen == "arpa":
        check_output_file(options.target)
        model = _backoff_model(options, language_model)
        write_arpa(options.target, model, language_model.vocabulary)
        written = [options.target]
        told["ngrams"] = model.num_ngrams
    elif chosen == "saved-model":
        path = Path(options.directory)
        known = {"config": read_config(path), "metrics": read_metrics(path, missing_ok=True)}
        written = [export_saved_model(language_model, options.target, top_k=options.top_k or 10, **known)]
    elif chosen == "word2vec":
        check_output_file(options.target)
        write_word2vec(options.target, *language_model.word_vectors())
        written = [options.target]
    elif chosen == "litert":
        written = export_litert(language_model, options.target, quantise=options.quantise)
    else:
        written = export_onnx(language_model, options.target)
    return told | {"written": list(map(str, written))}


def _backoff_model(options: argparse.Namespace, language_model: LanguageModel) -> BackoffModel:
    """The model that an ARPA file is to hold: the model itself, or what approximates it, pruned as was asked."""
    check_threshold(options.prune or 0.0)
    model, marginals = language_model.model, None
    if not isinstance(model, BackoffModel) or any(getattr(options, name) is not None for name in _ARPA_FLAGS[:3]):
        if options.text:
            lines = read_lines(expand_patterns(options.text))
            ids = encode_sentences(filter(None, map(language_model.tokenize, lines)), language_model.vocabulary)
        elif language_model.corpus:
            ids = language_model.corpus.ids("train")
        else:
            raise InputError(f"{options.directory} has no corpus/, whose n-grams to list: name a text with --text.")
        order = min(ORDER, model.order) if options.order is None else options.order
        least = MIN_EXPECTED_COUNT if options.min_expected_count is None else options.min_expected_count
        model = approximate(model, ids, order, language_model.boundary, least)
        marginals = model.unigrams
    if options.prune is not None or options.max_ngrams is not None:
        model = prune(model, options.prune or 0.0, options.max_ngrams)
    return model if marginals is None else fit_unigrams(model, marginals)


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
    flags = [("--quantise", options.quantise, "litert"), ("--top-k", options.top_k, "saved-model")]
    flags += [(f"--{name.replace('_', '-')}", getattr(options, name), "arpa") for name in _ARPA_FLAGS]
    for flag, given, of in flags:
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
