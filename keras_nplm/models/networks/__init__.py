"""Networks: Keras models of P(w | context), composed of layers.

nplm: the paper's network. context_network: what all networks share: read, score, minimise.
pointer_network, hybrid_network: networks that copy words of the context, and that have an n-gram
model inside. training, gradients, replicas, metrics: `fit`. probabilities: `log_prob` and
`next_log_probs` as compiled graphs. network_file: safe loading. growth, self_normalised: new words,
and logits as log-probabilities. arrays, conversion: weights in NumPy, made from a network and saved
beside it, for commands that load no Keras.
"""
