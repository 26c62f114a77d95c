"""Registers all layers and networks, so that Keras finds the classes that a file names: it imports
their modules.

A network is in `nplm`, or in a module named as `pointer_network` is.
"""

import importlib
import pkgutil

import keras_nplm.layers
import keras_nplm.models.networks

for _module in pkgutil.walk_packages(keras_nplm.layers.__path__, "keras_nplm.layers."):
    importlib.import_module(_module.name)
for _module in pkgutil.iter_modules(
    keras_nplm.models.networks.__path__, "keras_nplm.models.networks."
):
    if _module.name.endswith((".nplm", "_network")):
        importlib.import_module(_module.name)
