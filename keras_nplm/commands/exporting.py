"""`keras-nplm export`."""

import argparse
from pathlib import Path

from keras_nplm.commands.options import AddCommand, directory
from keras_nplm.errors import InputError
from keras_nplm.language_model import LanguageModel
from keras_nplm.model_directory import metrics_if_there, read_config, refuse_within
from keras_nplm.ngrams import BackoffModel, write_arpa
from keras_nplm.serving import export_litert, export_onnx, export_saved_model
from keras_nplm.word_vectors import write_word2vec

_FORMATS = {"saved-model": "", "litert": ".tflite", "onnx": ".onnx", "arpa": ".arpa", "word2vec": ".vec"}  # and endings


def add(command: AddCommand) -> None:
    """Add the command."""
    parser = command("export", _export, _show_export, "Write a model in the form that other programs read.")
    directory(parser)
    parser.add_argument("target", metavar="TARGET", help="the directory of SavedModel versions, or the file, to write")
    kinds = "saved-model: any model, for TF Serving; litert, onnx: networks; arpa (.gz: gzipped): Kneser-Ney, ARPA"
    kinds += "; word2vec: the word vectors of a network"
    parser.add_argument("--format", choices=tuple(_FORMATS), help=f"{kinds}; default: by the ending of TARGET")
    parser.add_argument("--top-k", type=int, help="saved-model: words that it suggests; default: 10")
    parser.add_argument("--quantise", action="store_true", help="litert: matrices in 8 bits, a quarter of the size")


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
        path = Path(options.directory)
        known = {"config": read_config(path), "metrics": metrics_if_there(path)}
        written = [export_saved_model(language_model, options.target, top_k=options.top_k or 10, **known)]
    elif chosen == "word2vec":
        refuse_within(options.target)
        write_word2vec(options.target, *language_model.word_vectors())
        written = [options.target]
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
