"""The starter model: its SavedModel gives the figures of its model card and the numbers of the
preset, and answers the requests that are shown.
"""

import json
import re
from pathlib import Path

import pytest
import tensorflow as tf

from keras_nplm import LanguageModel
from keras_nplm.language_model.directory import read_config, read_metrics
from keras_nplm.language_model.presets import find_preset
from keras_nplm.training.configurations import train_command
from tests.serving.served import answer_request, check_served_words

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "saved_models" / "starter"
CARD = (DIRECTORY / "README.md").read_text(encoding="utf-8")


def test_the_card_has_the_training_command_and_the_figures():
    [command] = re.findall(r"^keras-nplm train .*$", CARD, re.MULTILINE)
    config = read_config(find_preset("starter"))
    assert command == f"{train_command(config)} --output runs/model"
    for split in ("validation", "test"):
        recorded = read_metrics(find_preset("starter"))[split]
        figures = [recorded[name] for name in ("perplexity", "perplexity_without_unk")]
        assert "| {} | {:.2f} | {:.2f} |".format(split, *figures) in CARD
    assert sum(path.stat().st_size for path in DIRECTORY.rglob("*") if path.is_file()) < 8e6


@pytest.mark.long
def test_it_answers_the_requests_of_the_readme_and_as_the_preset():
    loaded = tf.saved_model.load(DIRECTORY / "1")
    language_model = LanguageModel.from_preset("starter")
    check_served_words(loaded.signatures, language_model, ["The value of"], 10, ["predict_next"])
    text = (ROOT / "README.md").read_text(encoding="utf-8") + CARD
    address = "http://localhost:8501/v1/models/starter:predict"
    found = re.findall(rf"^curl -d '(.*)' {re.escape(address)}$", text, re.MULTILINE)
    requests = [*map(json.loads, found)]
    assert all(answer_request(loaded, request) for request in requests)
    names = {request.get("signature_name", "serving_default") for request in requests}
    assert names >= {"serving_default", "complete_prefix", "score"}
