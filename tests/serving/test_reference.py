"""The reference model: its SavedModel gives the figures of its model card and the numbers of the preset."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import LanguageModel, encode_sentences, evaluate, open_corpus
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.language_model.directory import read_config, read_metrics
from keras_nplm.language_model.presets import find_preset
from keras_nplm.training.configuration import train_command

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "saved_models" / "reference"
CARD = (DIRECTORY / "README.md").read_text(encoding="utf-8")


class _SavedModel:
    """The signature `log_prob_ids` as a language model."""

    order = 21

    def __init__(self, loaded):
        self.loaded = loaded

    def log_prob(self, context_ids, target_ids):
        function = self.loaded.signatures["log_prob_ids"]
        return function(context_ids=tf.constant(context_ids), target_ids=tf.constant(target_ids))["log_prob"].numpy()


def test_it_is_small():
    assert sum(path.stat().st_size for path in DIRECTORY.rglob("*") if path.is_file()) < 5e6


def test_it_predicts_the_next_words_of_the_readme():
    loaded = tf.saved_model.load(DIRECTORY / "1")
    answer = loaded.signatures["serving_default"](contexts=tf.constant(["This method is", "If the object is"]))
    words = [word.decode() for word in answer["words"][0].numpy()]
    assert "called" in words
    assert np.all(np.diff(answer["probabilities"], axis=1) <= 0)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_its_perplexity_is_that_of_the_record(split):
    loaded = tf.saved_model.load(DIRECTORY / "1")
    vocabulary = Vocabulary.load(DIRECTORY / "1" / "assets.extra" / "vocabulary.txt")
    corpus = open_corpus("python_reference")
    ids = encode_sentences(corpus.sentences(split), vocabulary)
    figures = evaluate(_SavedModel(loaded), ids, "sentence")
    recorded = read_metrics(find_preset("reference"))[split]
    row = f"| {split} | {recorded['perplexity']:.2f} | {recorded['perplexity_without_unk']:.2f} |"
    assert row in CARD
    if figures["tokens"] != recorded["tokens"]:
        pytest.skip("the language reference of this Python differs from the recorded edition")
    assert figures["perplexity"] == pytest.approx(recorded["perplexity"], rel=1e-4)


def test_the_card_has_the_training_command():
    (command,) = re.findall(r"^keras-nplm train .*$", CARD, re.MULTILINE)
    config = read_config(find_preset("reference"))
    assert command == f"{train_command(config)} --output runs/model"
    assert f'"epochs": {config["epochs"]}' in CARD


def test_it_gives_the_probabilities_of_the_preset():
    language_model = LanguageModel.from_preset("reference")
    answer = tf.saved_model.load(DIRECTORY / "1").signatures["serving_default"](contexts=tf.constant(["The value of"]))
    words, probabilities = zip(*language_model.next_words("The value of"), strict=True)
    assert [word.decode() for word in answer["words"][0].numpy()] == list(words)
    np.testing.assert_allclose(answer["probabilities"][0], probabilities, rtol=1e-4)
