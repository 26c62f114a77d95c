"""Objectives: what training minimises, from the scores of a batch and its targets.

base: the base class and the unigram start. likelihood: the paper's. sampled: sampled softmax and
noise-contrastive estimation, on the target and negative samples.
"""

from keras_nplm.layers.objectives.base import Losses, Objective
from keras_nplm.layers.objectives.likelihood import Likelihood
from keras_nplm.layers.objectives.sampled import NoiseContrastive, SampledSoftmax

__all__ = ["Likelihood", "Losses", "NoiseContrastive", "Objective", "SampledSoftmax"]
