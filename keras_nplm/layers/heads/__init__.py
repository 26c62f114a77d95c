"""Heads make the scores of the words from the features of a context.

base: the base class. linear: a row of U for each word, the paper's. adaptive: the adaptive softmax.
energy: the energy-based variant of the paper. How they are trained: see
`keras_nplm.layers.objectives`.
"""
