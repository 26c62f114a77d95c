"""Dynamic evaluation of language models: figures side by side, scores in order, settings in files,
and what stays true of a changed model.
"""

import dataclasses
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    DynamicSettings,
    InputError,
    LanguageModel,
    LinearHead,
    Vocabulary,
    add_words,
    encode_sentences,
    evaluate,
)
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.io.files import write_json
from keras_nplm.models.dynamic import TunedDynamics, make_dynamic
from keras_nplm.models.dynamic.network import measure_mean_squares
from keras_nplm.models.spelling import SpellingModel
from tests.networks import compose

SETTINGS = DynamicSettings(chunk=16, rate=0.3)
LINES = ["the catfish sat on the mat", "the dog and the catfish sat", "on the dog"] * 3

pytestmark = pytest.mark.filterwarnings("ignore:Even though the `tf.config")


@pytest.fixture(autouse=True)
def run_eagerly():
    """To trace functions would take longer than these few steps."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def tune(language_model: LanguageModel) -> LanguageModel:
    """Give a network mean squares of its gradients, as tuning does."""
    ngrams = np.random.default_rng(0).integers(4, 9, (64, 3))
    squares = [measure_mean_squares(language_model.model, ngrams, 8)]
    language_model.dynamics = TunedDynamics(SETTINGS, squares, 3.0, 2.0, 64, 5)
    return language_model


@pytest.fixture
def general() -> LanguageModel:
    keras.utils.set_random_seed(1)
    head = LinearHead(9, tied=True, name="prob")
    network = compose(9, 3, 4, 5, head=head, boundary="sentence")
    vocabulary = Vocabulary(["the", "cat", "sat", "on", "mat"])
    spelling = SpellingModel({"dog": 3, "catfish": 2, "zebra": 2, "mat": 1, "cat": 1})
    language_model = LanguageModel(network, vocabulary, "words", spelling=spelling)
    language_model.adaptation = object()
    language_model.complete_prefix("the cat")
    return tune(language_model)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_dynamic_figures_stand_beside_static_ones(general, share):
    settings = dataclasses.replace(SETTINGS, static_share=share)
    lines = LINES * 3
    figures = general.evaluate(lines, dynamic=settings if share else True)
    dynamic = figures.pop("dynamic")
    static = general.evaluate(lines)
    assert figures == pytest.approx(static)
    assert dynamic.pop("settings") == dataclasses.asdict(settings)
    assert dynamic.keys() == static.keys()
    learner = make_dynamic(general.model, settings, general.dynamics.mean_squares)
    ids = encode_sentences(map(str.split, lines), general.vocabulary)
    assert dynamic["log_prob"] == pytest.approx(evaluate(learner, ids)["log_prob"])
    assert dynamic["bits_per_character"] < static["bits_per_character"]


def test_each_sentence_is_learnt_before_the_next_is_scored(general):
    """A chunk of 16 tokens is longer than a sentence: a step is shorter by the share of it."""
    sentences = [LINES[0]] * 3
    # settings without mean squares are of plain SGD
    plain = LanguageModel.of(general.model, general.codec)
    scores = [score.log_prob for score in plain.score(sentences, dynamic=SETTINGS)]
    ids = encode_sentences(map(str.split, sentences), general.vocabulary)
    ngrams = extract_ngrams(ids, general.model.order, "sentence")
    tokens = len(ngrams) // 3
    of_sentences = DynamicSettings(chunk=tokens, rate=SETTINGS.rate * tokens / SETTINGS.chunk)
    log_probs = make_dynamic(general.model, of_sentences).log_prob(ngrams[:, :-1], ngrams[:, -1])
    assert scores == pytest.approx(log_probs.reshape(3, tokens).sum(axis=1), rel=1e-4)
    assert scores == sorted(scores) and scores[1] > scores[0] + 0.05
    [static] = general.score(sentences[:1])  # the model itself has learnt nothing
    assert static.log_prob == pytest.approx(scores[0], rel=1e-5)


def test_a_command_labels_dynamic_figures(general, run, tmp_path):
    general.save(tmp_path / "model")
    text = tmp_path / "text.txt"
    text.write_text("the cat sat\n" * 20)
    out = run("evaluate", tmp_path / "model", "--dynamic", "--text", text).out
    assert [line.split()[0] for line in out.splitlines()[1:3]] == [str(text), "dynamic"]


@pytest.mark.long
def test_changed_model_is_saved_and_loaded_with_equal_figures(general, tmp_path):
    changed = add_words(general.adapt(LINES, epochs=1), LINES, ["catfish", "dog"])
    assert changed.dynamics is None and changed.corpus is None
    fresh = LanguageModel(changed.model, changed.vocabulary, "words")
    assert changed.complete_prefix("the cat") == fresh.complete_prefix("the cat")
    with pytest.raises(InputError, match="must be tuned on a validation split"):
        changed.evaluate(LINES, dynamic=True)
    tune(changed).save(tmp_path)
    loaded = LanguageModel.load(tmp_path)
    assert loaded.evaluate(LINES, dynamic=True) == changed.evaluate(LINES, dynamic=True)


def test_new_words_leave_the_spelling_model_and_the_record_of_an_adaptation(general):
    grown = add_words(general, LINES, ["catfish", "dog"])
    assert grown.spelling.counts == {"zebra": 2} | dict.fromkeys(grown.vocabulary.words[4:], 1)
    assert grown.adaptation is None and general.adaptation is not None
    assert general.dynamics is not None and general.spelling.counts["dog"] == 3
    with pytest.raises(InputError, match="`dynamics` must be tuned for networks of these shapes"):
        LanguageModel(NPLM(9, 3, 2, 3), general.vocabulary, "words").dynamics = general.dynamics


def test_settings_in_a_file_belong_to_the_weights_that_were_tuned(general, tmp_path):
    general.save(tmp_path / "model")
    loaded = LanguageModel.load(tmp_path / "model")
    assert loaded.dynamics.settings == SETTINGS
    loaded.save(tmp_path / "again")
    assert LanguageModel.load(tmp_path / "again").dynamics.static == 3.0
    general.model.compile("sgd")
    general.model.fit(np.full((4, 2), 4), np.full(4, 5), verbose=0)
    assert general.dynamics is None
    general.save(tmp_path / "trained")
    for name in ("dynamic.json", "dynamic.npz"):
        shutil.copy(tmp_path / "model" / name, tmp_path / "trained" / name)
    assert LanguageModel.load(tmp_path / "trained").dynamics is None
    # settings of an earlier version are tuned again
    settings = {"settings": {"chunk": 16, "rule": "rms"}, "static": 3.0, "dynamic": 2.0}
    write_json(tmp_path / "trained" / "dynamic.json", settings)
    assert LanguageModel.load(tmp_path / "trained").dynamics is None
