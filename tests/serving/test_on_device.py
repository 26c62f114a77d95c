"""LiteRT and ONNX files give the log-probabilities of the model, in the runtimes of devices."""

import json

import numpy as np
import pytest
from tensorflow.lite.tools import flatbuffer_utils

import keras_nplm
from keras_nplm import (
    NPLM,
    AdaptiveHead,
    AveragedContext,
    DeepHidden,
    LanguageModel,
    LinearHead,
    NoiseContrastive,
    PointerNetwork,
    Vocabulary,
    export_litert,
    export_onnx,
)
from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.serving import on_device
from tests.networks import compose, compose_energy

LONG = pytest.mark.long
V = 40
CONTEXTS = np.array([[2, 2, 2], [4, 5, 6], [9, 20, 7], [0, 0, 5]], np.int32)
TEXTS = ["w1 w2", "", "w30 zebra w7 w35 w20 w9 w1", "w9"]


def _run_litert(path, **inputs):
    runtime = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is needed")
    (output,) = runtime.Interpreter(str(path)).get_signature_runner()(**inputs).values()
    return output


def _run_onnx(path, **inputs):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is needed")
    session = runtime.InferenceSession(str(path))
    # in C++ they are often known by place
    assert [given.name for given in session.get_inputs()] == [*inputs]
    (output,) = session.run(None, inputs)
    return output


def _run_openvino(path, **inputs):
    core = pytest.importorskip("openvino", reason="openvino is needed").Core()
    exact = {"INFERENCE_PRECISION_HINT": "f32"}  # the default is 16 bits on some processors
    return core.compile_model(core.read_model(str(path)), "CPU", exact)([*inputs.values()])[0]


def _read_onnx_metadata(path):
    onnx = pytest.importorskip("onnx", reason="onnx is needed")
    model = onnx.load(path)
    properties = {entry.key: entry.value for entry in model.metadata_props}
    return model.doc_string, properties


def _read_litert_metadata(path):
    model = flatbuffer_utils.read_model(path)
    buffers = {entry.name: model.buffers[entry.buffer].data for entry in model.metadata}
    return model.description.decode(), json.loads(bytes(buffers[b"keras_nplm"]))


def _encode(language_model, texts):
    ids = [language_model.vocabulary.encode(text.split()) for text in texts]
    x = np.full((len(ids), max(map(len, ids))), -1)  # any padding
    for row, some in zip(x, ids, strict=True):
        row[: len(some)] = some
    return {"x": x, "x_lens": np.array([*map(len, ids)])}


@pytest.mark.parametrize(
    "export, run, mixed",
    [
        pytest.param(export_litert, _run_litert, False, id="LiteRT"),
        pytest.param(export_onnx, _run_onnx, True, id="ONNX of a mixture"),
    ],
)
def test_a_file_gives_the_numbers_of_python(export, run, mixed, language_model, tmp_path, capsys):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    target = tmp_path / "next"
    written = language_model
    if mixed:  # its network alone is written
        model = language_model.model
        written = language_model.replace_model(
            Mixture([model, Uniform(model.vocabulary_size)], [0.5, 0.5])
        )
    files = [str(target), f"{target}.json", f"{target}.vocabulary.txt"]
    assert [str(path) for path in export(written, target)] == files
    assert Vocabulary.load(f"{target}.vocabulary.txt") == language_model.vocabulary
    for rows in (1, 4):  # any batch size
        expected = language_model.model.next_log_probs(CONTEXTS[:rows])
        np.testing.assert_allclose(run(target, context_ids=CONTEXTS[:rows]), expected, atol=2e-5)
    assert ("the network alone" in capsys.readouterr().err) == mixed


FACTS_OF_LANGUAGE_MODEL = {
    "created_by": f"keras_nplm {keras_nplm.__version__}",
    "content": "network",
    "perplexity": {"validation": 3.5, "test": 4.5},
    "context_length": 3,
    "padding_id": 2,
    "unknown_id": 1,
    "end_of_sentence_id": 3,
    "first_proposed_id": 3,
    "boundary": "sentence",
    "quantised": False,
    "signature": "log_probs",
}
METRICS = {"validation": {"perplexity": 3.5}, "test": {"perplexity": 4.5}, "seconds": 2.0}


def test_a_litert_file_says_what_it_is(language_model, tmp_path):
    target, description, vocabulary = export_litert(
        language_model, tmp_path / "mine.tflite", metrics=METRICS
    )
    facts = read_json(description)
    assert facts.items() >= FACTS_OF_LANGUAGE_MODEL.items()
    assert facts["format"] == "litert"
    assert facts["tokenizer"]["name"] == "words"
    assert facts["vocabulary_size"] == len(language_model.vocabulary)
    assert facts["vocabulary_file"] == vocabulary.name == "mine.tflite.vocabulary.txt"
    assert _read_litert_metadata(target) == (facts["description"], facts)
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(str(target))
    (given,) = interpreter.get_input_details()
    (expected,) = facts["inputs"]
    assert given["name"].endswith(f"{expected['name']}:0")
    assert given["shape_signature"].tolist() == [-1, *expected["shape"][1:]]


def test_an_onnx_file_says_what_it_is(language_model, tmp_path):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is needed")
    target, description, vocabulary = export_onnx(
        language_model, tmp_path / "mine.onnx", metrics=METRICS
    )
    facts = read_json(description)
    assert facts.items() >= FACTS_OF_LANGUAGE_MODEL.items()
    assert facts["format"] == "onnx"
    assert facts["vocabulary_file"] == vocabulary.name == "mine.onnx.vocabulary.txt"
    text, properties = _read_onnx_metadata(target)
    assert text == properties.pop("description") == facts.pop("description")
    for name, value in facts.items():
        stored = properties.pop(name)
        assert stored == value if isinstance(value, str) else json.loads(stored) == value
    assert not properties
    session = runtime.InferenceSession(str(target))
    (given,) = session.get_inputs()
    (expected,) = facts["inputs"]
    assert (given.name, given.shape[1:]) == (expected["name"], expected["shape"][1:])
    (given,) = session.get_outputs()
    (expected,) = facts["outputs"]
    assert (given.name, given.shape[1:]) == (expected["name"], expected["shape"][1:])


@pytest.mark.parametrize(
    "boundary, ending, run",
    [
        pytest.param("sentence", "tflite", _run_litert, id="LiteRT, sentences"),
        pytest.param("text", "onnx", _run_onnx, id="ONNX, text"),
        pytest.param("stream", "tflite", _run_litert, marks=LONG, id="LiteRT, stream"),
        pytest.param("stream", "onnx", _run_onnx, marks=LONG, id="ONNX, stream"),
    ],
)
def test_a_file_scores_texts(boundary, ending, run, randomise, tmp_path, monkeypatch):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    monkeypatch.setattr(on_device, "TILE_WORDS", 16)
    model = randomise(NPLM(V, order=4, embedding_dim=6, hidden_units=5, boundary=boundary))
    language_model = LanguageModel(model, Vocabulary([f"w{i}" for i in range(V - 4)]), "words")
    language_model.save(tmp_path / "model")
    path = str(tmp_path / f"score.{ending}")
    scorer = language_model.scorer()
    assert main(["export", str(tmp_path / "model"), path, "--signature", "score"]) == 0
    for texts in (TEXTS, TEXTS[:1], [""], []):
        inputs = (
            _encode(language_model, texts)
            if texts
            else {"x": np.zeros((0, 3), int), "x_lens": np.zeros(0, int)}
        )
        # each row is a text of its own
        ends = [scorer.score(scorer.begin(), text) for text in texts]
        expected = [-log_prob - scorer.end(state) for log_prob, state in ends]
        np.testing.assert_allclose(run(path, **inputs), expected, rtol=1e-5, atol=1e-6)
    inputs = {"x": np.array([[5, 6], [5, V], [-1, 5]]), "x_lens": np.array([2, 2, 2])}
    assert np.isnan(run(path, **inputs)).tolist() == [False, True, True]


def _build_network(kind):
    if kind == "direct connections":
        return NPLM(V, 4, 6, 5, direct_connections=True)
    if kind == "adaptive, 16 bits":
        head = AdaptiveHead(V, name="prob", dtype="mixed_bfloat16")
        return compose(V, 4, 6, head=head, dtype="mixed_bfloat16")
    if kind == "energy":
        return compose_energy(V, 4, 6)
    if kind == "short-list":
        return compose(V, 4, 6, head=LinearHead(V, num_outputs=24, name="prob"))
    if kind == "pointer":
        return compose(V, 4, 6, kind=PointerNetwork, objective=NoiseContrastive())
    if kind == "averaged low rank":
        embed = AveragedContext(V, 6, averages_after=(1,), name="embed")
        return compose(V, 4, 6, embed=embed, head=LinearHead(V, rank=3, name="prob"))
    assert kind == "deep"
    hidden = DeepHidden(5, activation="gelu", residual_blocks=1, layer_norm=True, name="hidden")
    return compose(V, 4, 6, hidden=hidden)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        *("direct connections", "adaptive, 16 bits", "energy"),
        *("short-list", "pointer", "averaged low rank", "deep"),
    ],
)
def test_runtimes_give_the_numbers_of_every_network(kind, randomise, tmp_path, monkeypatch):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    model = randomise(_build_network(kind))
    language_model = LanguageModel(
        model, Vocabulary([f"w{i}" for i in range(V - 4)]), "words", "sentence"
    )
    monkeypatch.setattr(on_device, "TILE_WORDS", 16)
    rtol = 0.05 if model.dtype_policy.name == "mixed_bfloat16" else 1e-4
    lite, *_ = export_litert(language_model, tmp_path / "score.tflite", signature="score")
    onnx, *_ = export_onnx(language_model, tmp_path / "score.onnx", signature="score")
    expected = [-score.log_prob for score in language_model.score(TEXTS, alone=True)]
    for run, path in ((_run_litert, lite), (_run_onnx, onnx)):
        found = run(path, **_encode(language_model, TEXTS))
        finite = np.isfinite(expected)
        np.testing.assert_allclose(found[finite], np.array(expected)[finite], rtol=rtol)
    lite, *_ = export_litert(language_model, tmp_path / "a.tflite")
    onnx, *_ = export_onnx(language_model, tmp_path / "a.onnx")
    expected = model.next_log_probs(CONTEXTS)
    for run, path in (
        (_run_litert, lite),
        (_run_onnx, onnx),
        (_run_openvino, lite),
        (_run_openvino, onnx),
    ):
        found = run(path, context_ids=CONTEXTS)
        np.testing.assert_allclose(np.exp(found), np.exp(expected), rtol=rtol, atol=1e-7)
        # ln 0 of words outside a short-list is the least number in some runtimes
        inside = np.isfinite(expected)
        np.testing.assert_allclose(found[inside], expected[inside], atol=rtol)


@pytest.mark.parametrize("signature", ["log_probs", "score"])
def test_files_for_devices_have_no_loops(signature):
    model = compose_energy(V, order=3, embedding_dim=2, hidden_units=3)
    language_model = LanguageModel(model, Vocabulary([f"w{i}" for i in range(V - 4)]), "words")
    module = on_device.DEVICE_FUNCTIONS[signature](model, language_model.codec)
    graph = module.function.get_concrete_function().graph
    operations = {operation.type for operation in graph.get_operations()}
    assert "Tanh" in operations
    assert not [name for name in operations if "While" in name or "Call" in name]


@pytest.mark.long
@pytest.mark.parametrize(
    "suffix, run",
    [
        pytest.param("tflite", _run_litert, id="LiteRT"),
        pytest.param("onnx", _run_onnx, id="ONNX"),
    ],
)
def test_a_quantised_file_is_small_and_nearly_exact(suffix, run, tmp_path, capsys, caplog):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    words = Vocabulary([f"w{i}" for i in range(1996)])
    model = NPLM(len(words), order=4, embedding_dim=32, hidden_units=64)
    LanguageModel(model, words, "words", "sentence").save(tmp_path / "model")
    whole, small = (tmp_path / f"{name}.{suffix}" for name in ("whole", "small"))
    for path, flags in {whole: [], small: ["--quantise"]}.items():
        assert main(["export", str(tmp_path / "model"), str(path), *flags]) == 0
        files = f"wrote {path}, {path}.json, {path}.vocabulary.txt"
        in_8_bits = " in 8 bits" if flags else ""
        assert capsys.readouterr().out == f"{files}\n{path} holds the network{in_8_bits}\n"
    assert small.stat().st_size < 0.3 * whole.stat().st_size
    assert {log.name for log in caplog.records} <= {"tensorflow"}
    got, expected = (run(path, context_ids=CONTEXTS) for path in (small, whole))
    assert 0 < np.abs(got - expected).max() < 0.1
    np.testing.assert_allclose(np.exp(got).sum(axis=1), 1, rtol=1e-4)
