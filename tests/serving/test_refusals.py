"""Invalid input of the exports is refused in one line that names it."""

import pytest

from keras_nplm import (
    InputError,
    LanguageModel,
    Uniform,
    Vocabulary,
    export_litert,
    export_onnx,
    export_saved_model,
)
from keras_nplm.serving.graphs import build_graph
from keras_nplm.serving.signatures import ServingModule

_UNIFORM = LanguageModel(Uniform(5, "stream"), Vocabulary(["the"]), "words", "stream")
_CALLS = [  # of a small model, a directory with a file, and a model directory
    (
        lambda model, path, _: export_litert(_UNIFORM, path / "new"),
        "can hold an NPLM only. Received: Uniform",
    ),
    (lambda model, path, _: export_onnx(model, path), "directory"),
    (
        lambda model, _, models: export_litert(model, models / "model.keras"),
        "lies in the model directory",
    ),
    (lambda model, path, _: export_saved_model(model, path), "which holds other files"),
    (
        lambda model, path, _: export_saved_model(model, path / "file"),
        "must be a directory.*file, which is a file",
    ),
    (lambda model, path, _: export_saved_model(model, path / "file" / "served"), "Not a directory"),
    *[
        (
            lambda model, path, _, name=name: export_saved_model(model, path / name),
            "becomes the model name",
        )
        for name in ("sp ace", "a:b", "über", "5")
    ],
    (lambda model, *_: ServingModule(model, top_k=0), "`top_k` must be 1 or more"),
    (
        lambda model, *_: ServingModule(model, max_text_length=(1 << 30) + 1),
        "`max_text_length` must be 1 to",
    ),
    (lambda *_: build_graph(object()), "to be served. Received: object"),
]


@pytest.mark.parametrize(("call", "message"), _CALLS)
def test_misuse_is_refused(language_model, directory, tmp_path, call, message):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=message):
        call(language_model, tmp_path, directory)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
