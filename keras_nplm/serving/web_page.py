"""Export to a web page: next words and completions while one types, computed in the browser."""

import base64
import contextlib
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.characters import CharacterTokenizer
from keras_nplm.data.tokenizers.utf8_bytes import ByteTokenizer
from keras_nplm.data.tokenizers.words import WhitespaceTokenizer, WordTokenizer
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json, remove_temporary_files, replace_file
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.paths import check_output_path
from keras_nplm.io.stages import check_output_file
from keras_nplm.io.text import check_is_file
from keras_nplm.language_model.description import list_properties
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.serving.examples import choose_text
from keras_nplm.serving.file_facts import name_facts_file
from keras_nplm.serving.on_device import export_onnx

# the tokenizers that `page/tokenizers.js` has
TOKENIZERS: tuple[type[Tokenizer], ...] = (
    WordTokenizer,
    WhitespaceTokenizer,
    CharacterTokenizer,
    ByteTokenizer,
)
RUNTIME_VERSION = "1.30.0"
RUNTIME_ADDRESS = f"https://cdn.jsdelivr.net/npm/onnxruntime-web@{RUNTIME_VERSION}/dist/"
# SHA-384 of the files in that version of npm's package onnxruntime-web
RUNTIME_FILES = {
    "ort.wasm.min.js": "Bw6URI+Gvoadw0do7/QrSHUC9D1vCYYK5OSqChFyhyV5mzPL4oe2rOAFljAnS8Sq",
    "ort-wasm-simd-threaded.mjs": (
        "XcXA/MtAf0WpB8e023xQH9CM7RIjiugakT7x99DIwpFf7k56BIFFcAPerIF7FDad"
    ),
    "ort-wasm-simd-threaded.wasm": (
        "vjBJ1z7qrhkTyYsNqKeF6c7N+nOJSU94czEo+tvZcu8G75JparGq9kB+kTnEUNVM"
    ),
}
MOST_MODEL_BYTES = 1 << 28  # more does not fit into a string of JavaScript
_MOST_RUNTIME_BYTES = 1 << 26
_SOURCES = Path(__file__).parent / "page"
_FACTS = "facts.js"  # written last; its presence means that `export_page` wrote the directory
_WRITTEN = (_FACTS, "vocabulary.js", "model.js", "runtime.js")


def export_page(
    language_model: LanguageModel,
    target: str | os.PathLike,
    *,
    runtime: str | os.PathLike | None = None,
    quantise: bool = False,
    network_alone: bool = False,
    config: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> Path:
    """Export a model as a web page that shows next words and completions while one types.

    `TARGET/index.html` opens by a double click, without a server. The scripts beside it hold the
    model (ONNX), its vocabulary and its facts. ONNX Runtime computes the probabilities in the
    browser, and no text leaves it. The extra `onnx` must be installed.

    Args:
        language_model: a model that `export_onnx` accepts, with the tokenizer words, whitespace,
            characters or bytes.
        target: directory of the page: absent, empty or with an earlier page, whose files are
            replaced. Hidden files stay. It may be a link, a mount point or the working directory.
        runtime: the file that `npm pack onnxruntime-web@VERSION` writes. The page then needs no
            internet. Default: the page loads ONNX Runtime from cdn.jsdelivr.net.
        quantise: 8-bit matrices, a quarter of the size.
        network_alone: leave out the n-grams of a mixture.
        config, metrics: contents of `config.json` and `metrics.json`, for the model's card.

    Returns:
        the path of `index.html`.

    Raises:
        InputError: the page cannot run this tokenizer or this model, `runtime` is a different file,
            or `target` holds other files. Nothing is written.
        RunError: the disk is full, for example. An earlier page is unchanged.
    """
    target = Path(target)
    _check_tokenizer(language_model.tokenizer)
    _check_target(target)
    runtime_files = None if runtime is None else _read_runtime(Path(runtime))
    options = {"quantise": quantise, "network_alone": network_alone}
    model, facts = _convert_model(language_model, **options, config=config, metrics=metrics)
    facts["vocabulary_file"] = "vocabulary.js"
    facts["example"] = choose_text(language_model)
    card = {**list_properties(facts), "Size": f"{len(model) / 1e6:.1f} MB"}
    facts["card"] = [(name, text.replace("`", "")) for name, text in card.items()]
    vocabulary = language_model.vocabulary
    constants: dict[str, dict[str, Any]] = {
        _FACTS: {"FACTS": facts},
        "vocabulary.js": {"WORDS": vocabulary.words, "FORMS": vocabulary.forms or {}},
        "model.js": {"MODEL": _pack(model)},
        "runtime.js": {"RUNTIME": _describe_runtime(runtime_files)},
    }
    _write_page(target, constants)
    return target / "index.html"


def read_facts(index: Path) -> dict[str, Any]:
    """Read the facts of a page, of which `export_page` returned the path."""
    text = index.with_name(_FACTS).read_text(encoding="utf-8")
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def _check_tokenizer(tokenizer: Tokenizer) -> None:
    # a subclass may split text differently
    if type(tokenizer) not in TOKENIZERS:
        kinds = [kind.kind for kind in TOKENIZERS]
        raise InputError(
            f"The tokenizer of a page must be one of {', '.join(kinds)}. "
            f"Received: {tokenizer.name}. Fix: export a SavedModel, which has every tokenizer, or "
            "an .onnx file, which takes token ids."
        )


def _check_target(target: Path) -> None:
    check_output_path(target)
    check_output_file(target)  # the same holds for a directory
    if not os.path.lexists(target):
        return
    is_file = not target.is_dir()
    found = {path.name for path in target.glob("[!.]*")}
    pages_files = {*_WRITTEN, *(source.name for source in _SOURCES.iterdir())}
    if is_file or (found and (_FACTS not in found or not found <= pages_files)):
        raise InputError(
            "The directory of a page must be absent, empty or an earlier page. "
            f"Received: {target}, a file or with other files. Fix: choose a new directory."
        )


def _read_runtime(path: Path) -> dict[str, bytes]:
    """Read the files of ONNX Runtime from npm's package, and check that they are the tested
    ones.
    """
    check_is_file(path)
    contents = {}
    try:
        with tarfile.open(path) as archive:
            for name in RUNTIME_FILES:
                file = archive.extractfile(f"package/dist/{name}")
                contents[name] = file.read(_MOST_RUNTIME_BYTES) if file else b""
    except (tarfile.TarError, EOFError, zlib.error, OSError, KeyError) as error:
        raise _refuse_runtime(path, "it is not a whole archive") from error
    for name, content in contents.items():
        if _hash(content) != RUNTIME_FILES[name]:
            raise _refuse_runtime(path, f"its {name} is of a different version")
    return contents


def _refuse_runtime(path: Path, reason: str) -> InputError:
    return InputError(
        f"`runtime` must be npm's package onnxruntime-web {RUNTIME_VERSION}. Received: {path} "
        f"({reason}). Fix: run `npm pack onnxruntime-web@{RUNTIME_VERSION}` and name its file."
    )


def _hash(content: bytes) -> str:
    return base64.b64encode(hashlib.sha384(content).digest()).decode()


def _convert_model(language_model: LanguageModel, **options: Any) -> tuple[bytes, dict[str, Any]]:
    """Return the content of the model's ONNX file, and its facts."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.onnx")
        export_onnx(language_model, path, **options)
        model = path.read_bytes()
        facts = read_json(name_facts_file(path))
    if len(model) > MOST_MODEL_BYTES:
        raise InputError(
            f"The model of a page must have at most {MOST_MODEL_BYTES:,} bytes. "
            f"Received: {len(model):,}. Fix: export with --quantise or --network-alone, or train "
            "a smaller model."
        )
    return model, facts


def _describe_runtime(files: Mapping[str, bytes] | None) -> dict[str, Any]:
    """Return the files of ONNX Runtime, or where they are and their hashes."""
    if files is not None:
        return {"files": {name: _pack(content) for name, content in files.items()}}
    return {
        "address": RUNTIME_ADDRESS,
        "integrity": {name: f"sha384-{digest}" for name, digest in RUNTIME_FILES.items()},
    }


def _pack(content: bytes) -> str:
    """Return bytes as text: browsers read no other files beside a page without a server."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def _write_page(target: Path, constants: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the files of a page: all to temporary paths, which are then renamed, facts.js last."""
    with lock_directory(target), contextlib.ExitStack() as files:
        remove_temporary_files(target)

        def replace(name: str) -> Path:
            return files.enter_context(replace_file(target / name))

        # the first is renamed last
        for file, values in constants.items():
            _write_constants(replace(file), values)
        for source in _SOURCES.iterdir():
            shutil.copyfile(source, replace(source.name))


def _write_constants(path: Path, values: Mapping[str, Any]) -> None:
    """Write a script that defines constants."""
    lines = ['"use strict";\n']
    for name, value in values.items():
        lines.append(f"const {name} = {json.dumps(value, ensure_ascii=False, indent=1)};\n")
    # a file name may hold a lone surrogate
    path.write_bytes("".join(lines).encode("utf-8", "backslashreplace"))
