"""Estimators of n-gram models: one for each method."""

from keras_nplm.io.fields import describe_fields
from keras_nplm.training.estimators import ESTIMATORS
from keras_nplm.training.ngram_options import NgramOptions


def test_the_choices_of_the_method_are_the_estimators():
    assert [*describe_fields(NgramOptions)["method"].choices] == [*ESTIMATORS]
