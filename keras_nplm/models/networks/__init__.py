"""Networks: Keras models of P(w | context), composed of layers.

nplm: the paper's network. context_network: what all networks share: read, score, minimise.
pointer_network, hybrid_network: networks that copy words of the context, and that have an n-gram
model inside. training, gradients, replicas, metrics: `fit`. probabilities: `log_prob` and
`next_log_probs` as compiled graphs. network_file: safe loading. growth, self_normalised: new words,
and logits as log-probabilities. arrays, conversion: weights in NumPy, made from a network and saved
beside it, for commands that load no Keras.

A walk from ids to P(w | context), equation 1 by hand. A network of 6 words reads 2 of them:

>>> import keras
>>> import numpy as np
>>> from keras_nplm import NPLM
>>> keras.utils.set_random_seed(1)
>>> network = NPLM(6, order=3, embedding_dim=4, hidden_units=5, direct_connections=True)
>>> contexts = np.array([[4, 5], [0, 4]])  # oldest word first; 0 is `<pad>`, before the text
>>> targets = np.array([3, 5])

The weights have the letters of the paper. Keras keeps H transposed:

>>> weights = {weight.name: weight.numpy() for weight in network.weights}
>>> C, H, d, U, b, W = (weights[letter] for letter in "CHdUbW")
>>> C.shape, H.shape, U.shape, W.shape  # [|V|, m], [(n-1) m, h], [|V|, h], [|V|, (n-1) m]
((6, 4), (8, 5), (6, 5), (6, 8))

The vectors of a context stand side by side. A mask makes `<pad>` zero:

>>> x = (C[contexts] * (contexts > 0)[:, :, None]).reshape(2, 8)
>>> y = b + x @ W.T + np.tanh(d + x @ H) @ U.T  # [B, |V|], a score for each word

The softmax turns scores into probabilities. These are the network's own:

>>> P = np.exp(y) / np.exp(y).sum(axis=1, keepdims=True)
>>> np.allclose(P, network(contexts), atol=1e-6)
True
>>> np.allclose(np.log(P[[0, 1], targets]), network.log_prob(contexts, targets), atol=1e-5)
True
"""
