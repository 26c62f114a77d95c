"""The adaptive default: options of a training run chosen from the number of tokens and types of the text."""

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from keras_nplm.io.errors import check_argument
from keras_nplm.io.options import check_option
from keras_nplm.training.configuration import POINTER_SEGMENT, SMALL, Configuration, list_flags

_TOKENS = 60_000  # of the embedded default: where the widths below hold
_LARGE_TOKENS = 2_000_000  # from here on larger batches
_SAMPLED_TYPES = 512  # from this vocabulary on negative samples cost less than the full softmax
_NCE_TYPES = 5000  # from this vocabulary on: noise-contrastive estimation
_POINTER_EFFORT, _POINTER_COST, _TEXT_EFFORT = 1.6, 1.4, 0.7  # a pointer takes 1.4 times as long
_SENTENCE_POINTER = {"pointer": True, "order": 41, "averages_after": "4,20"}
_TEXT_POINTER = {"pointer": True, "order": 241, "averages_after": "4,10,20,40,80,160"}
_HYBRID_TYPES, _HYBRID_TOKENS = 10_000, 20_000_000  # an n-gram model inside: below these, of characters or subwords

CHOSEN_OPTIONS = (
    *("output_layer", "num_sampled", "order", "averages_after", "embedding_dim", "hidden_units", "interpolated"),
    *("dropout", "embedding_dropout", "weight_average", "optimizer", "batch_size", "learning_rate", "epochs"),
)


def choose_configuration(
    tokens: int, types: int, *, characters: bool = False, subwords: bool = False, effort: float = 1.0, **given: Any
) -> Configuration:
    """Choose output layer, width, context, dropout, batch size, learning rate and epochs by the size of the text.

    N is the number of tokens and |V| the number of types. d = log10(N / 60,000), at most 2, counts the decades of text
    beyond the embedded default, and d+ = max(d, 0). The rules:

        output       the full softmax below 512 types; sampled softmax with 256 negative samples below 5,000 types;
                     noise-contrastive estimation with 512 negative samples from there on
        width        m = 60 * 1.45^d+, at most 4 sqrt(|V|); h = 100 * 1.7^d+
        context      20 words: the last 4 concatenated, the others averaged
        dropout      0.3 - 0.1 d of the hidden units, 0.15 - 0.05 d of the embeddings
        epochs       8 * 2^(-0.85 d), from 3 to 16
        batch        64 n-grams, 128 from 2 million tokens on; the learning rate follows the output and the batch.
                     With a pointer they are segments of 16 targets

    Characters and subwords have a Kneser-Ney model inside the network, the output hybrid, below 10,000 types and 20
    million tokens. Such a network trains with Adam: of characters with 11 in a context, m = 30, a third of the dropout
    of the hidden units, twice the epochs, averaged weights, rate 0.003, and batches of 256; of subwords with rate
    0.002, and batches of 128.

    Where contexts cross sentences, with the boundaries `"text"` and `"stream"`, words have a pointer to 240 words.

    Other networks are interpolated with a Kneser-Ney model of the same text, below 20 million tokens.

    If the tokens are characters, the last 10 are concatenated, m is at least 30, h is doubled, epochs are 1.5 times as
    many, and the dropout is a third, of the hidden units only: spelling is learned by heart.

    The default takes about 0.3 ms of CPU time for each token, 0.5 ms with a pointer to 240 words. With another
    `effort`, a multiple of that time, the width grows by effort^0.3 and the epochs grow by effort^0.5. From 1.6 on
    words have a pointer and 40 words of context. Below 1 both shrink.

    The rules were tuned on validation splits of 3,000 to 5 million tokens: `keras-nplm study default`.

    Args:
        tokens: int, N, predicted tokens of the training text: with one `</s>` per sentence, unless it is a stream.
        types: int, |V|, size of the vocabulary, special tokens included.
        characters: whether tokens are characters.
        subwords: whether tokens are subwords.
        effort: above 0, CPU time relative to the default; see `plan_minutes`.
        **given: options that are not chosen.

    Raises:
        InputError: a given option is out of range or contradicts a different one, or a count is below 1.

    Example:

    >>> choose_configuration(850_000, 12_000).output_layer, choose_configuration(50_000, 2_000).output_layer
    ('nce', 'sampled')
    >>> choose_configuration(850_000, 12_000, output_layer="full").output_layer
    'full'
    """
    check_option("tokens", tokens)
    check_option("vocabulary_size", types)
    decades = min(2.0, math.log10(tokens / _TOKENS))
    growth = max(0.0, decades)
    chosen: dict[str, Any] = {
        "order": 21,
        "averages_after": "4",
        "embedding_dim": min(_round_to(60 * 1.45**growth, 10), _round_to(4 * math.sqrt(types), 10)),
        "hidden_units": _round_to(100 * 1.7**growth, 20),
        "dropout": round(min(0.4, 0.3 - 0.1 * decades), 2),
        "embedding_dropout": round(min(0.2, max(0.0, 0.15 - 0.05 * decades)), 2),
        "batch_size": 64 if tokens < _LARGE_TOKENS else 128,
        "epochs": max(3, min(16, round(8 * 2 ** (-0.85 * decades)))),
    }
    separate = given.get("pointer") or given.get("shortlist_size") or given.get("segment", 1) > 1
    fits = (characters or subwords) and types < _HYBRID_TYPES and tokens < _HYBRID_TOKENS and not separate
    is_hybrid = given.get("output_layer", "hybrid" if fits else "") == "hybrid"
    if characters:
        chosen |= {"averages_after": "10", "dropout": round(chosen["dropout"] / 3, 2)}
        chosen["hidden_units"] *= 2
        if is_hybrid:
            chosen |= {"embedding_dim": 30, "epochs": 2 * chosen["epochs"]}
        else:
            chosen |= {"embedding_dim": max(30, chosen["embedding_dim"]), "epochs": round(1.5 * chosen["epochs"])}
            chosen["embedding_dropout"] = 0.0
    output = _choose_output(tokens, types, characters)
    is_running = given.get("boundary", "sentence") != "sentence"
    is_large = not (characters or (subwords and types < _HYBRID_TYPES)) and output["output_layer"] != "full"
    if is_large and effort >= (_TEXT_EFFORT if is_running else _POINTER_EFFORT) and _allows_pointer(given):
        chosen |= _TEXT_POINTER if is_running else _SENTENCE_POINTER
        effort /= 1 if is_running else _POINTER_COST
    chosen |= _spend(effort, chosen)
    if (chosen | given).get("pointer") and "batch_size" not in given:
        chosen["segment"] = POINTER_SEGMENT
    chosen["batch_size"] += -chosen["batch_size"] % (chosen | given).get("segment", 1)
    if is_hybrid:
        output = {"output_layer": "hybrid", "optimizer": "adam", "learning_rate": 0.003 if characters else 0.002}
        letters = {"order": 12, "averages_after": "", "batch_size": 256, "weight_average": 0.998}
        output |= letters if characters else {"batch_size": 128}
    elif not given.get("shortlist_size"):
        output["interpolated"] = tokens < _HYBRID_TOKENS
    return Configuration(**(chosen | output | given))


def _choose_output(tokens: int, types: int, characters: bool) -> dict[str, Any]:
    """The output layer, its number of negative samples and the learning rate."""
    rate = 0.5 if characters else 1.4
    if types < _SAMPLED_TYPES:
        return {"output_layer": "full", "learning_rate": rate}
    if types < _NCE_TYPES:
        return {"output_layer": "sampled", "num_sampled": 256, "learning_rate": rate}
    return {"output_layer": "nce", "num_sampled": 512, "learning_rate": 1.2 if tokens < _LARGE_TOKENS else 1.7}


def _allows_pointer(given: Mapping[str, Any]) -> bool:
    """Whether the given options suit a pointer: an output with a row for each word, and a long context."""
    has_rows = not given.get("shortlist_size") and given.get("output_layer", "nce") in ("full", "sampled", "nce")
    return has_rows and given.get("pointer", True) and given.get("order", 41) >= _SENTENCE_POINTER["order"]


def _spend(effort: float, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Width, dropout and epochs of a network that may take `effort` times as long."""
    width, doublings = max(effort, 0.2) ** (0.3 if effort > 1 else 0.5), math.log2(max(effort, 0.2))
    return {
        "embedding_dim": _round_to(chosen["embedding_dim"] * width, 10),
        "hidden_units": _round_to(chosen["hidden_units"] * width, 20),
        "dropout": round(min(0.45, max(0.0, chosen["dropout"] + 0.05 * doublings)), 2),
        "embedding_dropout": round(min(0.2, max(0.0, chosen["embedding_dropout"] + 0.02 * doublings)), 2),
        "epochs": max(1, round(chosen["epochs"] * effort**0.5)),
    }


def _round_to(value: float, step: int) -> int:
    """Round to a positive multiple of a step."""
    return max(step, round(value / step) * step)


@dataclasses.dataclass(frozen=True)
class AdaptiveConfiguration:
    """The adaptive default of `train`: some options are given, and the text decides about the others.

    Args:
        given: options of `Configuration` that are not chosen.
        command: the command line whose flags gave these options, to print the same command with all options.
            Default: none, and `describe` prints the flags alone.
        minutes: CPU time of the whole run on one core; see `plan_minutes`. Default: that of `choose_configuration`.
    """

    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    command: Sequence[str] = ()
    minutes: float | None = None

    def __post_init__(self) -> None:
        names = {field.name for field in dataclasses.fields(Configuration)}
        for name, value in self.given.items():
            check_argument(name, name in names, "an option of a configuration", value, "see `Configuration`.")
            check_option(name, value)
        if self.minutes is not None:
            check_option("minutes", self.minutes)

    @property
    def before_counting(self) -> Configuration:
        """The options that are needed before the text is counted: the given ones, and fixed defaults."""
        chosen = {"batch_size": self.given["segment"]} if "segment" in self.given else {}  # one that fits
        return Configuration(**(chosen | dict(self.given)))

    def choose(self, tokens: int, types: int, *, replicas: int = 1, **options: Any) -> Configuration:
        """Choose the other options. A chosen batch size is a multiple of the replicas and of `segment`."""
        configuration = choose_configuration(tokens, types, **options, **self.given)
        if "batch_size" in self.given:
            return configuration
        missing = -configuration.batch_size % (replicas * configuration.segment)
        return dataclasses.replace(configuration, batch_size=configuration.batch_size + missing)

    def describe(self, configuration: Configuration, tokens: int, types: int) -> str:
        """Return a line for the user: the size of the text, and the command with explicit options."""
        flags = list_flags(configuration, SMALL, without=self.given if self.command else ())
        command = shlex.join([*self.command, "--config", SMALL, *flags])
        return f"Options chosen for {tokens:,} tokens and {types:,} types. The same options in full:\n  {command}"
