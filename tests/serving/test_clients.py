"""The client of the README prints words, with the transport replaced by the SavedModel itself."""

import io
import json
import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

ROOT = Path(__file__).parents[2]
SERVED = ROOT / "saved_models" / "reference"
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
[PROGRAM] = [block for block in re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.M) if "localhost" in block]


@pytest.mark.long
def test_the_rest_client_prints_words(monkeypatch, capsys):
    predict = tf.saved_model.load(SERVED / "1").signatures["predict_next"]

    def answer(texts):
        return np.char.decode(predict(contexts=tf.constant(texts))["words"].numpy().astype("S")).tolist()

    def open_url(url, data):
        assert url == "http://localhost:8501/v1/models/reference:predict"
        request = json.loads(data)
        assert request["signature_name"] == "predict_next"
        return io.BytesIO(json.dumps({"outputs": {"words": answer(request["inputs"]["contexts"])}}).encode())

    monkeypatch.setattr(urllib.request, "urlopen", open_url)
    exec(PROGRAM, {})
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert printed == answer(["The value of the", "If the object"])
