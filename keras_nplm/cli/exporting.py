"""`keras-nplm export`: write a model as SavedModel, LiteRT, ONNX, ARPA or word2vec file."""

import argparse
import os
from pathlib import Path

import numpy as np

from keras_nplm.cli.flags import AddCommand, Option, add_directory, add_flag, add_switch, check_left_out
from keras_nplm.data.corpora.text_files import read_files
from keras_nplm.data.shards import encode_lines
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.paths import check_output_path
from keras_nplm.io.remote import display_url, open_output, open_output_file
from keras_nplm.language_model.directory import check_output_file, read_config, read_metrics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.word_vectors import write_word2vec
from keras_nplm.models.ngrams import BackoffModel, prune, write_arpa
from keras_nplm.models.ngrams.approximation import MIN_EXPECTED_COUNT, ORDER, approximate, fit_unigrams

_ENDINGS = {"saved-model": "", "litert": ".tflite", "onnx": ".onnx", "arpa": ".arpa", "word2vec": ".vec"}
_BYTES = dict(least=1, below=(1 << 30) + 1, example=1 << 16, metavar="BYTES")
_HELP = "saved-model: longest text that is scored, and most bytes that are read of a context"
_SERVING = (  # None: the flag is not given
    Option("top_k", int, None, "saved-model: number of suggested words", least=1, example=10, metavar="K"),
    Option("max_text_length", int, None, _HELP, **_BYTES),
)
_HELP = "least expected count in the text for which an n-gram is listed"
_MIN_COUNT = Option("min_expected_count", float, None, _HELP, least=0, example=MIN_EXPECTED_COUNT, metavar="C")
_ORDER = Option("order", int, None, "n, up to the model's order", least=2, below=1024, example=ORDER)
_HELP = "pruning threshold: relative rise of perplexity below which an n-gram is removed, such as 1e-7"
_PRUNE = Option("prune", float, None, _HELP, least=0, example=1e-7, metavar="THETA")
_HELP = "largest number of n-grams, of all orders"
_MAX_NGRAMS = Option("max_ngrams", int, None, _HELP, least=1, example=100_000)
_ARPA_FLAGS = ("order", "text", "min_expected_count", "prune", "max_ngrams")
_OWNERS = {  # of flags: their formats
    **dict.fromkeys(["quantise", "signature"], ("litert", "onnx")),
    **dict.fromkeys([option.name for option in _SERVING], ("saved-model",)),
    **dict.fromkeys(_ARPA_FLAGS, ("arpa",)),
}


def add(command: AddCommand) -> None:
    parser = command("export", _export, _show_export, "Write a model for other programs.")
    add_directory(parser)
    help = "directory of the SavedModel's versions, or the file to write"
    parser.add_argument("target", metavar="TARGET", help=help)
    help = "file format: saved-model or arpa of any model; litert, onnx or word2vec of a network (default: by the "
    help += "ending of TARGET: .tflite, .onnx, .arpa, .arpa.gz, .vec)"
    parser.add_argument("--format", choices=tuple(_ENDINGS), help=help)
    for option in _SERVING:
        add_flag(parser, option, shown=option.example)
    add_switch(parser, "--quantise", "litert and onnx: 8-bit matrices, a quarter of the size, perplexity within 0.1%%")
    help = "litert and onnx: ids of contexts to ln P of each next word, or ids of whole texts to -ln P, the nll that "
    help += "sherpa-onnx reads (default: log_probs)"
    parser.add_argument("--signature", choices=("log_probs", "score"), help=help)
    arpa = parser.add_argument_group("arpa", "A model other than Kneser-Ney is approximated by a back-off model.")
    add_flag(arpa, _ORDER, shown=f"{ORDER} or the model's")
    help = "text files or globs whose n-grams are listed, or - for standard input (default: the training text)"
    arpa.add_argument("--text", metavar="FILE", nargs="+", help=help)
    add_flag(arpa, _MIN_COUNT, shown=MIN_EXPECTED_COUNT)
    add_flag(arpa, _PRUNE)
    add_flag(arpa, _MAX_NGRAMS)


def _export(options: argparse.Namespace) -> dict:
    format = _choose_format(options)
    with (open_output if format == "saved-model" else open_output_file)(options.target) as target:
        return _write(options, format, target)


def _write(options: argparse.Namespace, format: str, target: Path) -> dict:
    check_output_path(target)
    if format in ("arpa", "word2vec"):
        check_output_file(target)

    language_model = LanguageModel.load(options.directory)
    result, written = {"format": format}, [target]
    if format == "arpa":
        model = _build_backoff_model(options, language_model)
        write_arpa(target, model, language_model.vocabulary)
        result["ngrams"] = model.num_ngrams
    elif format == "word2vec":
        write_word2vec(target, *language_model.word_vectors())
    else:
        written = _export_graph(options, format, language_model, target)
    return result | {"written": list(map(display_url, written))}


def _export_graph(options: argparse.Namespace, format: str, language_model: LanguageModel, target: Path) -> list[Path]:
    if format == "saved-model":
        from keras_nplm.serving import export_saved_model

        directory = Path(options.directory)
        card = {"config": read_config(directory), "metrics": read_metrics(directory, missing_ok=True)}
        card |= {option.name: getattr(options, option.name) or option.example for option in _SERVING}
        return [export_saved_model(language_model, target, **card)]

    from keras_nplm.serving import export_litert, export_onnx

    export, signature = export_litert if format == "litert" else export_onnx, options.signature or "log_probs"
    return export(language_model, target, quantise=options.quantise, signature=signature)


def _build_backoff_model(options: argparse.Namespace, language_model: LanguageModel) -> BackoffModel:
    model, marginals = language_model.model, None
    if not isinstance(model, BackoffModel) or any(getattr(options, name) is not None for name in _ARPA_FLAGS[:3]):
        order = min(ORDER, model.order) if options.order is None else options.order
        least = MIN_EXPECTED_COUNT if options.min_expected_count is None else options.min_expected_count
        model = approximate(model, _read_ids(options, language_model), order, language_model.boundary, least)
        marginals = model.unigrams
    if options.prune is not None or options.max_ngrams is not None:
        model = prune(model, options.prune or 0.0, options.max_ngrams)
    return model if marginals is None else fit_unigrams(model, marginals)


def _read_ids(options: argparse.Namespace, language_model: LanguageModel) -> np.ndarray:
    if options.text:
        lines = read_files(options.text)
        return encode_lines(lines, language_model.vocabulary, language_model.tokenizer, language_model.boundary)
    if not language_model.corpus:
        raise InputError(
            f"`--text` must name a text if the model directory has no corpus/. Received: {options.directory}. Fix: "
            "give --text FILE, whose n-grams the ARPA file lists."
        )
    return language_model.corpus.ids("train")


def _choose_format(options: argparse.Namespace) -> str:
    """Return the format of `--format`, or of the target's ending, and refuse flags of a different format."""
    check_argument("TARGET", options.target, "a path", "''", "name a directory or a file to write.")
    target = options.target.lower()
    matching = [name for name, ending in _ENDINGS.items() if ending and target.removesuffix(".gz").endswith(ending)]
    format = options.format or (matching or ["saved-model"])[0]
    if (matching and format not in matching) or (target.endswith(".gz") and format != "arpa"):
        raise InputError(
            f"`TARGET` must have an ending of the format {format}. Received: {options.target!r}. Fix: let it end in "
            f"{_ENDINGS[format] or 'no known ending'}, or change --format."
        )
    for name, formats in _OWNERS.items():
        if format not in formats:
            fix = f"leave it out, or export with --format {formats[0]}."
            check_left_out(options, [name], f"with the format {format}", fix)
    return format


def _show_export(result: dict) -> None:
    contents = f"{sum(result['ngrams']):,} n-grams to " if "ngrams" in result else ""
    print(f"wrote {contents}{', '.join(result['written'])}")
    if result["format"] == "saved-model":
        target = os.path.dirname(result["written"][0])
        print(f"{target}/README.md documents serving and requests; next: docker compose up, in {target}")
