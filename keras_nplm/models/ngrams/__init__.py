"""Count-based n-gram language models, for comparison with the network and for mixtures with it; no
Keras.

From a text to P(w | context): runs: n-grams sorted by context. counts: counts of all orders.
kneser_ney: smoothing. backoff: the back-off model. columns: numbers on disk, for texts whose counts
are larger than memory. tables: look-up in sorted tables. count_file: counts from a file.

deleted_interpolation, class_based: further models; `keras_nplm.training.methods` calls all by
method. interpolation: EM weights and frequency bins. word_classes: the exchange algorithm. arpa,
arpa_lines: ARPA files. merging: words that become `<unk>`. pruning: entropy pruning. approximation:
any model as a back-off model. mass: the probability of a set of words.
"""
# ruff: noqa: F401

from keras_nplm.models.ngrams.arpa import read_arpa, write_arpa
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.base import NGRAMS_FILE, NgramModel
from keras_nplm.models.ngrams.class_based import ClassBased, class_based
from keras_nplm.models.ngrams.count_file import CountFile
from keras_nplm.models.ngrams.counts import count_ngrams
from keras_nplm.models.ngrams.deleted_interpolation import (
    DeletedInterpolation,
    deleted_interpolation,
)
from keras_nplm.models.ngrams.interpolation import FrequencyBins
from keras_nplm.models.ngrams.kneser_ney import kneser_ney, kneser_ney_on_disk
from keras_nplm.models.ngrams.pruning import prune
from keras_nplm.models.ngrams.word_classes import (
    MAX_SWEEPS,
    exchange_classes,
    load_classes,
    save_classes,
)
