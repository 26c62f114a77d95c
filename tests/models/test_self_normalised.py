"""Scores by tables against the network itself."""

import keras
import numpy as np
import pytest

from keras_nplm import NPLM, InputError, evaluate
from keras_nplm.models.self_normalised import SelfNormalised, evaluate_with_ln_z

V = 40


def _model(order=4, m=3, h=5, direct=False, **options):
    keras.utils.set_random_seed(1)
    model = NPLM(V, order, m, h, direct, **options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


@pytest.mark.parametrize("shape", [(4, 3, 5, False), (4, 3, 5, True), (2, 2, 3, False), (3, 4, 0, True)])
@pytest.mark.parametrize("options", [{}, {"output_layer": "nce"}, {"output_rank": 2}, {"tied_output": True}])
def test_scores_are_the_logits(shape, options):
    model = _model(*shape, **options)
    rng = np.random.default_rng(2)
    contexts, targets = rng.integers(0, V, (2500, shape[0] - 1)), rng.integers(0, V, 2500)  # <pad> among them
    logits = keras.ops.convert_to_numpy(model(contexts))
    scores = SelfNormalised(model)
    np.testing.assert_allclose(scores.next_log_probs(contexts), model.next_log_probs(contexts), atol=1e-5)
    np.testing.assert_allclose(scores.log_prob(contexts, targets), logits[np.arange(2500), targets], atol=1e-5)
    log_z = np.log(np.exp(logits).sum(axis=1))
    np.testing.assert_allclose(scores.log_prob(contexts, targets) - log_z, model.log_prob(contexts, targets), atol=1e-5)
    assert scores.log_prob(contexts[:0], targets[:0]).shape == (0,)


def test_the_figures_of_ln_z():
    model = _model()
    ids = np.random.default_rng(3).integers(4, V, 50).astype(np.int32)
    contexts = np.stack([np.concatenate([np.zeros(3, int), ids])[i : i + 3] for i in range(50)])
    log_z = np.log(np.exp(keras.ops.convert_to_numpy(model(contexts))).sum(axis=1))
    figures = evaluate_with_ln_z(model, ids, "stream")
    expected = [log_z.mean(), log_z.std(), np.abs(log_z).mean()]
    np.testing.assert_allclose(list(figures.pop("ln_z").values()), expected, rtol=1e-4)
    assert figures == evaluate(model, ids, "stream")


def test_what_has_no_such_scores_is_refused():
    with pytest.raises(InputError, match="adaptive softmax"):
        SelfNormalised(_model(output_layer="adaptive"))
    with pytest.raises(InputError, match="Ids must be 0 to 39"):
        SelfNormalised(_model()).log_prob([[1, 2, 40]], [1])
