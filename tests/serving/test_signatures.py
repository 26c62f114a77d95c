"""The served functions: results, documentation, empty batches, bad requests."""

from unittest.mock import patch

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import export_saved_model
from keras_nplm.serving import signatures
from keras_nplm.serving.signatures import FUNCTIONS, PredictNext, ServingModule
from keras_nplm.serving.text import TextGraph

SENTENCES = [
    "The value of the name is a string.",
    "",
    "zyzzyva !",
    "  ",
    "If the object is not a class",
]
CONTEXTS = np.array([[2, 2, 5], [9, 20, 7]], np.int32)


def test_predicted_words_are_those_of_python(loaded, language_model):
    predicted = loaded.signatures["serving_default"](contexts=tf.constant(SENTENCES))
    for i, sentence in enumerate(SENTENCES):
        words, probabilities = zip(*language_model.next_words(sentence, 5), strict=True)
        assert [word.decode() for word in predicted["words"][i].numpy()] == list(words)
        np.testing.assert_allclose(predicted["probabilities"][i], probabilities, rtol=1e-5)


def test_log_probs_of_ids_are_those_of_python(loaded, language_model):
    targets = np.array([4, 8], np.int32)
    scored = loaded.signatures["log_prob_ids"](
        context_ids=tf.constant(CONTEXTS), target_ids=tf.constant(targets)
    )
    expected = language_model.model.log_prob(CONTEXTS, targets)
    np.testing.assert_allclose(scored["log_prob"], expected, rtol=1e-5)


def test_predicted_ids_have_the_probabilities_of_python(loaded, language_model):
    likely = loaded.signatures["predict_next_ids"](context_ids=tf.constant(CONTEXTS))
    ids = likely["ids"].numpy()
    expected = language_model.model.log_prob(CONTEXTS.repeat(5, axis=0), ids.reshape(-1))
    np.testing.assert_allclose(np.log(likely["probabilities"]).reshape(-1), expected, rtol=1e-4)


def test_embedded_words_have_the_vectors_of_the_network(loaded, language_model):
    embedded = loaded.signatures["embed"](words=tf.constant(["the", "zyzzyva"]))
    (the,) = language_model.vocabulary.encode(["the"])
    assert embedded["ids"].numpy().tolist() == [the, 1]
    vectors = np.array(language_model.model.embed.C)[[the, 1]]
    np.testing.assert_array_equal(embedded["vectors"], vectors)


def test_signatures_are_documented_and_take_empty_batches(exported, loaded):
    documented = {function.signature_name: function for function in FUNCTIONS}
    documented["serving_default"] = documented["predict_next"]
    assert set(loaded.signatures) == set(documented)
    card = (exported.parent / "README.md").read_text()
    for name, function in loaded.signatures.items():
        inputs = function.structured_input_signature[1]
        outputs = function.structured_outputs
        assert {spec.shape[0] for spec in [*inputs.values(), *outputs.values()]} == {None}
        empty = {key: tf.zeros([0, *spec.shape[1:]], spec.dtype) for key, spec in inputs.items()}
        assert all(value.shape[0] == 0 for value in function(**empty).values())
        assert {*inputs} == {*documented[name].inputs}
        assert {*outputs} == {*documented[name].outputs}
        assert documented[name].description in card
        assert all(f"`{key}`" in card for key in [name, *inputs, *outputs])


def test_rows_and_texts_of_several_blocks_do_not_depend_on_others(loaded, language_model):
    # 901 n-grams; a block has 512
    texts = [*SENTENCES, "The value of the name is a string . " * 100]
    batch = loaded.signatures["score"](sentences=tf.constant(texts))
    assert batch["tokens"][-1] == 901
    for i, score in enumerate(language_model.score(texts)):
        single = loaded.signatures["score"](sentences=tf.constant(texts[i : i + 1]))
        for name, values in batch.items():
            np.testing.assert_allclose(single[name][0], values[i], rtol=1e-6)
        assert (batch["tokens"][i], batch["unk_tokens"][i]) == (score.tokens, score.unk_tokens)
        assert float(batch["log_prob"][i]) == pytest.approx(score.log_prob, rel=1e-5)


def test_ids_out_of_range_are_nan_in_their_row_only(loaded, language_model):
    size = len(language_model.vocabulary)
    contexts = tf.constant(
        [[4, 5, 6], [4, 5, size], [-1, 5, 6], [2**31 - 1, -(2**31), 6], [4, 5, 6]]
    )
    predicted = loaded.signatures["predict_next_ids"](context_ids=contexts)["probabilities"].numpy()
    assert np.isfinite(predicted).all(axis=1).tolist() == [True, False, False, False, True]
    scored = loaded.signatures["log_prob_ids"](
        context_ids=contexts, target_ids=tf.constant([size, 4, 4, 4, 4])
    )
    assert np.isfinite(scored["log_prob"]).tolist() == [False, False, False, False, True]


LIMITED = ["The value of", "é" * 10, "é" * 11, "The value of " * 9, " " * 21]


@pytest.fixture(scope="module")
def limited(language_model):
    """The functions of the model with texts of at most 20 bytes."""
    return ServingModule(language_model, top_k=2, max_text_length=20).functions


def test_scores_of_texts_beyond_the_limit_are_nan(limited, language_model):
    scored = limited["score"].compute(tf.constant(LIMITED))
    assert np.isfinite(scored["log_prob"]).tolist() == [True, True, False, False, False]
    assert scored["tokens"].numpy().tolist() == [4, 2, 0, 0, 0]
    assert scored["unk_tokens"].numpy().tolist() == [0, 1, 0, 0, 0]
    expected = next(language_model.score(LIMITED[:1])).log_prob
    assert scored["log_prob"].numpy()[0] == pytest.approx(expected, rel=1e-5)


def test_words_after_tokens_beyond_the_limit_are_nan(limited, language_model):
    predicted = limited["predict_next"].compute(tf.constant(LIMITED))
    is_finite = np.isfinite(predicted["probabilities"])
    assert is_finite[:, 0].tolist() == [True, True, False, True, False]
    for row in (0, 3):  # the last 20 bytes hold the last 3 words
        expected = [word.encode() for word, _ in language_model.next_words(LIMITED[row], 2)]
        assert predicted["words"].numpy()[row].tolist() == expected
    assert predicted["words"].numpy()[2].tolist() == [b"", b""]


def test_completions_after_tokens_beyond_the_limit_are_nan(limited):
    completed = limited["complete_prefix"].compute(
        tf.constant(["é" * 20 + " na", "The value of na"])
    )
    assert np.isnan(completed["probabilities"][0]).all()
    assert completed["words"].numpy()[1, 0] == b"name"


@pytest.mark.parametrize(
    "name, method, inputs, number",
    [
        pytest.param("predict_next", "most_probable", ["texts"], 21, id="predict_next"),
        pytest.param("score", "log_prob", ["texts"], 4 * 21, id="score"),
        pytest.param("predict_next_ids", "most_probable", ["contexts"], 21, id="predict_next_ids"),
        pytest.param("log_prob_ids", "log_prob", ["contexts", "targets"], 21, id="log_prob_ids"),
    ],
)
def test_a_large_batch_is_computed_in_blocks(
    language_model, monkeypatch, name, method, inputs, number
):
    monkeypatch.setattr("keras_nplm.serving.graph_model.BLOCK_ROWS", 8)
    function = ServingModule(language_model, top_k=3).functions[name]
    compute = getattr(function.model, method)
    rows = []

    def record(context_ids, *others):
        rows.append(len(context_ids))
        return compute(context_ids, *others)

    monkeypatch.setattr(function.model, method, record)
    contexts = tf.constant(np.arange(63).reshape(21, 3) % 20 + 4, tf.int32)
    batch = {
        "texts": tf.constant(["The value of"] * 21),
        "contexts": contexts,
        "targets": contexts[:, 0],
    }
    # not a graph: the rows of each block are known
    tf.config.run_functions_eagerly(True)
    try:
        function.compute(*(batch[argument] for argument in inputs))
    finally:
        tf.config.run_functions_eagerly(False)
    assert max(rows) == 8 and sum(rows) == number


def test_an_export_traces_each_function_once(language_model, tmp_path, monkeypatch):
    """Tracing takes most of the time of an export, and of loading what it wrote."""
    monkeypatch.setattr(signatures, "FUNCTIONS", (PredictNext,))
    with patch.object(TextGraph, "contexts", autospec=True, side_effect=TextGraph.contexts) as read:
        export_saved_model(language_model, tmp_path / "served")
    assert read.call_count == 1
