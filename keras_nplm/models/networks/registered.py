"""Registers all layers and networks, so that Keras finds the classes that a file names: it imports their modules."""

import importlib
import pkgutil

import keras_nplm.layers
import keras_nplm.models.networks

for _room in (keras_nplm.layers, keras_nplm.models.networks):
    for _module in pkgutil.walk_packages(_room.__path__, f"{_room.__name__}."):
        importlib.import_module(_module.name)
