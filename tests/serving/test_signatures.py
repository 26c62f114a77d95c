"""The served functions: results, documentation, empty batches, blocks, bad requests."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.serving.signatures import FUNCTIONS, ServingModule
from tests.serving.served import answer, check_served_scores, check_served_words
from tests.text_cases import PROMPTS

SENTENCES = [
    "The value of the name is a string.",
    "",
    "zyzzyva !",
    "  ",
    "If the object is not a class",
]
CONTEXTS = np.arange(63, dtype=np.int32).reshape(21, 3) % 20 + 4
TARGETS = CONTEXTS[::-1, 0].copy()


def test_words_and_scores_are_those_of_python(loaded, language_model):
    # 901 n-grams; a block has 512
    texts = [*SENTENCES, "The value of the name is a string . " * 100]
    signatures = {**loaded.signatures, "predict_next": loaded.signatures["serving_default"]}
    check_served_words(signatures, language_model, [*texts, *PROMPTS], 5)
    check_served_words(signatures, language_model, ["The CA", "Ca", "NAM", "Va", "iF"], 5)
    check_served_scores(signatures["score"], language_model, texts)
    batch = answer(signatures["score"], texts)
    for i, text in enumerate(texts):
        for name, values in answer(signatures["score"], [text]).items():
            np.testing.assert_allclose(values[0], batch[name][i], rtol=1e-6)


def test_functions_of_ids_and_words_have_the_numbers_of_python(language_model, monkeypatch):
    monkeypatch.setattr("keras_nplm.serving.graph_model.BLOCK_ROWS", 8)
    functions = ServingModule(language_model, top_k=3).functions
    contexts = tf.constant(CONTEXTS)
    scored = functions["log_prob_ids"].compute(contexts, tf.constant(TARGETS))["log_prob"]
    expected = language_model.model.log_prob(CONTEXTS, TARGETS)
    np.testing.assert_allclose(scored, expected, rtol=1e-5)
    likely = functions["predict_next_ids"].compute(contexts)
    rows = np.exp(language_model.model.next_log_probs(CONTEXTS))
    found = np.take_along_axis(rows, likely["ids"].numpy(), axis=1)
    np.testing.assert_allclose(likely["probabilities"], found, rtol=1e-4)
    np.testing.assert_allclose(found, -np.sort(-rows[:, 3:])[:, :3], rtol=1e-5)
    embedded = answer(functions["embed"], ["the", "zyzzyva"])
    ids = language_model.vocabulary.encode(["the", "zyzzyva"])
    assert embedded["ids"].numpy().tolist() == ids.tolist() == [4, 1]
    vectors = np.array(language_model.model.embed.C)[ids]
    np.testing.assert_array_equal(embedded["vectors"], vectors)
    check_served_words(functions, language_model, SENTENCES * 4, 3)
    check_served_scores(functions["score"], language_model, SENTENCES)


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


@pytest.mark.parametrize("width", [1, 4])
def test_a_wrong_number_of_context_ids_is_named(build_ngram_model, width):
    """The server hands on ids of any shape."""
    functions = ServingModule(build_ngram_model("sentence")).functions
    context_ids = tf.fill([1, width], 4)
    for name, others in (("predict_next_ids", []), ("log_prob_ids", [tf.constant([5])])):
        specs = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)]
        served = tf.function(functions[name].compute, specs[: 1 + len(others)])
        length = len(others)
        named = rf"\[1,{width + length}\] is not compatible with expected shape \[\?,{2 + length}\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=named):
            served(context_ids, *others)


def test_tokens_beyond_the_limit_of_a_text_give_nan(language_model):
    functions = ServingModule(language_model, top_k=2, max_text_length=20).functions
    texts = ["The value of", "é" * 10, "é" * 11, "The value of " * 9, " " * 21]
    scored = answer(functions["score"], texts)
    assert np.isfinite(scored["log_prob"]).tolist() == [True, True, False, False, False]
    assert scored["tokens"].numpy().tolist() == [4, 2, 0, 0, 0]
    assert scored["unk_tokens"].numpy().tolist() == [0, 1, 0, 0, 0]
    check_served_scores(functions["score"], language_model, texts[:2])
    predicted = answer(functions["predict_next"], texts)
    is_finite = np.isfinite(predicted["probabilities"])[:, 0]
    assert is_finite.tolist() == [True, True, False, True, False]
    assert predicted["words"].numpy()[2].tolist() == [b"", b""]
    # the last 20 bytes hold the last 3 words
    check_served_words(functions, language_model, [texts[0], texts[3]], 2, ["predict_next"])
    completed = answer(functions["complete_prefix"], ["é" * 20 + " na", "The value of na"])
    assert np.isnan(completed["probabilities"][0]).all()
    assert completed["words"].numpy()[1, 0] == b"name"
