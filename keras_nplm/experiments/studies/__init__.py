"""Studies on Brown beyond the paper's Table 1: each a module with the models that it needs, and what it asks them."""

import keras_nplm.experiments.studies.arpa as arpa
import keras_nplm.experiments.studies.energy as energy
import keras_nplm.experiments.studies.modern as modern
import keras_nplm.experiments.studies.new_words as new_words
import keras_nplm.experiments.studies.normalisation as normalisation
import keras_nplm.experiments.studies.resampling as resampling
import keras_nplm.experiments.studies.rescoring as rescoring
import keras_nplm.experiments.studies.shortlist as shortlist
from keras_nplm.experiments.studies.study import Study

STUDIES: dict[str, Study] = {
    "arpa": arpa,
    "energy": energy,
    "modern": modern,
    "new-words": new_words,
    "normalisation": normalisation,
    "resampling": resampling,
    "rescoring": rescoring,
    "shortlist": shortlist,
}
