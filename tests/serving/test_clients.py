"""The requests of the README and the model card have answers of the SavedModel."""

import json
import re
from pathlib import Path

import pytest
import tensorflow as tf

ROOT = Path(__file__).parents[2]
SERVED = ROOT / "saved_models" / "starter"


@pytest.mark.long
def test_the_rest_requests_have_answers():
    text = "".join(
        (directory / "README.md").read_text(encoding="utf-8") for directory in (ROOT, SERVED)
    )
    requests = re.findall(
        r"^curl -d '(.*)' http://localhost:8501/v1/models/starter:predict$", text, re.M
    )
    assert len(requests) == 2
    predict = tf.saved_model.load(SERVED / "1").signatures["serving_default"]
    for request in map(json.loads, requests):
        inputs = {key: tf.constant(value) for key, value in request["inputs"].items()}
        assert predict(**inputs)["words"].shape == (1, 10)
