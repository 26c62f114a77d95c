"""Every kind of language model gives the same probabilities in Python and as TensorFlow graphs: of
SavedModels, and of files for devices.
"""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_nplm import (
    ContinuousCache,
    LanguageModel,
    Mixture,
    Shortlist,
    Uniform,
    UnigramCache,
    Vocabulary,
    export_saved_model,
)
from keras_nplm.io.files import read_arrays, write_arrays
from keras_nplm.models.base import READERS, NextWordModel, saved_as
from keras_nplm.serving import GraphModel, build_graph
from keras_nplm.serving.graph_model import find_top_k
from keras_nplm.serving.signatures import PredictNext, Score
from tests.language_models import BOUNDARIES, VOCABULARY, build
from tests.serving.served import check_served_scores, check_served_words
from tests.serving.served_models import (
    MIXTURES,
    NETWORKS,
    NGRAMS,
    OTHERS,
    TYPED,
    build_model,
    make_contexts,
)

# of probabilities; elsewhere sums are rounded in other places
TOLERANCES = {
    "embed averaged in bfloat16": 0.05,
    "short-list of all words": 5e-4,
    "hybrid": 1e-4,
    "hybrid of spelled words": 1e-4,
}
OF_BOUNDARIES = [(name, boundary) for name in (*NGRAMS, "by frequency") for boundary in BOUNDARIES]
OF_BOUNDARIES += [(name, "text") for name in MIXTURES if name != "by frequency"]
OF_SENTENCES = [(name, "sentence") for name in (*NETWORKS, *OTHERS, *TYPED)]


@pytest.mark.parametrize(
    "name, boundary",
    [*OF_BOUNDARIES, *(pytest.param(*case, marks=pytest.mark.long) for case in OF_SENTENCES)],
)
def test_graphs_give_the_probabilities_of_python(name, boundary):
    model = build_model(name, boundary)
    contexts = make_contexts(model, 60 if "energy" in name else 400)
    targets = np.random.default_rng(1).integers(1, model.vocabulary_size, len(contexts), np.int32)
    expected = np.exp(model.next_log_probs(contexts))
    tolerance = dict(rtol=TOLERANCES.get(name, 2e-5), atol=1e-7)
    graphs = [build_graph(model, for_devices) for for_devices in (False, True)]
    for graph in graphs:
        traced = tf.function(graph.log_prob, autograph=False).get_concrete_function(
            contexts, targets
        )
        operations = {operation.type for operation in traced.graph.get_operations()}
        assert "_XlaMustCompile" not in str(traced.graph.as_graph_def())  # a server may lack XLA
        # some runtimes of devices have no loops; a plain Keras model may bring its own
        if graph is not graphs[0] and name != "keras model":
            assert not [kind for kind in operations if "While" in kind or "Call" in kind]
        log_prob = traced(tf.constant(contexts), tf.constant(targets))
        of_targets = np.exp(model.log_prob(contexts, targets))
        np.testing.assert_allclose(np.exp(log_prob), of_targets, **tolerance)
        log_probs = graph.next_log_probs(tf.constant(contexts))
        np.testing.assert_allclose(np.exp(log_probs), expected, **tolerance)
    ids, probabilities = graphs[0].most_probable(tf.constant(contexts), first=4, k=3)
    highest = -np.sort(-expected[:, 4:], axis=1)[:, :3]
    np.testing.assert_allclose(probabilities, highest, **tolerance)
    of_ids = np.take_along_axis(expected, ids.numpy(), axis=1)
    np.testing.assert_allclose(of_ids, probabilities, **tolerance)


def test_other_models_are_refused_by_name(tmp_path, messages):
    """Those of a class without a graph, alone and as parts; nothing is written."""
    uniform = Uniform(len(VOCABULARY), "sentence")
    cache = UnigramCache(len(VOCABULARY), "sentence")
    models = [
        Mixture([uniform, Mixture([uniform, cache], [0.5, 0.5])], [0.5, 0.5]),
        Shortlist(build("short-list", "sentence").network, cache),
        ContinuousCache(build("nplm", "sentence")),
        *(build(name, "sentence") for name in ("dynamic", "dynamic mixture")),
        build("hybrid", "sentence").network,
    ]
    for model in models:
        language_model = LanguageModel(model, VOCABULARY, "words")
        messages.refuse(lambda lm=language_model: export_saved_model(lm, tmp_path / "served"))
    assert not any(tmp_path.iterdir())


# A class of one's own


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
    def __init__(self, model, for_devices=False):
        super().__init__(model)
        self.log_probs = tf.Variable(model.log_probs, trainable=False)

    def next_log_probs(self, context_ids):
        return tf.gather(self.log_probs, context_ids[:, -1])


@pytest.mark.long
def test_a_model_of_ones_own_is_saved_exported_and_served(tmp_path, monkeypatch):
    monkeypatch.setitem(READERS, "bigram", None)
    del READERS["bigram"]
    saved_as("bigram")(Bigram)
    # two of the functions, for speed
    monkeypatch.setattr("keras_nplm.serving.signatures.FUNCTIONS", (PredictNext, Score))
    vocabulary = Vocabulary(["the", "cat", "sat", "."])
    size = len(vocabulary)
    log_probs = np.full((size, size), -np.inf)
    words = [1, *range(4, size)]
    log_probs[:, words] = np.log(np.random.default_rng(0).dirichlet(np.ones(len(words)), size))
    mixture = Mixture([Bigram(log_probs, "stream"), Uniform(size, "stream")], [0.75, 0.25])
    LanguageModel(mixture, vocabulary, "words").save(tmp_path / "model")
    language_model = LanguageModel.load(tmp_path / "model")
    loaded = tf.saved_model.load(export_saved_model(language_model, tmp_path / "served", top_k=3))
    texts = ["the cat sat .", "", "a bird", "sat the the"]
    check_served_scores(loaded.signatures["score"], language_model, texts)
    check_served_words(loaded.signatures, language_model, texts, 3, ["predict_next"])


# The greatest values


@settings(deadline=None)
@given(
    size=st.integers(40, 3000),
    k=st.integers(1, 6),
    high=st.integers(1, 9),
    first=st.integers(0, 34),
    seed=st.integers(0, 99),
)
@example(size=3000, k=1, high=9, first=0, seed=0)
@example(size=1100, k=4, high=1, first=4, seed=0)
@example(size=600, k=2, high=1, first=0, seed=0)
def test_the_greatest_values_are_those_of_tensorflow(size, k, high, first, seed):
    """Of equal values the first ones; values before `first` do not count."""
    values = np.random.default_rng(seed).integers(-high, high, (4, size)).astype(np.float32)
    values[0, -1] = high + 1  # after the last whole block
    values[1] = 0
    # a later block has a greater value, and one that equals an earlier one
    place = size * 3 // 4
    values[1, [place, place + 1, size // 2]] = 2, 1, 1
    values[2, first:] = -np.inf
    values[:, :first] = 2 * high
    top, columns = find_top_k(tf.constant(values), k, first)
    expected = tf.math.top_k(values[:, first:], k)
    np.testing.assert_array_equal(top, expected.values)
    np.testing.assert_array_equal(columns, expected.indices + first)
