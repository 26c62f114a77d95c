"""Keras layers of the network, from the context's words to the output.

context, hidden: the paper's layers. averaged_context, deep_hidden, pointer: long contexts, deeper
networks, copies of the context's words. spelled_context: the words that a context of characters
spells. heads: from features to scores of the words. scores: what a context says of the words.
objectives: what training minimises. lookup, softmax, energy_ops: the costly operations, faster in
TensorFlow than in `keras.ops`. ops: what they share. arrays: the layers in NumPy, without Keras.
"""
