"""A plain Keras model as a language model: what it must compute, and files from other programs."""

import json
import zipfile

import keras
import numpy as np
import pytest
from keras import layers

from keras_nplm import (
    InputError,
    KerasModel,
    LanguageModel,
    Mixture,
)
from keras_nplm.io.stages import MODEL, Stages
from tests.language_models import VOCABULARY, V, build


class Gated(layers.Layer):
    """A layer of one's own."""

    def call(self, x):
        return x * keras.ops.sigmoid(x)


def build_lstm(width=3, activation="softmax", words=V, own=()):
    parts = [layers.Embedding(words, 4), layers.LSTM(5), *own, layers.Dense(V, activation)]
    return keras.Sequential([keras.Input((width,), dtype="int32"), *parts])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: build_lstm(activation=None), "Fix: let the last layer be"),
        (lambda: build_lstm(None), "`order` must be 2 or more"),
        (
            lambda: keras.Sequential([keras.Input((3,)), layers.Embedding(V, V), layers.Softmax()]),
            r"outputs \[B, \|V\|\]. Received: \[1, 3, 12\]",
        ),
    ],
    ids=["logits", "width", "a row for each word"],
)
def test_a_model_of_another_form_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        LanguageModel(make(), VOCABULARY, "whitespace")


def test_an_input_of_any_width_has_the_order_that_is_given():
    model = KerasModel(build_lstm(None), order=6)
    assert model.next_log_probs(np.full((2, 5), 4)).shape == (2, V)
    models = [KerasModel(build_lstm(), boundary="stream"), build("uniform", "stream")]
    assert Mixture(models, [0.5, 0.5]).order == 4
    with pytest.raises(InputError, match="the width of the input plus 1, 3 . 1. Received: 6"):
        KerasModel(build_lstm(), order=6)


@pytest.mark.parametrize("name", ["mine>Gated", "Gated"])
def test_a_layer_that_is_not_known_is_named_with_what_registers_it(name, tmp_path):
    known = keras.saving.get_custom_objects()
    kind = type("Gated", (Gated,), {})
    if name != "Gated":
        keras.saving.register_keras_serializable("mine")(kind)
    LanguageModel(build_lstm(own=[kind()]), VOCABULARY, "whitespace").save(tmp_path / "model")
    known.pop(name, None)  # as in another program
    message = "the class .*Gated. Fix: .*`@keras.saving.register_keras_serializable"
    with pytest.raises(InputError, match=message):
        LanguageModel.load(tmp_path / "model")
    known[name] = kind
    LanguageModel.load(tmp_path / "model")
    del known[name]


LAYER = {"registered_name": None, "config": {"name": "lstm"}}
LAMBDA = {"module": "keras.layers", "class_name": "Lambda", **LAYER}
LOOKUP = {"module": "keras.layers", "class_name": "StringLookup", **LAYER}
SAVED = {"module": "keras.layers", "class_name": "TFSMLayer", **LAYER}
EXEC = {"module": "builtins", "class_name": "exec", **LAYER}
HUGE = {"build_config": {"input_shape": [None, 3, 10**10]}}


@pytest.mark.parametrize(
    "place, change, message",
    [
        *((2, layer, "Received: the class ") for layer in (LAMBDA, LOOKUP, SAVED, EXEC)),
        (2, HUGE, "must be a whole model file"),
        (1, {"config": {"input_dim": 10**12, "output_dim": 4}}, "must be a whole model file"),
    ],
)
def test_a_file_of_other_classes_or_sizes_is_refused(place, change, message, tmp_path):
    LanguageModel(build_lstm(), VOCABULARY, "whitespace").save(tmp_path / "model")
    path = tmp_path / "model" / "model.keras"
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    described = json.loads(parts["config.json"])
    described["config"]["layers"][place].update(change)
    parts["config.json"] = json.dumps(described)
    with zipfile.ZipFile(path, "w") as archive:
        for part in parts.items():
            archive.writestr(*part)
    Stages(tmp_path / "model").record(MODEL, {}, ["model.keras"])  # as who makes it to harm does
    with pytest.raises(InputError, match=message):
        LanguageModel.load(tmp_path / "model")
