"""Language models over word ids: every class answers `log_prob` and `next_log_probs`.

nplm: the network. likelihood, gradients, replicas: its training. ngrams/: count-based models.
hybrid, jackknife: an n-gram model inside a network. dynamic/: models that learn as they read. The
modules base, evaluation, mixture, shortlist, hybrid and ngrams/ import no Keras.
"""
