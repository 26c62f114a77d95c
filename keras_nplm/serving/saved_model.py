"""Export to TF Serving: a SavedModel version, a model card and the server's configuration."""

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.paths import check_output_path, output_error
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.serving.examples import build_examples
from keras_nplm.serving.model_card import model_card
from keras_nplm.serving.signatures import DEFAULT_SIGNATURE, MAX_TEXT_LENGTH, ServingModule
from keras_nplm.serving.warm_up import write_warm_up_requests

_MARKER = "models.config"  # its presence means that `export_saved_model` wrote the directory
_MAX_BATCH = 128  # rows that the server runs in one call of the model
# valid in a URL, in YAML and in the server's files
_MODEL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VERSION = re.compile(r"[1-9][0-9]{0,17}")
_KEPT = "Versions exported before are unchanged."
_STALE_SECONDS = 3600  # age at which the temporary directory of a killed export is removed

# Used by `docker compose up` in the exported directory, or by the same options of
# `tensorflow_model_server`
_SERVER_FILES = {
    "models.config": """\
model_config_list {{
  config {{ name: "{name}" base_path: "/models/{name}" model_platform: "tensorflow" }}
}}
""",
    "batching.config": """\
# rows of a request; a request with more rows than the next number is split
max_batch_size {{ value: 100000 }}
max_execution_batch_size {{ value: {batch} }}
enable_large_batch_splitting {{ value: true }}
batch_timeout_micros {{ value: 0 }}
max_enqueued_batches {{ value: 1000 }}
num_batch_threads {{ value: {cores} }}  # set to the number of cores of the server
""",
    "monitoring.config": """\
prometheus_config {{ enable: true path: "/monitoring/prometheus/metrics" }}
""",
    "compose.yaml": """\
services:
  "{name}":
    image: tensorflow/serving
    volumes: [".:/models/{name}:ro"]
    ports: ["8500:8500", "8501:8501"]  # gRPC, REST
    command:
      - --model_config_file=/models/{name}/models.config
      - --enable_batching
      - --batching_parameters_file=/models/{name}/batching.config
      - --monitoring_config_file=/models/{name}/monitoring.config
""",
}


def export_saved_model(
    language_model: LanguageModel,
    target: str | os.PathLike,
    *,
    top_k: int = 10,
    max_text_length: int = MAX_TEXT_LENGTH,
    config: dict | None = None,
    metrics: dict | None = None,
) -> Path:
    """Export a language model as a SavedModel for TF Serving: the next version in `target`, and the
    server's files.

    `TARGET/<version>/` is the SavedModel. Its `assets.extra/` has `vocabulary.txt`, and the warm-up
    requests that the server sends to itself, so that no client waits. The version is renamed last,
    so a server that watches TARGET, a local directory, never loads an incomplete model. (An upload
    to an object store is file by file.) `TARGET/README.md` is the model card. The files that
    configure the server, with the name of TARGET as the model name, are written only if absent.

    Args:
        language_model: a language model whose parts are of classes with a graph; see
            `keras_nplm.serving.build_graph`. Caches have none.
        target: directory of the served model: absent, empty, or with versions that this function
            wrote.
        top_k: number of words that `predict_next` returns.
        max_text_length: limit of a text in bytes of UTF-8. `score` returns NaN for a longer text.
        config, metrics: contents of `config.json` and `metrics.json`, for the model card.

    Returns:
        the directory of the new version.

    Raises:
        InputError: `target` holds other files, or the model has a part that cannot be served; see
            `keras_nplm.serving.GraphModel`. Nothing is written.
        RunError: the disk is full, for example. Earlier versions are unchanged.
    """
    target = Path(target)
    name = target.resolve().name
    _check_target(target, name)
    served = ServingModule(language_model, top_k, max_text_length)
    signatures = served.signatures()
    files = _describe_server(name, target)
    examples = build_examples(language_model)
    files["README.md"] = model_card(
        name, language_model, signatures, examples, config or {}, metrics or {}, max_text_length
    )
    signatures["serving_default"] = signatures[DEFAULT_SIGNATURE]
    # `save` would trace the functions again, which takes most of the time of an export
    traced = {key: function.get_concrete_function() for key, function in signatures.items()}
    try:
        with _temporary_directory(target) as temporary:
            with lock_directory(temporary):  # notices the deletion of the target
                tf.saved_model.save(served, temporary, signatures=traced)
                language_model.vocabulary.save(temporary / "assets.extra" / "vocabulary.txt")
                write_warm_up_requests(temporary, name, signatures, examples)
            for file, text in files.items():
                with replace_file(target / file) as path:
                    path.write_text(text, encoding="utf-8")
            return _rename_to_next_version(temporary)
    except OSError as error:
        raise output_error(target, error, _KEPT) from error
    except tf.errors.OpError as error:
        reason = error.message.rpartition("}} ")[2] or str(error)
        raise output_error(target, OSError(reason), _KEPT) from error


def _check_target(target: Path, name: str) -> None:
    check_output_path(target)
    if not _MODEL_NAME.fullmatch(name):
        raise InputError(
            "`target` must be a directory whose name, which becomes the model name, is a letter "
            f"and then letters, digits, _ and -. Received: {name!r}. "
            "Fix: choose a name such as 'my_model'."
        )
    if _holds_other_files(target):
        raise InputError(
            "`target` must be absent, empty or with exported versions. "
            f"Received: {target}, a file or with other files. Fix: choose a new directory."
        )


def _holds_other_files(target: Path) -> bool:
    """Return whether there is a file, or a directory with files that `export_saved_model` did not
    write.
    """
    if not target.exists() or (target / _MARKER).exists():
        return False
    return not target.is_dir() or any(not path.name.startswith(".") for path in target.iterdir())


def _describe_server(name: str, target: Path) -> dict[str, str]:
    """Return the contents of the server's files that are absent in `target`, by file name."""
    cores = os.cpu_count() or 1
    contents = {}
    for file, text in _SERVER_FILES.items():
        if not (target / file).exists():
            contents[file] = text.format(name=name, batch=_MAX_BATCH, cores=cores)
    return contents


@contextlib.contextmanager
def _temporary_directory(parent: Path) -> Iterator[Path]:
    """Yield a temporary directory in `parent`, and remove it unless it was renamed.

    Stale ones are removed, too.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for stale in parent.glob(".new.*"):
        # a concurrent export has renamed its directory
        with contextlib.suppress(FileNotFoundError):
            if time.time() - stale.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(stale, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=".new.", dir=parent))
    temporary.chmod(0o755)  # the server may run as another user
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _rename_to_next_version(directory: Path) -> Path:
    versions = []
    for path in directory.parent.iterdir():
        if _VERSION.fullmatch(path.name):
            versions.append(int(path.name))
    version = max(versions, default=0)
    while True:
        version += 1
        try:
            return directory.rename(directory.with_name(str(version)))
        except OSError:  # a concurrent export may have taken the number
            if not directory.with_name(str(version)).exists():
                raise
