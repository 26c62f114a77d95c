"""What is exported answers like the model that it was exported from, whoever loads it and whatever it is asked."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent import futures
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2

from keras_nplm import (
    NPLM,
    FullSoftmax,
    InputError,
    LanguageModel,
    Mixture,
    Uniform,
    Vocabulary,
    export_saved_model,
)
from keras_nplm.cli.main import main
from keras_nplm.data.tokenizers import TOKENIZERS
from keras_nplm.io.files import read_json
from keras_nplm.models.ngrams import (
    ContextFrequencies,
    FrequencyBins,
    class_based,
    count_ngrams,
    deleted_interpolation,
    kneser_ney,
)
from keras_nplm.serving.graph_model import find_top_k
from keras_nplm.serving.signatures import DOCUMENTATION, ServingModule
from keras_nplm.serving.text import TextGraph

OUTPUT_LAYERS = ("full", "sampled", "nce", "adaptive")
NETWORKS = (*OUTPUT_LAYERS, "tied", "no hidden layer", "bfloat16")
COUNT_BASED = ("Kneser-Ney", "deleted interpolation", "deleted interpolation, the paper's bins", "class-based")
MIXTURES = ("mixture", "mixture by frequency")
WORDS = ["the", "cat", "sat", "on", "mat", ".", "a", "dog"]
SENTENCES = ["The value of the name is a string.", "", "zyzzyva !", "  ", "If the object is not a class"]


@pytest.fixture(scope="module")
def language_model(model_directory) -> LanguageModel:
    return LanguageModel.load(model_directory)


@pytest.fixture(scope="module")
def exported(model_directory, tmp_path_factory) -> Path:
    """The first version of the small model, as the command writes it."""
    target = tmp_path_factory.mktemp("served") / "small"
    assert main(["export", str(model_directory), str(target), "--top-k", "5"]) == 0
    return target / "1"


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(exported)


# Text

SPLIT = {
    name: tf.function(TextGraph(Vocabulary(WORDS), name, "sentence").split, [tf.TensorSpec([None], tf.string)])
    for name in TOKENIZERS
}


def _split(tokenizer_name: str, text: bytes) -> list[str]:
    return [token.decode() for token in SPLIT[tokenizer_name](tf.constant([text]))[0].numpy()]


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=st.text() | st.text("aé_-'’ \t\x1c\x85\u2028\ufeff\0²<>"))
@settings(max_examples=150, deadline=None)
def test_text_is_split_as_in_python(name, text):
    assert _split(name, text.encode()) == TOKENIZERS[name](text)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_character_is_split_as_in_python(name):
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    text = "".join(f"{character}a{character}'b " for character in characters)  # 7 million characters
    assert _split(name, text.encode()) == TOKENIZERS[name](text)


@given(text=st.binary() | st.text().map(lambda text: text.encode("utf-16")))
@settings(max_examples=200, deadline=None)
def test_bytes_that_are_not_utf8_become_the_replacement_character(text):
    assert _split("words", text) == TOKENIZERS["words"](text.decode("utf-8", "replace"))


def test_reserved_tokens_are_unknown_words():
    text = TextGraph(Vocabulary(WORDS), "whitespace", "stream")
    assert text.ids(tf.constant(["<s> the </s> <pad> <unk>"])).to_list() == [[1, 4, 1, 1, 1]]


# Every kind of model


@functools.cache
def _models(boundary: str) -> dict:
    random = np.random.default_rng(0)
    ids = np.where(random.random(600) < 0.15, 3, random.choice([1, 4, 5, 6, 7, 8, 9, 10], 600)).astype(np.int32)
    ids[-1] = 3
    size, held_out = len(WORDS) + 4, ids[::-1].copy()
    held_out = np.append(held_out[held_out != 3], 3).astype(np.int32)
    trigram = deleted_interpolation(ids, held_out, size, 3, boundary)
    knesser = kneser_ney(ids, size, 4, boundary)
    bins = FrequencyBins(ContextFrequencies.from_counts(count_ngrams(ids, size, 3, boundary)))
    weights = random.dirichlet([1, 1], bins.number)
    classes = np.array([0, 4, 2, 3, 4, 5, 4, 5, 6, 6, 4, 6], np.int32)
    kinds = {name: NPLM(size, 4, 6, 5, name == "full", output=name, boundary=boundary) for name in OUTPUT_LAYERS}
    kinds |= {"tied": NPLM(size, 2, 6, 5, output=FullSoftmax(size, tied=True), boundary=boundary)}
    kinds |= {"no hidden layer": NPLM(size, 3, 6, 0, True, boundary=boundary)}
    kinds |= {"bfloat16": NPLM(size, 3, 6, 5, dtype="mixed_bfloat16", boundary=boundary)}
    for network in kinds.values():  # larger than they begin, so that probabilities differ
        network.set_weights(
            [random.normal(0, 0.7, w.shape) if w.dtype.kind == "f" else w for w in network.get_weights()]
        )
    return kinds | {
        "Kneser-Ney": knesser,
        "deleted interpolation": trigram,
        "deleted interpolation, the paper's bins": deleted_interpolation(ids, held_out, size, 3, boundary, False),
        "class-based": class_based(ids, held_out, classes, 3, boundary),
        "mixture": Mixture([kinds["full"], knesser, Uniform(size, boundary)], [0.5, 0.3, 0.2]),
        "mixture by frequency": Mixture([kinds["no hidden layer"], trigram], weights, bins),
    }


@pytest.mark.parametrize(
    "kind, boundary",
    [(kind, "sentence") for kind in (*NETWORKS, *COUNT_BASED, *MIXTURES)]
    + [(kind, "stream") for kind in ("full", "Kneser-Ney", "mixture by frequency")],
)
def test_each_kind_of_model_answers_alike(kind, boundary, tmp_path):
    vocabulary = Vocabulary(WORDS)
    language_model = LanguageModel(_models(boundary)[kind], vocabulary, "words", boundary)
    proposed = language_model.proposed_ids
    served = tf.saved_model.load(export_saved_model(language_model, tmp_path / "served", top_k=len(proposed)))
    order = language_model.model.order
    contexts = np.random.default_rng(1).integers(0, len(vocabulary), (700, order - 1)).astype(np.int32)
    targets = np.random.default_rng(2).integers(1, len(vocabulary), 700).astype(np.int32)
    rtol = 0.03 if kind == "bfloat16" else 2e-5  # in a graph its sums are rounded in other places
    expected = np.exp(language_model.model.log_prob(contexts, targets))
    asked = {"context_ids": tf.constant(contexts), "target_ids": tf.constant(targets)}
    got = np.exp(served.signatures["log_prob_ids"](**asked)["log_prob"])
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-7)

    expected = np.exp(language_model.model.next_log_probs(contexts))[:, proposed]
    answer = served.signatures["predict_next_ids"](context_ids=tf.constant(contexts))
    by_id = np.argsort(answer["ids"], axis=1)
    np.testing.assert_array_equal(np.take_along_axis(answer["ids"].numpy(), by_id, axis=1), np.tile(proposed, (700, 1)))
    got = np.take_along_axis(answer["probabilities"].numpy(), by_id, axis=1)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-7)

    sentences = ["the cat sat on the mat .", "", "a bird sat", "dog dog dog dog dog"]
    scores = served.signatures["score"](sentences=tf.constant(sentences))
    for i, score in enumerate(language_model.score(sentences)):
        assert (scores["tokens"][i], scores["unk_tokens"][i]) == (score.tokens, score.unk_tokens)
        assert float(scores["log_prob"][i]) == pytest.approx(score.log_prob, rel=rtol)
    answer = served.signatures["predict_next"](contexts=tf.constant(sentences))
    for i, sentence in enumerate(sentences):
        probabilities = [probability for _, probability in language_model.next_words(sentence, len(proposed))]
        np.testing.assert_allclose(answer["probabilities"][i], probabilities, rtol=rtol)


@given(
    seed=st.integers(0, 1000),
    rows=st.integers(0, 3),
    size=st.integers(5, 3000),
    k=st.integers(1, 5),
    high=st.integers(1, 99),
)
@settings(max_examples=60, deadline=None)
def test_the_greatest_numbers_are_those_that_tensorflow_finds(seed, rows, size, k, high):
    values = np.random.default_rng(seed).integers(-high, high, (rows, size)).astype(np.float32)
    greatest, places = find_top_k(tf.constant(values), k)
    np.testing.assert_array_equal(greatest, tf.math.top_k(values, k).values)
    np.testing.assert_array_equal(np.take_along_axis(values, places.numpy(), axis=1), greatest)
    assert all(len(set(row)) == k for row in places.numpy())


def test_great_logits_are_normalised_too(model_directory):
    language_model = LanguageModel.load(model_directory)
    language_model.model.prob.b.assign(language_model.model.prob.b + 200.0)
    expected = language_model.next_words("The value of", 4)
    probabilities = ServingModule(language_model, 4).predict_next(tf.constant(["The value of"]))["probabilities"][0]
    np.testing.assert_allclose(probabilities, [p for _, p in expected], rtol=1e-4)


def test_text_longer_than_a_piece_scores_alike(language_model):
    sentence = "The value of the name is a string . " * 400  # of which 512 n-grams go at a time
    (score,) = language_model.score([sentence])
    served = ServingModule(language_model).score(tf.constant([sentence, "The"]))
    assert served["tokens"][0] == score.tokens > 3000
    assert float(served["log_prob"][0]) == pytest.approx(score.log_prob, rel=1e-5)


# The SavedModel, and those who load it


def test_the_signatures_are_those_of_the_model(loaded, language_model):
    predicted = loaded.signatures["serving_default"](contexts=tf.constant(SENTENCES))
    for i, sentence in enumerate(SENTENCES):
        words, probabilities = (predicted[name][i].numpy() for name in ("words", "probabilities"))
        expected = language_model.next_words(sentence, 5)
        assert [word.decode() for word in words] == [word for word, _ in expected]
        np.testing.assert_allclose(probabilities, [p for _, p in expected], rtol=1e-5)
    contexts = np.array([[2, 2, 5], [9, 30, 7]], np.int32)
    by_ids = loaded.signatures["log_prob_ids"](context_ids=tf.constant(contexts), target_ids=tf.constant([4, 8]))
    np.testing.assert_allclose(by_ids["log_prob"], language_model.model.log_prob(contexts, np.array([4, 8])), rtol=1e-5)
    likely = loaded.signatures["predict_next_ids"](context_ids=tf.constant(contexts))
    log_prob = loaded.signatures["log_prob_ids"](
        context_ids=tf.constant(contexts.repeat(5, axis=0)), target_ids=tf.reshape(likely["ids"], [-1])
    )
    np.testing.assert_allclose(np.log(likely["probabilities"]).reshape(-1), log_prob["log_prob"], rtol=1e-4)
    embedded = loaded.signatures["embed"](words=tf.constant(["the", "zyzzyva"]))
    (the,) = language_model.vocabulary.encode(["the"])
    assert embedded["ids"].numpy().tolist() == [the, 1]
    np.testing.assert_array_equal(embedded["vectors"], np.array(language_model.model.embed.C)[[the, 1]])


def test_every_signature_is_documented_batchable_and_takes_empty_batches(exported, loaded):
    assert set(loaded.signatures) == {*DOCUMENTATION, "serving_default"}
    card = (exported.parent / "README.md").read_text()
    for name, function in loaded.signatures.items():
        inputs = function.structured_input_signature[1]
        outputs = function.structured_outputs
        assert {spec.shape[0] for spec in [*inputs.values(), *outputs.values()]} == {None}
        empty = {key: tf.zeros([0, *spec.shape[1:]], spec.dtype) for key, spec in inputs.items()}
        assert all(value.shape[0] == 0 for value in function(**empty).values())
        if name != "serving_default":
            assert {*inputs, *outputs, ""} == set(DOCUMENTATION[name])
            assert all(f"`{key}`" in card for key in [name, *inputs, *outputs])


def test_what_training_alone_needs_is_left_behind(tmp_path):
    model = NPLM(len(WORDS) + 4, order=3, embedding_dim=2, hidden_units=5, dropout=0.1, output="nce", boundary="stream")
    version = export_saved_model(
        LanguageModel(model, Vocabulary(WORDS), "words", "stream"), tmp_path / "served", top_k=2
    )
    stored = tf.train.list_variables(str(version / "variables" / "variables"))
    shapes = sorted(shape for name, shape in stored if shape)
    assert shapes == sorted([[12, 2], [4, 5], [5], [12, 5], [12]])  # C, H, d, U, b: neither drawn words nor seeds


def test_no_row_depends_on_the_others(loaded):
    function = loaded.signatures["score"]
    together = function(sentences=tf.constant(SENTENCES))
    for i, sentence in enumerate(SENTENCES):
        alone = function(sentences=tf.constant([sentence]))
        assert all(np.allclose(alone[name][0], together[name][i], rtol=1e-6) for name in together)


def test_it_loads_where_keras_and_keras_nplm_are_not(exported):
    program = """
import sys
sys.modules["keras"] = sys.modules["keras_nplm"] = None
import tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
print(loaded.signatures["predict_next"](contexts=tf.constant(["The value of"]))["words"].numpy()[0].tolist())
print(float(loaded.signatures["score"](sentences=tf.constant(["The value of"]))["log_prob"][0]))
"""
    run = subprocess.run([sys.executable, "-c", program, exported], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    function = tf.saved_model.load(exported).signatures
    words, log_prob = run.stdout.splitlines()
    assert words == str(function["predict_next"](contexts=tf.constant(["The value of"]))["words"].numpy()[0].tolist())
    assert float(log_prob) == pytest.approx(
        float(function["score"](sentences=tf.constant(["The value of"]))["log_prob"][0])
    )


def test_saved_model_cli_runs_it(exported, language_model):
    tool = Path(sys.executable).parent / "saved_model_cli"
    command = [tool, "run", "--dir", exported, "--tag_set", "serve", "--signature_def", "predict_next"]
    run = subprocess.run(
        [*command, "--input_exprs", 'contexts=["The value of"]'], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    for word, _ in language_model.next_words("The value of", 5):
        assert f"b'{word}'" in run.stdout or f'b"{word}"' in run.stdout


def test_tensorflows_c_api_runs_it(exported, language_model, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("there is no C compiler")
    libraries = Path(tf.sysconfig.get_lib())
    program = tmp_path / "ask_saved_model"
    build = [compiler, f"-I{tf.sysconfig.get_include()}", Path(__file__).with_name("ask_saved_model.c"), "-o", program]
    build += [
        libraries / "libtensorflow_cc.so.2",
        libraries / "libtensorflow_framework.so.2",
        f"-Wl,-rpath,{libraries}",
    ]
    if not build[-2].exists():
        pytest.skip("the TensorFlow that is installed has no libraries for C")
    subprocess.run(build, check=True, timeout=300)
    stored = saved_model_pb2.SavedModel.FromString((exported / "saved_model.pb").read_bytes())
    signature = stored.meta_graphs[0].signature_def["serving_default"]
    names = [signature.inputs["contexts"].name, *(signature.outputs[name].name for name in ("words", "probabilities"))]
    for context in ["The value of", "", "Ωμέγα «zyzzyva»"]:
        run = subprocess.run([program, exported, *names, context], capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stderr
        rows = [line.split("\t") for line in run.stdout.splitlines()]
        expected = language_model.next_words(context, 5)
        assert [word for _, word in rows] == [word for word, _ in expected]
        np.testing.assert_allclose([float(p) for p, _ in rows], [p for _, p in expected], atol=1e-5)


# What TF Serving reads


def _prediction_log():
    """The message class, from the field numbers of TF Serving's files alone."""
    pool = descriptor_pool.DescriptorPool()
    known = tensor_pb2.DESCRIPTOR
    files = {}

    def add(file):
        for dependency in file.dependencies:
            add(dependency)
        if file.name not in files:
            files[file.name] = file
            pool.AddSerializedFile(file.serialized_pb)

    add(known)
    file = descriptor_pb2.FileDescriptorProto(
        name="serving.proto", package="t", dependency=[known.name], syntax="proto3"
    )

    def message(kind_of_message, **fields):
        described = file.message_type.add(name=kind_of_message)
        for field, (number, kind) in fields.items():
            added = described.field.add(name=field, number=number, label=3 if kind == ".t.Entry" else 1)
            added.type = 11 if kind else 9
            if kind:
                added.type_name = kind

    message("Entry", key=(1, ""), value=(2, ".tensorflow.TensorProto"))
    message("ModelSpec", name=(1, ""), signature_name=(3, ""))
    message("PredictRequest", model_spec=(1, ".t.ModelSpec"), inputs=(2, ".t.Entry"))
    message("PredictLog", request=(1, ".t.PredictRequest"))
    message("PredictionLog", predict_log=(6, ".t.PredictLog"))
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.PredictionLog"))


def _warmup(exported):
    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def test_the_warm_up_requests_are_answered(exported, loaded):
    message, asked = _prediction_log(), set()
    for record in _warmup(exported):
        request = message.FromString(record).predict_log.request
        assert request.model_spec.name == "small"
        inputs = {}
        for entry in request.inputs:
            tensor = tensor_pb2.TensorProto.FromString(entry.value.SerializeToString())
            inputs[entry.key] = tf.constant(tf.make_ndarray(tensor))
        answer = loaded.signatures[request.model_spec.signature_name](**inputs)
        rows = len(next(iter(inputs.values())))
        assert all(value.shape[0] == rows for value in answer.values())
        asked.add((request.model_spec.signature_name, rows))
    assert asked == {(name, rows) for name in DOCUMENTATION for rows in (1, 32)}


def test_tf_serving_itself_reads_the_warm_up_requests(exported):
    log = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2", reason="tensorflow-serving-api is needed")
    for record in _warmup(exported):
        request = log.PredictionLog.FromString(record).predict_log.request
        assert request.model_spec.name == "small"
        assert request.model_spec.signature_name in DOCUMENTATION and request.inputs


def test_the_servers_files_name_the_model(exported):
    directory = exported.parent
    for file in ("models.config", "compose.yaml"):
        text = (directory / file).read_text()
        assert "small" in text and not re.search(r"[{][a-z]+[}]", text)
    assert "/models/small" in (directory / "models.config").read_text()
    for option in ("models.config", "batching.config", "monitoring.config"):
        assert f"/models/small/{option}" in (directory / "compose.yaml").read_text()
        assert (directory / option).read_text().count("{") == (directory / option).read_text().count("}")


def test_versions_follow_one_another_and_are_whole(exported, model_directory, tmp_path):
    target = tmp_path / "served"
    (target / ".new.1").mkdir(parents=True)  # of an export that was killed
    for version in ("1", "2"):
        assert main(["export", str(model_directory), str(target), "--json"]) == 0
        assert (target / version / "saved_model.pb").is_file()
    (target / "2").rename(target / "7")
    model = LanguageModel.load(model_directory)
    assert export_saved_model(model, target).name == "8"
    assert [path.name for path in target.iterdir() if path.name.startswith(".")] == [".new.1"]


def test_what_was_edited_stays_and_what_a_killed_export_left_goes(language_model, tmp_path):
    target = tmp_path / "served"
    export_saved_model(language_model, target)
    (target / "compose.yaml").write_text("ports: 9000\n")
    (target / "007").mkdir()
    (target / "9999999999999999999999").mkdir()
    (target / ".new.old").mkdir()
    os.utime(target / ".new.old", (0, 0))
    assert export_saved_model(language_model, target).name == "2"
    assert (target / "compose.yaml").read_text() == "ports: 9000\n"
    assert not (target / ".new.old").exists()
    assert (target / "2").stat().st_mode & 0o055 == 0o055


def test_exports_at_once_are_a_version_each(language_model, tmp_path):
    with futures.ThreadPoolExecutor(3) as pool:
        versions = list(pool.map(lambda _: export_saved_model(language_model, tmp_path / "served"), range(3)))
    assert sorted(version.name for version in versions) == ["1", "2", "3"]
    assert all((version / "saved_model.pb").is_file() for version in versions)


def test_a_full_disk_leaves_what_was_there(model_directory, tmp_path):
    program = """
import resource, sys
from keras_nplm.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
sys.exit(main(["export", sys.argv[1], sys.argv[2]]))
"""
    target = tmp_path / "served"
    assert main(["export", str(model_directory), str(target)]) == 0
    card = (target / "README.md").read_bytes()
    run = subprocess.run(
        [sys.executable, "-c", program, model_directory, target], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 1
    assert "Cannot write" in run.stderr.splitlines()[-1] and "Traceback" not in run.stderr
    assert sorted(path.name for path in target.iterdir() if path.is_dir()) == ["1"]
    assert (target / "README.md").read_bytes() == card


def test_misuse(language_model, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="must be a directory"):
        export_saved_model(language_model, tmp_path / "file")
    with pytest.raises(InputError, match="file is a file"):
        export_saved_model(language_model, tmp_path / "file" / "served")
    for name in ('q"uote', "sp ace", "a:b", "über", "5", "a$b"):
        with pytest.raises(InputError, match="becomes the model name"):
            export_saved_model(language_model, tmp_path / name)
    with pytest.raises(InputError, match="which holds other files"):  # among them perhaps a README.md
        export_saved_model(language_model, tmp_path)
    with pytest.raises(InputError, match="`top_k` must be 1 or more"):
        export_saved_model(language_model, tmp_path / "served", top_k=0)
    with pytest.raises(InputError, match="to be served. Received: Other"):
        ServingModule(LanguageModel(type("Other", (), {"order": 2})(), Vocabulary(WORDS), "words", "stream"), 2)
    assert not (tmp_path / "served").exists()


# Bad requests


@pytest.mark.parametrize(
    "signature, inputs",
    [
        ("predict_next", {"contexts": [1, 2]}),
        ("predict_next", {"contexts": "no batch"}),
        ("predict_next", {"contexts": [["a", "b"]]}),
        ("score", {"sentences": [0.5]}),
        ("predict_next_ids", {"context_ids": [1, 2, 3]}),
        ("predict_next_ids", {"context_ids": [[1, 2]]}),
        ("predict_next_ids", {"context_ids": [[1.0, 2.0, 3.0]]}),
        ("log_prob_ids", {"context_ids": [[1, 2, 3]], "target_ids": [1, 2]}),
    ],
)
def test_a_request_of_another_shape_or_type_is_an_error(loaded, signature, inputs):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError, TypeError)):
        loaded.signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})


def test_ids_outside_the_vocabulary_are_nan_in_their_own_row_alone(loaded, language_model):
    size = len(language_model.vocabulary)
    contexts = tf.constant([[4, 5, 6], [4, 5, size], [-1, 5, 6], [2**31 - 1, -(2**31), 6]])
    predicted = loaded.signatures["predict_next_ids"](context_ids=contexts)["probabilities"].numpy()
    assert np.isnan(predicted[1:]).all() and np.isfinite(predicted[0]).all()
    scored = loaded.signatures["log_prob_ids"](context_ids=contexts, target_ids=tf.constant([size, 4, 4, 4]))
    assert np.isnan(scored["log_prob"]).all()
    scored = loaded.signatures["log_prob_ids"](context_ids=contexts[:1], target_ids=tf.constant([4]))
    assert np.isfinite(scored["log_prob"]).all()


def test_odd_text_gets_a_defined_answer(loaded):
    texts = [b"\xff\xfe\xc3(", b"\0\0 the", b"", "the " * 400_000, "é" * 1_000_000, " " * 1_000_000]
    scored = loaded.signatures["score"](sentences=tf.constant(texts))
    assert np.isfinite(scored["log_prob"]).all()
    assert scored["tokens"].numpy().tolist() == [5, 4, 1, 400_001, 2, 1]
    assert np.isfinite(loaded.signatures["predict_next"](contexts=tf.constant(texts))["probabilities"]).all()


@given(batch=st.lists(st.binary(max_size=40), max_size=6))
@settings(max_examples=100, deadline=None)
def test_any_batch_of_bytes_is_answered(loaded, batch):
    texts = tf.constant(batch, tf.string, [len(batch)])
    assert np.isfinite(loaded.signatures["score"](sentences=texts)["log_prob"]).all()
    assert np.isfinite(loaded.signatures["predict_next"](contexts=texts)["probabilities"]).all()
    assert loaded.signatures["embed"](words=texts)["vectors"].shape[0] == len(batch)


# The model card


def test_the_card_of_a_model_that_was_measured_on_unknown_words_alone(language_model, tmp_path):
    figures = {"perplexity": 3.0, "perplexity_without_unk": None, "tokens": 2, "unk_tokens": 2}
    version = export_saved_model(language_model, tmp_path / "served", metrics={"test": figures})
    assert "| test | 3.00 | – | 2 | 2 |" in (version.parent / "README.md").read_text()


def test_the_card_tells_what_metrics_and_config_hold(exported, model_directory):
    card, metrics = (exported.parent / "README.md").read_text(), read_json(model_directory / "metrics.json")
    assert f"| {metrics['test']['perplexity']:.2f} |" in card
    assert json.loads(re.search(r"```json\n(.*?)```", card, re.DOTALL)[1]) == read_json(model_directory / "config.json")
    (command,) = re.findall(r"^keras-nplm train .*$", card, re.MULTILINE)
    assert "--hidden-units 12" in command and "--batch-size 128" in command
