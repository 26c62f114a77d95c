"""The moving average of the weights: against its formula, saved in place of the weights, and resumed."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_nplm import NPLM, train
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.weight_average import WeightAverage

pytestmark = pytest.mark.usefixtures("no_report")


def test_average_follows_its_formula_and_swaps():
    model = NPLM(20, order=3, embedding_dim=2, hidden_units=2)
    average, weight = WeightAverage(model, 0.9), model.prob.b
    expected = 1.0
    for step in range(1, 5):
        weight.assign(np.full(20, float(step)))
        average.update(32 * step, 32)
        expected = 0.9**32 * expected + (1 - 0.9**32) * step
    average.swap()
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)
    average.swap()
    np.testing.assert_array_equal(weight.numpy(), 4.0)


def test_saved_model_is_the_average_of_the_weights(tmp_path, monkeypatch, short_corpus, short_configuration):
    """The saved network is the average after the updates. The next epoch continues from the weights."""
    taken, ends, begins = [], [], []

    def record(kind: type, name: str, note) -> None:
        method = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *arguments: (note(*arguments), method(*arguments))[1])

    def note_update(average, updates, interval):
        taken.append(([weight.numpy() for weight in average.weights], interval, updates))

    record(WeightAverage, "update", note_update)
    record(Checkpoint, "on_test_begin", lambda each, *_: ends.append((each.model.get_weights(), len(taken))))
    record(Checkpoint, "on_epoch_begin", lambda each, *_: begins.append(each.model.get_weights()))
    monkeypatch.setattr("keras_nplm.training.checkpoint.UPDATES_PER_AVERAGE", 1)  # so that one is at an epoch's end
    configuration = dataclasses.replace(short_configuration, weight_average=0.99)
    metrics = train(configuration, short_corpus, tmp_path / "model")
    assert len({updates for *_, updates in taken}) == len(taken) > 1  # no update enters the average twice
    for one, other in zip(ends[0][0], begins[1], strict=True):
        np.testing.assert_array_equal(one, other)
    first, *others = taken[: ends[metrics["best_epoch"] - 1][1]]
    expected = first[0]
    for weights, interval, _ in others:
        keep = 0.99**interval
        expected = [keep * one + (1 - keep) * other for one, other in zip(expected, weights, strict=True)]
    saved = keras.models.load_model(tmp_path / "model" / "model.keras").trainable_weights
    for one, other in zip(saved, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert any(np.abs(one - other).max() > 1e-3 for one, other in zip(expected, ends[0][0], strict=True))
    best = min(epoch["validation_perplexity"] for epoch in metrics["history"])
    assert best == pytest.approx(metrics["validation"]["perplexity"], rel=1e-4)  # the average is validated
