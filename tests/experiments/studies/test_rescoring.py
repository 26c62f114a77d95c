"""The study of rescoring: accuracy counts the lists with the correct sentence first."""

import numpy as np

from keras_nplm.experiments.studies.rescoring import measure_accuracy
from keras_nplm.language_model.rescoring import NBestList


def test_accuracy_counts_correct_sentences_ranked_first():
    kinds = {"0": np.array(["swap", "", "deletion"]), "1": np.array(["", "swap", "swap"])}
    lists = [
        NBestList(
            "0", ["b a c", "a b c", "a c"], {"nplm": np.array([-4.0, -3, -2]), "nplm_words": np.array([3.0, 3, 2])}
        ),
        NBestList("1", ["a b", "b a", "b a"], {"nplm": np.array([-3.0, -3, -4]), "nplm_words": np.array([2.0, 2, 2])}),
    ]
    plain = measure_accuracy(lists, {"nplm": 1.0}, kinds)
    assert (plain["all"], plain["swap"], plain["deletion"]) == (0, 0.5, 0)  # a tie does not count
    assert plain["word_error_rate"] == 1 / 5 and "homophone" not in plain
    weighted = measure_accuracy(lists, {"nplm": 1.0, "nplm_words": 2.0}, kinds)
    assert (weighted["all"], weighted["deletion"], weighted["word_error_rate"]) == (0.5, 1, 0)
