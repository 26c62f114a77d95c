"""Objectives: what training minimises, from the scores of a batch and its targets.

base: the base class and the unigram start. likelihood: the paper's. sampled: sampled softmax and
noise-contrastive estimation, on the target and negative samples.
"""
