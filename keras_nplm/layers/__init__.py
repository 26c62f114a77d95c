"""Keras layers of the network, from the context's words to the scores of the next word.

Read first: context, C and x; hidden, tanh(d + H x) and W x; heads.linear, b + U a; scores, what a
context says of the words; objectives.likelihood, what training minimises.

- averaged_context, deep_hidden, pointer: long contexts, deeper networks, copies of the context's
  words. spelled_context: the words that a context of characters spells. segments: many targets that
  share their contexts.
- heads: the other outputs. objectives: sampled softmax and noise-contrastive estimation.
- lookup, softmax, energy_ops: the costly operations, faster in TensorFlow than in `keras.ops`. ops:
  what all share. arrays: the layers in NumPy, without Keras.

A hidden layer of your own is any Keras layer; a head or an objective extends `Head` or `Objective`
(notebook 04). To be an option of `train`, it has a class in `keras_nplm.training.network`.
"""
