"""`keras-nplm export`: write a model as SavedModel, web page, LiteRT, ONNX, ARPA or word2vec
file.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping
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
from keras_nplm.cli.printing import name_component, printed_by
from keras_nplm.data.tokenizers.registry import list_word_tokenizers
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.fields import Option, check_values
from keras_nplm.models.ngrams.approximation import MIN_EXPECTED_COUNT, ORDER

if TYPE_CHECKING:
    import numpy as np

    from keras_nplm.language_model.language_model import LanguageModel
    from keras_nplm.models.ngrams import BackoffModel

Format = Literal["saved-model", "page", "litert", "onnx", "arpa", "word2vec"]
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArpaOptions:
    """How a model becomes an ARPA file."""

    order: Annotated[int | None, Option(least=2, below=1024, example=ORDER)] = None
    """n, up to the model's order"""

    min_expected_count: Annotated[float | None, Option(above=0, example=MIN_EXPECTED_COUNT)] = None
    """least expected count in the text for which an n-gram is listed"""

    prune: Annotated[float | None, Option(least=0, example=1e-7)] = None
    """pruning threshold: relative rise of perplexity below which an n-gram is removed, such as
    1e-7"""

    def __post_init__(self) -> None:
        check_values(self)


if TYPE_CHECKING:
    ArpaFlags = Given
else:
    ArpaFlags = flatten(
        {ArpaOptions: _GROUP},
        order=f"{ORDER} or the model's",
        min_expected_count=str(MIN_EXPECTED_COUNT),
    )
_FROM_INTERNET = "the page loads ONNX Runtime from the internet"
_BY_NAME = (
    f"by the name of TARGET: {_KNOWN_ENDINGS}; page for a directory of this name, saved-model for "
    "any other"
)


def _print_written(result: dict) -> None:
    contents = f"{sum(result['ngrams']):,} n-grams to " if "ngrams" in result else ""
    print(f"wrote {contents}{', '.join(result['written'])}")
    if "approximated" in result:
        compare = f"; compare: {result['compare']}" if "compare" in result else ""
        print(f"an approximation of {result['approximated']}{compare}")
    if "contents" in result:
        print(_describe_contents(result["written"][0], result["contents"]))
    if result["format"] == "saved-model":
        target = os.path.dirname(result["written"][0])
        print(f"{target}/README.md documents serving and requests.")
        print(f"next: docker compose up, in {target}")
    if result["format"] == "page":
        _print_page(result)


def _print_page(result: dict) -> None:
    if result["needs_internet"]:
        version = result["runtime_version"]
        print(
            "It loads ONNX Runtime from cdn.jsdelivr.net. For a page that needs no internet, run "
            f"`npm pack onnxruntime-web@{version}`\nand export with --runtime "
            f"onnxruntime-web-{version}.tgz."
        )
    print(f"next: open {result['written'][0]} in a browser")


def _describe_contents(file: str, facts: dict) -> str:
    """Return a sentence on what a LiteRT or ONNX file holds."""
    sentence = f"{file} holds {_name_content(facts)}"
    if facts["quantised"]:
        sentence += " in 8 bits"
    if facts["perplexity"]:
        before = " before rounding" * facts["quantised"]
        sentence += f": perplexity{before} {_format_perplexities(facts['perplexity'])}"
    if facts.get("perplexity_of_mixture"):
        sentence += f"; the mixture has {_format_perplexities(facts['perplexity_of_mixture'])}"
    return sentence


def _name_content(facts: dict) -> str:
    if facts["content"] == "mixture":
        components = ", ".join(name_component(kind) for kind in facts["components"])
        return f"the mixture ({components})"
    if facts["content"] == "n-grams":
        return "the n-gram model"
    return "the network alone" if "perplexity_of_mixture" in facts else "the network"


def _format_perplexities(perplexities: dict) -> str:
    parts = [f"{perplexity:.2f} ({split})" for split, perplexity in perplexities.items()]
    return " and ".join(parts)


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
    from keras_nplm.io.remote import open_output, open_output_file

    chosen = _choose_format(target, format)
    serving = {"top_k": top_k, "max_text_length": max_text_length}
    graph = {"quantise": quantise, "network_alone": network_alone}
    _check_owned(chosen, ("saved-model",), serving)
    _check_owned(chosen, ("page",), {"runtime": runtime})
    _check_owned(chosen, ("litert", "onnx", "page"), graph)
    _check_owned(chosen, ("litert", "onnx"), {"signature": signature})
    _check_owned(chosen, ("arpa",), {"text": text, "field": field, **arpa})
    if chosen == "saved-model":
        with open_output(target) as path:
            return _export_saved_model(directory, path, top_k, max_text_length)
    if chosen == "page":
        with open_output(target) as path:
            return _export_page(directory, path, {**graph, "runtime": runtime})
    with open_output_file(target) as path:
        if chosen == "arpa":
            lines = _read_text(text, field)
            return _export_arpa(directory, path, lines, ArpaOptions(**arpa))
        if chosen == "word2vec":
            return _export_word_vectors(directory, path)
        options = {**graph, "signature": signature or "log_probs"}
        return _export_graph(directory, path, chosen, options)


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


def _check_owned(format: Format, owners: tuple[Format, ...], given: Mapping[str, object]) -> None:
    """Refuse flags of a different format."""
    if format not in owners:
        fix = f"leave it out, or export with --format {owners[0]}."
        check_left_out(given, f"with the format {format}", fix)


def _export_saved_model(
    directory: str, target: Path, top_k: int | None, max_text_length: int | None
) -> dict:
    from keras_nplm.io.paths import check_output_path
    from keras_nplm.language_model.directory import read_config, read_metrics
    from keras_nplm.language_model.language_model import LanguageModel

    check_output_path(target)
    language_model = LanguageModel.load(directory)
    from keras_nplm.serving import export_saved_model

    written = export_saved_model(
        language_model,
        target,
        config=read_config(Path(directory)),
        metrics=read_metrics(Path(directory), missing_ok=True),
        top_k=top_k or _TOP_K,
        max_text_length=max_text_length or _MAX_TEXT_LENGTH,
    )
    return _describe("saved-model", [written])


def _export_page(directory: str, target: Path, options: dict) -> dict:
    from keras_nplm.io.paths import check_output_path
    from keras_nplm.language_model.directory import read_config, read_metrics
    from keras_nplm.language_model.language_model import LanguageModel

    check_output_path(target)
    language_model = LanguageModel.load(directory)
    from keras_nplm.serving import export_page
    from keras_nplm.serving.web_page import RUNTIME_VERSION, read_facts

    written = export_page(
        language_model,
        target,
        config=read_config(Path(directory)),
        metrics=read_metrics(Path(directory), missing_ok=True),
        **options,
    )
    result: dict[str, Any] = _describe("page", [written])
    result["contents"] = read_facts(written)
    result["needs_internet"] = options["runtime"] is None
    result["runtime_version"] = RUNTIME_VERSION
    return result


def _export_graph(directory: str, target: Path, format: Format, options: dict) -> dict:
    from keras_nplm.io.files import read_json
    from keras_nplm.io.paths import check_output_path
    from keras_nplm.language_model.directory import read_metrics
    from keras_nplm.language_model.language_model import LanguageModel

    check_output_path(target)
    language_model = LanguageModel.load(directory)
    from keras_nplm.serving import export_litert, export_onnx
    from keras_nplm.serving.file_facts import name_facts_file

    export = export_litert if format == "litert" else export_onnx
    metrics = read_metrics(Path(directory), missing_ok=True)
    files = export(language_model, target, **options, metrics=metrics)
    result = _describe(format, files)
    result["contents"] = read_json(name_facts_file(target))
    return result


def _export_word_vectors(directory: str, target: Path) -> dict:
    from keras_nplm.language_model.language_model import LanguageModel
    from keras_nplm.language_model.word_vectors import write_word2vec

    _check_file(target)
    words, vectors = LanguageModel.load(directory).word_vectors()
    write_word2vec(target, words, vectors)
    return _describe("word2vec", [target])


def _read_text(text: tuple[str, ...], field: str | None) -> Iterator[str] | None:
    """Return the lines of the text whose n-grams an ARPA file lists; None if none is given."""
    from keras_nplm.data.corpora.text_files import read_files

    if not text:
        check_left_out({"field": field}, "without `--text`", "add --text FILE.")
        return None
    return read_files(text, field)


def _export_arpa(
    directory: str, target: Path, lines: Iterator[str] | None, options: ArpaOptions
) -> dict:
    from keras_nplm.language_model.language_model import LanguageModel
    from keras_nplm.models.ngrams import BackoffModel, write_arpa

    _check_file(target)
    language_model = LanguageModel.load(directory)
    model = _build_backoff_model(directory, language_model, lines, options)
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


def _build_backoff_model(
    directory: str,
    language_model: "LanguageModel",
    lines: Iterator[str] | None,
    options: ArpaOptions,
) -> "BackoffModel":
    from keras_nplm.models.ngrams import BackoffModel, prune
    from keras_nplm.models.ngrams.approximation import approximate, fit_unigrams

    model: Any = language_model.model
    is_given = options.order is not None or options.min_expected_count is not None
    is_approximated = not isinstance(model, BackoffModel) or lines is not None or is_given
    if is_approximated:
        order = options.order
        if order is None:
            order = min(ORDER, model.order)
        least = options.min_expected_count
        if least is None:
            least = MIN_EXPECTED_COUNT
        ids = _read_ids(directory, language_model, lines)
        model = approximate(model, ids, order, language_model.boundary, least)
    pruned = prune(model, options.prune or 0.0)
    return fit_unigrams(pruned, model.unigrams) if is_approximated else pruned


def _read_ids(
    directory: str, language_model: "LanguageModel", lines: Iterator[str] | None
) -> "np.ndarray":
    """Return the ids of the text whose n-grams an ARPA file lists."""
    from keras_nplm.data.shards import encode_lines

    if lines is not None:
        return encode_lines(
            lines,
            language_model.vocabulary,
            language_model.tokenizer,
            language_model.boundary,
        )
    if not language_model.corpus:
        raise InputError(
            "`--text` must name a text if the model directory has no corpus/. "
            f"Received: {directory}. Fix: give --text FILE, whose n-grams the ARPA file lists."
        )
    return language_model.corpus.ids("train")


def _check_file(target: Path) -> None:
    from keras_nplm.io.paths import check_output_path
    from keras_nplm.language_model.directory import check_output_file

    check_output_path(target)
    check_output_file(target)


def _describe(format: Format, written: list[Path]) -> dict:
    from keras_nplm.io.remote import display_url

    return {"format": format, "written": [display_url(path) for path in written]}
