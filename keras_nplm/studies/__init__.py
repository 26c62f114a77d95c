"""Studies on Brown beyond the paper's Table 1: each a module with the models that it needs, and what it asks them."""

from keras_nplm.studies.study import Study

STUDIES: dict[str, Study] = {}  # by the names of their modules
