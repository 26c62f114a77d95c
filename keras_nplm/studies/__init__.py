"""Studies on Brown beyond the paper's Table 1: each a module with the models that it needs, and what it asks them."""

import keras_nplm.studies.energy as energy
from keras_nplm.studies.study import Study

STUDIES: dict[str, Study] = {"energy": energy}  # by the names of their modules
