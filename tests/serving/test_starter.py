"""The starter model: its SavedModel gives the figures of its model card and the numbers of the
preset.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import LanguageModel
from keras_nplm.language_model.directory import read_config, read_metrics
from keras_nplm.language_model.presets import find_preset
from keras_nplm.training.configurations import train_command

DIRECTORY = Path(__file__).parents[2] / "saved_models" / "starter"
CARD = (DIRECTORY / "README.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_it_has_the_figures_of_its_card_and_the_probabilities_of_the_preset():
    assert sum(path.stat().st_size for path in DIRECTORY.rglob("*") if path.is_file()) < 8e6
    loaded = tf.saved_model.load(DIRECTORY / "1")
    language_model = LanguageModel.from_preset("starter")
    answer = loaded.signatures["serving_default"](contexts=tf.constant(["The value of"]))
    words, probabilities = zip(*language_model.next_words("The value of"), strict=True)
    assert [word.decode() for word in answer["words"][0].numpy()] == list(words)
    np.testing.assert_allclose(answer["probabilities"][0], probabilities, rtol=1e-4)
    for split in ("validation", "test"):
        recorded = read_metrics(find_preset("starter"))[split]
        assert (
            f"| {split} | {recorded['perplexity']:.2f} | {recorded['perplexity_without_unk']:.2f} |"
            in CARD
        )


def test_the_card_has_the_training_command():
    (command,) = re.findall(r"^keras-nplm train .*$", CARD, re.MULTILINE)
    config = read_config(find_preset("starter"))
    assert command == f"{train_command(config)} --output runs/model"
