"""Self-normalised scores from tables against the logits of the network."""

import keras
import numpy as np
import pytest

from keras_nplm import NPLM, AveragedContext, DeepHidden, EnergyOutput, FullSoftmax, evaluate
from keras_nplm.models.networks.self_normalised import SelfNormalised, evaluate_with_ln_z

V = 40


def _model(order=4, m=3, h=5, direct=False, **options):
    keras.utils.set_random_seed(1)
    model = NPLM(V, order, m, h, direct, **options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def _variants() -> dict[str, dict]:
    return {
        "paper": dict(direct=True),
        "bigram": dict(order=2, m=2, h=3, output="nce"),
        "no hidden layer": dict(order=3, m=4, h=0, direct=True, output=FullSoftmax(V, tied=True)),
        "low rank": dict(order=8, context=AveragedContext(V, 3, averages_after=(1, 3)), output=FullSoftmax(V, rank=2)),
        **{name: dict(hidden=DeepHidden(5, activation=name, residual_blocks=1)) for name in ("tanh", "relu", "gelu")},
        "deep": dict(hidden=DeepHidden(5, activation="silu", residual_blocks=2, layer_norm=True)),
        "pointer": dict(order=8, pointer=True, direct=True),
        "energy": dict(order=8, context=AveragedContext(V, 3, averages_after=(0, 4)), output=EnergyOutput(V, 5)),
    }


@pytest.mark.parametrize("name", _variants())
def test_scores_are_the_logits(name):
    model = _model(**_variants()[name])
    rng = np.random.default_rng(2)
    contexts, targets = rng.integers(0, V, (600, model.order - 1)), rng.integers(0, V, 600)  # <pad> among them
    logits = np.asarray(model.prob.logits(model.features(contexts)))
    scores = SelfNormalised(model)
    few = contexts[:50]
    np.testing.assert_allclose(scores.next_log_probs(few), model.next_log_probs(few), atol=3e-5)
    wanted = logits[np.arange(600), targets]
    np.testing.assert_allclose(scores.log_prob(contexts, targets), wanted, atol=3e-5)
    np.testing.assert_allclose(scores.log_prob(contexts[:3], targets[:3]), wanted[:3], atol=3e-5)


def test_figures_of_log_z(monkeypatch):
    monkeypatch.setattr("keras_nplm.models.evaluation._BLOCK_SIZE", 7)
    model = _model(boundary="stream")
    ids = np.random.default_rng(3).integers(4, V, 50).astype(np.int32)
    contexts = np.stack([np.concatenate([np.zeros(3, int), ids])[i : i + 3] for i in range(50)])
    log_z = np.log(np.exp(np.asarray(model.prob.logits(model.features(contexts)))).sum(axis=1))
    figures = evaluate_with_ln_z(model, ids)
    expected = [log_z.mean(), log_z.std(), np.abs(log_z).mean()]
    np.testing.assert_allclose(list(figures.pop("ln_z").values()), expected, rtol=1e-4)
    assert figures == evaluate(model, ids)
