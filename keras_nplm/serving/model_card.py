"""The model card of an exported model: what it is, what it was trained on, how good it is, how to serve and ask it."""

import json

from keras_nplm.data.tokenizers import CHARACTERS, NUMBER, SPACE, name_parts
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.directory import kind_of
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import shown_perplexity
from keras_nplm.serving.signatures import DEFAULT, DOCUMENTATION
from keras_nplm.training.configuration import train_command

_KINDS = {
    "nplm": "A neural probabilistic language model (Bengio, Ducharme, Vincent & Jauvin 2003)",
    "back-off": "An n-gram model in back-off form",
    "deleted-interpolation": "An n-gram model by deleted interpolation",
    "class-based": "A class-based n-gram model",
    "uniform": "The uniform distribution",
    "mixture": "A mixture of language models",
    "shortlist": "A neural probabilistic language model with a short-list (Schwenk 2007), an n-gram model for the rest",
}
_CORPORA = {
    "python_reference": "the Python language reference, as CPython carries it (PSF licence)",
    "brown": "the Brown corpus (non-commercial use), split as in the paper",
}
_TOKENS = {
    "words": "runs of letters, digits and `_`, with single apostrophes and hyphens within, and other marks singly",
    "whitespace": "what white space separates",
    CHARACTERS: f"single characters, white space being `{SPACE}`",
}
_STEPS = {
    "lower": "upper case is read as lower",
    "numbers": f"tokens with digits and no letter are read as `{NUMBER}`",
    "lemmas": "the forms in `forms.tsv` are read as the words beside them",
}


def model_card(name: str, language_model: LanguageModel, signatures: dict, config: dict, metrics: dict) -> str:
    """The card, in Markdown.

    Args:
        name: what the model is served as.
        language_model: the model.
        signatures: the functions that it is served with.
        config: what `config.json` of the model directory holds, as far as there is one.
        metrics: what `metrics.json` holds.
    """
    sections = [
        f"# {name}\n\n{_what(language_model, config, metrics)}",
        _figures(language_model, metrics),
        _making(config),
        _serving(name),
        _asking(name, signatures),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _what(language_model: LanguageModel, config: dict, metrics: dict) -> str:
    model = language_model.model
    before = f"{model.order - 1} words" if model.order > 2 else "word"
    size = len(language_model.vocabulary)
    facts = [
        f"{_KINDS[kind_of(model)]} of order {model.order}, exported by keras_nplm.",
        f"It gives P(w | the {before} before w), normalised over its vocabulary of {size:,} words, of which `<unk>` "
        "stands for all others.",
        f"It has {metrics['parameters']:,} parameters." if "parameters" in metrics else "",
        _words(language_model.tokenizer_name),
        "It takes a text for one sentence, which begins after `<s>` and ends with `</s>`."
        if language_model.boundary == "sentence"
        else "It takes a text for a piece of a running stream, without sentence ends.",
    ]
    if not config.get("corpus"):
        return " ".join(filter(None, facts))
    name = config["corpus"]
    data = f"`{name}`, {known}" if (known := _CORPORA.get(name.partition("/")[0])) else f"`{name}`"
    trained = f"It was trained on {data}. It knows nothing else: expect little of it on other text, and no judgement."
    return f"{' '.join(filter(None, facts))}\n\n{trained}"


def _words(tokenizer_name: str) -> str:
    base, steps = name_parts(tokenizer_name)
    done = [_STEPS[step] for step in steps] + (["case counts"] if "lower" not in steps else [])
    return f"Words are {_TOKENS[base]}; {', '.join(done)}."


def _figures(language_model: LanguageModel, metrics: dict) -> str:
    splits = [split for split in ("validation", "test") if split in metrics]
    if not splits:
        return ""
    rows = [
        [
            split,
            *(shown_perplexity(metrics[split].get(name)) for name in ("perplexity", "perplexity_without_unk")),
            *(f"{metrics[split][name]:,}" for name in ("tokens", "unk_tokens")),
        ]
        for split in splits
    ]
    table = markdown_table(["split", "perplexity", "without `<unk>`", "tokens", "`<unk>` among them"], rows)
    counted = "words and `</s>`" if language_model.boundary == "sentence" else "words, without sentence ends"
    return f"## Figures\n\nExact, over {counted}:\n\n{table}"


def _making(config: dict) -> str:
    if not config:
        return ""
    command = train_command(config)
    made = f"```bash\n{command} --output runs/model\n```\n\n" if command else ""
    return f"## How it was made\n\n{made}```json\n{json.dumps(config, indent=2, ensure_ascii=False)}\n```"


def _serving(name: str) -> str:
    return f"""## Serve it

This directory is what TF Serving watches: `<version>/` are SavedModels, the newest is served, and warm-up requests lie
in each. In this directory:

```bash
docker compose up
```

or, where the server is installed and the directory is `/models/{name}`:

```bash
tensorflow_model_server --port=8500 --rest_api_port=8501 --model_config_file=/models/{name}/models.config \\
  --enable_batching --batching_parameters_file=/models/{name}/batching.config \\
  --monitoring_config_file=/models/{name}/monitoring.config
```"""


def _asking(name: str, signatures: dict) -> str:
    sections = [
        f"""## Ask it

```bash
curl -d '{{"inputs": {{"contexts": ["the first words of"]}}}}' http://localhost:8501/v1/models/{name}:predict
```

The signatures (`"signature_name"` in a request); `serving_default` is `{DEFAULT}`. B is any number, and no row's
answer depends on the others. Text is UTF-8; bytes that are not become U+FFFD."""
    ]
    for signature, function in signatures.items():
        documented = DOCUMENTATION[signature]
        tensors = [("input", spec.name, spec) for spec in function.input_signature]
        outputs = function.get_concrete_function().structured_outputs
        tensors += [("output", name, spec) for name, spec in sorted(outputs.items())]
        rows = [[kind, f"`{name}`", _type(spec), documented[name]] for kind, name, spec in tensors]
        table = markdown_table(["", "name", "type", "what"], rows)
        sections.append(f"### `{signature}`\n\n{documented['']}\n\n{table}")
    return "\n\n".join(sections)


def _type(spec) -> str:
    return f"{spec.dtype.name} [{', '.join(str(size or 'B') for size in spec.shape)}]"
