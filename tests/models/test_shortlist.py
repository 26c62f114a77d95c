"""Short-lists against plain NumPy: both formulas, the mass by n-gram state, training, files, and what is served."""

import contextlib
import dataclasses
import functools
import io
import json
import shutil
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.shuffling as pools
import keras_nplm.experiments.studies.shortlist as study
import keras_nplm.training.background as background
from keras_nplm import (
    NPLM,
    Configuration,
    InputError,
    LanguageModel,
    Mixture,
    Shortlist,
    Uniform,
    Vocabulary,
    evaluate,
    export_saved_model,
    ngram_dataset,
    open_corpus,
    train,
)
from keras_nplm.cli.main import main
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.shards import ShardedIds
from keras_nplm.experiments.rows import Row
from keras_nplm.layers.outputs import OUTPUTS, FullSoftmax
from keras_nplm.models.growth import check_growable
from keras_nplm.models.ngrams import BackoffModel, deleted_interpolation, kneser_ney
from keras_nplm.models.ngrams.mass import BackoffMass, SummedMass
from keras_nplm.models.ngrams.tables import ContextTrie
from keras_nplm.models.self_normalised import SelfNormalised
from keras_nplm.serving.graphs import build_graph
from keras_nplm.training.configuration import train_command

V, LISTED = 13, 8  # ids 4 to 7 are the list's words


def _text(seed: int, number: int = 400) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ids = 4 + rng.geometric(0.35, number) % 8  # id 12 is never seen
    ids[::9] = 3
    return np.append(ids, 3).astype(np.int32)


def _network(order: int, outside_output: bool, size: int = LISTED - 4, **options) -> NPLM:
    keras.utils.set_random_seed(1)
    output = FullSoftmax(V, shortlist_size=size, outside_output=outside_output)
    model = NPLM(V, order, embedding_dim=3, hidden_units=4, **dict(output=output, boundary="stream") | options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return model


@functools.cache
def _background(name: str, boundary: str):
    text = _text(1)
    if name == "mixture":
        return Mixture([kneser_ney(text, V, 4, boundary), Uniform(V, boundary)], [0.7, 0.3])
    if name == "deleted interpolation":
        return deleted_interpolation(text, _text(2), V, 3, boundary)
    return kneser_ney(text, V, int(name[-1]), boundary)


def _contexts(order: int, number: int = 300) -> np.ndarray:
    """Contexts seen and unseen, with the beginnings of texts and sentences among them."""
    contexts = np.random.default_rng(3).integers(1, V, (number, order - 1)).astype(np.int32)
    for row in range(0, number, 5):
        contexts[row, : 1 + row % (order - 1) if order > 2 else 1] = 0 if row % 2 else 2
    return np.concatenate([contexts, extract_ngrams(_text(1), order, "stream")[:80, :-1]])


def _network_in_numpy(model: NPLM, context_ids: np.ndarray) -> np.ndarray:
    """P_N of every output, float64 [B, outputs], from the weights."""
    C, H, d = (np.array(w, np.float64) for w in (model.embed.C, model.hidden.H, model.hidden.d))
    kernel, b = np.array(model.prob.kernel, np.float64), np.array(model.prob.b, np.float64)
    C[0] = 0
    y = np.tanh(C[context_ids].reshape(len(context_ids), -1) @ H + d) @ kernel.T + b
    return np.exp(y) / np.exp(y).sum(axis=1, keepdims=True)


def _shortlist_in_python(model: Shortlist, context_ids: np.ndarray) -> np.ndarray:
    """P of every word, word by word as the formulas have it."""
    network, background = model.network, model.background
    p_n = _network_in_numpy(network, context_ids[:, context_ids.shape[1] - network.order + 1 :])
    p_b = np.exp(background.next_log_probs(context_ids[:, context_ids.shape[1] - background.order + 1 :]), dtype=float)
    p = np.zeros((len(context_ids), V))
    for row in range(len(context_ids)):
        share = sum(p_b[row, w] for w in range(LISTED))
        for w in range(V):
            if network.prob.outside_output:
                p[row, w] = p_n[row, w] if w < LISTED else p_n[row, LISTED] * p_b[row, w] / (1 - share)
            else:
                p[row, w] = p_n[row, w] * share if w < LISTED else p_b[row, w]
    return p


BACKGROUNDS = ("kneser-ney-2", "kneser-ney-4", "deleted interpolation", "mixture")


@pytest.mark.parametrize("outside_output", [False, True])
@pytest.mark.parametrize(
    "background, boundary", [(name, "stream") for name in BACKGROUNDS] + [("kneser-ney-4", "sentence")]
)
def test_probabilities_are_those_of_the_formulas_and_sum_to_one(background, boundary, outside_output):
    model = Shortlist(_network(3, outside_output, boundary=boundary), _background(background, boundary))
    assert model.order == max(3, model.background.order)
    contexts = _contexts(model.order)
    expected = _shortlist_in_python(model, contexts)
    np.testing.assert_allclose(expected.sum(axis=1), 1, atol=1e-6)
    found = np.exp(model.next_log_probs(contexts))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    every = np.repeat(contexts, V, axis=0), np.tile(np.arange(V), len(contexts))
    one_by_one = np.exp(model.log_prob(*every)).reshape(-1, V)
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(one_by_one.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("outside_output", [False, True])
def test_a_list_of_all_words_leaves_nothing_outside(outside_output):
    model = Shortlist(_network(3, outside_output, size=V - 4), _background("kneser-ney-4", "stream"))
    contexts = _contexts(4)
    p = _network_in_numpy(model.network, contexts[:, 1:])[:, :V]
    found = np.exp(model.next_log_probs(contexts))
    np.testing.assert_allclose(found, p / p.sum(axis=1, keepdims=True), rtol=1e-5)
    targets = np.arange(len(contexts)) % V
    one_by_one = np.exp(model.log_prob(contexts, targets))
    np.testing.assert_allclose(one_by_one, found[np.arange(len(contexts)), targets], rtol=1e-5)


def test_where_the_background_gives_the_outside_nothing_the_list_has_all():
    """In the context 5 alone of a bigram model: all of its mass is on id 4."""
    unigrams = np.log(np.array([0, 0.2, 0, 0, 0.3, 0.1, 0.3, 0.1]) + 1e-300).astype(np.float32)
    nothing = np.full(8, -np.inf, np.float32)
    model = BackoffModel(ContextTrie(8, []), unigrams, [np.array([5 * 8 + 4])], [np.zeros(1, np.float32)], [nothing])
    for outside_output in (False, True):
        output = FullSoftmax(8, shortlist_size=2, outside_output=outside_output)
        network = NPLM(8, 2, embedding_dim=2, hidden_units=2, output=output)
        shortlist = Shortlist(network, model)
        contexts = np.array([[5]])
        assert shortlist.outside_mass(contexts).tolist() == [0]
        p = np.exp(shortlist.next_log_probs(contexts))
        np.testing.assert_allclose(p.sum(), 1, atol=1e-6)
        one_by_one = np.exp(shortlist.log_prob(np.tile(contexts, (8, 1)), np.arange(8)))
        np.testing.assert_allclose(one_by_one, p[0], rtol=1e-5)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.integers(4, V - 1), max_size=7), min_size=1, max_size=12),
    st.integers(2, 5),
    st.sampled_from(["stream", "sentence"]),
    st.integers(0, V),
    st.integers(0, 1000),
    st.booleans(),
)
def test_the_mass_of_each_state_is_the_sum_over_the_words(sentences, order, boundary, first, seed, pruned):
    ids = np.array([4, 3] + [token for sentence in sentences for token in (*sentence, 3)], np.int32)
    model = kneser_ney(ids, V, order, boundary)
    if pruned:  # as ARPA files may be: the shorter n-gram is not listed
        for k, keys in enumerate(model.keys):
            kept = np.random.default_rng([seed, k]).random(len(keys)) < 0.6
            model.keys[k], model.log_probs[k] = keys[kept], model.log_probs[k][kept]
    chosen = np.arange(V) >= first
    mass = BackoffMass(model, chosen)
    contexts = np.random.default_rng(seed).integers(0, V, (60, order - 1))
    listed = [model.contexts.words(length) for length in range(1, order)]
    contexts = [contexts] + [np.pad(c, ((0, 0), (order - 1 - c.shape[1], 0))) for c in listed]  # every state
    contexts = np.concatenate(contexts).astype(np.int32)
    p = np.exp(model.next_log_probs(contexts), dtype=np.float64)
    expected = np.array([sum(row[w] for w in range(first, V)) for row in p])
    if not pruned:
        np.testing.assert_allclose(mass.look_up(contexts), expected, rtol=1e-5, atol=1e-7)
    else:  # where what is left would be below 0, it is 0
        proper = np.abs(p.sum(axis=1) - 1) < 2
        np.testing.assert_allclose(mass.look_up(contexts)[proper], expected[proper], rtol=1e-5, atol=1e-7)


def test_summed_mass_asks_for_a_context_once():
    asked = []

    class Watched:
        order, vocabulary_size = 3, V

        def next_log_probs(self, context_ids):
            asked.append(len(context_ids))
            return _background("deleted interpolation", "stream").next_log_probs(context_ids)

    chosen, contexts = np.arange(V) >= LISTED, _contexts(3)
    mass = SummedMass(Watched(), chosen)
    expected = np.exp(_background("deleted interpolation", "stream").next_log_probs(contexts))[:, chosen].sum(axis=1)
    np.testing.assert_allclose(mass.look_up(contexts[:200]), expected[:200])
    np.testing.assert_allclose(mass.look_up(contexts[::-1]), expected[::-1])
    assert sum(asked) == len(np.unique(contexts, axis=0))
    assert len(mass.look_up(contexts[:0])) == 0


def test_the_network_is_asked_once_for_a_context_and_only_for_words_of_the_list(monkeypatch):
    asked = []
    network = _network(3, False)
    whole = network._graph_log_prob
    network._graph_log_prob = lambda contexts, *rest: asked.append(contexts) or whole(contexts, *rest)
    model = Shortlist(network, _background("kneser-ney-4", "stream"))
    contexts = np.array([[4, 4, 5], [9, 4, 5], [4, 6, 6], [4, 7, 7]], np.int32)
    model.log_prob(contexts, np.array([5, 6, 9, 12]))
    assert [part.tolist() for part in asked] == [[[4, 5]]]


# The network alone


def test_the_network_alone_is_a_distribution_over_its_list():
    contexts = _contexts(3)
    for outside_output in (False, True):
        model = _network(3, outside_output)
        assert model.embed.C.shape == (V, 3) and model.prob.kernel.shape == (LISTED + outside_output, 4)
        expected = _network_in_numpy(model, contexts)
        found = np.exp(model.next_log_probs(contexts))
        np.testing.assert_allclose(found[:, :LISTED], expected[:, :LISTED], rtol=1e-5)
        assert not found[:, LISTED:].any()
        targets = np.arange(len(contexts)) % V
        np.testing.assert_allclose(
            np.exp(model.log_prob(contexts, targets)), found[np.arange(len(contexts)), targets], rtol=1e-5
        )


@pytest.mark.parametrize("output", ["full", "nce", "sampled"])
def test_words_outside_are_trained_as_the_outside_output(output):
    """A step on targets of any word is one on the targets mapped to the outputs, for a network of these alone."""
    contexts, targets = _contexts(3)[:64], np.random.default_rng(4).integers(4, V, 64)
    assert (targets >= LISTED).any()
    weights = []
    for mapped in (targets, np.minimum(targets, LISTED)):
        options = dict(shortlist_size=LISTED - 4, outside_output=True)
        options |= {} if output == "full" else {"num_sampled": 5, "seed": 3}
        model = _network(3, True, output=OUTPUTS[output](V, **options))
        model.set_unigram(np.bincount(targets, minlength=V))
        model.compile(optimizer=keras.optimizers.SGD(0.5))
        logs = model.fit(contexts, mapped, batch_size=64, verbose=0, shuffle=False).history
        weights.append(model.get_weights())
        assert all(np.isfinite(value).all() for value in logs.values())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_step_follows_the_gradient_of_the_formula():
    """Against finite differences of -ln P_N(output) in NumPy, of a bias in the list and of that of the outside."""
    contexts, targets = _contexts(3)[:32], np.random.default_rng(5).integers(4, V, 32)
    model = _network(3, True)
    model.compile(optimizer=keras.optimizers.SGD(1.0))
    before = np.array(model.prob.b)

    def loss():
        p = _network_in_numpy(model, contexts)
        return -np.log(p[np.arange(32), np.minimum(targets, LISTED)]).mean()

    expected = []
    for output in range(LISTED + 1):
        values = []
        for step in (1e-3, -1e-3):
            model.prob.b.assign(before + step * (np.arange(LISTED + 1) == output))
            values.append(loss())
        expected.append((values[0] - values[1]) / 2e-3)
    model.prob.b.assign(before)
    model.fit(contexts, targets, batch_size=32, verbose=0)
    np.testing.assert_allclose(before - np.array(model.prob.b), expected, atol=1e-5)


def test_a_target_outside_without_an_output_for_it_does_not_go_unseen():
    model = _network(3, False)
    model.compile(optimizer="sgd")
    history = model.fit(np.array([[4, 5]]), np.array([LISTED]), verbose=0)
    assert np.isnan(history.history["loss"][0])


def test_it_begins_as_the_unigram_model():
    counts = np.array([0, 5, 0, 0, 40, 30, 20, 10, 8, 6, 4, 2, 0])
    for outside_output in (False, True):
        model = _network(3, outside_output)
        model.set_unigram(counts)
        model.prob.kernel.assign(np.zeros(model.prob.kernel.shape))
        expected = np.append(counts[:LISTED], counts[LISTED:].sum() if outside_output else [])
        p = np.exp(model.next_output_log_probs(np.array([[4, 5]])))[0]
        np.testing.assert_allclose(p, expected / expected.sum(), atol=1e-6)
    with pytest.raises(InputError, match="`counts` must be"):
        model.set_unigram(counts[1:])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"shortlist_size": 0}, "`shortlist_size` must be 1 to 9, or None"),
        ({"shortlist_size": 10}, "`shortlist_size` must be 1 to 9, or None"),
        ({"outside_output": True}, "`outside_output` must be False without `shortlist_size`"),
        ({"shortlist_size": 4, "tied": True}, "`tied` must be False with `shortlist_size`"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        FullSoftmax(V, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"shortlist_size": 0},
        {"outside_output": True},
        {"shortlist_size": 4, "tied_output": True},
        {"shortlist_size": 4, "output_layer": "adaptive"},
    ],
)
def test_a_configuration_refuses_them_too(options):
    with pytest.raises(InputError, match="shortlist_size|outside_output"):
        Configuration(**options)


def test_what_is_no_short_list_is_refused():
    background = _background("kneser-ney-4", "stream")
    with pytest.raises(InputError, match="`network` must be an NPLM with a short-list"):
        Shortlist(NPLM(V, 3), background)
    with pytest.raises(InputError, match="one vocabulary. Received: vocabularies of \\[13, 9\\] words"):
        Shortlist(_network(3, False), Uniform(9, "stream"))
    with pytest.raises(InputError, match="`shortlist_size` must be None for self-normalised scores"):
        SelfNormalised(_network(3, False))
    with pytest.raises(InputError, match="`shortlist_size` must be None to add words"):
        check_growable(_network(3, False))
    with pytest.raises(InputError, match="Ids must be 0 to 12"):
        Shortlist(_network(3, False), background).log_prob(np.array([[4, 5, 13]]), np.array([4]))


# Windows

sentences = st.lists(st.lists(st.integers(4, 9), max_size=9), min_size=1, max_size=8)


def _listed_ngrams(sentences, order, boundary, below):
    """The n-grams whose target is in the list, in plain Python."""
    ngrams = []
    running = [0] * (order - 1)
    for sentence in sentences:
        if boundary == "sentence":
            running = [2] * (order - 1)
        for target in [*sentence, *([3] if boundary == "sentence" else [])]:
            if target < below:
                ngrams.append((running[len(running) - order + 1 :], target))
            running = [*running, target]
    return ngrams


def _collect(dataset):
    return [
        (context.tolist(), int(target))
        for contexts, targets in dataset.as_numpy_iterator()
        for context, target in zip(contexts, targets, strict=True)
    ]


@settings(deadline=None, max_examples=12)
@given(sentences, st.integers(2, 4), st.sampled_from(["stream", "sentence"]), st.integers(4, 10), st.booleans())
def test_words_outside_are_context_alone(tmp_path_factory, sentences, order, boundary, below, shuffle):
    expected = _listed_ngrams(sentences, order, boundary, below)
    ids = np.array([token for sentence in sentences for token in (*sentence, 3)], np.int32)
    path = tmp_path_factory.mktemp("shards") / "0.ids"
    ids.astype("<i4").tofile(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pools, "BLOCK", 5)
        patched.setattr(pools, "POOL", 2)
        for given_ids in (ids, ShardedIds([path], vocabulary_size=10)):
            options = dict(boundary=boundary, shuffle=shuffle, targets_below=below)
            if not expected:
                with pytest.raises(InputError, match="no word to predict"):
                    ngram_dataset(given_ids, order, 4, **options)
                continue
            dataset = ngram_dataset(given_ids, order, 4, **options)
            found = _collect(dataset)
            assert (sorted(found) == sorted(expected)) if shuffle else (found == expected)
            assert dataset.cardinality() == -(-len(expected) // 4)


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
def test_an_epoch_without_the_words_outside_goes_on_where_it_was_left(tmp_path, monkeypatch, boundary):
    monkeypatch.setattr(pools, "BLOCK", 50)
    monkeypatch.setattr(pools, "POOL", 3)
    ids = np.random.default_rng(0).integers(3, 12, 600).astype(np.int32)
    ids[-1] = 3
    ids.tofile(tmp_path / "0.ids")
    for given_ids in (ids, ShardedIds([tmp_path / "0.ids"], vocabulary_size=12)):
        options = dict(order=3, batch_size=7, boundary=boundary, drop_remainder=True, targets_below=8)
        whole = [batch[1].numpy() for batch in ngram_dataset(given_ids, first_epoch=2, **options).take(120)]
        assert max(map(np.max, whole)) == 7
        for left_out in (1, 30):
            rest = ngram_dataset(given_ids, first_epoch=2, first_batch=left_out, **options).take(120 - left_out)
            for expected, batch in zip(whole[left_out:], rest, strict=True):  # on into the next epochs
                np.testing.assert_array_equal(expected, batch[1])


# Directories


def _run(*arguments) -> tuple[int, dict | None, str]:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = main([*map(str, arguments), "--json"])
    return status, json.loads(out.getvalue()) if out.getvalue() else None, error.getvalue()


SMALL = dict(order=3, embedding_dim=6, hidden_units=8, boundary="sentence", epochs=2, batch_size=512, min_count=5)
SMALL |= dict(activation="tanh", residual_blocks=0, layer_norm=False, embedding_dropout=0.0, learning_rate=1.8)
SMALL |= {"shortlist_size": 90, "dropout": 0.2}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A short-list trained on the embedded default; tests read it and write nothing there."""
    path = tmp_path_factory.mktemp("shortlist") / "model"
    with contextlib.redirect_stderr(io.StringIO()) as error:
        train(Configuration(**SMALL), open_corpus(), path)
    assert "over the 94 outputs of the network" in error.getvalue()
    return path


def test_the_directory_is_a_whole_language_model(directory):
    metrics = json.loads((directory / "metrics.json").read_text())
    language_model = LanguageModel.load(directory)
    model = language_model.model
    assert isinstance(model, Shortlist) and model.listed == 94 and not model.network.prob.outside_output
    assert isinstance(model.background, BackoffModel) and model.background.order == 3
    ids = language_model.corpus.ids("test")
    assert metrics["test"] == evaluate(model, ids, "sentence")
    assert metrics["coverage"]["test"] == pytest.approx(np.mean(ids < 94), abs=1e-4)
    expected = kneser_ney(language_model.corpus.ids("train"), model.vocabulary_size, 3, "sentence")
    np.testing.assert_array_equal(model.background.unigrams, expected.unigrams)
    assert metrics["test"]["perplexity"] < 80  # the unigram model's: about 150
    assert "the words of its short-list" in (directory / "report.html").read_text(encoding="utf-8")


def test_every_command_takes_it(directory, tmp_path):
    status, figures, _ = _run("evaluate", directory)
    assert status == 0 and figures == json.loads((directory / "metrics.json").read_text())["test"]
    assert _run("complete", directory, "the value of")[0] == 0
    assert len(_run("generate", directory, "--num-words", "5")[1]["text"].split()) == 5
    language_model = LanguageModel.load(directory)
    assert len(language_model.nearest("the", 3)) == 3
    assert next(language_model.score(["the value of the object"])).tokens == 6
    background = LanguageModel(language_model.model.background, language_model.vocabulary, "words", "sentence")
    background.save(tmp_path / "background")
    status, mixed, _ = _run("mix", directory, tmp_path / "background", "--output", tmp_path / "mixed")
    assert status == 0 and mixed["components"] == ["shortlist", "back-off"]
    status, again, _ = _run("evaluate", tmp_path / "mixed")
    assert again == mixed["test"]
    assert _run("export", directory, tmp_path / "model.arpa", "--order", "2")[0] == 0
    for arguments, said in (
        (["score", directory, "/dev/null", "--self-normalised"], "Only an NPLM has logits"),
        (["evaluate", directory, "--ln-z"], "log Z can only be reported for an NPLM"),
        (["export", directory, tmp_path / "model.tflite"], "Only a network can be written so"),
    ):
        status, _, error = _run(*arguments)
        assert status == 2 and said in error, error


def test_saved_and_loaded_it_is_the_same(tmp_path):
    words = [f"w{i}" for i in range(V - 4)]
    for name in ("kneser-ney-4", "deleted interpolation", "mixture"):
        model = Shortlist(_network(3, name == "mixture"), _background(name, "stream"))
        LanguageModel(model, Vocabulary(words), "words", "stream").save(tmp_path / name)
        loaded = LanguageModel.load(tmp_path / name).model
        contexts = _contexts(model.order)
        np.testing.assert_array_equal(loaded.next_log_probs(contexts), model.next_log_probs(contexts))


def _check_graph(model) -> tuple[np.ndarray, np.ndarray]:
    """Ask a model's graph what the model is asked; the contexts and targets."""
    graph = build_graph(model)
    contexts = np.tile(_contexts(model.order), (2, 1))  # more rows than are computed at a time
    targets = (np.arange(len(contexts)) % V).astype(np.int32)
    got = tf.function(graph.log_prob)(tf.constant(contexts), tf.constant(targets))
    np.testing.assert_allclose(np.exp(got), np.exp(model.log_prob(contexts, targets)), rtol=2e-5, atol=1e-9)
    got = tf.function(graph.next_log_probs)(tf.constant(contexts))
    np.testing.assert_allclose(np.exp(got), np.exp(model.next_log_probs(contexts)), rtol=2e-5, atol=1e-9)
    ids, p = tf.function(lambda context_ids: graph.most_probable(context_ids, 4, V - 4))(tf.constant(contexts))
    p = np.take_along_axis(p.numpy(), np.argsort(ids, axis=1), axis=1)
    np.testing.assert_allclose(p, np.exp(model.next_log_probs(contexts))[:, 4:], rtol=2e-5, atol=1e-9)
    return contexts, targets


@pytest.mark.parametrize(
    "background, size, outside_output",
    [("kneser-ney-4", LISTED - 4, False), ("kneser-ney-4", V - 4, True), ("deleted interpolation", LISTED - 4, True)],
)
def test_the_graph_gives_the_same_numbers(background, size, outside_output):
    network = _network(3, outside_output, size, boundary="sentence")
    _check_graph(Shortlist(network, _background(background, "sentence")))


def test_what_is_exported_is_the_same(tmp_path):
    model = Shortlist(_network(3, False, boundary="sentence"), _background("kneser-ney-4", "sentence"))
    language_model = LanguageModel(model, Vocabulary([f"w{i}" for i in range(V - 4)]), "words", "sentence")
    served = tf.saved_model.load(export_saved_model(language_model, tmp_path / "served", top_k=V))
    contexts, targets = _contexts(4), (np.arange(len(_contexts(4))) % V).astype(np.int32)
    asked = {"context_ids": tf.constant(contexts), "target_ids": tf.constant(targets)}
    got = np.exp(served.signatures["log_prob_ids"](**asked)["log_prob"])
    np.testing.assert_allclose(got, np.exp(model.log_prob(contexts, targets)), rtol=2e-5, atol=1e-9)
    sentences = ["w0 w8 w3 w5 unknown", ""]
    scores = served.signatures["score"](sentences=tf.constant(sentences))["log_prob"]
    np.testing.assert_allclose(scores, [score.log_prob for score in language_model.score(sentences)], rtol=1e-5)
    assert served.signatures["embed"](words=tf.constant(["w0"]))["vectors"].shape == (1, 3)


def test_a_network_alone_is_saved_and_served_with_its_list(tmp_path):
    network = _network(3, True)
    LanguageModel(network, Vocabulary([f"w{i}" for i in range(V - 4)]), "words", "stream").save(tmp_path / "model")
    loaded, contexts = LanguageModel.load(tmp_path / "model").model, _contexts(3)
    np.testing.assert_array_equal(loaded.next_log_probs(contexts), network.next_log_probs(contexts))
    _check_graph(loaded)


@pytest.fixture
def no_report(monkeypatch):
    """Training without its report, which takes longer than a small training."""
    monkeypatch.setattr("keras_nplm.training.train.write_run_report", lambda *_: None)


def test_a_run_that_was_killed_goes_on_to_the_same_weights(tmp_path, directory, no_report):
    """Killed in the second epoch, before its network is renamed; until then the directory is a model already."""
    configuration = Configuration(**SMALL)
    rename, renamed = shutil.os.replace, []

    class Killed(BaseException):
        pass

    def killed(source, target):
        renamed.append(target.name)
        if renamed.count("model.keras") == 2:
            raise Killed
        rename(source, target)

    with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
        patched.setattr("os.replace", killed)
        train(configuration, open_corpus(), tmp_path / "killed")
    assert evaluate(LanguageModel.load(tmp_path / "killed").model, np.array([4, 5, 3]), "sentence")["tokens"] == 3
    resumed = train(configuration, open_corpus(), tmp_path / "killed")
    assert resumed["test"] == json.loads((directory / "metrics.json").read_text())["test"]
    networks = [LanguageModel.load(path).network.get_weights() for path in (directory, tmp_path / "killed")]
    for one, other in zip(*networks, strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_models_directory_can_be_the_background(tmp_path, no_report):
    text = ["--order", "2", "--min-count", "5", "--method", "deleted-interpolation"]
    assert _run("ngram", *text, "--output", tmp_path / "bigram")[0] == 0
    flags = ["train", "--output", tmp_path / "model", "--min-count", "5", "--shortlist-size", "50", "--order", "3"]
    flags += [
        "--embedding-dim",
        "2",
        "--hidden-units",
        "2",
        "--epochs",
        "1",
        "--batch-size",
        "2048",
        "--outside-output",
    ]
    status, _, error = _run(*flags[:3], "--min-count", "6", *flags[5:], "--background", tmp_path / "bigram")
    assert status == 2 and "must have the vocabulary of this training run" in error
    status, metrics, error = _run(*flags, "--background", tmp_path / "bigram")  # into the same directory
    assert status == 0, error
    model = LanguageModel.load(tmp_path / "model").model
    contexts = np.array([[5, 6], [7, 8]])
    expected = LanguageModel.load(tmp_path / "bigram").model.next_log_probs(contexts[:, 1:])
    ratio = model.next_log_probs(contexts)[:, 54:] - expected[:, 54:]  # P_N(outside) / (1 - P_S)
    np.testing.assert_allclose(ratio, np.tile(ratio[:, :1], ratio.shape[1]), atol=1e-5)
    assert evaluate(model, LanguageModel.load(tmp_path / "model").corpus.ids("test"), "sentence") == metrics["test"]
    shutil.rmtree(tmp_path / "bigram")  # what was trained lacks for nothing, and the same command finds it
    assert _run(*flags, "--background", tmp_path / "bigram")[1]["test"] == metrics["test"]
    status, _, error = _run("train", "--output", tmp_path / "no", "--background", tmp_path / "model")
    assert status == 2 and "add --shortlist-size" in error
    status, _, error = _run("train", "--output", tmp_path / "no", "--shortlist-size", "99999")
    assert status == 2 and "`shortlist_size` must be 1 to" in error and not (tmp_path / "no" / "config.json").exists()


def test_damaged_directories_are_refused(directory, tmp_path):
    def damaged(damage):
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        shutil.copytree(directory, tmp_path / "model")
        damage(tmp_path / "model" / "components")
        status, _, error = _run("evaluate", tmp_path / "model")
        assert status == 2 and error.count("\n") == 1, error
        return error

    def config(number, text):
        return lambda path: (path / str(number) / "config.json").write_text(text)

    def link(path):
        (path / "1").rename(path / "real")
        (path / "1").symlink_to(path / "real")

    assert "model.keras does not exist: training" in damaged(lambda path: (path / "0" / "model.keras").unlink())
    assert "Cannot read" in damaged(lambda path: shutil.rmtree(path / "1"))
    assert "`kind` in" in damaged(config(0, '{"kind": 5}'))
    assert "`network` must be an NPLM with a short-list" in damaged(config(0, '{"kind": "uniform"}'))
    assert "1 is a symbolic link" in damaged(link)

    def swap(path):
        shutil.rmtree(path / "0")
        shutil.copytree(path / "1", path / "0")

    assert "`network` must be an NPLM with a short-list" in damaged(swap)

    def described(value):
        def edit(path):
            with zipfile.ZipFile(path / "0" / "model.keras") as archive:
                parts = {name: archive.read(name) for name in archive.namelist()}
            read = json.loads(parts["config.json"])
            read["config"]["output"]["config"]["shortlist_size"] = value
            parts["config.json"] = json.dumps(read).encode()
            with zipfile.ZipFile(path / "0" / "model.keras", "w") as archive:
                for name, data in parts.items():
                    archive.writestr(name, data)

        return edit

    for value in (1 << 40, -3, 0, "90", True, None, 89):
        assert "is not a whole model file" in damaged(described(value))


def test_the_study_measures_what_its_table_shows(directory, tmp_path, monkeypatch):
    language_model = LanguageModel.load(directory)
    background = LanguageModel(language_model.model.background, language_model.vocabulary, "words", "sentence")
    background.save(tmp_path / study.BACKGROUND)
    for name in (study.FULL, "listed"):
        (tmp_path / name).symlink_to(directory)
    rows = [Row(name, name, "train") for name in (study.FULL, study.BACKGROUND, "listed")]
    for name, value in {"ROWS": rows, "_WARM_UP": 1, "_UPDATES": 2, "_ROUNDS": 1, "use_one_core": lambda: None}.items():
        monkeypatch.setattr(study, name, value)
    report = json.loads(json.dumps(study.measure(tmp_path)))
    listed, ids = report["rows"][2], language_model.corpus.ids("test")
    assert listed["test"] == pytest.approx(evaluate(language_model.model, ids)["perplexity"])
    mixed, alone = listed["mixed"], [listed["validation"], report["rows"][1]["validation"]]
    assert mixed["validation"] <= min(alone) + 1e-6 and 0 < mixed["weight"] < 1
    train_ids = language_model.corpus.ids("train")
    assert listed["ngrams_an_epoch"] == np.count_nonzero(train_ids < 94)
    table = study.format_report(report).splitlines()
    assert len(table) == 5 and all(line.count("|") == 10 for line in table)
    assert f"{np.mean(ids < 94):.1%}" in table[-1] and f"{listed['trained_per_second']:,} (" in table[-1]


def test_the_configuration_is_in_the_command_that_made_it(directory):
    config = json.loads((directory / "config.json").read_text())
    assert "--shortlist-size 90" in train_command(config)
    assert train_command(config | {"background": "elsewhere"}) is None
    assert dataclasses.asdict(Configuration(**SMALL)).items() <= config.items()


def _tiny(tmp_path, *arguments):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\nthe dog sat on the cat\n" * 20)
    options = "--order 2 --min-count 1 --embedding-dim 2 --hidden-units 2 --epochs 1 --batch-size 16 --shortlist-size 2"
    return _run("train", "--train", text, "--output", tmp_path / "tiny", *options.split(), *arguments)


def test_a_run_killed_between_the_files_of_its_background_is_finished(tmp_path, no_report, monkeypatch):
    write, written = background.write_json, []

    def killed(path, value):
        if written:
            raise KeyboardInterrupt
        written.append(path)
        write(path, value)

    monkeypatch.setattr(background, "write_json", killed)
    monkeypatch.setattr(background, "save_component", lambda *_: killed("", {}))
    assert _tiny(tmp_path)[0] == 130
    monkeypatch.undo()
    assert _tiny(tmp_path)[0] == 0


def test_a_background_that_cannot_predict_the_others_is_refused_before_training(tmp_path, no_report):
    assert _tiny(tmp_path)[0] == 0
    language_model = LanguageModel.load(tmp_path / "tiny")
    unigrams = np.full(len(language_model.vocabulary), -np.inf, np.float32)
    unigrams[[3, 4]] = np.log(0.5)
    none = np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(len(unigrams), np.float32)
    nothing = BackoffModel(ContextTrie(len(unigrams), []), unigrams, *([array] for array in none))
    LanguageModel(nothing, language_model.vocabulary, "words", "sentence").save(tmp_path / "nothing")
    shutil.rmtree(tmp_path / "tiny")
    status, _, error = _tiny(tmp_path, "--background", tmp_path / "nothing")
    assert status == 2 and "gives probability 0 to a word" in error, error
    assert _tiny(tmp_path)[0] == 0  # the directory is free for another
