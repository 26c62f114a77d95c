"""Sources of text, all read as sentences of tokens.

opening: `open_corpus`. text_files: plain text, split by lines or by files. chunks: large files cut for parallel work.
brown, python_reference: the two built-in corpora. tfds_sets: any text set of TensorFlow Datasets. tfds_builders: our
corpora as TFDS builders. download: the one file that Brown needs.
"""

from keras_nplm.data.corpora.opening import open_corpus
from keras_nplm.data.corpus import SPLITS, Corpus

__all__ = ["SPLITS", "Corpus", "open_corpus"]
