"""The moving average of the weights is validated and saved in place of the weights."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM
from keras_nplm.training.checkpoint import Checkpoint


@pytest.mark.parametrize("steps, taken", [(64, [32, 64, 96, 128]), (20, [32])])
def test_average_follows_its_formula_and_is_saved(tmp_path, short_configuration, steps, taken):
    """Every 32 updates enter the average, and the end of a shorter first epoch does. Training goes on from weights."""
    model, expected = NPLM(9, order=3, embedding_dim=2, hidden_units=3), float(taken[0])
    model.compile("sgd")
    configuration = dataclasses.replace(short_configuration, weight_average=0.99)
    checkpoint = Checkpoint(model, tmp_path, configuration, steps, batch_size=4, devices=tf.distribute.get_strategy())
    checkpoint.on_train_begin()
    for epoch in range(2):
        checkpoint.on_epoch_begin(epoch)
        for batch in range(steps):
            update = epoch * steps + batch + 1
            model.optimizer.iterations.assign(update)
            model.prob.b.assign(np.full(9, float(update)))
            checkpoint.on_train_batch_end(batch, {"loss": 1.0})
        checkpoint.on_test_begin()
        validated = model.prob.b.numpy()
        checkpoint.on_epoch_end(epoch, {"loss": 1.0, "val_perplexity": 5.0 - epoch})
        np.testing.assert_array_equal(model.prob.b, update)
        if epoch == 0 and steps < 32:
            np.testing.assert_array_equal(validated, steps)
    for update in taken[1:]:
        expected = 0.99**32 * expected + (1 - 0.99**32) * update
    np.testing.assert_allclose(validated, expected, rtol=1e-6)
    np.testing.assert_array_equal(keras.models.load_model(checkpoint.best_path).prob.b, validated)
