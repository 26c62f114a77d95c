"""Dynamic evaluation of model directories: settings in files, figures side by side, scores in
order, the commands.
"""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import DynamicSettings, LanguageModel, encode_sentences
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.language_model.dynamics import save_dynamics
from keras_nplm.layers.scores import compute_log_prob
from keras_nplm.models.dynamic import TunedDynamics, make_dynamic
from keras_nplm.models.dynamic.network import copy_network
from keras_nplm.models.evaluation import log_probs

SETTINGS = DynamicSettings(chunk=16, rate=0.3)
SHARED = dataclasses.replace(SETTINGS, static_share=0.3)
LINES = ["the value of the name", "a function returns it"] * 20


@pytest.fixture(scope="module")
def directory(model_directory, tmp_path_factory):
    """A copy of the small model with settings that were not tuned: tuning takes longer."""
    copy = tmp_path_factory.mktemp("dynamic") / "model"
    shutil.copytree(model_directory, copy)
    language_model = LanguageModel.load(copy)
    squares = [[np.ones(weight.shape) for weight in language_model.network.trainable_weights]]
    language_model.dynamics = TunedDynamics(SETTINGS, squares, 100.0, 90.0, 1000, 3)
    save_dynamics(copy, language_model.dynamics)
    return copy


@pytest.mark.parametrize("settings, chosen", [(SETTINGS, True), (SHARED, SHARED)])
def test_dynamic_figures_stand_beside_static_ones(directory, settings, chosen):
    language_model = LanguageModel.load(directory)
    figures = language_model.evaluate(LINES, dynamic=chosen)
    dynamic = figures.pop("dynamic")
    static = language_model.evaluate(LINES)
    assert figures == pytest.approx(static)
    assert dynamic.pop("settings") == dataclasses.asdict(settings)
    assert dynamic.keys() == static.keys()
    learner = make_dynamic(language_model.model, settings)
    ids = encode_sentences(map(str.split, LINES), language_model.vocabulary)
    parts = [part for part, _ in log_probs(learner, ids)]
    assert dynamic["log_prob"] == pytest.approx(sum(part.sum(dtype=np.float64) for part in parts))
    assert dynamic["bits_per_character"] < static["bits_per_character"]


def test_each_sentence_is_learnt_before_the_next_is_scored(directory):
    """A chunk of 16 tokens is longer than a sentence.

    The oracle takes the steps of formula (θ - η g) one by one.
    """
    language_model = LanguageModel.load(directory)
    sentences = [LINES[0]] * 3
    scores = [score.log_prob for score in language_model.score(sentences, dynamic=True)]
    oracle = copy_network(language_model.network)
    ids = encode_sentences([sentences[0].split()], language_model.vocabulary)
    ngrams = extract_ngrams(ids, oracle.order, oracle.boundary)
    for score in scores:
        with tf.GradientTape() as tape:
            log_prob = compute_log_prob(oracle.scores(ngrams[:, :-1]), ngrams[:, -1])
            loss = -tf.reduce_sum(log_prob) / SETTINGS.chunk
        assert score == pytest.approx(float(tf.reduce_sum(log_prob)), rel=1e-4)
        weights = [weight.value for weight in oracle.trainable_weights]
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(SETTINGS.rate * tf.convert_to_tensor(gradient))
    assert scores == sorted(scores) and scores[1] > scores[0] + 0.1
    [static] = language_model.score(sentences[:1])  # the model itself has learnt nothing
    assert static.log_prob == pytest.approx(scores[0], rel=1e-5)


def test_commands_label_dynamic_figures(directory, run, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the value of the name\n" * 20)
    out = run("evaluate", directory, "--dynamic", "--text", text).out
    assert [line.split()[0] for line in out.splitlines()[1:]] == [str(text), "dynamic"]
