"""Where text comes from: TFDS builders, plain text files, and any text set of TFDS, all read as sentences of tokens."""

from keras_nplm.data.corpora.brown import Brown
from keras_nplm.data.corpora.corpus import SPLITS, Corpus, open_corpus
from keras_nplm.data.corpora.python_reference import PythonReference

__all__ = ["SPLITS", "Brown", "Corpus", "PythonReference", "open_corpus"]
