"""The adaptive default: options of a training run chosen from the number of tokens and types of the text."""

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from keras_nplm.io.errors import InputError
from keras_nplm.io.options import check_option
from keras_nplm.training.configuration import SMALL, Configuration, list_flags

_TOKENS = 60_000  # of the embedded default: where the widths below hold
_SAMPLED_TYPES = 512  # from this vocabulary on negative samples cost less than the full softmax
_NCE_TYPES = 5000  # from this vocabulary on: noise-contrastive estimation

CHOSEN_OPTIONS = (
    "output_layer",
    "num_sampled",
    "order",
    "averages_after",
    "embedding_dim",
    "hidden_units",
    "dropout",
    "embedding_dropout",
    "batch_size",
    "learning_rate",
    "epochs",
)


def choose_configuration(tokens: int, types: int, **given: Any) -> Configuration:
    """Choose output layer, width, context, dropout, batch size, learning rate and epochs by the size of the text.

    Args:
        tokens: int, N, tokens of the training text, with one `</s>` per sentence.
        types: int, |V|, size of the vocabulary, special tokens included.
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
    output = "full" if types < _SAMPLED_TYPES else "sampled" if types < _NCE_TYPES else "nce"
    chosen: dict[str, Any] = {
        "output_layer": output,
        "num_sampled": 256 if types < _NCE_TYPES else 512,
        "embedding_dim": _round_to(60 * 1.55**growth, 10),
        "hidden_units": _round_to(100 * 1.8**growth, 20),
        "dropout": round(min(0.4, 0.3 - 0.1 * decades), 2),
        "embedding_dropout": round(min(0.2, max(0.0, 0.15 - 0.05 * decades)), 2),
        "batch_size": 64,
        "learning_rate": 1.4 if types < _NCE_TYPES else 1.2,
        "epochs": max(3, min(16, round(8 * 2 ** (-0.85 * decades)))),
    }
    return Configuration(**(chosen | given))


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

    Raises:
        InputError: a given option is out of range.

    Example:

    >>> AdaptiveConfiguration({"order": 5}).choose(850_000, 12_000).order
    5
    """

    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    command: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = {field.name for field in dataclasses.fields(Configuration)}
        for name, value in self.given.items():
            if name not in names:
                raise InputError(
                    f"`{name}` must be an option of a configuration. Received: {name}={value!r}. Fix: see "
                    "`Configuration` for their names."
                )
            check_option(name, value)

    @property
    def is_complete(self) -> bool:
        """Whether all options are given that the text would decide about."""
        return self.given.keys() >= set(CHOSEN_OPTIONS)

    @property
    def before_counting(self) -> Configuration:
        """The options that are needed before the text is counted: the given ones, and fixed defaults."""
        return Configuration(**self.given)

    def choose(self, tokens: int, types: int, replicas: int = 1) -> Configuration:
        """Choose the other options: see `choose_configuration`.

        Args:
            tokens: int, tokens of the training text, with one `</s>` per sentence.
            types: int, size of the vocabulary.
            replicas: int, number of replicas. The batch size becomes a multiple of it, unless it is given.
        """
        configuration = choose_configuration(tokens, types, **self.given)
        if "batch_size" in self.given:
            return configuration
        return dataclasses.replace(configuration, batch_size=-(-configuration.batch_size // replicas) * replicas)

    def describe(self, configuration: Configuration, tokens: int, types: int) -> str:
        """Return a line for the user: the size of the text, and the command with explicit options."""
        flags = list_flags(configuration, SMALL, without=self.given if self.command else ())
        command = shlex.join([*self.command, "--config", SMALL, *flags])
        return f"Options chosen for {tokens:,} tokens and {types:,} types. The same options in full:\n{command}"
