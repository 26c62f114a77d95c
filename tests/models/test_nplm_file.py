"""Model files that are loaded; tests/cli/test_hostile_input.py has those that are refused."""

import keras
import numpy as np
import pytest

from keras_nplm import NPLM, AveragedContext, DeepHidden, EnergyOutput, FullSoftmax, NoiseContrastive
from keras_nplm.models.nplm_file import load_network

V, N, M, H = 11, 8, 3, 4


def _layers() -> dict:
    return {
        "context": AveragedContext(V, M, averages_after=(2,)),
        "hidden": DeepHidden(H, residual_blocks=1, layer_norm=True),
    }


NETWORKS = {
    "plain": dict(embedding_dim=M, hidden_units=H, direct_connections=True),
    "given layers": dict(**_layers(), output=NoiseContrastive(V, num_sampled=3, rank=2)),
    "energy": dict(output=EnergyOutput(V, H)),
    "tied": dict(embedding_dim=M, output=FullSoftmax(V, tied=True)),
    "short-list": dict(output=FullSoftmax(V, shortlist_size=3)),
    "no hidden layer": dict(hidden=None, direct_connections=True),
    "adaptive": dict(hidden_units=0, direct_connections=True, output="adaptive"),
    "bfloat16": dict(dtype="mixed_bfloat16"),
    "pointer": dict(pointer=True, direct_connections=True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_this_package_load(name, tmp_path):
    model, contexts = NPLM(V, N, **NETWORKS[name]), np.random.default_rng(0).integers(0, V, (5, N - 1))
    model.save(tmp_path / "model.keras")
    loaded = load_network(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.next_log_probs(contexts), model.next_log_probs(contexts))
    assert not loaded.compiled and loaded.get_config() == model.get_config()


def test_a_hidden_layer_that_the_program_registers_is_loaded(tmp_path):
    @keras.saving.register_keras_serializable("test_nplm_file")
    class Clipped(keras.layers.Layer):
        def call(self, x):
            return keras.ops.clip(x, -1, 1)

    model, contexts = NPLM(V, N, M, hidden=Clipped()), np.ones((2, N - 1), np.int32)
    model.save(tmp_path / "model.keras")
    loaded = load_network(tmp_path / "model.keras")
    assert isinstance(loaded.hidden, Clipped)
    np.testing.assert_array_equal(loaded(contexts), model(contexts))
