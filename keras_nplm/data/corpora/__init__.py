"""Sources of text, all read as sentences of tokens.

corpus: `Corpus` and `open_corpus`. text_files: plain text, split by lines or by files. pieces: large files cut for
parallel work. brown, python_reference: the two built-in corpora. tfds_sets: any text
set of TensorFlow Datasets. tfds_builders: our corpora as TFDS builders. download: the one file that Brown needs.
"""

from keras_nplm.data.corpora.corpus import SPLITS, Corpus, open_corpus

__all__ = ["SPLITS", "Corpus", "open_corpus"]
