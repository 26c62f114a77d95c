"""Heads make the scores of the words from the features of a context.

base: the base class. linear: a row of U for each word, the paper's. adaptive: the adaptive softmax.
energy: the energy-based variant of the paper. How they are trained: see `keras_nplm.layers.objectives`.
"""

from keras_nplm.layers.heads.adaptive import AdaptiveHead
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.heads.linear import LinearHead

__all__ = ["AdaptiveHead", "EnergyHead", "Head", "LinearHead"]
