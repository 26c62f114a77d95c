"""The starter model: its SavedModel gives the figures of its model card and the numbers of the
preset, and answers the requests that are shown.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import LanguageModel
from keras_nplm.language_model.directory import read_config, read_metrics
from keras_nplm.language_model.presets import find_preset
from keras_nplm.training.configurations import train_command

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "saved_models" / "starter"
CARD = (DIRECTORY / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def loaded():
    """The SavedModel."""
    return tf.saved_model.load(DIRECTORY / "1")


@pytest.mark.long
def test_it_has_the_figures_of_its_card_and_the_probabilities_of_the_preset(loaded):
    assert sum(path.stat().st_size for path in DIRECTORY.rglob("*") if path.is_file()) < 8e6
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


@pytest.mark.long
def test_the_requests_of_the_readme_and_the_card_have_answers(loaded):
    text = (ROOT / "README.md").read_text(encoding="utf-8") + CARD
    requests = re.findall(
        r"^curl -d '(.*)' http://localhost:8501/v1/models/starter:predict$", text, re.M
    )
    asked = set()
    for request in map(json.loads, requests):
        name = request.get("signature_name", "serving_default")
        answer = loaded.signatures[name]
        dtypes = {key: spec.dtype for key, spec in answer.structured_input_signature[1].items()}
        inputs = {key: tf.constant(value, dtypes[key]) for key, value in request["inputs"].items()}
        assert answer(**inputs)
        asked.add(name)
    assert asked >= {"serving_default", "complete_prefix", "score"}
