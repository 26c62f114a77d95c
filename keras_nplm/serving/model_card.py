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
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import format_perplexity
from keras_nplm.serving.signatures import DEFAULT_SIGNATURE, FUNCTIONS
from keras_nplm.training.configurations import train_command

_REST = "http://localhost:8501/v1/models"
# descriptions of known texts, by their name in config.json
CORPORA = {
    "python_reference": "the Python language reference distributed with CPython (PSF licence)",
    "brown": "the Brown corpus (non-commercial use), split as in the paper of Bengio et al.",
}


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
        _describe_training_data(config),
        _describe_model(language_model, metrics),
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
        "recogniser or a spelling corrector. It is made for text like its training data."
    )


def _describe_model(language_model: LanguageModel, metrics: Mapping[str, Any]) -> str:
    model = language_model.model
    tokenizer = language_model.tokenizer
    context = f"{model.order - 1} tokens" if model.order > 2 else "token"
    sentences = [
        f"{model.description} of order {model.order}, exported by keras_nplm.",
        f"It predicts the next token from the {context} before it.",
        f"Probabilities are normalised over its vocabulary of {model.vocabulary_size:,} words; "
        "`<unk>` stands for any other word.",
    ]
    if "parameters" in metrics:
        sentences.append(f"It has {metrics['parameters']:,} parameters.")
    sentences.append(tokenizer.describe())
    sentences += tokenizer.describe_steps()
    if predicts_end(language_model.boundary):
        sentences.append(
            "Each text is read as one sentence: it starts after `<s>` and ends with `</s>`."
        )
    else:
        sentences.append("Each text is read as a stream of tokens, without `<s>` and `</s>`.")
    return " ".join(filter(None, sentences))


def _describe_training_data(config: Mapping[str, Any]) -> str:
    if not config.get("corpus"):
        return ""
    name = str(config["corpus"])
    corpus = markdown_code(name)
    known = CORPORA.get(name.partition("/")[0])
    if known:
        corpus = f"{corpus}, {known}"
    return (
        f"Training data: {corpus}. Expect a much higher perplexity on text from other domains. "
        "The model states no facts and makes no judgements: it only estimates which token is "
        "likely next."
    )


def _format_perplexities(language_model: LanguageModel, metrics: Mapping[str, Any]) -> str:
    rows = []
    for split in HELD_OUT:
        if split in metrics:
            figures = metrics[split]
            rows.append(
                [
                    split,
                    format_perplexity(figures.get("perplexity")),
                    format_perplexity(figures.get("perplexity_without_unk")),
                    f"{figures['tokens']:,}",
                    f"{figures['unk_tokens']:,}",
                ]
            )
    if not rows:
        return ""
    header = [
        "split",
        "perplexity",
        "perplexity without `<unk>`",
        "tokens",
        "out-of-vocabulary tokens (`<unk>`)",
    ]
    tokens = "words and `</s>`" if predicts_end(language_model.boundary) else "words, not `</s>`"
    return (
        "## Perplexity\n\n"
        f"Per token, exactly normalised. Tokens: {tokens}.\n\n"
        f"{markdown_table(header, rows)}"
    )


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
