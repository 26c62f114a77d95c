"""Keras layers of the network, from the context's words to the output.

context, hidden: the paper's layers. averaged_context, deep_hidden, pointer: long contexts, deeper networks,
copies of the context's words. outputs: P(w | context). build: the layers that names stand for. lookup, softmax,
energy_ops: the costly operations, faster in TensorFlow than in `keras.ops`. ops: what they share.
"""

import keras  # noqa: F401  before the modules here, which the hook of `keras_nplm/__init__.py` imports after Keras
