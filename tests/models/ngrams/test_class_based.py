"""The class-based model against the product of its two factors."""

import numpy as np
import pytest

from keras_nplm.data.boundary import predicted_ids
from keras_nplm.models.ngrams import kneser_ney
from tests.language_models import BOUNDARIES, CLASSES, V, build, make_text


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_model_follows_the_formula(boundary):
    model = build("class-based", boundary)
    assert 0 < model.uniform_weight < 1
    ids = make_text(1, boundary)
    words = predicted_ids(V, boundary)
    of_words = CLASSES[words]
    counts = np.bincount(ids, minlength=V)[words]
    share = counts / np.bincount(of_words, counts)[of_words]
    class_model = kneser_ney(CLASSES[ids], 8, model.order, boundary, np.unique(of_words))
    contexts = np.random.default_rng(0).integers(4, V, (20, model.order - 1))
    by_class = np.exp(class_model.next_log_probs(CLASSES[contexts]))
    expected = np.zeros((20, V))
    expected[:, words] = (1 - model.uniform_weight) * by_class[:, of_words] * share
    expected[:, words] += model.uniform_weight / len(words)
    np.testing.assert_allclose(np.exp(model.next_log_probs(contexts)), expected, atol=1e-6)
