"""Methods of n-gram models, and their options."""

import numpy as np
import pytest

from keras_nplm import Vocabulary
from keras_nplm.io.files import write_arrays
from keras_nplm.models.ngrams import MAX_SWEEPS
from keras_nplm.training.methods import _load_search


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
