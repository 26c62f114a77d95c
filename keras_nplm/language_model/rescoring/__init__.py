"""N-best lists of decoders: read, given the features of a language model, ranked with tuned weights, and written."""

from keras_nplm.language_model.rescoring.edit_distance import edit_distances
from keras_nplm.language_model.rescoring.files import rescore_file
from keras_nplm.language_model.rescoring.losses import LossFile, WordErrors, read_references
from keras_nplm.language_model.rescoring.minimum_error_rate import Candidates, line_search, minimise_error
from keras_nplm.language_model.rescoring.nbest import NBestFile, NBestList
from keras_nplm.language_model.rescoring.reranking import Asked, ranked, tune, with_scores
from keras_nplm.language_model.rescoring.writing import nbest_writer

__all__ = [
    "Asked",
    "Candidates",
    "LossFile",
    "NBestFile",
    "NBestList",
    "WordErrors",
    "edit_distances",
    "line_search",
    "minimise_error",
    "nbest_writer",
    "ranked",
    "read_references",
    "rescore_file",
    "tune",
    "with_scores",
]
