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
    signatures = tf.saved_model.load(SERVED / "1").signatures
    asked = set()
    for request in map(json.loads, requests):
        name = request.get("signature_name", "serving_default")
        answer = signatures[name]
        dtypes = {key: spec.dtype for key, spec in answer.structured_input_signature[1].items()}
        inputs = {key: tf.constant(value, dtypes[key]) for key, value in request["inputs"].items()}
        assert answer(**inputs)
        asked.add(name)
    assert asked >= {"serving_default", "complete_prefix", "score"}
