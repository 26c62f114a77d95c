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
    LanguageModel,
    Mixture,
    Uniform,
    UnigramCache,
    Vocabulary,
    export_litert,
    export_onnx,
    kneser_ney,
)
from keras_nplm.io.files import read_json
from keras_nplm.serving import on_device
from tests.language_models import BOUNDARIES
from tests.serving.served_models import build_model, make_contexts

METRICS = {"validation": {"perplexity": 3.5}, "test": {"perplexity": 4.5}, "seconds": 2.0}
TEXTS = ["w1 w2", "", "w6 zebra w7 w3 w2 w5 w1", "w4"]


KINDS = [
    "paper, no hidden layer",
    "embed averaged in bfloat16",
    "hidden deep",
    "low rank / likelihood",
    "short-list / likelihood",
    "adaptive / likelihood",
    "energy / likelihood",
    "pointer linear",
    "deleted-interpolation",
    "by frequency",
    "in a mixture, without weight",
    "hybrid of spelled words",
    "short-list",
]
CONTENTS = {
    "deleted-interpolation": "n-grams",
    "by frequency": "mixture",
    "in a mixture, without weight": "mixture",
    "hybrid of spelled words": "hybrid",
    "short-list": "shortlist",
}


def run_litert(path, **inputs):
    runtime = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is needed")
    [output] = runtime.Interpreter(str(path)).get_signature_runner()(**inputs).values()
    return output


def run_onnx(path, **inputs):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is needed")
    session = runtime.InferenceSession(str(path))
    # in C++ they are often known by place
    assert [given.name for given in session.get_inputs()] == [*inputs]
    [output] = session.run(None, inputs)
    return output


def run_openvino(path, **inputs):
    core = pytest.importorskip("openvino", reason="openvino is needed").Core()
    exact = {"INFERENCE_PRECISION_HINT": "f32"}  # the default is 16 bits on some processors
    return core.compile_model(core.read_model(str(path)), "CPU", exact)([*inputs.values()])[0]


def read_litert_metadata(path):
    model = flatbuffer_utils.read_model(path)
    buffers = {entry.name: model.buffers[entry.buffer].data for entry in model.metadata}
    return model.description.decode(), json.loads(bytes(buffers[b"keras_nplm"]))


def read_onnx_metadata(path):
    model = pytest.importorskip("onnx", reason="onnx is needed").load(path)
    facts = {}
    for entry in model.metadata_props:
        try:
            facts[entry.key] = json.loads(entry.value)
        except json.JSONDecodeError:
            facts[entry.key] = entry.value  # text as it is
    return model.doc_string, facts


FORMATS = {
    "litert": (export_litert, run_litert, read_litert_metadata),
    "onnx": (export_onnx, run_onnx, read_onnx_metadata),
}
ENDINGS = {"litert": "tflite", "onnx": "onnx"}
of_formats = pytest.mark.parametrize("name", FORMATS)


@pytest.fixture(scope="module", autouse=True)
def converter(request):
    """tf2onnx, which the long tests need."""
    if request.node.get_closest_marker("long"):
        pytest.importorskip("tf2onnx", reason="tf2onnx is needed")


def encode(language_model, texts):
    ids = [language_model.vocabulary.encode(text.split()) for text in texts]
    x = np.full((len(ids), max([3, *map(len, ids)])), -1)  # any padding
    for row, some in zip(x, ids, strict=True):
        row[: len(some)] = some
    return {"x": x, "x_lens": np.array([*map(len, ids)], int)}


def check_log_probs(path, run, model, contexts, rtol=1e-4):
    expected = model.next_log_probs(contexts)
    found = run(path, context_ids=contexts)
    np.testing.assert_allclose(np.exp(found), np.exp(expected), rtol=rtol, atol=1e-7)
    # ln 0 of words outside a short-list is the least number in some runtimes
    inside = np.isfinite(expected)
    np.testing.assert_allclose(found[inside], expected[inside], atol=rtol)


@pytest.mark.long
@pytest.mark.parametrize(
    "name, boundary",
    [*((name, "sentence") for name in KINDS), *(("paper", boundary) for boundary in BOUNDARIES)],
)
def test_runtimes_give_the_numbers_of_python(name, boundary, tmp_path):
    model = build_model(name, boundary)
    vocabulary = Vocabulary([f"w{i}" for i in range(model.vocabulary_size - 4)])
    language_model = LanguageModel(model, vocabulary, "words", boundary)
    rtol = 0.05 if "bfloat16" in name else 1e-4
    for format, (export, run, _) in FORMATS.items():
        path, description, *_ = export(language_model, tmp_path / f"next.{ENDINGS[format]}")
        assert read_json(description)["content"] == CONTENTS.get(name, "network")
        for contexts in (make_contexts(model, 60), make_contexts(model, 60)[-1:]):
            check_log_probs(path, run, model, contexts, rtol)
        path, *_ = export(language_model, tmp_path / f"score.{ENDINGS[format]}", signature="score")
        # LiteRT takes no empty batch of some mixtures
        for texts in (TEXTS, TEXTS[:1], [] if name == "paper" else TEXTS[:2]):
            expected = [-score.log_prob for score in language_model.score(texts, alone=True)]
            expected = np.array(expected)
            found = run(path, **encode(language_model, texts))
            finite = np.isfinite(expected)
            np.testing.assert_allclose(found[finite], expected[finite], rtol=rtol)
        x = np.array([[5, 6], [5, model.vocabulary_size], [-1, 5], [5, (1 << 32) + 6], [5, 6]])
        nll = run(path, x=x, x_lens=np.array([2, 2, 2, 2, 3]))
        assert np.isnan(nll).tolist() == [False, True, True, True, True]


@pytest.mark.long
@of_formats
def test_openvino_gives_the_numbers_of_python(name, language_model, tmp_path):
    pytest.importorskip("openvino", reason="openvino is needed")
    path, *_ = FORMATS[name][0](language_model, tmp_path / f"next.{ENDINGS[name]}")
    contexts = make_contexts(language_model.model, 60)
    check_log_probs(path, run_openvino, language_model.model, contexts)


# What a file says of itself


@pytest.fixture(scope="module")
def mixture(language_model):
    """The network of `language_model`, Kneser-Ney and the uniform distribution."""
    size = len(language_model.vocabulary)
    ids = np.random.default_rng(0).integers(3, size, 400, np.int32)
    parts = [language_model.model, kneser_ney(ids, size, 3, "sentence"), Uniform(size)]
    return language_model.replace_model(Mixture(parts, [0.5, 0.3, 0.2]))


@pytest.mark.long
@of_formats
def test_a_file_says_what_it_is(name, language_model, tmp_path):
    export, _, read_metadata = FORMATS[name]
    file = tmp_path / f"mine.{ENDINGS[name]}"
    target, description, vocabulary = export(language_model, file, metrics=METRICS)
    facts = read_json(description)
    expected = {
        "created_by": f"keras_nplm {keras_nplm.__version__}",
        "format": name,
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
        "vocabulary_size": len(language_model.vocabulary),
        "vocabulary_file": f"{file.name}.vocabulary.txt",
    }
    assert expected.items() <= facts.items()
    assert facts["tokenizer"]["name"] == "words"
    text, stored = read_metadata(target)
    assert text == facts["description"] and stored == facts
    assert Vocabulary.load(vocabulary) == language_model.vocabulary
    [given], [output] = facts["inputs"], facts["outputs"]
    assert (given["name"], given["shape"][1:]) == ("context_ids", [3])
    assert (output["name"], output["shape"][1:]) == ("log_probs", [len(language_model.vocabulary)])


@pytest.mark.long
def test_a_file_says_whether_it_holds_the_mixture_or_its_network(mixture, tmp_path, capsys):
    _, description, _ = export_litert(mixture, tmp_path / "whole.tflite", metrics=METRICS)
    facts = read_json(description)
    assert (facts["content"], facts["weights"]) == ("mixture", [[0.5, 0.3, 0.2]])
    assert facts["components"] == ["nplm", "back-off", "uniform"]
    assert facts["perplexity"] == {"validation": 3.5, "test": 4.5}
    target, description, _ = export_litert(
        mixture, tmp_path / "alone.tflite", network_alone=True, metrics=METRICS
    )
    network = mixture.model.models[0]
    check_log_probs(target, run_litert, network, make_contexts(network, 60))
    facts = read_json(description)
    assert facts["content"] == "network"
    assert facts["description"].endswith("without the other models of its mixture")
    assert facts["perplexity"] == {}  # no text to measure it
    assert facts["perplexity_of_mixture"] == {"validation": 3.5, "test": 4.5}
    assert not capsys.readouterr().err


def test_the_network_of_a_mixture_with_a_cache_is_written(language_model, capsys, messages):
    network = language_model.model
    mixture = Mixture([network, UnigramCache(network.vocabulary_size, "sentence")], [0.9, 0.1])
    written, graph = on_device.choose_model(mixture, network_alone=False)
    assert written is network
    contexts = make_contexts(network, 60)
    expected = network.next_log_probs(contexts)
    np.testing.assert_allclose(graph.next_log_probs(contexts), expected, rtol=1e-5)
    messages.add(capsys.readouterr().err)


# 8 bits


@pytest.mark.long
@of_formats
def test_a_quantised_file_is_small_and_nearly_exact(name, tmp_path, caplog):
    export, run, _ = FORMATS[name]
    words = Vocabulary([f"w{i}" for i in range(1996)])
    model = NPLM(len(words), order=4, embedding_dim=32, hidden_units=64)
    # as after training: features of about 1, and biases that are ten times as large as U
    random = np.random.default_rng(0)
    model.embed.C.assign(random.normal(0, 0.3, model.embed.C.shape))
    model.prob.U.assign(random.normal(0, 0.1, model.prob.U.shape))
    model.set_unigram(1 / np.arange(1, len(words) + 1))
    language_model = LanguageModel(model, words, "words", "sentence")
    file = tmp_path / f"small.{ENDINGS[name]}"
    path, description, _ = export(language_model, file, quantise=True, metrics=METRICS)
    facts = read_json(description)
    assert facts["quantised"] and "perplexity" not in facts
    assert facts["perplexity_before_rounding"] == {"validation": 3.5, "test": 4.5}
    assert path.stat().st_size < 0.3 * 4 * model.count_params()
    assert {log.name for log in caplog.records} <= {"tensorflow"}
    contexts = make_contexts(model, 60)
    got = run(path, context_ids=contexts)
    assert 1e-4 < np.abs(got - model.next_log_probs(contexts)).max() < 0.1
    np.testing.assert_allclose(np.exp(got).sum(axis=1), 1, rtol=1e-4)


@pytest.mark.long
def test_the_n_grams_of_an_8_bit_onnx_file_are_exact(mixture, tmp_path, capsys):
    n_grams = mixture.replace_model(mixture.model.models[1])
    target, description, _ = export_onnx(n_grams, tmp_path / "small.onnx", quantise=True)
    facts = read_json(description)
    assert facts["content"] == "n-grams" and not facts["quantised"]
    assert "no network, whose matrices 8 bits are for" in capsys.readouterr().err
    check_log_probs(target, run_onnx, n_grams.model, make_contexts(n_grams.model, 60))
