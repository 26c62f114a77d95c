"""N-best rescoring: add language model features to a decoder's hypotheses, tune weights, and rank the hypotheses.

- `nbest`: `NBestList` and `NBestFile`, the reader; `writer`: the writer. Both know the formats of `line_formats`.
- `features`: add the log-probabilities of a language model, and sort by the weighted sum of features.
- `losses`: word errors against references; `minimum_error_rate`: tune weights (MERT).
- `files`: rescore a whole file.
"""

from keras_nplm.language_model.rescoring.features import add_scores, rank_lists
from keras_nplm.language_model.rescoring.files import rescore_file
from keras_nplm.language_model.rescoring.losses import WordErrors
from keras_nplm.language_model.rescoring.minimum_error_rate import tune
from keras_nplm.language_model.rescoring.nbest import NBestFile, NBestList
from keras_nplm.language_model.rescoring.writer import open_nbest_writer

__all__ = [
    "NBestFile",
    "NBestList",
    "WordErrors",
    "add_scores",
    "open_nbest_writer",
    "rank_lists",
    "rescore_file",
    "tune",
]
