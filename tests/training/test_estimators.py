"""Estimators of n-gram models: one for each method."""

import numpy as np
import pytest

from keras_nplm import Vocabulary
from keras_nplm.io.fields import describe_fields
from keras_nplm.io.files import write_arrays
from keras_nplm.models.ngrams import MAX_SWEEPS
from keras_nplm.training.estimators import ESTIMATORS, _load_search
from keras_nplm.training.ngram_options import NgramOptions


def test_the_choices_of_the_method_are_the_estimators():
    assert [*describe_fields(NgramOptions)["method"].choices] == [*ESTIMATORS]


@pytest.mark.parametrize(
    "classes", [[4, 4], [[4] * 6], [4.0] * 6, [-1] * 6], ids=["short", "rows", "floats", "negative"]
)
def test_a_damaged_search_for_classes_begins_again(tmp_path, capsys, classes):
    path = tmp_path / "word_classes.npz"
    vocabulary = Vocabulary(["the", "cat"])
    arrays = {"classes": np.array([4] * 6, np.int32), "sweeps_left": np.array(3)}
    write_arrays(path, arrays)
    assert _load_search(tmp_path / "absent", path, vocabulary)[1] == 3
    write_arrays(path, arrays | {"classes": np.array(classes)})
    assert _load_search(tmp_path / "absent", path, vocabulary) == (None, MAX_SWEEPS)
    assert "The search for classes begins again." in capsys.readouterr().err
