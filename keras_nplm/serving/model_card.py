"""Model card of an exported model: model, training data, perplexity, configuration, serving,
signatures.
"""

import json

import tensorflow as tf

from keras_nplm.data.boundary import predicts_end
from keras_nplm.io.markdown import markdown_code, markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import format_perplexity
from keras_nplm.serving.signatures import DEFAULT_SIGNATURE, DOCUMENTATION
from keras_nplm.training.configurations import train_command

_CORPORA = {
    "python_reference": "the Python language reference distributed with CPython (PSF licence)",
    "brown": "the Brown corpus (non-commercial use), split as in the paper of Bengio et al.",
}


def model_card(
    name: str,
    language_model: LanguageModel,
    signatures: dict,
    config: dict,
    metrics: dict,
    max_text_length: int,
) -> str:
    """Return the model card in Markdown, with the contents of `config.json` and `metrics.json`, or
    `{}`.
    """
    sections = [
        f"# {name}\n\n{_describe_model(language_model, metrics)}",
        _describe_training_data(config),
        _format_perplexities(language_model, metrics),
        _format_configuration(config),
        _explain_requests(name, max_text_length),
        *(
            _describe_signature(signature, signatures[signature], max_text_length)
            for signature in signatures
        ),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _describe_model(language_model: LanguageModel, metrics: dict) -> str:
    model = language_model.model
    context = f"{model.order - 1} tokens" if model.order > 2 else "token"
    size = len(language_model.vocabulary)
    tokenizer = language_model.tokenizer
    sentences = [
        f"{model.description} of order {model.order}, exported by keras_nplm.",
        f"It predicts the next token from the {context} before it.",
        f"Probabilities are normalised over its vocabulary of {size:,} words; `<unk>` stands for "
        "any other word.",
        f"It has {metrics['parameters']:,} parameters." if "parameters" in metrics else "",
        tokenizer.describe(),
        *tokenizer.describe_steps(),
        "Each text is read as one sentence: it starts after `<s>` and ends with `</s>`."
        if predicts_end(language_model.boundary)
        else "Each text is read as a stream of tokens, without `<s>` and `</s>`.",
    ]
    return " ".join(filter(None, sentences))


def _describe_training_data(config: dict) -> str:
    if not config.get("corpus"):
        return ""
    name = str(config["corpus"])
    known = _CORPORA.get(name.partition("/")[0])
    corpus = markdown_code(name) + (f", {known}" if known else "")
    return (
        f"Training data: {corpus}. Expect a much higher perplexity on text from other domains. "
        "The model states no "
        "facts and makes no judgements: it only estimates which token is likely next."
    )


def _format_perplexities(language_model: LanguageModel, metrics: dict) -> str:
    splits = [split for split in ("validation", "test") if split in metrics]
    if not splits:
        return ""
    rows = [
        [
            split,
            *(
                format_perplexity(metrics[split].get(name))
                for name in ("perplexity", "perplexity_without_unk")
            ),
            *(f"{metrics[split][name]:,}" for name in ("tokens", "unk_tokens")),
        ]
        for split in splits
    ]
    header = [
        "split",
        "perplexity",
        "perplexity without `<unk>`",
        "tokens",
        "out-of-vocabulary tokens (`<unk>`)",
    ]
    tokens = "words and `</s>`" if predicts_end(language_model.boundary) else "words, not `</s>`"
    return (
        "## Perplexity\n\nPer token, exactly normalised. "
        "Tokens: "
        f"{tokens}.\n\n{markdown_table(header, rows)}"
    )


def _format_configuration(config: dict) -> str:
    if not config:
        return ""
    command = train_command(config)
    block = f"```bash\n{command} --output runs/model\n```\n\n" if command else ""
    shown = json.dumps(config, indent=2, ensure_ascii=False)
    shown = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in shown)
    return f"## Training\n\n{block}```json\n{shown}\n```"


def _explain_requests(name: str, max_text_length: int) -> str:
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
```

## Requests

```bash
curl -d '{{"inputs": {{"contexts": ["the first words of"]}}}}' http://localhost:8501/v1/models/{name}:predict
```

Select a signature with `"signature_name"` in the request. The default, `serving_default`, is `{DEFAULT_SIGNATURE}`. B
is any batch size, and the result of a row does not depend on other rows. Text is UTF-8; invalid bytes are read as
U+FFFD. A request with a wrong dtype or shape fails, together with the other requests in its server-side batch. A text
beyond the limit of {max_text_length:,} bytes has the result NaN, and the other rows keep theirs. The limit is an option
of the export, `--max-text-length`."""


def _describe_signature(
    name: str, function: tf.types.experimental.PolymorphicFunction, max_text_length: int
) -> str:
    documented = {
        key: text.format(max_text_length=max_text_length)
        for key, text in DOCUMENTATION[name].items()
    }
    tensors = [("input", spec.name, spec) for spec in function.input_signature]
    outputs = function.get_concrete_function().structured_outputs
    tensors += [("output", key, spec) for key, spec in sorted(outputs.items())]
    types = [
        f"{spec.dtype.name} [{', '.join(str(size or 'B') for size in spec.shape)}]"
        for *_, spec in tensors
    ]
    rows = [
        [kind, f"`{key}`", type, documented[key]]
        for (kind, key, _), type in zip(tensors, types, strict=True)
    ]
    return f"### `{name}`\n\n{documented['']}\n\n{markdown_table(['', 'name', 'type', 'description'], rows)}"
