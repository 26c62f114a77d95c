"""Words of an n-gram model that are merged into `<unk>`: the probabilities stay, and their sum."""

import numpy as np
import pytest

from keras_nplm import InputError, Vocabulary
from keras_nplm.models.ngrams import kneser_ney, merge_into_unk, prune, read_arpa, write_arpa

V = 12
KEPT = 9
UNK = 1


def _make_text() -> np.ndarray:
    ids = np.random.default_rng(3).choice([1, *range(4, V)], 900).astype(np.int32)
    ids[::9] = 3
    return np.append(ids, 3).astype(np.int32)


def _sum_unk(log_probs: np.ndarray) -> np.ndarray:
    """Return the distributions of the words that stay, with the sum of all others as `<unk>`."""
    probabilities = np.exp(log_probs, dtype=np.float64)
    expected = probabilities[:, :KEPT].copy()
    expected[:, UNK] += probabilities[:, KEPT:].sum(axis=1)
    return expected


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("threshold", [0, 1e-3])
def test_merged_words_add_to_unk_after_each_context(order, threshold):
    model = kneser_ney(_make_text(), V, order, "sentence")
    if order > 1:
        model = prune(model, threshold)
    merged = merge_into_unk(model, KEPT)
    contexts = np.random.default_rng(0).choice([2, 4, 5, 6, 7, 8], (80, order - 1))
    found = np.exp(merged.next_log_probs(contexts), dtype=np.float64)
    np.testing.assert_allclose(found, _sum_unk(model.next_log_probs(contexts)), atol=2e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert merged.vocabulary_size == KEPT
    assert merged.order == order


def test_after_a_merged_word_the_model_backs_off():
    model = kneser_ney(_make_text(), V, 3, "sentence")
    merged = merge_into_unk(model, KEPT)
    after_unk = np.exp(merged.next_log_probs([[5, UNK]]), dtype=np.float64)
    np.testing.assert_allclose(after_unk.sum(), 1, atol=1e-5)


def test_an_arpa_file_is_read_with_fewer_words(tmp_path):
    words = [f"w{i}" for i in range(V - 4)]
    model = kneser_ney(_make_text(), V, 3, "sentence")
    path = tmp_path / "model.arpa"
    write_arpa(path, model, Vocabulary(words))
    fewer = Vocabulary(words[: KEPT - 4])
    read, vocabulary = read_arpa(path, fewer)
    assert vocabulary is fewer
    contexts = np.random.default_rng(0).choice([4, 5, 6, 7, 8], (50, 2))
    found = np.exp(read.next_log_probs(contexts), dtype=np.float64)
    np.testing.assert_allclose(found, _sum_unk(model.next_log_probs(contexts)), atol=1e-5)


def test_a_vocabulary_without_a_word_of_the_file_is_refused(tmp_path):
    words = [f"w{i}" for i in range(V - 4)]
    path = tmp_path / "model.arpa"
    write_arpa(path, kneser_ney(_make_text(), V, 2, "sentence"), Vocabulary(words))
    with pytest.raises(InputError, match=r"must have words of .*, such as 'w0', 'w1'.*'a', 'b', …"):
        read_arpa(path, Vocabulary(["a", "b"]))
