"""Graphs by the class of the model: a class of one's own, refused parts, the greatest values."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    ContinuousCache,
    DynamicSettings,
    HybridNetwork,
    InputError,
    LanguageModel,
    LinearHead,
    Mixture,
    Shortlist,
    UnigramCache,
    Vocabulary,
    export_saved_model,
    make_dynamic,
)
from keras_nplm.io.files import read_arrays, write_arrays
from keras_nplm.models.base import SAVED_CLASSES, NextWordModel, saved_as
from keras_nplm.models.mixture import Uniform
from keras_nplm.serving import GraphModel, build_graph
from keras_nplm.serving.graph_model import find_top_k
from keras_nplm.serving.signatures import PredictNext, Score
from tests.networks import compose

VOCABULARY = Vocabulary(["the", "cat", "sat", "."])
SIZE = len(VOCABULARY)
TEXTS = ["the cat sat .", "", "a bird", "sat the the"]


class Bigram(NextWordModel):
    """A model of one's own: the next word depends on the last one."""

    order = 2

    def __init__(self, log_probs, boundary):
        self.log_probs = log_probs
        self.vocabulary_size = len(log_probs)
        self.boundary = boundary

    def _next_log_probs(self, context_ids):
        return self.log_probs[context_ids[:, -1]]

    def write(self, path):
        write_arrays(path, {"log_probs": self.log_probs})

    def list_files(self):
        return {"bigram.npz": self.write}

    @classmethod
    def read_files(cls, folder):
        arrays = read_arrays(folder.path / "bigram.npz", ["log_probs"])
        return cls(arrays["log_probs"], folder.boundary)


@build_graph.register(Bigram)
class BigramGraph(GraphModel):
    def __init__(self, model):
        super().__init__(model)
        self.log_probs = tf.Variable(model.log_probs, trainable=False)

    def log_prob(self, context_ids, target_ids):
        return tf.gather(self.next_log_probs(context_ids), target_ids, batch_dims=1)

    def next_log_probs(self, context_ids):
        return tf.gather(self.log_probs, context_ids[:, -1])


@pytest.fixture
def bigram(monkeypatch) -> Bigram:
    """A bigram model with random probabilities, whose class can be saved."""
    saved_as("bigram")(Bigram)
    monkeypatch.setattr(Bigram, "kind", "bigram")
    rows = np.random.default_rng(0).dirichlet(np.ones(SIZE - 3), SIZE)
    log_probs = np.full((SIZE, SIZE), -np.inf)
    log_probs[:, [1, *range(4, SIZE)]] = np.log(rows[:, : SIZE - 3])
    yield Bigram(log_probs, "stream")
    del SAVED_CLASSES["bigram"]


@pytest.mark.long
def test_a_model_of_ones_own_is_saved_exported_and_served(bigram, tmp_path, monkeypatch):
    # two of the functions, for speed
    monkeypatch.setattr("keras_nplm.serving.signatures.FUNCTIONS", (PredictNext, Score))
    mixture = Mixture([bigram, Uniform(SIZE, "stream")], [0.75, 0.25])
    LanguageModel(mixture, VOCABULARY, "words").save(tmp_path / "model")
    language_model = LanguageModel.load(tmp_path / "model")
    loaded = tf.saved_model.load(export_saved_model(language_model, tmp_path / "served", top_k=3))
    scored = loaded.signatures["score"](sentences=tf.constant(TEXTS))["log_prob"].numpy()
    expected = [score.log_prob for score in language_model.score(TEXTS)]
    np.testing.assert_allclose(scored, expected, rtol=1e-6)
    answers = loaded.signatures["predict_next"](contexts=tf.constant(TEXTS))
    for place, text in enumerate(TEXTS):
        words, probabilities = zip(*language_model.next_words(text, 3), strict=True)
        assert [word.decode() for word in answers["words"][place].numpy()] == [*words]
        np.testing.assert_allclose(answers["probabilities"][place], probabilities, rtol=1e-6)


def build_cache_in_mixtures() -> Mixture:
    uniform = Uniform(SIZE, "stream")
    inside = Mixture([uniform, UnigramCache(SIZE, "stream")], [0.5, 0.5])
    return Mixture([uniform, inside], [0.5, 0.5])


def build_continuous_cache() -> ContinuousCache:
    return ContinuousCache(NPLM(SIZE, 3, 4, 5, boundary="stream"))


def build_background_that_is_a_cache() -> Shortlist:
    head = LinearHead(SIZE, num_outputs=6, name="prob")
    network = compose(SIZE, head=head, boundary="stream")
    return Shortlist(network, UnigramCache(SIZE, "stream"))


def build_learning_shortlist() -> NextWordModel:
    head = LinearHead(SIZE, num_outputs=6, name="prob")
    network = compose(SIZE, head=head, boundary="stream")
    shortlist = Shortlist(network, Uniform(SIZE, "stream"))
    return make_dynamic(shortlist, DynamicSettings())


def build_network_that_reads_log_q() -> HybridNetwork:
    return compose(SIZE, kind=HybridNetwork, boundary="stream")


@pytest.mark.parametrize(
    "build, part",
    [
        pytest.param(build_cache_in_mixtures, "UnigramCache", id="cache in nested mixtures"),
        pytest.param(build_continuous_cache, "ContinuousCache", id="continuous cache"),
        pytest.param(build_background_that_is_a_cache, "UnigramCache", id="cache as background"),
        pytest.param(build_learning_shortlist, "DynamicNPLM", id="network that learns"),
        pytest.param(build_network_that_reads_log_q, "HybridNetwork", id="hybrid's network alone"),
    ],
)
def test_a_part_that_cannot_be_served_is_refused_by_name(build, part, tmp_path):
    language_model = LanguageModel(build(), VOCABULARY, "words")
    with pytest.raises(InputError, match=rf"to be served\. Received: {part}\. Fix: export "):
        export_saved_model(language_model, tmp_path / "served")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "size, k, high",
    [
        pytest.param(5, 5, 9, id="all of a short row"),
        pytest.param(300, 2, 9, id="fewer blocks than twice k"),
        pytest.param(3000, 4, 3, id="many equal values"),
        pytest.param(3000, 1, 99, id="the greatest alone"),
        pytest.param(1100, 4, 9, id="twice k blocks"),
    ],
)
def test_the_greatest_values_are_those_of_tensorflow(size, k, high):
    values = np.random.default_rng(size + k).integers(-high, high, (3, size)).astype(np.float32)
    values[0, -1] = high + 1  # after the last whole block
    top, columns = find_top_k(tf.constant(values), k)
    np.testing.assert_array_equal(top, tf.math.top_k(values, k).values)
    np.testing.assert_array_equal(np.take_along_axis(values, columns.numpy(), axis=1), top)
    for row in columns.numpy():
        assert len(set(row)) == k


def test_the_first_of_equal_values_is_returned():
    values = np.zeros((1, 600), np.float32)
    values[0, [300, 301, 10]] = 5, 1, 1
    _, columns = find_top_k(tf.constant(values), 2)
    assert columns.numpy().tolist() == [[300, 10]]
