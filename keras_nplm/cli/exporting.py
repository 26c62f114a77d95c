"""`keras-nplm export`: write a model as SavedModel, web page, LiteRT, ONNX, ARPA or word2vec
file.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from keras_nplm.cli.parameters import (
    FETCHED_FILE,
    NONE_GIVEN,
    Directory,
    Field,
    Given,
    InputFile,
    Switch,
    TextFiles,
    check_left_out,
    flatten,
    integer,
)
from keras_nplm.cli.printing import print_lines, printed_by
from keras_nplm.data.tokenizers.registry import list_word_tokenizers
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.language_model.options import ArpaOptions
from keras_nplm.models.ngrams.approximation import MIN_EXPECTED_COUNT, ORDER

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel

Format = Literal["saved-model", "page", "litert", "onnx", "arpa", "word2vec"]
# the formats with a flag; those that are not named are of ARPA files
_OWNERS: dict[str, tuple[Format, ...]] = {
    "top_k": ("saved-model",),
    "max_text_length": ("saved-model",),
    "runtime": ("page",),
    "quantise": ("litert", "onnx", "page"),
    "network_alone": ("litert", "onnx", "page"),
    "signature": ("litert", "onnx"),
}
_ENDINGS: dict[Format, str] = {
    "saved-model": "",
    "page": "",
    "litert": ".tflite",
    "onnx": ".onnx",
    "arpa": ".arpa",
    "word2vec": ".vec",
}
# an ARPA file may be compressed
_KNOWN_ENDINGS = ", ".join([*filter(None, _ENDINGS.values()), f"{_ENDINGS['arpa']}.gz"])
_PAGE = "page"  # the name of a directory that is a web page
_TOP_K = 10
_MAX_TEXT_LENGTH = 1 << 16
_MOST_BYTES = 1 << 30
_GROUP = "ARPA files"


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
    f"by the name of TARGET: {_KNOWN_ENDINGS}; page for a directory of this name, saved-model for "
    "any other"
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


TopK = Annotated[
    int | None, integer(least=1, example=_TOP_K, metavar="K", show_default=str(_TOP_K))
]
MaxTextLength = Annotated[
    int | None,
    integer(
        least=1,
        below=_MOST_BYTES + 1,
        example=_MAX_TEXT_LENGTH,
        metavar="BYTES",
        show_default=str(_MAX_TEXT_LENGTH),
    ),
]
Signature = Annotated[Literal["log_probs", "score"] | None, Parameter(show_default="log_probs")]


@printed_by(_print_written)
def export(
    directory: Directory,
    target: Annotated[str, Parameter(name="TARGET")],
    /,
    *,
    format: Annotated[Format | None, Parameter(show_default=_BY_NAME)] = None,
    top_k: TopK = None,
    max_text_length: MaxTextLength = None,
    quantise: Switch = False,
    runtime: Annotated[
        InputFile | None, FETCHED_FILE, Parameter(show_default=_FROM_INTERNET)
    ] = None,
    signature: Signature = None,
    network_alone: Switch = False,
    text: Annotated[TextFiles, Parameter(group=_GROUP, show_default="the training text")] = (),
    field: Annotated[Field, Parameter(group=_GROUP)] = None,
    arpa: ArpaFlags = NONE_GIVEN,
) -> dict:
    """Write a model for other programs.

    An ARPA file holds a back-off model, such as Kneser-Ney, as it is; others are approximated.

    Args:
        target: directory of the SavedModel's versions or of the web page, or the file to write
        format: file format: saved-model or arpa of any model; page, litert or onnx of a network, an
            n-gram model, or a mixture of them; word2vec of a network
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
    from keras_nplm.io.paths import check_output_path
    from keras_nplm.io.remote import open_output, open_output_file
    from keras_nplm.language_model.directory import check_output_file
    from keras_nplm.language_model.language_model import LanguageModel

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
    owned = [name for name in given if chosen in _OWNERS.get(name, ("arpa",))]
    for name, value in given.items():
        if name not in owned:
            owner, *_ = _OWNERS.get(name, ("arpa",))
            fix = f"leave it out, or export with --format {owner}."
            check_left_out({name: value}, f"with the format {chosen}", fix)
    if not text:
        check_left_out({"field": field}, "without `--text`", "add --text FILE.")
    is_directory = chosen in ("saved-model", "page")
    with (open_output if is_directory else open_output_file)(target) as path:
        check_output_path(path)
        if not is_directory:
            check_output_file(path)
        language_model = LanguageModel.load(directory)
        if chosen == "word2vec":
            return _export_word_vectors(language_model, path)
        if chosen == "arpa":
            return _export_arpa(directory, language_model, path, text, field, arpa)
        options = {name: given[name] for name in owned if given[name] is not None}
        return _export_graphs(directory, language_model, path, chosen, options)


def _choose_format(target: str, wanted: Format | None) -> Format:
    """Return the wanted format, or the one of the target's name."""
    fix = "name a directory or a file to write."
    check_argument("TARGET", bool(target), "a path", "''", fix)
    name = target.lower()
    matching: list[Format] = []
    for format, ending in _ENDINGS.items():
        if ending and name.removesuffix(".gz").endswith(ending):
            matching.append(format)
    by_name: Format = "saved-model"
    if matching:
        by_name = matching[0]
    elif os.path.basename(name.rstrip("/")) == _PAGE:
        by_name = "page"
    format = wanted or by_name
    base, ending = os.path.splitext(os.path.basename(target.rstrip("/")))
    if format == "saved-model" and ending and not matching and not os.path.isdir(target):
        raise InputError(
            f"`TARGET` must end with one of {_KNOWN_ENDINGS}, or be a directory without an ending. "
            f"Received: {target!r}. Fix: choose a name such as {base}{_ENDINGS['arpa']}, or {base}."
        )
    is_different = matching and format not in matching
    if is_different or (name.endswith(".gz") and format != "arpa"):
        raise InputError(
            f"`TARGET` must have an ending of the format {format}. Received: {target!r}. "
            f"Fix: let it end in {_ENDINGS[format] or 'no known ending'}, or change --format."
        )
    return format


def _export_graphs(
    directory: str,
    language_model: "LanguageModel",
    target: Path,
    format: Format,
    options: dict[str, Any],
) -> dict:
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
    metrics = read_metrics(Path(directory), missing_ok=True)
    written = exporters[format](language_model, target, **options, config=config, metrics=metrics)
    if isinstance(written, list):
        return _describe(format, written) | {"contents": read_json(name_facts_file(target))}
    result = _describe(format, [written])
    if format == "page":
        result["contents"] = read_facts(written)
        result["needs_internet"] = "runtime" not in options
        result["runtime_version"] = RUNTIME_VERSION
    return result


def _export_word_vectors(language_model: "LanguageModel", target: Path) -> dict:
    from keras_nplm.language_model.word_vectors import write_word2vec

    write_word2vec(target, *language_model.word_vectors())
    return _describe("word2vec", [target])


def _export_arpa(
    directory: str,
    language_model: "LanguageModel",
    target: Path,
    text: tuple[str, ...],
    field: str | None,
    options: Given,
) -> dict:
    from keras_nplm.data.corpora.text_files import read_files
    from keras_nplm.language_model.arpa_models import convert_to_backoff
    from keras_nplm.models.ngrams import BackoffModel, write_arpa

    lines = read_files(text, field) if text else None
    model = convert_to_backoff(language_model, lines, ArpaOptions(**options))
    write_arpa(target, model, language_model.vocabulary)
    result = _describe("arpa", [target])
    result["ngrams"] = model.num_ngrams
    if not isinstance(language_model.model, BackoffModel):
        result["approximated"] = directory
        tokenizer = language_model.tokenizer
        # `evaluate` reads ARPA files of plain words alone
        if tokenizer.kind in list_word_tokenizers() and not tokenizer.steps:
            command = f"keras-nplm evaluate {directory} {result['written'][0]} --text FILE"
            result["compare"] = " ".join([command, *tokenizer.flags])
    return result


def _describe(format: Format, written: list[Path]) -> dict[str, Any]:
    from keras_nplm.io.remote import display_url

    return {"format": format, "written": [display_url(path) for path in written]}
