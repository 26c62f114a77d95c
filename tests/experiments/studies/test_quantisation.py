"""The study of 8-bit weights on a small network."""

import numpy as np
import pytest

from keras_nplm import NPLM, LanguageModel, Vocabulary, evaluate
from keras_nplm.experiments.studies.quantisation import format_report, measure_files

pytestmark = pytest.mark.long


def test_figures_are_those_of_the_files():
    for package in ("ai_edge_litert", "tf2onnx", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is needed")
    rng = np.random.default_rng(0)
    vocabulary = Vocabulary([f"w{i}" for i in range(996)])
    model = NPLM(len(vocabulary), order=4, embedding_dim=16, hidden_units=24)
    model.set_weights([rng.normal(0, 0.3, w.shape) if w.dtype.kind == "f" else w for w in model.get_weights()])
    ids = np.append(rng.integers(3, 1000, 300), 3).astype(np.int32)
    report = measure_files("small", LanguageModel(model, vocabulary, "words", "sentence"), ids)
    assert report["perplexity"] == pytest.approx(evaluate(model, ids)["perplexity"])
    for file in report["files"]:
        if "8 bits" in file["format"]:
            assert 1e-4 < file["words"]["mean"] < file["words"]["max"] < 0.5
            assert file["tokens"]["max"] <= file["words"]["max"] and file["bytes"] < 100_000
        else:
            assert file["words"]["max"] < 1e-4
            assert file["perplexity"] == pytest.approx(report["perplexity"], rel=1e-5)
    assert format_report({"models": [report]}).count("\n") == 6
