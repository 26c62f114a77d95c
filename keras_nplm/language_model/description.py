"""What a model is: facts for programs beside exported files, and properties for people, as model
cards, pages and reports show them.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras_nplm
from keras_nplm.data.boundary import crosses_sentences, padding_id
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.ids import EOS_ID, SPECIALS, UNK_ID
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import Network, NextWordModel
from keras_nplm.models.evaluation import format_perplexity
from keras_nplm.models.mixture import Mixture
from keras_nplm.models.ngrams import NgramModel

# descriptions of known texts, by their name in config.json
_CORPORA = {
    "python_reference": "the Python language reference distributed with CPython (PSF licence)",
    "brown": "the Brown corpus (non-commercial use), split as in the paper of Bengio et al.",
}
# what users call the kinds of models, `components` in metrics.json
TITLES = {
    "nplm": "network",
    "keras": "Keras model",
    "hybrid": "network with an n-gram model inside",
    "shortlist": "network of a short-list",
    "back-off": "n-gram model",
    "deleted-interpolation": "deleted interpolation",
    "class-based": "class-based model",
    "unigram-cache": "unigram cache",
    "ngram-cache": "n-gram cache",
    "continuous-cache": "continuous cache",
    "uniform": "uniform distribution",
    "mixture": "mixture",
}


def describe(
    language_model: LanguageModel,
    part: NextWordModel | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the facts of a model: its kind, perplexity, context, vocabulary and tokenizer.

    Args:
        language_model: the model.
        part: the part of it that is described, such as the network of a mixture. Default: all.
        config, metrics: contents of `config.json` and `metrics.json`, for the text and figures.

    Example:

    >>> language_model = LanguageModel.from_preset("starter")
    >>> facts = describe(language_model, config={"corpus": "python_reference"})
    >>> facts["context_length"], facts["components"]
    (20, ['nplm', 'back-off'])
    >>> list_properties(facts)["Trained on"]
    'the Python language reference distributed with CPython (PSF licence)'
    """
    config = config or {}
    metrics = metrics or {}
    whole = language_model.model
    model = whole if part is None else part
    content = type(model).__name__.lower()  # such as "shortlist"
    if isinstance(model, Network):
        content = "network"
    elif isinstance(model, NgramModel):
        content = "n-grams"
    facts: dict[str, Any] = {
        "created_by": f"keras_nplm {keras_nplm.__version__}",
        "description": f"{model.description} of order {model.order}",
        "content": content,
        "perplexity": find_perplexities(language_model, model, metrics),
    }
    if isinstance(model, Mixture):
        facts["mixture"] = _describe_parts(model)
        facts |= model.compute_figures()
    if model is not whole:
        facts["description"] += ", without the other models of its mixture"
        facts["perplexity_of_mixture"] = find_perplexities(language_model, whole, metrics)
    if config.get("corpus"):
        facts["corpus"] = str(config["corpus"])
    if "parameters" in metrics:
        facts["parameters"] = metrics["parameters"]
    return facts | describe_codec(language_model.codec, model.order)


def describe_codec(codec: TextCodec, order: int) -> dict[str, Any]:
    """Return what a program must know to turn a text into a context of ids."""
    tokenizer = codec.tokenizer
    sentences = [tokenizer.describe(), *tokenizer.describe_steps(), "Text is read in NFC."]
    return {
        "context_length": order - 1,
        "padding_id": padding_id(codec.boundary),
        "unknown_id": UNK_ID,
        "end_of_sentence_id": EOS_ID if codec.predicts_end else None,
        "first_proposed_id": int(codec.proposed_ids[0]),
        "vocabulary_size": len(codec.vocabulary),
        "boundary": codec.boundary,
        "tokenizer": {
            "name": tokenizer.name,
            "kind": tokenizer.kind,
            "steps": list(tokenizer.steps),
            "tokens_are_words": tokenizer.tokens_are_words,
            "separator": tokenizer.separator,
            "space": tokenizer.space,
            "description": " ".join(filter(None, sentences)),
        },
    }


def list_properties(facts: Mapping[str, Any], quote: Callable[[str], str] = str) -> dict[str, str]:
    """Return the properties of a model with their values, for people; see `describe`.

    `quote` marks up the name of an unknown text.
    """
    name = facts.get("corpus", "")
    length = facts["context_length"]
    reads_line = not crosses_sentences(facts["boundary"])
    properties = {
        "Model": facts["description"],
        "Mixture of": facts.get("mixture"),
        "Trained on": name and (_CORPORA.get(name.partition("/")[0]) or quote(name)),
        "Perplexity": _format_perplexities(facts.get("perplexity", {})),
        "Perplexity before the matrices were rounded to 8 bits": _format_perplexities(
            facts.get("perplexity_before_rounding", {})
        ),
        "Perplexity of the mixture, which is not here": _format_perplexities(
            facts.get("perplexity_of_mixture", {})
        ),
        "Context": f"the last {length} tokens" + " of the line" * reads_line,
        "Tokens": facts["tokenizer"]["description"],
        "Vocabulary": f"{facts['vocabulary_size'] - len(SPECIALS):,} tokens",
        "Parameters": f"{facts['parameters']:,}" if "parameters" in facts else "",
        "Matrices": "rounded to 8 bits" * facts.get("quantised", 0),
    }
    return {name: text for name, text in properties.items() if text}


def find_perplexities(
    language_model: LanguageModel, model: NextWordModel, metrics: Mapping[str, Any]
) -> dict[str, float]:
    """Return the perplexity of a model on the held-out splits, as far as it can be known.

    It is read from `metrics`, the content of `metrics.json`, for the whole model. For a part of it
    the splits of the training corpus are read. A perplexity that is not finite is left out.
    """
    perplexities = {}
    if model is language_model.model:
        perplexities = {
            split: metrics[split]["perplexity"] for split in HELD_OUT if split in metrics
        }
    elif (corpus := language_model.corpus) is not None:
        alone = language_model.replace_model(model)
        for split in filter(corpus.splits.__contains__, HELD_OUT):
            if len(ids := corpus.ids(split)):
                perplexities[split] = float(alone.evaluate(ids)["perplexity"])
    return {split: value for split, value in perplexities.items() if math.isfinite(value)}


def _describe_parts(mixture: Mixture) -> str:
    """Describe the parts of a mixture, with their weights if these are the same in all contexts."""
    parts = []
    for part, weights in zip(mixture.parts, mixture.weights.T.tolist(), strict=True):
        share = f"{weights[0]:.0%} " if len(weights) == 1 else ""
        parts.append(f"{share}{part.description[0].lower()}{part.description[1:]}")
    return "; ".join(parts)


def _format_perplexities(perplexities: Mapping[str, float]) -> str:
    pairs = perplexities.items()
    return ", ".join(f"{format_perplexity(value)} ({split})" for split, value in pairs)
