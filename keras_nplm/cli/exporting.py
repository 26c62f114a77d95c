"""`keras-nplm export`: write a model as SavedModel, web page, LiteRT, ONNX, ARPA or word2vec
file.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from keras_nplm.cli.parameters import (
    NONE_GIVEN,
    Field,
    Given,
    InputFile,
    Model,
    Switch,
    TextFiles,
    check_left_out,
    flatten,
    number,
    read_path,
)
from keras_nplm.cli.printing import print_lines, printed_by
from keras_nplm.data.tokenizers.registry import list_word_tokenizers
from keras_nplm.io.errors import check_argument
from keras_nplm.io.fields import describe_fields
from keras_nplm.language_model.options import ArpaOptions
from keras_nplm.models.defaults import MIN_EXPECTED_COUNT, ORDER

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel

Format = Literal["saved-model", "page", "litert", "onnx", "arpa", "word2vec"]
_OPTIONS: dict[Format, tuple[str, ...]] = {
    "saved-model": ("top_k", "max_text_length"),
    "page": ("runtime", "quantise", "network_alone"),
    "litert": ("quantise", "network_alone", "signature"),
    "onnx": ("quantise", "network_alone", "signature"),
    "arpa": ("text", "field", *describe_fields(ArpaOptions)),
    "word2vec": (),
}
_ENDINGS: dict[str, Format] = {
    ".tflite": "litert",
    ".onnx": "onnx",
    ".arpa": "arpa",
    ".arpa.gz": "arpa",
    ".vec": "word2vec",
}
_TOP_K = 10
_MAX_TEXT_LENGTH = 1 << 16
_GROUP = Group.create_ordered("ARPA files")


if TYPE_CHECKING:
    ArpaFlags = Given
else:
    ArpaFlags = flatten(
        {ArpaOptions: _GROUP},
        order=f"{ORDER} or the model's",
        min_expected_count=str(MIN_EXPECTED_COUNT),
    )
_NEXT = {
    "saved-model": (
        "{target}/README.md documents serving and requests.",
        "next: docker compose up, in {target}",
    ),
    "page": ("next: open {written[0]} in a browser",),
}
_FROM_INTERNET = "the page loads ONNX Runtime from the internet"
_BY_NAME = (
    f"by the name of TARGET: {', '.join(_ENDINGS)}; page for a directory of this name, saved-model "
    "for any other"
)


def _print_written(result: dict) -> None:
    contents = f"{sum(result['ngrams']):,} n-grams to " if "ngrams" in result else ""
    print(f"wrote {contents}{', '.join(result['written'])}")
    if "contents" in result:
        from keras_nplm.language_model.description import list_properties

        for name, text in list_properties(result["contents"]).items():
            print(f"{name}: {text}")
    if result.get("needs_internet"):
        print(
            "It loads ONNX Runtime from cdn.jsdelivr.net. For a page that needs no internet, run "
            f"`npm pack onnxruntime-web@{result['runtime_version']}`\nand export with --runtime "
            f"onnxruntime-web-{result['runtime_version']}.tgz."
        )
    print_lines(
        result | {"target": os.path.dirname(result["written"][0])},
        "an approximation of {approximated}",
        "compare: {compare}",
        *_NEXT.get(result["format"], ()),
    )


@printed_by(_print_written)
def export(
    directory: Model,
    target: Annotated[str, Parameter(name="TARGET", converter=read_path)],
    /,
    *,
    format: Annotated[Format | None, Parameter(show_default=_BY_NAME)] = None,
    top_k: Annotated[
        int | None, number(int, least=1, example=_TOP_K, metavar="K", show_default=str(_TOP_K))
    ] = None,
    max_text_length: Annotated[
        int | None,
        number(
            int,
            least=1,
            below=(1 << 30) + 1,
            example=_MAX_TEXT_LENGTH,
            metavar="BYTES",
            show_default=str(_MAX_TEXT_LENGTH),
        ),
    ] = None,
    quantise: Switch = False,
    runtime: Annotated[InputFile, Parameter(show_default=_FROM_INTERNET)] = None,
    signature: Annotated[
        Literal["log_probs", "score"] | None, Parameter(show_default="log_probs")
    ] = None,
    network_alone: Switch = False,
    text: Annotated[TextFiles, Parameter(group=_GROUP, show_default="the training text")] = (),
    field: Annotated[Field, Parameter(group=_GROUP)] = None,
    arpa: ArpaFlags = NONE_GIVEN,
) -> dict:
    """Write a model for other programs.

    An ARPA file holds a back-off model, such as Kneser-Ney, as it is; others are approximated.

    Args:
        target: directory of the SavedModel's versions or of the web page, or the file to write
        format: file format: saved-model, page, litert, onnx or arpa of any model; word2vec of a
            network
        top_k: saved-model: number of suggested words
        max_text_length: saved-model: longest text that is scored, and most bytes that are read of a
            context
        quantise: page, litert and onnx: 8-bit matrices of the network, a quarter of their size,
            perplexity within 0.1%; litert rounds n-grams, too: within 0.2%
        runtime: page: file written by `npm pack onnxruntime-web@1.30.0`, so that the page needs no
            internet
        signature: litert and onnx: ids of contexts to ln P of each next word, or ids of whole texts
            to -ln P, the nll that sherpa-onnx reads
        network_alone: page, litert and onnx: leave out the n-grams of a mixture; the file is
            smaller
        text: text files or globs whose n-grams are listed, or - for standard input
    """
    from keras_nplm.data.corpora.text_files import read_files
    from keras_nplm.io.paths import check_output_path
    from keras_nplm.io.remote import display_url, open_output, open_output_file
    from keras_nplm.io.stages import check_output_file
    from keras_nplm.language_model.language_model import LanguageModel
    from keras_nplm.language_model.word_vectors import write_word2vec

    chosen = _choose_format(target, format)
    given: dict[str, Any] = {
        "top_k": top_k,
        "max_text_length": max_text_length,
        "runtime": runtime,
        "quantise": quantise,
        "network_alone": network_alone,
        "signature": signature,
        "text": text,
        "field": field,
        **arpa,
    }
    others = {name: value for name, value in given.items() if name not in _OPTIONS[chosen]}
    fix = "leave it out, or choose a different --format."
    check_left_out(others, f"with the format {chosen}", fix)
    is_directory = chosen in ("saved-model", "page")
    with (open_output if is_directory else open_output_file)(target) as path:
        check_output_path(path)
        if not is_directory:
            check_output_file(path)
        language_model = LanguageModel.load(directory)
        written = [path]
        result: dict[str, Any] = {}
        if chosen == "word2vec":
            write_word2vec(path, *language_model.word_vectors())
        elif chosen == "arpa":
            lines = read_files(text, field) if text else None
            result = _export_arpa(directory, language_model, path, lines, ArpaOptions(**arpa))
        else:
            options = {name: given[name] for name in _OPTIONS[chosen] if given[name] is not None}
            written, result = _export_graphs(directory, language_model, path, chosen, options)
        return {"format": chosen, "written": [*map(display_url, written)], **result}


def _choose_format(target: str, wanted: Format | None) -> Format:
    """Return the wanted format, or the one of the target's name."""
    name = os.path.basename(target.rstrip("/")).lower()
    plain = name.removesuffix(".gz")
    ending = os.path.splitext(plain)[1] + name.removeprefix(plain)
    format = wanted or _ENDINGS.get(ending) or ("page" if name == "page" else "saved-model")
    if format == "saved-model":
        is_fitting = not ending or os.path.isdir(target)
    elif format == "page":
        is_fitting = ending not in _ENDINGS and name == plain
    else:  # so that no other file is written over
        is_fitting = _ENDINGS.get(ending) == format
    endings = [ending for ending, other in _ENDINGS.items() if other == format]
    wanted_path = f"a file that ends in {' or '.join(endings)} for the format {format}"
    if not endings:
        wanted_path = f"a directory without an ending for the format {format}"
    fix = f"choose one of {', '.join(_ENDINGS)} for a file, and none for a directory."
    check_argument("TARGET", is_fitting, wanted_path, repr(target), fix)
    return format


def _export_graphs(
    directory: str,
    language_model: "LanguageModel",
    target: Path,
    format: Format,
    options: dict[str, Any],
) -> tuple[list[Path], dict[str, Any]]:
    """Write a model as graphs; return the files, and what the user has to know of them."""
    from keras_nplm import serving
    from keras_nplm.io.files import read_json
    from keras_nplm.language_model.directory import read_config, read_metrics
    from keras_nplm.serving.file_facts import name_facts_file
    from keras_nplm.serving.web_page import RUNTIME_VERSION, read_facts

    exporters: dict[str, Any] = {
        "saved-model": serving.export_saved_model,
        "page": serving.export_page,
        "litert": serving.export_litert,
        "onnx": serving.export_onnx,
    }
    config = read_config(Path(directory))
    metrics = read_metrics(Path(directory))
    written = exporters[format](language_model, target, **options, config=config, metrics=metrics)
    if isinstance(written, list):
        return written, {"contents": read_json(name_facts_file(target))}
    result: dict[str, Any] = {}
    if format == "page":
        result["contents"] = read_facts(written)
        result["needs_internet"] = "runtime" not in options
        result["runtime_version"] = RUNTIME_VERSION
    return [written], result


def _export_arpa(
    directory: str,
    language_model: "LanguageModel",
    target: Path,
    lines: Iterable[str] | None,
    options: ArpaOptions,
) -> dict[str, Any]:
    """Write a model as an ARPA file; return its numbers of n-grams, and what it approximates."""
    from keras_nplm.io.remote import display_url
    from keras_nplm.language_model.backoff import convert_to_backoff
    from keras_nplm.models.ngrams import BackoffModel, write_arpa

    model = convert_to_backoff(language_model, lines, options)
    write_arpa(target, model, language_model.vocabulary)
    result: dict[str, Any] = {"ngrams": model.num_ngrams}
    if not isinstance(language_model.model, BackoffModel):
        result["approximated"] = directory
    tokenizer = language_model.tokenizer
    # `evaluate` reads ARPA files of plain words alone
    if tokenizer.kind in list_word_tokenizers() and not tokenizer.steps:
        command = f"keras-nplm evaluate {directory} {display_url(target)} --text FILE"
        result["compare"] = " ".join([command, *tokenizer.flags])
    return result
