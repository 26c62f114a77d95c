"""The model card: perplexities, training command, configuration, requests."""

import io
import json
import re
import urllib.request

import pytest
import tensorflow as tf

from keras_nplm import CONFIGURATIONS, LanguageModel
from keras_nplm.language_model.description import describe, list_properties
from keras_nplm.serving.model_card import model_card
from tests.language_models import VOCABULARY
from tests.serving.served import answer_request
from tests.serving.served_models import build_model

UNTRUSTED = """evil`
# evil
```
<script>evil()</script>
~~~
[evil](http://evil.example) ![evil](evil) a | evil | <img src=x onerror=evil()> &lt;
=cmd|' /C evil'!A0 \x1b]0;evil\x07\x9b31m\u202eevil\ud800
evil```evil``evil` `evil"""


def write_card(language_model, config, metrics):
    return model_card("small", language_model, {}, {"contexts": ["the"]}, config, metrics, 100)


def read_config(card):
    blocks = re.findall(r"^```(\w+)\n(.*?)\n```$", card, re.DOTALL | re.MULTILINE)
    return json.loads(dict(blocks)["json"])


def test_the_card_has_perplexities_and_the_configuration(language_model):
    tokens = {"perplexity_without_unk": 58.06, "tokens": 6526, "unk_tokens": 422}
    none = {"perplexity": 3.0, "perplexity_without_unk": None, "tokens": 2, "unk_tokens": 2}
    metrics = {"test": {"perplexity": 55.914, **tokens}, "validation": none, "parameters": 389_004}
    options = CONFIGURATIONS["brown"].options.replace(hidden_units=12)
    text = {"kind": "nplm", "corpus": "brown", "tokenizer": "words", "boundary": "stream"}
    config = json.loads(json.dumps(options.flatten())) | text
    card = write_card(language_model, config, metrics)
    for shown in (
        "| test | 55.91 | 58.06 | 6,526 | 422 |",
        "| validation | 3.00 | – | 2 | 2 |",
        "- Parameters: 389,004\n",
        "- Context: the last 3 tokens of the line\n",
        "- Trained on: the Brown corpus",
    ):
        assert shown in card
    [command] = re.findall(r"^keras-nplm train .*$", card, re.MULTILINE)
    assert "--corpus brown" in command and "--hidden-units 12" in command
    assert read_config(card) == config


def test_every_string_of_an_untrusted_model_is_within_code(language_model):
    config = dict.fromkeys(("kind", "corpus", "tokenizer", "boundary"), UNTRUSTED)
    config[UNTRUSTED] = [UNTRUSTED, {UNTRUSTED: UNTRUSTED}]
    card = write_card(language_model, config, {})
    card.encode("utf-8")  # so that it can be written
    assert read_config(card) == config
    outside = re.sub(r"^```.*?^```$", "", card, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", outside)
    assert "evil" not in outside
    assert all(c.isprintable() or c == "\n" for c in card)


def test_the_requests_of_the_card_fit_the_signatures(exported, loaded):
    card = (exported.parent / "README.md").read_text(encoding="utf-8")
    address = "http://localhost:8501/v1/models/small:predict"
    requests = re.findall(rf"^curl -d '(.*)' {re.escape(address)}$", card, re.MULTILINE)
    assert len(requests) == card.count("curl") == 7
    names = set()
    for request in map(json.loads, requests):
        names.add(request.get("signature_name", "serving_default"))
        for name, tensor in answer_request(loaded, request).items():
            assert name == "tokens" or len(tensor) == 1
            assert not tensor.dtype.is_floating or tf.reduce_all(tf.math.is_finite(tensor))
    assert names == {*loaded.signatures}


@pytest.mark.long
def test_the_python_requests_of_the_card_run(exported, language_model, loaded, monkeypatch, capsys):
    card = (exported.parent / "README.md").read_text(encoding="utf-8")

    def answer_rest(url, data):
        assert url == "http://localhost:8501/v1/models/small:predict"
        outputs = {}
        for name, tensor in answer_request(loaded, json.loads(data)).items():
            outputs[name] = tensor.numpy().tolist()
        outputs["words"] = [[word.decode() for word in row] for row in outputs["words"]]
        return io.StringIO(json.dumps({"outputs": outputs}))

    monkeypatch.setattr(urllib.request, "urlopen", answer_rest)
    monkeypatch.chdir(exported.parent)
    over_rest, without_server = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    [context] = json.loads(re.search(r"tf.constant\((.*)\)\)", without_server)[1])
    words = [word for word, _ in language_model.next_words(context, 5)]
    exec(over_rest, {})
    assert re.findall(r"'(.*?)'", capsys.readouterr().out) == words
    exec(without_server, {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == words


def test_a_mixture_by_frequency_has_no_weights_among_its_properties():
    language_model = LanguageModel(build_model("by frequency"), VOCABULARY, "words")
    parts = list_properties(describe(language_model))["Mixture of"]
    assert "; an n-gram model in back-off form; " in parts and "%" not in parts
