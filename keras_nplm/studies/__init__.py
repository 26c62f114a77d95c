"""Studies on Brown beyond the paper's Table 1: each a module with the models that it needs, and what it asks them."""

import keras_nplm.studies.arpa as arpa
import keras_nplm.studies.resampling as resampling
from keras_nplm.studies.study import Study

STUDIES: dict[str, Study] = {"resampling": resampling, "arpa": arpa}  # by the names of their modules
