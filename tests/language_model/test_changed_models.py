"""A changed model keeps what stays true and nothing else; what `save` writes is loaded and gives
equal numbers.
"""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, InputError, LanguageModel, LinearHead, Vocabulary, add_words
from keras_nplm.models.dynamic import DynamicSettings, TunedDynamics
from keras_nplm.models.dynamic.network import measure_mean_squares
from keras_nplm.models.spelling import SpellingModel
from tests.networks import compose

LINES = ["the catfish sat on the mat", "the dog and the catfish sat", "on the dog"] * 3

pytestmark = pytest.mark.filterwarnings("ignore:Even though the `tf.config")


@pytest.fixture(autouse=True)
def run_eagerly():
    """To trace functions would take longer than these few steps."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def _build() -> LanguageModel:
    keras.utils.set_random_seed(1)
    network = compose(9, 3, 4, 5, head=LinearHead(9, tied=True, name="prob"))
    vocabulary = Vocabulary(["the", "cat", "sat", "on", "mat"])
    spelling = SpellingModel({"dog": 3, "catfish": 2, "zebra": 2, "mat": 1, "cat": 1})
    general = LanguageModel(network, vocabulary, "words", spelling=spelling)
    general.adaptation = object()
    general.complete_prefix("the cat")
    return _tune(general)


def _tune(language_model: LanguageModel) -> LanguageModel:
    """Give a network mean squares of its gradients, as tuning does."""
    ngrams = np.random.default_rng(0).integers(4, 9, (64, 3))
    squares = [measure_mean_squares(language_model.model, ngrams, 8)]
    settings = DynamicSettings(chunk=4, rate=0.2)
    language_model.dynamics = TunedDynamics(settings, squares, 3.0, 2.0, 64, 5)
    return language_model


@pytest.mark.long
def test_changed_model_is_saved_and_loaded_with_equal_figures(tmp_path):
    changed = add_words(_build().adapt(LINES, epochs=1), LINES, ["catfish", "dog"])
    assert changed.dynamics is None and changed.corpus is None
    fresh = LanguageModel(changed.model, changed.vocabulary, "words")
    assert changed.complete_prefix("the cat") == fresh.complete_prefix("the cat")
    with pytest.raises(InputError, match="must be tuned on a validation split"):
        changed.evaluate(LINES, dynamic=True)
    _tune(changed).save(tmp_path)
    loaded = LanguageModel.load(tmp_path)
    assert loaded.evaluate(LINES, dynamic=True) == changed.evaluate(LINES, dynamic=True)


def test_new_words_leave_the_spelling_model_and_the_record_of_an_adaptation():
    general = _build()
    grown = add_words(general, LINES, ["catfish", "dog"])
    assert grown.spelling.counts == {"zebra": 2} | dict.fromkeys(grown.vocabulary.words[4:], 1)
    assert grown.adaptation is None and general.adaptation is not None
    assert general.dynamics is not None and general.spelling.counts["dog"] == 3
    with pytest.raises(InputError, match="`dynamics` must be tuned for networks of these shapes"):
        LanguageModel(NPLM(9, 3, 2, 3), general.vocabulary, "words").dynamics = general.dynamics


def test_settings_in_a_file_belong_to_the_weights_that_were_tuned(tmp_path):
    general = _build()
    general.save(tmp_path / "model")
    assert LanguageModel.load(tmp_path / "model").dynamics.settings.chunk == 4
    general.model.compile("sgd")
    general.model.fit(np.full((4, 2), 4), np.full(4, 5), verbose=0)
    assert general.dynamics is None
    general.save(tmp_path / "trained")
    for name in ("dynamic.json", "dynamic.npz"):
        shutil.copy(tmp_path / "model" / name, tmp_path / "trained" / name)
    assert LanguageModel.load(tmp_path / "trained").dynamics is None
