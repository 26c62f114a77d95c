"""Script of `test_distribution.py`: train on two logical CPUs and on one, and print the differences
as JSON.
"""

import functools
import gc
import json
import sys

import numpy as np

from keras_nplm.cli.imports import leave_out_optional_libraries

with leave_out_optional_libraries():  # as a command does
    import keras
    import tensorflow as tf

from keras_nplm import NPLM, LazyAdagrad, LazyAdam, LazySGD, ngram_dataset
from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.heads.adaptive import AdaptiveHead
from keras_nplm.layers.objectives.sampled import NoiseContrastive
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.training.distribution import open_strategy
from tests.networks import compose, compose_energy

SIZE = 60
ORDER = 4
BATCH = 64
OPTIMIZERS = keras.optimizers


def make_scaled_adamw(**decay) -> keras.optimizers.Optimizer:
    return OPTIMIZERS.LossScaleOptimizer(OPTIMIZERS.AdamW(0.01, clipnorm=0.05, **decay))


# none knows the other, so each layer, each optimiser and each way to clip is here once
RUNS = {
    "full": make_scaled_adamw,
    "modern": functools.partial(LazyAdagrad, 0.1),
    "nce, segments": functools.partial(LazyAdam, 0.01),
    "energy": functools.partial(LazySGD, 0.5, clipvalue=0.002),
}


def text(length: int) -> np.ndarray:
    ids = np.random.default_rng(0).integers(4, SIZE, length).astype(np.int32)
    ids[::13], ids[-1] = 3, 3
    return ids


def build_network(name: str) -> ContextNetwork:
    sizes = (SIZE, ORDER, 8, 12)
    if name == "full":
        return NPLM(*sizes, direct_connections=True)
    if name == "energy":
        return compose_energy(*sizes)
    if name == "modern":
        return compose(
            *sizes,
            embed=AveragedContext(SIZE, 8, averages_after=(1,), name="embed"),
            hidden=DeepHidden(12, activation="gelu", residual_blocks=1, layer_norm=True),
            head=AdaptiveHead(SIZE, name="prob"),
        )
    return compose(*sizes, objective=NoiseContrastive(), direct_connections=True)


def fit(strategy: tf.distribute.Strategy, name: str) -> tuple[ContextNetwork, dict]:
    """Fit on a text whose last batch has one n-gram for two replicas.

    Validate on an odd number of n-grams.
    """
    with strategy.scope():
        keras.utils.set_random_seed(3)
        model = build_network(name)
        # tracing takes longer than these updates
        is_alone = strategy.num_replicas_in_sync == 1
        model.compile(optimizer=RUNS[name](weight_decay=1e-3), run_eagerly=is_alone)
    ids = text(BATCH * 5 + 1)
    segment = 4 if "segments" in name else 1
    model.set_unigram(np.bincount(ids, minlength=SIZE))
    train, held_out = (
        ngram_dataset(ids, ORDER, size, boundary="sentence", shuffle=size == BATCH, segment=segment)
        for ids, size in ((ids, BATCH), (text(131), 40))
    )
    return model, model.fit(
        train, epochs=2, validation_data=held_out, shuffle=False, verbose=0
    ).history


def compare() -> dict:
    mirrored = open_strategy("mirrored")
    one = open_strategy("one-device")
    differences = {}
    for name in RUNS:
        (left, alone), (right, together) = (fit(devices, name) for devices in (one, mirrored))
        pairs = zip(left.get_weights(), right.get_weights(), strict=True)
        floats = [(a, b) for a, b in pairs if a.dtype.kind == "f"]
        differences[name] = {
            "weights": max(float(np.abs(a - b).max() / max(1, np.abs(a).max())) for a, b in floats),
            "logs": max(
                abs(a / b - 1)
                for name in alone
                for a, b in zip(alone[name], together[name], strict=True)
            ),
        }
    return {"replicas": mirrored.num_replicas_in_sync, "differences": differences}


if __name__ == "__main__":
    gc.set_threshold(50_000, 10, 10)  # as in tests/conftest.py
    cpu = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [cpu, cpu]
    )
    # to rewrite each graph takes longer than these updates
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    json.dump(compare(), sys.stdout)
