"""Keras layers of the network, from the context's words to the output.

ops, energy_ops: the costly operations. context: C and the concatenated context. hidden: tanh(d + H x), residual
blocks. direct: direct connections. pointer: copies of the context's words. outputs: full, sampled, adaptive and
energy-based softmax.
"""

import keras  # noqa: F401  before the modules here, which the hook of `keras_nplm/__init__.py` imports after Keras
