"""Language models over word ids: every class answers `log_prob` and `next_log_probs`.

nplm: the network. likelihood, gradients, replicas: its training. ngrams/: count-based models. dynamic/: models that
learn as they read. The modules base, evaluation, mixture, shortlist and ngrams/ import no Keras.
"""
