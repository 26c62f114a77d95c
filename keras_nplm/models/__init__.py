"""Language models over word ids: every class answers `log_prob` and `next_log_probs`.

base: the base class, and the boundary of a model. nplm: the network. arguments: checks of its arguments. likelihood,
gradients, replicas: its training. metrics: perplexity in Keras. ngrams/: count-based models. mixture:
linear interpolation. shortlist: a network for frequent words, with a background model. hybrid, jackknife: a network
with an n-gram model inside, and its training data. self_normalised: scores without log Z. dynamic/: models that learn as they read. adaptation: fine-tuning. evaluation: perplexity. text_figures:
bits per character. growth: new words for a network. nplm_file: model files. Base, evaluation, mixture, shortlist and
ngrams/ import no Keras.
"""
