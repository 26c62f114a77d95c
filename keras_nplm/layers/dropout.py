"""Dropout that draws fewer random bits."""

import keras

from keras_nplm.layers.ops import Tensor

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf


class Dropout(keras.layers.Dropout):
    """Dropout that draws 16 random bits for each number instead of a float, which takes half the time."""

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if keras.backend.backend() != "tensorflow" or not (training and self.rate):
            return super().call(inputs, training)
        size, dropped = tf.size(inputs), round(self.rate * 65536)
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        bits = tf.random.stateless_uniform([size // 2 + 1], seed, None, None, tf.int32)
        bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]
        kept = tf.cast(tf.reshape(bits, tf.shape(inputs)) >= dropped, inputs.dtype)
        return inputs * (kept * (65536 / (65536 - dropped)))
