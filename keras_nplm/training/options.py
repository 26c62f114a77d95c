"""Options of a training run: its text, its network, its training. Imports no Keras or TensorFlow.

Each option is a field: type and range are its annotation, its help is the docstring below it, see
`describe_fields`. So the fields are the Python arguments, the flags of the command line and the
content of `config.json`, under one name.

To add an option: write its field here, and use it in the part of the network that it is for (see
`keras_nplm.training.parts`) or where training needs it. Nothing else has to be told. Its default
must be what was done before: a `config.json` without it is read so.
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from keras_nplm.data.tokenizers.base import Unit
from keras_nplm.data.tokenizers.pieces import DEFAULT_PIECES, PIECES, PiecesKind
from keras_nplm.data.tokenizers.registry import list_choices
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.fields import FieldFacts, Option, check_values, describe_fields

__all__ = [
    "CorpusOptions",
    "NetworkOptions",
    "Options",
    "RunOptions",
    "TextOptions",
    "TextStatistics",
    "TrainingOptions",
    "describe_fields",
]

MOST_NGRAM_ORDER = 8  # of an n-gram model inside a network or mixed with it

ContextName = Literal["concatenated", "averaged", "spelled"]
Network = Literal["context", "pointer", "hybrid"]
Objective = Literal["likelihood", "sampled", "nce"]
OptimizerName = Literal["sgd", "adagrad", "adam"]

# what a choice requires of other options
_WITHOUT_W: dict[str, Any] = {
    "network": "context",
    "direct_connections": False,
    "shortlist_size": None,
}
_REQUIRED: dict[str, dict[Any, dict[str, Any]]] = {
    "context": {"spelled": {"network": "hybrid", "freeze_embedding": False}},
    "head": {
        "energy": {**_WITHOUT_W, "hidden": "none"},  # it has a hidden layer of its own
        "adaptive": {
            **_WITHOUT_W,
            "objective": "likelihood",
            "held_out_mass": 0.0,
            "self_normalisation": 0.0,  # its log Z is 0
        },
    },
    # it has an n-gram model of its own
    "network": {
        "hybrid": {"objective": "likelihood", "shortlist_size": None, "interpolated": False}
    },
    "tied_output": {True: {"shortlist_size": None, "output_rank": None}},  # its rank is m
    "interpolated": {True: {"shortlist_size": None}},
}


def _say(value: object) -> object:
    """Return a value of an option as a sentence has it."""
    return {"None": "left out", "False": "off", "True": "on"}.get(str(value), value)


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
class NetworkOptions:
    """The parts of a network and their sizes.

    `context`, `hidden`, `head`, `objective` and `network` choose a part each. The other options are
    of parts: an option of a part that is not chosen has no effect.

    Raises:
        InputError: an option has another type, is out of its range, or contradicts a second option.
    """

    network: Network = "context"
    """context: feed-forward; pointer: also copies context words; hybrid: an n-gram model inside"""

    order: Annotated[int, Option(least=2, below=1024)] = 21
    """n, order of the n-grams; a context has n-1 words"""

    context: Annotated[ContextName, Option(advanced=True)] = "averaged"
    """all words concatenated; the far ones averaged; or characters with the words they spell"""

    averages_after: Annotated[tuple[int, ...], Option(advanced=True)] = (4,)
    """distances after which context words are averaged; 4,20: words 5 to 20 back, and from 21 on"""

    near_characters: Annotated[int, Option(least=1, advanced=True)] = 11
    """characters concatenated by the context spelled"""

    spelled_words: Annotated[int, Option(least=0, advanced=True)] = 6
    """previous words that have a vector in the context spelled"""

    spelling_bits: Annotated[int, Option(least=1, below=31, advanced=True)] = 17
    """b: the context spelled has 2^b vectors, which all words share by a hash"""

    embedding_dim: Annotated[int, Option(least=1)] = 60
    """m, components of a word's feature vector"""

    freeze_embedding: bool = False
    """C is not trained: it stays random, or as --vectors has it"""

    hidden: Annotated[Literal["none", "tanh", "deep"], Option(advanced=True)] = "deep"
    """hidden layer: none, with direct connections; the paper's tanh layer; deep: residual blocks"""

    hidden_units: Annotated[int, Option(least=1)] = 100
    """h, hidden units"""

    activation: Annotated[Literal["tanh", "relu", "gelu", "silu"], Option(advanced=True)] = "gelu"
    """activation of the hidden layer deep"""

    residual_blocks: Annotated[int, Option(least=0, below=1024, advanced=True)] = 1
    """further hidden layers of the hidden layer deep, each with a residual connection"""

    layer_norm: Annotated[bool, Option(advanced=True)] = True
    """layer normalisation before each residual block and at the end of the hidden layer deep"""

    direct_connections: bool = False
    """direct connections W of the head linear"""

    head: Literal["linear", "adaptive", "energy"] = "linear"
    """a row per word, adaptive softmax, or the paper's energy-based variant"""

    cutoffs: Annotated[tuple[int, ...], Option(example=(2000, 7000), advanced=True)] = ()
    """first id of each cluster of the head adaptive; none: a ninth and two fifths of |V|"""

    output_rank: Annotated[int | None, Option(least=1, example=50, advanced=True)] = None
    """r, rank of the matrix of the head linear: features are projected to r numbers"""

    tied_output: Annotated[bool, Option(advanced=True)] = False
    """tied weights: C is also the matrix of the head linear, on features projected to m numbers"""

    objective: Objective = "likelihood"
    """training loss: likelihood, sampled softmax, noise-contrastive estimation"""

    num_sampled: Annotated[int, Option(least=1, below=1 << 20, advanced=True)] = 256
    """k, negative samples per batch of the objectives sampled and nce"""

    proposal: Annotated[Literal["unigram", "log-uniform"], Option(advanced=True)] = "unigram"
    """proposal distribution of the negative samples"""

    self_normalisation: Annotated[float, Option(least=0, advanced=True)] = 0.0
    """weight of the penalty on (log Z)^2, which keeps log Z near 0; not with the head adaptive"""

    held_out_mass: Annotated[float, Option(least=0, below=1, advanced=True)] = 0.0
    """label-smoothing mass for words unseen in training: not comparable with models of mass 0; not
    with the head adaptive"""

    shortlist_size: Annotated[int | None, Option(least=1, example=2000, advanced=True)] = None
    """s, short-list: the network predicts the s most frequent words, an n-gram model the others"""

    interpolated: bool = False
    """mixture with a Kneser-Ney model of the same text, its weight fitted on validation"""

    dropout: Annotated[float, Option(least=0, below=1)] = 0.4
    """dropout rate of the hidden units"""

    embedding_dropout: Annotated[float, Option(least=0, below=1, advanced=True)] = 0.2
    """dropout rate of the components of the context's feature vectors"""

    word_dropout: Annotated[float, Option(least=0, below=1, advanced=True)] = 0.0
    """dropout rate of whole context words"""

    dtype: Annotated[Literal["float32", "mixed_bfloat16"], Option(advanced=True)] = "float32"
    """number format of matrix products; weights and sums stay float32"""

    def __post_init__(self) -> None:
        check_values(self)
        for part, choices in _REQUIRED.items():
            for name, wanted in choices.get(getattr(self, part), {}).items():
                self._require(name, wanted, part)
        if self.head != "energy" and self.hidden == "none":
            self._require("direct_connections", True, "hidden")
        check_argument(
            "averages_after",
            self.context != "averaged" or self.averages_after != (),
            "one distance or more with `context` averaged",
            self.averages_after,
            "choose `context` concatenated.",
        )
        check_argument(
            "near_characters",
            self.context != "spelled" or self.near_characters < self.order,
            f"below `order`, {self.order}",
            self.near_characters,
            "raise `order`.",
        )

    def _require(self, name: str, wanted: object, part: str) -> None:
        """Refuse a value that a part cannot be combined with."""
        value = getattr(self, name)
        accepted = f"{_say(wanted)} with `{part}` {_say(getattr(self, part))}"
        fix = f"change `{name}` or `{part}`."
        check_argument(name, value == wanted, accepted, _say(value), fix)

    @property
    def kind(self) -> str:
        """The kind of the trained model in `config.json`."""
        if self.network == "hybrid":
            return "hybrid"
        if self.shortlist_size is not None:
            return "shortlist"
        return "mixture" if self.interpolated else "nplm"

    @property
    def has_ngram_model(self) -> bool:
        """Whether the model has an n-gram model beside its network, or inside."""
        return self.kind != "nplm"

    @property
    def without_effect(self) -> dict[str, str]:
        """The options of a part that is not chosen, with the option that chooses it."""
        names = {}
        if self.context != "averaged":
            names["averages_after"] = "context"
        if self.context != "spelled":
            for name in ("near_characters", "spelled_words", "spelling_bits"):
                names[name] = "context"
        if self.hidden != "deep":
            for name in ("activation", "residual_blocks", "layer_norm"):
                names[name] = "hidden"
        if self.hidden == "none" and self.head != "energy":
            for name in ("hidden_units", "dropout"):
                names[name] = "hidden"
        if self.head != "linear":
            for name in ("output_rank", "tied_output"):
                names[name] = "head"
        if self.head != "adaptive":
            names["cutoffs"] = "head"
        if self.objective == "likelihood":
            for name in ("num_sampled", "proposal"):
                names[name] = "objective"
        return names

    @property
    def is_tied(self) -> bool:
        """Whether the head has the matrix C of the context layer."""
        return self.tied_output and "tied_output" not in self.without_effect

    @property
    def averages(self) -> tuple[int, ...]:
        """The distances of `averages_after` within the context, which are averaged; or ()."""
        if self.context != "averaged":
            return ()
        return tuple(distance for distance in self.averages_after if distance < self.order - 1)

    @property
    def ngram_order(self) -> int:
        """The n-gram order that matches the network's concatenated (not averaged) context."""
        return max(2, self.averages[0] + 1) if self.averages else self.order


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Optimiser, batches, epochs and seed.

    Raises:
        InputError: an option has another type, is out of its range, or contradicts a second option.
    """

    optimizer: Annotated[OptimizerName, Option(advanced=True)] = "sgd"
    """optimiser"""

    learning_rate: Annotated[float, Option(least=0)] = 1.4
    """learning rate of the first update"""

    schedule: Annotated[Literal["linear", "inverse-time", "constant"], Option(advanced=True)] = (
        "linear"
    )
    """learning rate: linear to 0, the paper's eps_0 / (1 + r t), constant"""

    decay_rate: Annotated[float, Option(least=0, advanced=True)] = 1e-8
    """r, decay of the learning rate per update with the schedule inverse-time"""

    initial_accumulator: Annotated[float, Option(least=0, advanced=True)] = 0.1
    """initial sum of squared gradients of the optimiser adagrad"""

    weight_decay: Annotated[float, Option(least=0, advanced=True)] = 3e-5
    """weight decay (L2) of the weights and C, not of biases: theta -= rate * decay * theta"""

    weight_average: Annotated[float, Option(least=0, below=1, advanced=True)] = 0.0
    """momentum of the moving average of the weights; 0: no average"""

    batch_size: Annotated[int, Option(least=1, advanced=True)] = 96
    """n-grams per update"""

    segment: Annotated[int, Option(least=1, below=1025, advanced=True)] = 1
    """T, consecutive targets that share the look-up of their words; it divides the batch size"""

    epochs: Annotated[int, Option(least=1, below=1 << 20)] = 12
    """most epochs"""

    patience: Annotated[int, Option(least=1, advanced=True)] = 3
    """early stopping: epochs without a better validation perplexity before training stops"""

    seed: Annotated[int, Option(least=0, below=1 << 31)] = 1
    """random seed of weights, dropout, samples and order"""

    def __post_init__(self) -> None:
        check_values(self)
        check_argument(
            "batch_size",
            self.batch_size % self.segment == 0,
            f"a multiple of `segment`, {self.segment}",
            self.batch_size,
            "change one.",
        )

    @property
    def without_effect(self) -> dict[str, str]:
        """As `NetworkOptions.without_effect`."""
        names = {}
        if self.schedule != "inverse-time":
            names["decay_rate"] = "schedule"
        if self.optimizer != "adagrad":
            names["initial_accumulator"] = "optimizer"
        return names


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


_Part = TypeVar("_Part", TextOptions, NetworkOptions, TrainingOptions)


class Options(NamedTuple):
    """All options of a training run. `config.json` has them side by side, as their names differ.

    >>> Options.of(order=5, epochs=3).replace(epochs=4).training.epochs
    4
    """

    text: TextOptions = TextOptions()
    network: NetworkOptions = NetworkOptions()
    training: TrainingOptions = TrainingOptions()

    @classmethod
    def of(cls, **given: Any) -> "Options":
        """Return the options with these names, and defaults for all others."""
        return cls().replace(**given)

    def replace(self, **given: Any) -> "Options":
        """Return the options with some values replaced.

        Raises:
            InputError: a name or a value is invalid, or has no effect beside the others.
        """
        check_given(given)
        options = Options(
            _replace(self.text, given),
            _replace(self.network, given),
            _replace(self.training, given),
        )
        options.check_effects(given)
        return options

    @property
    def without_effect(self) -> dict[str, str]:
        """The options of a part that is not chosen, with the option that chooses it."""
        return self.network.without_effect | self.training.without_effect

    def check_effects(self, given: Iterable[str]) -> None:
        """Refuse given options of a part that is not chosen."""
        without_effect = self.without_effect
        values = self.flatten()
        for name in given:
            if name in without_effect:
                part = without_effect[name]
                raise InputError(
                    f"`{name}` must be left out with `{part}` {values[part]}. "
                    f"Received: {values[name]}. Fix: leave it out, or change `{part}`."
                )

    def flatten(self) -> dict[str, Any]:
        """Return all options by name, as in `config.json`."""
        flat: dict[str, Any] = {}
        for part in self:
            flat.update(dataclasses.asdict(part))
        return flat


@functools.cache
def describe_options() -> Mapping[str, FieldFacts]:
    """Return the facts of all options of a run, in the order of `config.json`."""
    facts: dict[str, FieldFacts] = {}
    for cls in (TextOptions, NetworkOptions, TrainingOptions):
        facts.update(describe_fields(cls))
    return facts


def check_given(given: Mapping[str, Any]) -> None:
    """Refuse a name that no option has, and a value out of its range."""
    known = describe_options()
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"`{name}` must be an option of a run. Received: {value}. "
                "Fix: see `TextOptions`, `NetworkOptions` and `TrainingOptions`."
            )
        known[name].check(value)


def read_options(config: Mapping[str, Any]) -> Options:
    """Return the options that a `config.json` records, beside its other fields.

    An absent option is younger than the file: its default is what was done before.
    """
    known = describe_options()
    if not known.keys() & config.keys():
        raise InputError(
            f"`config.json` must have the fields {', '.join(known)}. "
            "Received: none of them. Fix: restore the file or retrain."
        )
    given = {}
    for name, facts in known.items():
        value = config.get(name, facts.default)
        is_list = facts.type is tuple and isinstance(value, list)
        given[name] = tuple(value) if is_list else value
    return Options(
        _select(given, TextOptions), _select(given, NetworkOptions), _select(given, TrainingOptions)
    )


def _replace(options: _Part, given: Mapping[str, Any]) -> _Part:
    """Return the options of one class, with the given values of its fields."""
    names = describe_fields(type(options)).keys() & given.keys()
    return dataclasses.replace(options, **{name: given[name] for name in names})


def _select(given: Mapping[str, Any], cls: type[_Part]) -> _Part:
    """Build the options of one class from the given values of its fields."""
    return cls(**{name: given[name] for name in describe_fields(cls) if name in given})


def select_text_options(given: Mapping[str, Any]) -> TextOptions:
    """Return the options of the text from some options of a run, and defaults for the others."""
    return _select(given, TextOptions)
