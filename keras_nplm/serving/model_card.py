"""Model card of an exported model: purpose, model, training data, perplexity, configuration, serving,
requests, signatures.
"""

import json
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.io.markdown import markdown_code, markdown_table
from keras_nplm.language_model.description import describe, list_properties
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import format_perplexity
from keras_nplm.serving.signatures import DEFAULT_SIGNATURE, FUNCTIONS
from keras_nplm.training.configurations import train_command

_REST = "http://localhost:8501/v1/models"


def model_card(
    name: str,
    language_model: LanguageModel,
    signatures: Mapping[str, tf.types.experimental.PolymorphicFunction],
    examples: Mapping[str, list[Any]],
    config: Mapping[str, Any],
    metrics: Mapping[str, Any],
    max_text_length: int,
) -> str:
    """Return the model card in Markdown.

    Args:
        name: the name of the served model.
        language_model: the model.
        signatures: the served functions, as `ServingModule.signatures` returns them.
        examples: an example of each input, by its name, as `build_examples` returns them.
        config, metrics: contents of `config.json` and `metrics.json`, or empty.
        max_text_length: limit of a text in bytes.
    """
    sections = [
        f"# {name}\n\n{_describe_purpose(name, language_model)}",
        _list_properties(language_model, config, metrics),
        _format_perplexities(language_model, metrics),
        _format_configuration(config),
        _explain_serving(name),
        _explain_requests(name, max_text_length, examples),
    ]
    for signature_name, function in signatures.items():
        sections.append(_describe_signature(signature_name, function, max_text_length))
        sections.append(_format_request(name, signature_name, function, examples))
    return "\n\n".join(filter(None, sections)) + "\n"


def _describe_purpose(name: str, language_model: LanguageModel) -> str:
    tokenizer = language_model.tokenizer
    has_words = tokenizer.tokens_are_words or tokenizer.searches_words
    units = "words" if has_words else "characters"
    return (
        f"`{name}` proposes the next {units} of a text, completes the word that is being typed, and "
        "scores texts: a more likely text has a higher `log_prob`. "
        "Use it for a keyboard or a search box, or to choose among the results of a speech "
        "recogniser or a spelling corrector. It is made for text like its training data: expect a "
        "much higher perplexity on text from other domains. It states no facts and makes no "
        "judgements: it only estimates which token is likely next."
    )


def _list_properties(
    language_model: LanguageModel, config: Mapping[str, Any], metrics: Mapping[str, Any]
) -> str:
    facts = describe(language_model, config=config, metrics=metrics)
    properties = list_properties(facts, quote=markdown_code)
    properties.pop("Perplexity", None)  # a table has it
    return "\n".join(f"- {name}: {text}" for name, text in properties.items())


def _format_perplexities(language_model: LanguageModel, metrics: Mapping[str, Any]) -> str:
    rows = []
    for split in filter(metrics.__contains__, HELD_OUT):
        figures = metrics[split]
        names = ("perplexity", "perplexity_without_unk")
        perplexities = [format_perplexity(figures.get(name)) for name in names]
        counts = [f"{figures[name]:,}" for name in ("tokens", "unk_tokens")]
        rows.append([split, *perplexities, *counts])
    if not rows:
        return ""
    header = ["split", "perplexity", "perplexity without `<unk>`", "tokens"]
    table = markdown_table([*header, "out-of-vocabulary tokens (`<unk>`)"], rows)
    tokens = "words and `</s>`" if predicts_end(language_model.boundary) else "words, not `</s>`"
    return f"## Perplexity\n\nPer token, exactly normalised. Tokens: {tokens}.\n\n{table}"


def _format_configuration(config: Mapping[str, Any]) -> str:
    if not config:
        return ""
    command = train_command(config)
    block = f"```bash\n{command} --output runs/model\n```\n\n" if command else ""
    content = json.dumps(config, indent=2, ensure_ascii=False)
    # as escapes: a name may hold control characters
    printable = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in content)
    return f"## Training\n\n{block}```json\n{printable}\n```"


def _explain_serving(name: str) -> str:
    return f"""## Serving

TF Serving watches this directory and serves the newest version. Each `<version>/` is a SavedModel. To start
the server with Docker, run in this directory:

```bash
docker compose up
```

To start an installed server, with this directory at `/models/{name}`:

```bash
tensorflow_model_server --port=8500 --rest_api_port=8501 --model_config_file=/models/{name}/models.config \\
  --enable_batching --batching_parameters_file=/models/{name}/batching.config \\
  --monitoring_config_file=/models/{name}/monitoring.config
```"""


def _explain_requests(name: str, max_text_length: int, examples: Mapping[str, list]) -> str:
    contexts = json.dumps(examples["contexts"], ensure_ascii=False)
    return f"""## Requests

From the machine of the server, in a shell:

```bash
curl -d '{{"inputs": {{"contexts": {contexts}}}}}' {_REST}/{name}:predict
```

In Python:

```python
import json
import urllib.request

request = json.dumps({{"inputs": {{"contexts": {contexts}}}}})
with urllib.request.urlopen("{_REST}/{name}:predict", request.encode()) as response:
    answer = json.load(response)["outputs"]
print(*zip(answer["words"][0], answer["probabilities"][0]))
```

In Python without a server, in this directory:

```python
from pathlib import Path
import tensorflow as tf

newest = max(Path().glob("[1-9]*"), key=lambda version: int(version.name))
model = tf.saved_model.load(newest)
answer = model.signatures["{DEFAULT_SIGNATURE}"](contexts=tf.constant({contexts}))
for word, probability in zip(answer["words"][0].numpy(), answer["probabilities"][0].numpy()):
    print(word.decode(), probability)
```

Select a signature with `"signature_name"` in the request. The default, `serving_default`, is `{DEFAULT_SIGNATURE}`. B
is any batch size, and the result of a row does not depend on other rows. Text is UTF-8; invalid bytes are read as
U+FFFD. A request with a wrong dtype or shape fails, together with the other requests in its server-side batch. A text
beyond the limit of {max_text_length:,} bytes has the result NaN, and the other rows keep theirs. The limit is an option
of the export, `--max-text-length`."""


def _format_request(
    name: str,
    signature_name: str,
    function: tf.types.experimental.PolymorphicFunction,
    examples: Mapping[str, list],
) -> str:
    """Return a request of a signature, as a command of a shell."""
    inputs = {spec.name: examples[spec.name] for spec in function.input_signature}
    request = {"signature_name": signature_name, "inputs": inputs}
    body = json.dumps(request, ensure_ascii=False)
    return f"```bash\ncurl -d '{body}' {_REST}/{name}:predict\n```"


def _describe_signature(
    signature_name: str,
    function: tf.types.experimental.PolymorphicFunction,
    max_text_length: int,
) -> str:
    documented = {served.signature_name: served for served in FUNCTIONS}[signature_name]
    rows = []
    for spec in function.input_signature:
        text = documented.inputs[spec.name].format(max_text_length=max_text_length)
        rows.append(["input", f"`{spec.name}`", _describe_type(spec), text])
    outputs = function.get_concrete_function().structured_outputs
    for name, spec in sorted(outputs.items()):
        text = documented.outputs[name].format(max_text_length=max_text_length)
        rows.append(["output", f"`{name}`", _describe_type(spec), text])
    table = markdown_table(["", "name", "type", "description"], rows)
    return f"### `{signature_name}`\n\n{documented.description}\n\n{table}"


def _describe_type(spec: tf.TensorSpec) -> str:
    """Return the dtype and shape, such as `int32 [B, 3]`; B is the size of a batch."""
    sizes = ", ".join(str(size or "B") for size in spec.shape)
    return f"{spec.dtype.name} [{sizes}]"
