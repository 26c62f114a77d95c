"""Segments: T targets that share their context have the probabilities and the gradients of T n-grams."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, AveragedContext, InputError, NoiseContrastive, SampledSoftmax, ngram_dataset
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.layers.outputs import AdaptiveSoftmax, EnergyOutput, FullSoftmax
from keras_nplm.models import network_probabilities
from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.dynamic.network import DynamicNPLM

V, N, M, H = 30, 13, 4, 5

OPTIONS = {
    "concatenated": dict(direct_connections=True),
    "averages": dict(context=lambda: AveragedContext(V, M, averages_after=(3, 6), name="embed", dtype="float64")),
    "no near word": dict(context=lambda: AveragedContext(V, M, averages_after=(0,), name="embed", dtype="float64")),
    "pointer": dict(pointer=True),
    "pointer, rank": dict(pointer=True, output=lambda: FullSoftmax(V, rank=3, dtype="float64")),
    "pointer, short-list": dict(
        pointer=True,
        direct_connections=True,
        output=lambda: FullSoftmax(V, shortlist_size=12, outside_output=True, held_out_mass=0.1, dtype="float64"),
    ),
    "pointer, nce": dict(
        pointer=True,
        output=lambda: NoiseContrastive(V, num_sampled=12, self_normalisation=0.3, dtype="float64"),
        context=lambda: AveragedContext(V, M, averages_after=(3, 6), name="embed", dtype="float64"),
    ),
    "sampled": dict(output=lambda: SampledSoftmax(V, num_sampled=12, dtype="float64")),
    "adaptive": dict(output=lambda: AdaptiveSoftmax(V, cutoffs=(8, 16), dtype="float64")),
    "energy": dict(output=lambda: EnergyOutput(V, hidden_units=H, num_sampled=12, dtype="float64")),
}


def _network(name: str, boundary: str) -> NPLM:
    options = {option: make() if callable(make) else make for option, make in OPTIONS[name].items()}
    keras.utils.set_random_seed(1)
    model = NPLM(V, N, M, H, boundary=boundary, dtype="float64", **options)
    rng = np.random.default_rng(2)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return model


def _segments(boundary: str, targets: int, number: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return segments with their targets, and the same as contexts with targets."""
    words = np.random.default_rng(3).integers(4, V, (number, N - 1 + targets)).astype(np.int32)
    words[:, ::5] = 9  # words that come again
    end = {"sentence": 3, "text": 2, "stream": 9}[boundary]
    words[np.random.default_rng(4).random(words.shape) < 0.15] = end
    words[0, :3] = 0 if boundary == "stream" else 2  # the beginning of the text
    contexts = np.lib.stride_tricks.sliding_window_view(words[:, :-1], N - 1, axis=1).reshape(-1, N - 1).copy()
    for context in contexts if boundary != "stream" else ():
        context[: np.max(np.flatnonzero(context == end), initial=-1) + 1] = 2
    targets = np.where(words[:, N - 1 :] == 2, 0, words[:, N - 1 :])
    return words[:, :-1], targets, contexts, targets.reshape(-1).copy()


def _loss_and_gradients(model: NPLM, contexts: np.ndarray, targets: np.ndarray) -> list[np.ndarray]:
    with tf.GradientTape() as tape:
        loss, *_ = model._compute_step((contexts, tf.constant(targets)), training=True)
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    return [loss.numpy(), *(tf.convert_to_tensor(gradient).numpy() for gradient in gradients)]


@pytest.mark.parametrize("boundary, targets", [("stream", 20), ("sentence", 4), ("text", 4)])
@pytest.mark.parametrize("name", OPTIONS)
def test_probabilities_and_gradients_are_those_of_ngrams(name, boundary, targets, monkeypatch):
    model = _network(name, boundary)
    if model.prob.is_sampled:
        monkeypatch.setattr(model.prob, "_strata", lambda number: (np.arange(number) + 0.5).astype("float32") / number)
    ids, target_ids, contexts, flat = _segments(boundary, targets)
    probabilities = model(ids)
    assert probabilities.shape == (len(ids), targets, model.prob.num_outputs)
    np.testing.assert_allclose(tf.reshape(probabilities, [len(flat), -1]), model(contexts), rtol=1e-9, atol=1e-12)
    log_prob = [model.prob.log_prob(model.features(x), model.prob.output_ids(flat)) for x in (ids, contexts)]
    np.testing.assert_allclose(*log_prob, rtol=1e-9)
    found = _loss_and_gradients(model, ids, target_ids)
    expected = _loss_and_gradients(model, contexts[flat > 0], flat[flat > 0])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weights", [None, "weighted"])
def test_places_without_a_target_count_nothing_in_fit_and_evaluate(weights):
    """Batches of segments train and evaluate as the same n-grams, without those whose target is `<pad>`."""
    ids, target_ids, contexts, _ = _segments("stream", 4)
    target_ids[0, 2:] = target_ids[2, 1] = 0
    given = np.random.default_rng(5).random(target_ids.shape) if weights else np.ones_like(target_ids, float)
    is_target = target_ids.reshape(-1) > 0
    results = []
    for x, y, sample_weight in (
        (ids, target_ids, given),
        (contexts[is_target], target_ids.reshape(-1)[is_target], given.reshape(-1)[is_target]),
    ):
        model = _network("pointer", "stream")
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        more = dict(sample_weight=sample_weight) if weights else {}
        history = model.fit(x, y, batch_size=len(x), epochs=2, verbose=0, shuffle=False, **more).history
        figures = model.evaluate(x, y, batch_size=len(x), verbose=0, **more)
        results.append([*history["loss"], *history["perplexity"], *figures, *(w.numpy() for w in model.weights)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_metrics_see_the_probabilities_of_all_targets():
    model, (ids, target_ids, contexts, flat) = _network("pointer", "stream"), _segments("stream", 4)
    model.compile(metrics=["sparse_categorical_accuracy", "sparse_categorical_crossentropy"], run_eagerly=True)
    results = [model.evaluate(x, y, verbose=0, batch_size=99) for x, y in ((ids, target_ids), (contexts, flat))]
    np.testing.assert_allclose(*results, rtol=1e-5)
    model.compile(loss="sparse_categorical_crossentropy", run_eagerly=True)
    with pytest.raises(InputError, match="`loss` must be the model's own for segments"):
        model.evaluate(ids, target_ids, verbose=0)
    np.testing.assert_allclose(model.predict(ids, verbose=0).reshape(len(flat), -1), model(contexts), rtol=1e-6)


def test_datasets_of_segments_fit_the_network():
    text = np.random.default_rng(6).integers(4, V, 200).astype(np.int32)
    text[9::10] = 3
    model = _network("pointer", "sentence")
    model.compile(keras.optimizers.SGD(0.01))
    model.fit(ngram_dataset(text, N, 16, segment=4, drop_remainder=True), verbose=0, shuffle=False)
    figures = [model.evaluate(ngram_dataset(text, N, 32, segment=8, shuffle=False), verbose=0)]
    with pytest.raises(InputError, match="Call `compile` before segments of another length"):
        model.evaluate(ngram_dataset(text, N, 32, segment=4), verbose=0)
    model.compile(run_eagerly=True)
    figures.append(model.evaluate(ngram_dataset(text, N, 32, shuffle=False), verbose=0))
    np.testing.assert_allclose(*figures, rtol=1e-6)


@pytest.mark.parametrize("boundary", ["stream", "sentence", "text"])
def test_texts_are_read_as_segments(monkeypatch, boundary):
    """Evaluation and dynamic evaluation join contexts that follow each other; in another order they read contexts."""
    monkeypatch.setattr(network_probabilities, "_LONG_ORDER", 2)
    monkeypatch.setattr(network_probabilities, "_SEGMENT", 8)
    model = _network("pointer, nce", boundary)
    text = np.random.default_rng(6).integers(4, V, 100).astype(np.int32)
    text[9::10] = 3
    text[20::30] = 2 if boundary == "text" else 9
    ngrams = extract_ngrams(text, N, boundary)
    order = np.random.default_rng(0).permutation(len(ngrams))
    found = model.log_prob(ngrams[:, :-1], ngrams[:, -1])
    assert "_graph_segment_log_prob" in vars(model)
    np.testing.assert_allclose(found[order], model.log_prob(ngrams[order, :-1], ngrams[order, -1]), rtol=1e-10)
    if boundary == "stream":
        return
    settings = DynamicSettings(chunk=8, rate=0.1)
    learned = [DynamicNPLM(model, settings).log_prob(ngrams[:, :-1], ngrams[:, -1])]
    nothing_follows = lambda contexts, size, boundary: (contexts, np.zeros(1, bool))  # noqa: E731
    monkeypatch.setattr("keras_nplm.models.dynamic.network.join_contexts", nothing_follows)
    learned.append(DynamicNPLM(model, settings).log_prob(ngrams[:, :-1], ngrams[:, -1]))
    np.testing.assert_allclose(*learned, rtol=1e-10)
    assert not np.allclose(learned[0], found, rtol=1e-3)
