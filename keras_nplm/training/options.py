"""Options of a training run: its text, its network, its training. Imports no Keras or TensorFlow.

Each option is a field: type and range are its annotation, its help is the docstring below it, see
`io.fields`. An option of one part of a network is a field of this part, see `network`. So the
fields are the Python arguments, the flags of the command line and the content of `config.json`,
under one name.

To add an option of all networks, write its field in `Network`, and use it where the network is
built. Its default must be what was done before: a `config.json` without it is read so.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from keras_nplm.data.tokenizers.base import Unit
from keras_nplm.data.tokenizers.pieces import DEFAULT_PIECES, PIECES, PiecesKind
from keras_nplm.data.tokenizers.registry import list_choices
from keras_nplm.io.errors import InputError
from keras_nplm.io.fields import FieldFacts, Option, check_values
from keras_nplm.io.parts import (
    build_options,
    check_given,
    describe_options,
    expand_parts,
    flatten,
    read_config,
    write_config,
)
from keras_nplm.training.network import Network
from keras_nplm.training.optimisation import Training

MOST_NGRAM_ORDER = 8  # of an n-gram model inside a network or mixed with it


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """The text and its tokenizer, for the command line. In Python: `open_corpus`."""

    corpus: str = "python_reference"
    """python_reference, brown, brown/marks, tfds:NAME, or a DIR of prepare"""

    token: Literal["word", "character"] = "word"
    """unit that is predicted and counted"""

    tokenizer: Annotated[str, Option(choices=tuple(list_choices()))] = "words"
    """tokenizer of text"""

    pieces: Annotated[int, PIECES] = DEFAULT_PIECES
    """number of pieces"""

    pieces_kind: Annotated[PiecesKind, Option(advanced=True)] = "unigram"
    """kind of the sentencepiece model"""

    normalise: Annotated[
        Literal["lower", "numbers", "lemmas"] | None, Option(example="lower", advanced=True)
    ] = None
    """normalisation of tokens before words are counted"""

    def __post_init__(self) -> None:
        check_values(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How words are counted, and how text is cut into n-grams.

    Raises:
        InputError: an option has another type or is out of its range.
    """

    boundary: Literal["sentence", "text", "stream"] = "sentence"
    """where contexts end: at </s>; at blank lines; nowhere, in words without </s>"""

    vocabulary_scope: Annotated[Literal["train", "corpus"], Option(advanced=True)] = "train"
    """text whose words are counted: that of training, or all splits as in the paper"""

    min_count: Annotated[int, Option(least=1)] = 2
    """least count of a word in the vocabulary; rarer words become <unk>"""

    max_size: Annotated[int | None, Option(least=1, example=20_000, advanced=True)] = None
    """largest number of words in the vocabulary, the most frequent ones"""

    def __post_init__(self) -> None:
        check_values(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run may use: time, devices, workers. `config.json` has none of it."""

    minutes: Annotated[float | None, Option(least=0, example=30.0)] = None
    """minutes of one core for the run, which choose the options"""

    strategy: Literal["auto", "one-device", "mirrored", "multi-worker"] = "auto"
    """one device, all GPUs here, or the workers of TF_CONFIG"""

    worker_timeout: Annotated[int, Option(least=1, advanced=True)] = 300
    """seconds that a worker of TF_CONFIG waits for the others before it gives up"""

    def __post_init__(self) -> None:
        check_values(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextStatistics:
    """What the default options follow from: the size of a text that has been counted.

    Raises:
        InputError: a number is out of its range.
    """

    tokens: Annotated[int, Option(least=1, example=1_000_000)]
    """N, predicted tokens of the training text: one </s> per sentence too, unless it is a stream"""

    vocabulary_size: Annotated[int, Option(least=2, example=10_000)]
    """|V|, number of words in the vocabulary with its 4 special tokens"""

    unit: Unit = "words"
    """whose rules choose the options: those of words, of characters or of subwords"""

    largest_share: Annotated[float, Option(least=0, example=0.06)] = 0.0
    """share of the commonest token among the predicted ones; 0: not known"""

    def __post_init__(self) -> None:
        check_values(self)


class Options(NamedTuple):
    """All options of a training run. By name they stand side by side, as their names differ.

    >>> Options.of(order=5, epochs=3).replace(epochs=4).training.epochs
    4
    """

    text: TextOptions = TextOptions()
    network: Network = Network()
    training: Training = Training()

    @classmethod
    def of(cls, **given: Any) -> "Options":
        """Return the options with these names, and defaults for all others."""
        return cls().replace(**given)

    def replace(self, **given: Any) -> "Options":
        """Return the options with some values replaced. A part may stand for its name and options.

        Raises:
            InputError: a name or a value is invalid, or an option is of a part that is not chosen.
        """
        given = expand_parts(given)
        check_given(given, *RUN_CLASSES)
        return build_run_options({**self.flatten(), **given}, given)

    def flatten(self) -> dict[str, Any]:
        """Return all options by name, without those of parts that are not chosen."""
        return {name: value for part in self for name, value in flatten(part).items()}

    def write_config(self) -> dict[str, Any]:
        """Return all options as `config.json` has them, each part nested."""
        return {name: value for part in self for name, value in write_config(part).items()}


RUN_CLASSES = (TextOptions, Network, Training)


def build_run_options(values: Mapping[str, Any], given: Collection[str] = ()) -> Options:
    """Build options from values by name, and defaults for the others; see `build_options`."""
    return Options._make(build_options(cls, values, given) for cls in RUN_CLASSES)


def describe_run_options() -> Mapping[str, FieldFacts]:
    """Return the facts of all options of a run by name."""
    return {name: facts for cls in RUN_CLASSES for name, facts in describe_options(cls).items()}


def read_options(config: Mapping[str, Any]) -> Options:
    """Return the options that a `config.json` records, beside its other fields.

    An absent option is younger than the file: its default is what was done before.
    """
    known = describe_run_options()
    if not known.keys() & config.keys():
        raise InputError(
            f"`config.json` must have the fields {', '.join(known)}. "
            "Received: none of them. Fix: restore the file or retrain."
        )
    return Options._make(read_config(cls, config) for cls in RUN_CLASSES)
