"""Count-based n-gram models: to compare the network with, and to mix it with."""

from keras_nplm.models.ngrams.arpa import read_arpa, write_arpa
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.class_based import ClassBased, class_based
from keras_nplm.models.ngrams.counts import ContextFrequencies, count_ngrams
from keras_nplm.models.ngrams.deleted_interpolation import DeletedInterpolation, deleted_interpolation
from keras_nplm.models.ngrams.interpolation import FrequencyBins
from keras_nplm.models.ngrams.kneser_ney import kneser_ney
from keras_nplm.models.ngrams.pruning import prune
from keras_nplm.models.ngrams.word_classes import exchange_classes, load_classes, save_classes

__all__ = [
    "BackoffModel",
    "ClassBased",
    "ContextFrequencies",
    "DeletedInterpolation",
    "FrequencyBins",
    "class_based",
    "count_ngrams",
    "deleted_interpolation",
    "exchange_classes",
    "kneser_ney",
    "load_classes",
    "prune",
    "read_arpa",
    "save_classes",
    "write_arpa",
]
