"""Count-based n-gram language models, for comparison with the network and for mixtures with it; no
Keras.

counts, tables: n-gram counts as sorted tables. kneser_ney, deleted_interpolation, class_based: each
estimates a model; `keras_nplm.training.methods` calls them by method. kneser_ney_on_disk,
partitions, sorting: Kneser-Ney for texts whose counts are larger than memory. count_file: and from
counts in a file. backoff: the back-off
model. interpolation: EM weights and frequency bins. word_classes: the exchange algorithm. arpa,
arpa_lines: ARPA files. merging: words that become `<unk>`. pruning: entropy pruning. approximation:
any model as a back-off model. mass: the probability of a set of words.
"""
# ruff: noqa: F401

from keras_nplm.models.ngrams.arpa import read_arpa, write_arpa
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.base import NGRAMS_FILE, NgramModel
from keras_nplm.models.ngrams.class_based import ClassBased, class_based
from keras_nplm.models.ngrams.count_file import CountFile
from keras_nplm.models.ngrams.counts import ContextFrequencies, count_ngrams
from keras_nplm.models.ngrams.deleted_interpolation import (
    DeletedInterpolation,
    deleted_interpolation,
)
from keras_nplm.models.ngrams.interpolation import FrequencyBins
from keras_nplm.models.ngrams.kneser_ney import kneser_ney
from keras_nplm.models.ngrams.kneser_ney_on_disk import kneser_ney_on_disk
from keras_nplm.models.ngrams.pruning import prune
from keras_nplm.models.ngrams.word_classes import (
    MAX_SWEEPS,
    exchange_classes,
    load_classes,
    save_classes,
)
