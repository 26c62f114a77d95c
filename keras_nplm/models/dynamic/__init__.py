"""Models that learn as they read: dynamic evaluation of networks and mixtures.

Only the module `network` imports Keras.
"""

from keras_nplm.models.dynamic.settings import DynamicSettings
from keras_nplm.models.dynamic.tuning import (
    TunedDynamics,
    digest_weights,
    make_dynamic,
    tune_dynamic,
)

__all__ = ["DynamicSettings", "TunedDynamics", "digest_weights", "make_dynamic", "tune_dynamic"]
