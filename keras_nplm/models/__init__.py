"""Language models over word ids: every class answers `log_prob` and `next_log_probs`.

base: the base class, and the boundary of a model. nplm: the network. metrics: perplexity during training. ngrams/:
count-based models. mixture: linear interpolation. shortlist: a network for frequent words, with a background model.
self_normalised: scores without log Z. evaluation: exact perplexity. growth: new words for a network. nplm_file: model
files. replicas: tf.distribute. Only nplm, metrics, self_normalised, growth, nplm_file and replicas import Keras.
"""
