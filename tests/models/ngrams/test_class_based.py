"""The class-based model against the product of its two factors."""

import numpy as np
import pytest

from keras_nplm.data.boundary import predicted_ids
from keras_nplm.models.ngrams import class_based, kneser_ney

V = 9  # <pad> <unk> <s> </s> and five words
BOUNDARIES = ("stream", "sentence", "text")


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_model_follows_the_formula(boundary):
    rng = np.random.default_rng(0)
    ids = rng.choice([1, 4, 5, 6, 7], 400).astype(np.int32)
    ids[::9] = 3
    ids[-1] = 3
    if boundary == "text":
        ids[[1, 55]] = 2  # documents
    held_out = np.array([4, 8, 5, 6, 3], np.int32)
    classes = np.array([0, 4, 2, 3, 4, 5, 5, 6, 5], np.int32)
    model = class_based(ids, held_out, classes, 3, boundary)
    assert 0 < model.uniform_weight < 1  # word 8 is never seen
    counts = np.bincount(ids, minlength=V)
    contexts = rng.integers(4, V, (20, 2))
    class_model = kneser_ney(
        classes[ids], 7, 3, boundary, np.array([4, 5, 6] + [3] * (boundary != "stream"))
    )
    by_class = np.exp(class_model.next_log_probs(classes[contexts]))
    predicted = predicted_ids(V, boundary)
    expected = np.zeros((20, V))
    for word in predicted.tolist():
        members = [w for w in predicted.tolist() if classes[w] == classes[word]]
        share = counts[word] / sum(counts[w] for w in members)
        expected[:, word] = (1 - model.uniform_weight) * by_class[:, classes[word]] * share
        expected[:, word] += model.uniform_weight / len(predicted)
    found = np.exp(model.next_log_probs(contexts))
    np.testing.assert_allclose(found, expected, atol=1e-6)
