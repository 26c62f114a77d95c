"""LiteRT and ONNX files give the log-probabilities of the model, in the runtimes of devices.

Tests that need a runtime are long: the README's test command does not install the runtimes.
"""

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
    UnigramCache,
    Vocabulary,
    export_litert,
    export_onnx,
)
from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.serving import device_graphs, on_device
from keras_nplm.serving.device_graphs import build_device_graph
from tests.language_models import VOCABULARY, build
from tests.networks import compose, compose_energy

V = 40
CONTEXTS = np.array([[2, 2, 2], [4, 5, 6], [9, 20, 7], [0, 0, 5]], np.int32)
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


FORMATS = {"tflite": (export_litert, _run_litert), "onnx": (export_onnx, _run_onnx)}


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


@pytest.fixture(scope="module")
def mixture(language_model):
    """The network of `language_model`, Kneser-Ney and the uniform distribution."""
    size = len(language_model.vocabulary)
    ids = np.random.default_rng(0).integers(3, size, 400, np.int32)
    parts = [language_model.model, kneser_ney(ids, size, 3, "sentence"), Uniform(size)]
    return language_model.replace_model(Mixture(parts, [0.5, 0.3, 0.2]))


def _check_numbers(path, run, model):
    for rows in (1, 4):  # any batch size
        contexts = CONTEXTS[:rows, -(model.order - 1) :]
        expected = model.next_log_probs(contexts)
        found = run(path, context_ids=contexts)
        np.testing.assert_allclose(np.exp(found), np.exp(expected), atol=1e-6)
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    "export, run",
    [
        pytest.param(export_litert, _run_litert, id="LiteRT"),
        pytest.param(export_onnx, _run_onnx, id="ONNX"),
    ],
)
def test_a_file_gives_the_numbers_of_a_mixture(export, run, mixture, tmp_path):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    target, description, _ = export(mixture, tmp_path / "next", metrics=METRICS)
    _check_numbers(target, run, mixture.model)
    facts = read_json(description)
    assert facts["content"] == "mixture"
    assert facts["components"] == ["nplm", "back-off", "uniform"]
    assert facts["weights"] == [[0.5, 0.3, 0.2]]
    assert facts["perplexity"] == {"validation": 3.5, "test": 4.5}


@pytest.mark.long
@pytest.mark.parametrize("name", ["interpolation", "mixture by frequency"])
def test_runtimes_give_the_numbers_of_n_gram_models(name, tmp_path):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    if name == "mixture by frequency":
        binned = build("mixture with bins", "sentence")
        # n-gram tables are in the mixture and in the 8-bit file
        parts = [build(part, "sentence") for part in ("nplm", "class-based", "uniform")]
        weights = binned.weights[:, :3] / binned.weights[:, :3].sum(axis=1, keepdims=True)
        model = Mixture(parts, weights, binned.bins)
    else:
        model = build(name, "sentence")
    language_model = LanguageModel(model, VOCABULARY, "words")
    random = np.random.default_rng(0)
    contexts = random.integers(0, len(VOCABULARY), (60, model.order - 1), np.int32)
    contexts[:20, :-1] = 2
    expected = model.next_log_probs(contexts)
    texts = [" ".join(random.choice(VOCABULARY.words[4:], 5)) for _ in range(8)]
    nll = [-score.log_prob for score in language_model.score(texts, alone=True)]
    for export, run in ((export_litert, _run_litert), (export_onnx, _run_onnx)):
        target, *_ = export(language_model, tmp_path / "next")
        found = run(target, context_ids=contexts)
        np.testing.assert_allclose(np.exp(found), np.exp(expected), rtol=2e-5, atol=1e-7)
        target, *_ = export(language_model, tmp_path / "score", signature="score")
        np.testing.assert_allclose(run(target, **_encode(language_model, texts)), nll, rtol=1e-5)


@pytest.mark.long
def test_the_network_alone_says_what_is_left_out(mixture, tmp_path, capsys):
    target, description, _ = export_litert(
        mixture, tmp_path / "alone", network_alone=True, metrics=METRICS
    )
    _check_numbers(target, _run_litert, mixture.model.models[0])
    facts = read_json(description)
    assert facts["content"] == "network"
    assert facts["description"].endswith("without the other models of its mixture")
    assert facts["perplexity"] == {}  # no text to measure it
    assert facts["perplexity_of_mixture"] == {"validation": 3.5, "test": 4.5}
    assert not capsys.readouterr().err


def test_the_network_of_a_mixture_with_a_cache_is_written(language_model, capsys):
    network = language_model.model
    cache = UnigramCache(network.vocabulary_size, "sentence", 3, 9)
    written, graph = on_device.choose_model(
        Mixture([network, cache], [0.9, 0.1]), network_alone=False
    )
    assert written is network
    expected = network.next_log_probs(CONTEXTS)
    np.testing.assert_allclose(graph.next_log_probs(CONTEXTS), expected, rtol=1e-5)
    assert capsys.readouterr().err == (
        "LiteRT and ONNX files can hold an NPLM, an n-gram model, or a mixture of them. "
        "Received: UnigramCache. The file holds the network alone.\n"
    )


@pytest.mark.long
def test_the_n_grams_of_an_8_bit_onnx_file_are_exact(mixture, tmp_path, capsys):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    n_grams = mixture.replace_model(mixture.model.models[1])
    target, description, _ = export_onnx(n_grams, tmp_path / "small", quantise=True)
    facts = read_json(description)
    assert facts["content"] == "n-grams" and not facts["quantised"]
    assert "no network, whose matrices 8 bits are for" in capsys.readouterr().err
    _check_numbers(target, _run_onnx, n_grams.model)


@pytest.mark.long
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
    assert Vocabulary.load(vocabulary) == language_model.vocabulary
    _check_numbers(target, _run_litert, language_model.model)
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(str(target))
    (given,) = interpreter.get_input_details()
    (expected,) = facts["inputs"]
    assert given["name"].endswith(f"{expected['name']}:0")
    assert given["shape_signature"].tolist() == [-1, *expected["shape"][1:]]


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(
    "boundary, ending, run",
    [
        pytest.param("sentence", "tflite", _run_litert, id="LiteRT, sentences"),
        pytest.param("text", "onnx", _run_onnx, id="ONNX, text"),
        pytest.param("stream", "tflite", _run_litert, id="LiteRT, stream"),
        pytest.param("stream", "onnx", _run_onnx, id="ONNX, stream"),
    ],
)
def test_a_file_scores_texts(boundary, ending, run, randomise, tmp_path, monkeypatch):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    monkeypatch.setattr(device_graphs, "TILE_WORDS", 16)
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
    x = np.array([[5, 6], [5, V], [-1, 5], [5, (1 << 32) + 6], [5, 6], [5, 6]])
    nll = run(path, x=x, x_lens=np.array([2, 2, 2, 2, 3, -1]))
    assert np.isnan(nll).tolist() == [False, True, True, True, True, True]


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
    assert kind == "averaged, deep, low rank"
    embed = AveragedContext(V, 6, averages_after=(1,), name="embed")
    hidden = DeepHidden(5, activation="gelu", residual_blocks=1, layer_norm=True, name="hidden")
    return compose(V, 4, 6, embed=embed, hidden=hidden, head=LinearHead(V, rank=3, name="prob"))


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, scored",
    [
        # texts are scored in both formats where a network has its own operations for it
        ("direct connections", ["tflite"]),
        ("adaptive, 16 bits", ["onnx"]),
        ("energy", ["tflite", "onnx"]),
        ("short-list", ["onnx"]),
        ("pointer", ["tflite", "onnx"]),
        ("averaged, deep, low rank", ["tflite"]),
    ],
)
def test_runtimes_give_the_numbers_of_every_network(kind, scored, randomise, tmp_path, monkeypatch):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    model = randomise(_build_network(kind))
    language_model = LanguageModel(
        model, Vocabulary([f"w{i}" for i in range(V - 4)]), "words", "sentence"
    )
    monkeypatch.setattr(device_graphs, "TILE_WORDS", 16)
    rtol = 0.05 if model.dtype_policy.name == "mixed_bfloat16" else 1e-4
    expected = [-score.log_prob for score in language_model.score(TEXTS, alone=True)]
    for suffix in scored:
        export, run = FORMATS[suffix]
        path, *_ = export(language_model, tmp_path / f"score.{suffix}", signature="score")
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
    graph = build_device_graph(model)
    module = on_device.DEVICE_FUNCTIONS[signature](graph, language_model.codec)
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
    # as after training: features of about 1, and biases that are ten times as large as U
    random = np.random.default_rng(0)
    model.embed.C.assign(random.normal(0, 0.3, model.embed.C.shape))
    model.prob.U.assign(random.normal(0, 0.1, model.prob.U.shape))
    model.set_unigram(1 / np.arange(1, len(words) + 1))
    LanguageModel(model, words, "words", "sentence").save(tmp_path / "model")
    path = tmp_path / f"small.{suffix}"
    assert main(["export", str(tmp_path / "model"), str(path), "--quantise"]) == 0
    files = f"wrote {path}, {path}.json, {path}.vocabulary.txt"
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == files
    assert printed[-1] == "Matrices: rounded to 8 bits after perplexity was measured"
    assert path.stat().st_size < 0.3 * 4 * model.count_params()
    assert {log.name for log in caplog.records} <= {"tensorflow"}
    got = run(path, context_ids=CONTEXTS)
    assert 1e-4 < np.abs(got - model.next_log_probs(CONTEXTS)).max() < 0.1
    np.testing.assert_allclose(np.exp(got).sum(axis=1), 1, rtol=1e-4)
