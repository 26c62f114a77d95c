"""The model card: perplexities, training command, configuration, tokenizer."""

import json
import re

from keras_nplm import CONFIGURATIONS
from keras_nplm.serving.model_card import model_card

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
    card = model_card("small", language_model, {}, {}, metrics, 100)
    assert (
        "| test | 55.91 | 58.06 | 6,526 | 422 |" in card
        and "| validation | 3.00 | – | 2 | 2 |" in card
    )
    assert (
        "389,004 parameters" in card
        and "## Training" not in card
        and "from the 3 tokens before it." in card
    )

    options = CONFIGURATIONS["brown"].options.replace(hidden_units=12)
    config = json.loads(json.dumps(options.flatten())) | {
        "kind": "nplm",
        "corpus": "brown",
        "tokenizer": "words",
        "boundary": "stream",
    }
    card = model_card("small", language_model, {}, config, {}, 100)
    (command,) = re.findall(r"^keras-nplm train .*$", card, re.MULTILINE)
    assert "--corpus brown" in command and "--hidden-units 12" in command
    assert json.loads(re.search(r"```json\n(.*?)```", card, re.DOTALL)[1]) == config
    assert "Training data: `brown`, the Brown corpus" in card


def test_every_string_of_an_untrusted_model_is_within_code(language_model):
    text = "\n".join(UNTRUSTED)
    config = {
        "kind": text,
        "corpus": text,
        "tokenizer": text,
        "boundary": text,
        text: [text, {text: text}],
    }
    card = model_card("mine", language_model, {}, config, {}, 100)
    card.encode("utf-8")  # so that it can be written
    blocks = re.findall(r"^```(\w+)\n(.*?)\n```$", card, re.DOTALL | re.MULTILINE)
    assert json.loads(dict(blocks)["json"]) == config
    outside = re.sub(r"^```.*?^```$", "", card, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", outside)
    assert "evil" not in outside
    assert all(c.isprintable() or c == "\n" for c in card)
