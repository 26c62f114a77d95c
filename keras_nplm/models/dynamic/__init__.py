"""Models that learn as they read: dynamic evaluation of networks and mixtures.

settings: chunk, rate, rule, decay. network: steps of a network along the text. mixture: weights that follow the text.
search: the search of settings. tuning: dynamic copies of models, and their settings from validation text. Only network
imports Keras.
"""

from keras_nplm.models.dynamic.settings import DynamicSettings
from keras_nplm.models.dynamic.tuning import TunedDynamics, digest_weights, make_dynamic, tune_dynamic

__all__ = ["DynamicSettings", "TunedDynamics", "digest_weights", "make_dynamic", "tune_dynamic"]
