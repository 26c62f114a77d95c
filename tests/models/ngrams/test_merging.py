"""ARPA files read with fewer words: the others are merged into `<unk>`, whose sum stays."""

import numpy as np
import pytest

from keras_nplm import InputError, Vocabulary
from keras_nplm.models.ngrams import kneser_ney, prune, read_arpa, write_arpa

V = 12
KEPT = 9
UNK = 1
WORDS = [f"w{i}" for i in range(V - 4)]


def _make_text() -> np.ndarray:
    ids = np.random.default_rng(3).choice([1, *range(4, V)], 900).astype(np.int32)
    ids[::9] = 3
    return np.append(ids, 3).astype(np.int32)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("threshold", [0, 1e-3])
def test_merged_words_add_to_unk_after_each_context(tmp_path, order, threshold):
    model = prune(kneser_ney(_make_text(), V, order, "sentence"), threshold)
    path = tmp_path / "model.arpa"
    write_arpa(path, model, Vocabulary(WORDS))
    fewer = Vocabulary(WORDS[: KEPT - 4])
    merged, vocabulary = read_arpa(path, fewer)
    assert vocabulary is fewer
    contexts = np.random.default_rng(0).choice([2, 4, 5, 6, 7, 8], (80, 3))
    found = np.exp(merged.next_log_probs(contexts[:, 4 - merged.order :]), dtype=np.float64)
    whole = np.exp(model.next_log_probs(contexts[:, 4 - order :]), dtype=np.float64)
    expected = whole[:, :KEPT]
    expected[:, UNK] += whole[:, KEPT:].sum(axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # after a merged word the model backs off
    contexts[:, -1] = UNK
    after_unk = np.exp(merged.next_log_probs(contexts[:, 4 - merged.order :]), dtype=np.float64)
    np.testing.assert_allclose(after_unk.sum(axis=1), 1, atol=1e-5)


def test_a_vocabulary_without_a_word_of_the_file_is_refused(tmp_path):
    path = tmp_path / "model.arpa"
    write_arpa(path, kneser_ney(_make_text(), V, 2, "sentence"), Vocabulary(WORDS))
    with pytest.raises(InputError, match=r"must have words of .*, such as 'w0', 'w1'.*'a', 'b', …"):
        read_arpa(path, Vocabulary(["a", "b"]))
