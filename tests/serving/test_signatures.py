"""The served functions: results, documentation, empty batches, bad requests."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.serving.signatures import DOCUMENTATION, ServingModule

SENTENCES = [
    "The value of the name is a string.",
    "",
    "zyzzyva !",
    "  ",
    "If the object is not a class",
]


def test_served_functions_give_the_results_of_python(loaded, language_model):
    predicted = loaded.signatures["serving_default"](contexts=tf.constant(SENTENCES))
    for i, sentence in enumerate(SENTENCES):
        words, probabilities = zip(*language_model.next_words(sentence, 5), strict=True)
        assert [word.decode() for word in predicted["words"][i].numpy()] == list(words)
        np.testing.assert_allclose(predicted["probabilities"][i], probabilities, rtol=1e-5)
    contexts = np.array([[2, 2, 5], [9, 20, 7]], np.int32)
    scored = loaded.signatures["log_prob_ids"](
        context_ids=tf.constant(contexts), target_ids=tf.constant([4, 8])
    )
    np.testing.assert_allclose(
        scored["log_prob"], language_model.model.log_prob(contexts, np.array([4, 8])), rtol=1e-5
    )
    likely = loaded.signatures["predict_next_ids"](context_ids=tf.constant(contexts))
    log_prob = language_model.model.log_prob(
        contexts.repeat(5, axis=0), likely["ids"].numpy().reshape(-1)
    )
    np.testing.assert_allclose(np.log(likely["probabilities"]).reshape(-1), log_prob, rtol=1e-4)
    embedded = loaded.signatures["embed"](words=tf.constant(["the", "zyzzyva"]))
    (the,) = language_model.vocabulary.encode(["the"])
    assert embedded["ids"].numpy().tolist() == [the, 1]
    np.testing.assert_array_equal(
        embedded["vectors"], np.array(language_model.model.embed.C)[[the, 1]]
    )


def test_signatures_are_documented_and_take_empty_batches(exported, loaded):
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


def test_rows_and_texts_of_several_blocks_do_not_depend_on_others(loaded, language_model):
    # 901 n-grams; a block has 512
    texts = [*SENTENCES, "The value of the name is a string . " * 100]
    batch = loaded.signatures["score"](sentences=tf.constant(texts))
    assert batch["tokens"][-1] == 901
    for i, score in enumerate(language_model.score(texts)):
        single = loaded.signatures["score"](sentences=tf.constant(texts[i : i + 1]))
        assert all(np.allclose(single[name][0], batch[name][i], rtol=1e-6) for name in batch)
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


def test_texts_beyond_the_limit_are_nan_in_their_row_only(language_model):
    limited = ServingModule(language_model, top_k=2, max_text_length=20)
    texts = ["The value of", "é" * 10, "é" * 11, "The value of " * 9, " " * 21]
    scored = {name: value.numpy() for name, value in limited.score(tf.constant(texts)).items()}
    assert np.isfinite(scored["log_prob"]).tolist() == [True, True, False, False, False]
    assert scored["tokens"].tolist() == [4, 2, 0, 0, 0] and scored["unk_tokens"].tolist() == [
        0,
        1,
        0,
        0,
        0,
    ]
    assert scored["log_prob"][0] == pytest.approx(
        next(language_model.score(texts[:1])).log_prob, rel=1e-5
    )
    predicted = {n: value.numpy() for n, value in limited.predict_next(tf.constant(texts)).items()}
    assert np.isfinite(predicted["probabilities"][:, 0]).tolist() == [
        True,
        True,
        False,
        True,
        False,
    ]
    for row in (0, 3):  # the last 20 bytes hold the last 3 words
        expected = [word.encode() for word, _ in language_model.next_words(texts[row], 2)]
        assert predicted["words"][row].tolist() == expected
    assert predicted["words"][2].tolist() == [b"", b""]
    completed = limited.complete_prefix(tf.constant(["é" * 20 + " na", "The value of na"]))
    assert (
        np.isnan(completed["probabilities"][0]).all()
        and completed["words"][1].numpy()[0] == b"name"
    )


def test_a_large_batch_is_computed_in_blocks(language_model, monkeypatch):
    monkeypatch.setattr("keras_nplm.serving.graph_model.BLOCK_ROWS", 8)
    served = ServingModule(language_model, top_k=3)
    rows = []
    for method in ("log_prob", "most_probable"):
        compute = getattr(served.model, method)
        record = functools.partial(
            lambda compute, ids, *args: rows.append(len(ids)) or compute(ids, *args), compute
        )
        monkeypatch.setattr(served.model, method, record)
    contexts = tf.constant(np.arange(63).reshape(21, 3) % 20 + 4, tf.int32)
    texts = tf.constant(["The value of"] * 21)
    for call, number in {
        lambda: served.predict_next(texts): 21,
        lambda: served.score(texts): 4 * 21,
        lambda: served.predict_next_ids(contexts): 21,
        lambda: served.log_prob_ids(contexts, contexts[:, 0]): 21,
    }.items():
        rows.clear()
        call()  # not a graph: the rows of each block are known
        assert max(rows) == 8 and sum(rows) == number
