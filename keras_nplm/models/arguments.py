"""Arguments of NPLM: unknown ones are refused; layers are built once and serialised without their shapes."""

import keras

from keras_nplm.io.errors import check_argument

_KERAS_ARGUMENTS = {"dtype", "trainable", "autocast", "activity_regularizer"}  # of keras.layers.Layer


def check_keyword_arguments(arguments: dict) -> None:
    """Refuse unknown arguments; options of layers are those of `context`, `hidden` and `output`."""
    for name in arguments.keys() - _KERAS_ARGUMENTS:
        fix = "see help(NPLM); give the option to a layer, such as hidden=DeepHidden(…)."
        check_argument(name, False, "left out: NPLM has no such argument", repr(arguments[name]), fix)


def build_once(layer: keras.layers.Layer, input_shape: tuple) -> None:
    """Build a layer, unless it is built: it may hold pretrained weights, or be shared with a different model."""
    if not layer.built:
        layer.build(input_shape)
        return
    width = ((layer.get_build_config() or {}).get("input_shape") or input_shape)[-1]
    received = f"{layer.name}, which has weights for width {width}"
    fix = "give each model a layer of its own."
    check_argument("layer", width == input_shape[-1], f"one for inputs of width {input_shape[-1]}", received, fix)


def serialise_layer(layer: keras.layers.Layer) -> dict:
    """Return a layer's configuration without its input shapes, since NPLM builds its layers."""
    described = keras.saving.serialize_keras_object(layer)
    described.pop("build_config", None)
    return described


def is_name(part: object) -> bool:
    return part is None or isinstance(part, str)
