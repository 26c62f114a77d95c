"""The model card: purpose, perplexities, training command, configuration, requests."""

import io
import json
import re
import urllib.request

import pytest
import tensorflow as tf

from keras_nplm import CONFIGURATIONS
from keras_nplm.serving.model_card import model_card

EXAMPLES = {"contexts": ["the value of"]}
UNTRUSTED = [
    "evil`\n# evil\n```\n<script>evil()</script>\n~~~",
    "[evil](http://evil.example) ![evil](evil) a | evil | <img src=x onerror=evil()> &lt;",
    "=cmd|' /C evil'!A0 \x1b]0;evil\x07\x9b31m\u202eevil\ud800",
    "evil```evil``evil` `evil",
]


def test_the_card_has_perplexities_and_the_configuration(language_model):
    metrics = {
        "perplexity": 55.914,
        "perplexity_without_unk": 58.06,
        "tokens": 6526,
        "unk_tokens": 422,
    }
    none = {"perplexity": 3.0, "perplexity_without_unk": None, "tokens": 2, "unk_tokens": 2}
    metrics = {"test": metrics, "validation": none, "parameters": 389_004}
    card = model_card("small", language_model, {}, EXAMPLES, {}, metrics, 100)
    assert (
        "| test | 55.91 | 58.06 | 6,526 | 422 |" in card
        and "| validation | 3.00 | – | 2 | 2 |" in card
    )
    assert (
        "- Parameters: 389,004\n" in card
        and "## Training" not in card
        and "- Context: the last 3 tokens of the line\n" in card
    )

    options = CONFIGURATIONS["brown"].options.replace(hidden_units=12)
    config = json.loads(json.dumps(options.flatten())) | {
        "kind": "nplm",
        "corpus": "brown",
        "tokenizer": "words",
        "boundary": "stream",
    }
    card = model_card("small", language_model, {}, EXAMPLES, config, {}, 100)
    (command,) = re.findall(r"^keras-nplm train .*$", card, re.MULTILINE)
    assert "--corpus brown" in command and "--hidden-units 12" in command
    assert json.loads(re.search(r"```json\n(.*?)```", card, re.DOTALL)[1]) == config
    assert "- Trained on: the Brown corpus" in card


def test_every_string_of_an_untrusted_model_is_within_code(language_model):
    text = "\n".join(UNTRUSTED)
    config = {
        "kind": text,
        "corpus": text,
        "tokenizer": text,
        "boundary": text,
        text: [text, {text: text}],
    }
    card = model_card("mine", language_model, {}, EXAMPLES, config, {}, 100)
    card.encode("utf-8")  # so that it can be written
    blocks = re.findall(r"^```(\w+)\n(.*?)\n```$", card, re.DOTALL | re.MULTILINE)
    assert json.loads(dict(blocks)["json"]) == config
    outside = re.sub(r"^```.*?^```$", "", card, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", outside)
    assert "evil" not in outside
    assert all(c.isprintable() or c == "\n" for c in card)


@pytest.fixture
def card(exported):
    return (exported.parent / "README.md").read_text(encoding="utf-8")


def _answer(loaded, request):
    """Answer a REST request as TF Serving does."""
    signature = loaded.signatures[request.get("signature_name", "serving_default")]
    _, specs = signature.structured_input_signature
    assert specs.keys() == request["inputs"].keys()
    inputs = {}
    for name, spec in specs.items():
        inputs[name] = tf.constant(request["inputs"][name], spec.dtype)
        assert spec.shape.is_compatible_with(inputs[name].shape)
    return signature(**inputs)


def test_the_card_begins_with_what_the_model_is_for(card):
    title, purpose, *_ = card.split("\n\n")
    assert title == "# small"
    assert purpose.startswith("`small` proposes the next words of a text, completes the word")


def test_the_requests_of_the_card_fit_the_signatures(card, loaded):
    address = "http://localhost:8501/v1/models/small:predict"
    requests = re.findall(rf"^curl -d '(.*)' {re.escape(address)}$", card, re.MULTILINE)
    assert len(requests) == card.count("curl") == 7
    names = set()
    for text in requests:
        request = json.loads(text)
        names.add(request.get("signature_name", "serving_default"))
        for name, tensor in _answer(loaded, request).items():
            assert name == "tokens" or len(tensor) == 1
            if tensor.dtype.is_floating:
                assert tf.reduce_all(tf.math.is_finite(tensor))
    assert names == {*loaded.signatures}


@pytest.mark.long
def test_the_python_requests_of_the_card_run(predicting, language_model, monkeypatch, capsys):
    card = (predicting.parent / "README.md").read_text(encoding="utf-8")
    loaded = tf.saved_model.load(predicting)

    def answer_rest(url, data):
        assert url == "http://localhost:8501/v1/models/small:predict"
        outputs = {}
        for name, tensor in _answer(loaded, json.loads(data)).items():
            outputs[name] = tensor.numpy().tolist()
        outputs["words"] = [[word.decode() for word in row] for row in outputs["words"]]
        return io.StringIO(json.dumps({"outputs": outputs}))

    monkeypatch.setattr(urllib.request, "urlopen", answer_rest)
    monkeypatch.chdir(predicting.parent)
    over_rest, without_server = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    (context,) = json.loads(re.search(r"tf.constant\((.*)\)\)", without_server)[1])
    words = [word for word, _ in language_model.next_words(context, 5)]
    exec(over_rest, {})
    assert re.findall(r"'(.*?)'", capsys.readouterr().out) == words
    exec(without_server, {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == words
