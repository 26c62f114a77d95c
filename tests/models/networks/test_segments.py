"""Segments in training: weights and metrics; texts read as segments.

Their probabilities and gradients are those of n-grams: see test_every_network.py.
"""

import keras
import numpy as np
import pytest

from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.dynamic.network import DynamicNPLM
from keras_nplm.models.networks import probabilities
from tests.every_network import N, V, build, build_network, make_segments
from tests.language_models import make_text


def test_places_without_a_target_count_nothing():
    """Segments train with weights, and evaluate without, as the same n-grams, without those whose
    target is `<pad>`.
    """
    segments, targets, contexts = make_segments("stream", 4)
    targets[0, 2:] = 0
    targets[2, 1] = 0
    weights = np.random.default_rng(5).random(targets.shape)
    is_target = targets.reshape(-1) > 0
    metrics = ["sparse_categorical_accuracy"]
    results = []
    for inputs, ids, given in (
        ({"segments": segments}, targets, weights),
        (contexts[is_target], targets.reshape(-1)[is_target], weights.reshape(-1)[is_target]),
    ):
        network = build_network("pointer short-list", "float64")
        network.compile(
            keras.optimizers.SGD(0.1), metrics=metrics, weighted_metrics=metrics, run_eagerly=True
        )
        options = dict(batch_size=len(ids), verbose=0)
        history = network.fit(inputs, ids, sample_weight=given, epochs=2, **options).history
        figures = network.evaluate(inputs, ids, **options)
        results.append([*history.values(), figures, *network.get_weights()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


# Texts are read as segments where this changes nothing


def list_windows(marker):
    """Return windows over a text with a marker in it: contexts that no text of this boundary
    gives.
    """
    words = np.random.default_rng(7).integers(4, V, 60).astype(np.int32)
    words[[20, 41]] = marker
    return np.lib.stride_tricks.sliding_window_view(words, N)


# a pointer sees all words of a segment: one boundary, as its graphs take time
@pytest.mark.parametrize(
    "name, boundary",
    [
        ("embed averaged", "stream"),
        ("embed averaged", "sentence"),
        ("pointer / nce, held out", "text"),
    ],
)
def test_a_probability_does_not_depend_on_neighbours(name, boundary, monkeypatch):
    monkeypatch.setattr(probabilities, "LONG_ORDER", 2)
    monkeypatch.setattr(probabilities, "SEGMENT", 8)
    network = build(name, "float64", boundary)
    of_text = extract_ngrams(make_text(1, boundary)[:98], N, boundary)
    for ngrams in (of_text, *map(list_windows, (0, 2, 3))):
        together = network.log_prob(ngrams[:, :-1], ngrams[:, -1])
        alone = [network.log_prob(ngram[None, :-1], ngram[-1:]) for ngram in ngrams]
        np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("boundary", ["text", "sentence"])
def test_dynamic_evaluation_reads_chunks_as_segments(boundary):
    """The n-grams of a chunk in any order have the same gradient; only in text order are they
    segments.
    """
    network = build("pointer / nce, held out", "float64", boundary)
    for ngrams in (extract_ngrams(make_text(1, boundary)[:98], N, boundary), list_windows(3)):
        places = np.arange(len(ngrams) // 8 * 8).reshape(-1, 8)
        shuffled = np.random.default_rng(8).permuted(places, axis=1).reshape(-1)
        found, expected = (
            DynamicNPLM(network, DynamicSettings(chunk=8, rate=0.1)).log_prob(
                read[:, :-1], read[:, -1]
            )
            for read in (ngrams[: places.size], ngrams[shuffled])
        )
        np.testing.assert_allclose(found[shuffled], expected, rtol=1e-10)
        static = network.log_prob(ngrams[:, :-1], ngrams[:, -1])
        assert not np.allclose(found, static[: places.size], rtol=1e-3)
