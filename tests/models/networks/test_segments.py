"""Segments: T targets that share their context have the probabilities and gradients of T
n-grams.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    AveragedContext,
    ContextEmbedding,
    ContextNetwork,
    DirectConnection,
    InputError,
    Likelihood,
    LinearHead,
    NoiseContrastive,
    Pointer,
    PointerNetwork,
    TanhHidden,
    ngram_dataset,
)
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.dynamic.network import DynamicNPLM
from keras_nplm.models.networks import probabilities

V = 30
N = 13
M = 4
H = 5


def randomise(network):
    rng = np.random.default_rng(2)
    for weight in network.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return network


def build_network(boundary, embed=None, direct=None):
    keras.utils.set_random_seed(1)
    return randomise(
        ContextNetwork(
            order=N,
            embed=embed or ContextEmbedding(V, M, name="embed", dtype="float64"),
            hidden=TanhHidden(H, name="hidden", dtype="float64"),
            direct=direct,
            head=LinearHead(V, name="prob", dtype="float64"),
            objective=Likelihood(dtype="float64"),
            boundary=boundary,
        )
    )


def build_pointer(boundary, head=None, objective=None, embed=None, direct=None):
    keras.utils.set_random_seed(1)
    return randomise(
        PointerNetwork(
            order=N,
            embed=embed or ContextEmbedding(V, M, name="embed", dtype="float64"),
            hidden=TanhHidden(H, name="hidden", dtype="float64"),
            direct=direct,
            head=head or LinearHead(V, name="prob", dtype="float64"),
            objective=objective or Likelihood(dtype="float64"),
            pointer=Pointer(name="pointer", dtype="float64"),
            boundary=boundary,
        )
    )


def make_averages(*averages_after):
    return AveragedContext(V, M, averages_after=averages_after, name="embed", dtype="float64")


def build_direct(boundary):
    return build_network(boundary, direct=DirectConnection(V, dtype="float64"))


def build_averages(boundary):
    return build_network(boundary, embed=make_averages(3, 6))


def build_no_near_word(boundary):
    return build_network(boundary, embed=make_averages(0))


def build_low_rank_pointer(boundary):
    return build_pointer(boundary, head=LinearHead(V, rank=3, name="prob", dtype="float64"))


def build_shortlist_pointer(boundary):
    return build_pointer(
        boundary,
        head=LinearHead(V, num_outputs=12, name="prob", dtype="float64"),
        objective=Likelihood(held_out_mass=0.1, dtype="float64"),
        direct=DirectConnection(12, dtype="float64"),
    )


def build_nce_pointer(boundary):
    objective = NoiseContrastive(num_sampled=12, self_normalisation=0.3, seed=1, dtype="float64")
    return build_pointer(boundary, objective=objective, embed=make_averages(3, 6))


# heads and objectives without a part that knows the length of a segment: test_every_network.py
BUILDERS = [
    build_direct,
    build_averages,
    build_no_near_word,
    build_pointer,
    build_low_rank_pointer,
    build_shortlist_pointer,
    build_nce_pointer,
]
of_every_network = pytest.mark.parametrize("build", BUILDERS)


def make_segments(boundary, num_targets, num_outputs=V, number=3):
    """Return segments with their targets, and the same as contexts with targets."""
    words = np.random.default_rng(3).integers(4, V, (number, N - 1 + num_targets)).astype(np.int32)
    # words that come again
    words[:, ::5] = 9
    end = {"sentence": 3, "text": 2, "stream": 9}[boundary]
    words[np.random.default_rng(4).random(words.shape) < 0.15] = end
    # the beginning of the text
    words[0, :3] = 0 if boundary == "stream" else 2
    windows = np.lib.stride_tricks.sliding_window_view(words[:, :-1], N - 1, axis=1)
    contexts = windows.reshape(-1, N - 1).copy()
    if boundary != "stream":
        for context in contexts:
            last = np.max(np.flatnonzero(context == end), initial=-1)
            context[: last + 1] = 2
    targets = words[:, N - 1 :]
    targets = np.where((targets == 2) | (targets >= num_outputs), 0, targets)
    return words[:, :-1], targets, contexts, targets.reshape(-1).copy()


def test_one_weight_for_a_whole_segment_is_refused():
    network = build_direct("stream")
    network.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    segments, targets, *_ = make_segments("stream", num_targets=4)
    message = r"`sample_weight` must be \[S, T\].* Received: \[3\]. Fix: .*`class_weight`"
    with pytest.raises(InputError, match=message):
        network.train_on_batch({"segments": segments}, targets, sample_weight=np.ones(3))
    first = ({"segments": segments[:1]}, targets[:1])
    with pytest.raises(InputError, match=r"`sample_weight` must be .* Received: \[1\]"):
        network.train_on_batch(*first, class_weight=dict.fromkeys(range(V), 100.0))


def test_segments_of_one_target_take_a_weight_each():
    network = build_direct("stream")
    network.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    segments, targets, *_ = make_segments("stream", num_targets=1)
    data = ({"segments": segments}, targets)
    weights = np.array([0.0, 2.0, 5.0])
    shaped = network.test_on_batch(*data, sample_weight=weights[:, None], return_dict=True)
    flat = network.test_on_batch(*data, sample_weight=weights, return_dict=True)
    assert flat["loss"] == shaped["loss"] > 0


def find_loss_and_gradients(network, inputs, targets):
    """Return the loss of a training step, and its gradients by all weights."""
    network.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
    before = [weight.numpy() for weight in network.trainable_weights]
    logs = network.train_on_batch(inputs, targets, return_dict=True)
    loss = logs[network.objective.loss_name]
    after = [weight.numpy() for weight in network.trainable_weights]
    return [loss, *(old - new for old, new in zip(before, after, strict=True))]


@pytest.mark.long
@pytest.mark.parametrize("boundary, num_targets", [("stream", 20)])
@of_every_network
def test_probabilities_and_gradients_are_those_of_ngrams(build, boundary, num_targets):
    network = build(boundary)
    outputs = network.prob.num_outputs
    segments, targets, contexts, flat = make_segments(boundary, num_targets, outputs)
    inputs = {"segments": segments}
    found = network(inputs)
    assert found.shape == (len(segments), num_targets, outputs)
    found = tf.reshape(found, [len(flat), outputs])
    np.testing.assert_allclose(found, network(contexts), rtol=1e-9, atol=1e-12)
    is_target = flat > 0
    # a copy draws the same negative samples
    twin = build(boundary)
    of_segments = find_loss_and_gradients(network, inputs, targets)
    of_contexts = find_loss_and_gradients(twin, contexts[is_target], flat[is_target])
    np.testing.assert_allclose(of_segments[0], of_contexts[0], rtol=1e-6)
    for one, other in zip(of_segments[1:], of_contexts[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("is_weighted", [False, True])
def test_places_without_a_target_count_nothing(is_weighted):
    """Segments train and evaluate as the same n-grams, without those whose target is `<pad>`."""
    segments, targets, contexts, _ = make_segments("stream", 4)
    targets[0, 2:] = 0
    targets[2, 1] = 0
    weights = np.ones(targets.shape)
    if is_weighted:
        weights = np.random.default_rng(5).random(targets.shape)
    is_target = targets.reshape(-1) > 0
    results = []
    for inputs, ids, given in (
        ({"segments": segments}, targets, weights),
        (contexts[is_target], targets.reshape(-1)[is_target], weights.reshape(-1)[is_target]),
    ):
        network = build_pointer("stream")
        network.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        options = dict(batch_size=len(ids), verbose=0, sample_weight=given if is_weighted else None)
        history = network.fit(inputs, ids, epochs=2, shuffle=False, **options).history
        figures = network.evaluate(inputs, ids, **options)
        results.append([history["loss"], history["perplexity"], figures, *network.get_weights()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_metrics_see_the_probabilities_of_all_targets():
    network = build_pointer("stream")
    segments, targets, contexts, flat = make_segments("stream", 4)
    inputs = {"segments": segments}
    metrics = ["sparse_categorical_accuracy", "sparse_categorical_crossentropy"]
    network.compile(metrics=metrics, run_eagerly=True)
    of_segments = network.evaluate(inputs, targets, verbose=0)
    of_contexts = network.evaluate(contexts, flat, verbose=0, batch_size=99)
    np.testing.assert_allclose(of_segments, of_contexts, rtol=1e-5)
    rows = network.predict(inputs, verbose=0)
    np.testing.assert_allclose(rows.reshape(len(flat), -1), network(contexts), rtol=1e-6)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_metrics_leave_out_places_without_a_target(is_weighted):
    network = build_shortlist_pointer("stream")
    segments, targets, contexts, flat = make_segments("stream", 4, network.prob.num_outputs)
    is_target = flat > 0
    assert not is_target.all()
    weights = np.random.default_rng(5).random(targets.shape) if is_weighted else None
    metrics = ["sparse_categorical_accuracy"]
    network.compile(metrics=metrics, weighted_metrics=metrics, run_eagerly=True)
    found = network.evaluate({"segments": segments}, targets, sample_weight=weights, verbose=0)
    given = None if weights is None else weights.reshape(-1)[is_target]
    options = dict(sample_weight=given, batch_size=99, verbose=0)
    expected = network.evaluate(contexts[is_target], flat[is_target], **options)
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-5)


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
def test_a_pointer_reads_segments_of_one_target(boundary):
    network = build_pointer(boundary)
    segments, _, contexts, _ = make_segments(boundary, 1)
    found = network({"segments": segments})
    np.testing.assert_allclose(found[:, 0], network(contexts), rtol=1e-9, atol=1e-12)


def test_a_loss_of_probabilities_is_refused_for_segments():
    network = build_pointer("stream")
    segments, targets, _, _ = make_segments("stream", 4)
    network.compile(loss="sparse_categorical_crossentropy", run_eagerly=True)
    with pytest.raises(InputError, match="`loss` must be the model's own for segments"):
        network.evaluate({"segments": segments}, targets, verbose=0)


def test_segments_without_a_target_are_refused():
    network = build_pointer("stream")
    with pytest.raises(InputError, match=r"`segments` must be \[S, n-1\+T-1\], 12 words or more"):
        network({"segments": np.full((1, N - 2), 4)})


@pytest.mark.long
def test_datasets_of_segments_of_any_length_fit_the_network():
    text = np.random.default_rng(6).integers(4, V, 200).astype(np.int32)
    text[9::10] = 3
    network = build_averages("sentence")
    network.compile(keras.optimizers.SGD(0.01))
    training = ngram_dataset(text, N, 16, segment=4, drop_remainder=True)
    network.fit(training, verbose=0, shuffle=False)
    eight = network.evaluate(ngram_dataset(text, N, 32, segment=8, shuffle=False), verbose=0)
    # a compiled function knows one length of segments
    with pytest.raises(InputError, match="call `compile` before segments of another length"):
        network.evaluate(ngram_dataset(text, N, 32, segment=4, shuffle=False), verbose=0)
    network.compile(run_eagerly=True)
    four = network.evaluate(ngram_dataset(text, N, 32, segment=4, shuffle=False), verbose=0)
    ngrams = network.evaluate(ngram_dataset(text, N, 32, shuffle=False), verbose=0)
    np.testing.assert_allclose(eight, ngrams, rtol=1e-6)
    np.testing.assert_allclose(four, ngrams, rtol=1e-6)


# Texts are read as segments where this changes nothing


def read_one_by_one(network, ngrams):
    parts = [network.log_prob(ngram[None, :-1], ngram[-1:]) for ngram in ngrams]
    return np.concatenate(parts)


@pytest.fixture
def short_segments(monkeypatch):
    """Read texts of the networks of this file as segments of 8 targets."""
    monkeypatch.setattr(probabilities, "LONG_ORDER", 2)
    monkeypatch.setattr(probabilities, "SEGMENT", 8)


# a pointer sees all words of a segment: one boundary, as its graphs take time
of_readers = pytest.mark.parametrize(
    "build, boundary",
    [
        (build_averages, "stream"),
        (build_averages, "sentence"),
        (build_nce_pointer, "text"),
    ],
)


@functools.cache
def build_reader(build, boundary):
    """Return the network that tests of one boundary share, as its graphs take most of their
    time.
    """
    return build(boundary)


def make_text(boundary):
    text = np.random.default_rng(6).integers(4, V, 100).astype(np.int32)
    text[9::10] = 3
    if boundary == "text":
        text[20::30] = 2
    return text


@of_readers
def test_a_text_is_read_as_segments(short_segments, build, boundary):
    network = build_reader(build, boundary)
    ngrams = extract_ngrams(make_text(boundary), N, boundary)
    found = network.log_prob(ngrams[:, :-1], ngrams[:, -1])
    # the compiled function of segments was made
    assert "_graph_segment_log_prob" in vars(network)
    np.testing.assert_allclose(found, read_one_by_one(network, ngrams), rtol=1e-10)


@pytest.mark.parametrize("marker", [0, 2, 3])
@of_readers
def test_a_probability_does_not_depend_on_neighbours(short_segments, build, boundary, marker):
    """Windows over a text with a marker in it: contexts that no text of this boundary gives."""
    network = build_reader(build, boundary)
    words = np.random.default_rng(7).integers(4, V, 60).astype(np.int32)
    words[[20, 41]] = marker
    ngrams = np.lib.stride_tricks.sliding_window_view(words, N)
    together = network.log_prob(ngrams[:, :-1], ngrams[:, -1])
    np.testing.assert_allclose(together, read_one_by_one(network, ngrams), rtol=1e-10)


@pytest.mark.long
def test_dynamic_evaluation_reads_texts_as_segments(monkeypatch):
    network = build_nce_pointer("text")
    ngrams = extract_ngrams(make_text("text"), N, "text")
    check_dynamic_evaluation(network, ngrams, monkeypatch, is_joined=True)


@pytest.mark.long
def test_dynamic_evaluation_keeps_markers_in_contexts(monkeypatch):
    network = build_nce_pointer("sentence")
    words = np.random.default_rng(7).integers(4, V, 60).astype(np.int32)
    words[[20, 41]] = 3
    ngrams = np.lib.stride_tricks.sliding_window_view(words, N)
    check_dynamic_evaluation(network, ngrams, monkeypatch, is_joined=False)


def check_dynamic_evaluation(network, ngrams, monkeypatch, is_joined):
    """Compare the reading of a text with one in which no chunk is joined to a segment."""
    from keras_nplm.models.dynamic import network as module

    settings = DynamicSettings(chunk=8, rate=0.1)
    join_contexts = module.join_contexts
    was_joined = []

    def join_and_record(contexts, size, boundary):
        segments, follows = join_contexts(contexts, size, boundary)
        was_joined.append(bool(follows.all()))
        return segments, follows

    def join_nothing(contexts, size, boundary):
        return contexts, np.zeros(1, bool)

    monkeypatch.setattr(module, "join_contexts", join_and_record)
    found = DynamicNPLM(network, settings).log_prob(ngrams[:, :-1], ngrams[:, -1])
    assert any(was_joined) == is_joined
    monkeypatch.setattr(module, "join_contexts", join_nothing)
    expected = DynamicNPLM(network, settings).log_prob(ngrams[:, :-1], ngrams[:, -1])
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    static = network.log_prob(ngrams[:, :-1], ngrams[:, -1])
    assert not np.allclose(found, static, rtol=1e-3)
