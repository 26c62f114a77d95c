"""The table of options: name, type, range, choices, default, help and group of each option of a model and its training.

`NPLM`, `Configuration` and the flags of the command line all use this table, so that an option is described once.
It imports neither Keras nor TensorFlow. The choices are literal tuples: a test compares them with the code.
"""

import dataclasses
import math
import numbers
import re

from keras_nplm.io.errors import InputError

GROUPS = {
    "data": "text, tokens and vocabulary",
    "model": "context and hidden layers",
    "output": "output layer",
    "regularisation": "regularisation",
    "optimiser": "optimiser and learning rate",
    "distribution": "devices and workers",
    "run": "training run",
}
_NAMES = {int: "an integer", float: "a number", bool: "True or False", str: "a string"}
_KINDS = {int: numbers.Integral, float: numbers.Real, bool: bool, str: str}  # NumPy's numbers are numbers, too
_LIST = re.compile(r"(\d{1,18}(,\d{1,18})*)?")


def name_flag(name: str) -> str:
    """Return the flag of an option of the command line by its name in Python.

    Example:

    >>> name_flag("embedding_dim")
    '--embedding-dim'
    """
    return "--" + name.replace("_", "-")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a model or its training: purpose, accepted values, default.

    Args:
        name: the argument's name in Python. The flag is `--name` with hyphens.
        type: int, float, bool or str.
        default: the default of `Configuration`. `keras-nplm train` chooses some options by the size of the text.
        help: a noun phrase. Range, choices and default are added to it.
        group: one of `GROUPS`.
        least: the smallest value. Default: no limit.
        below: a value which is too large. Default: no limit.
        choices: the accepted values. Default: any value in the range.
        optional: whether None is accepted, too.
        is_list: whether a string must hold rising integers, separated by commas.
        example: a value that an error message may propose. Default: the default.
        metavar: the name of the value in the usage line. Default: by the type.
        advanced: whether only `--help-all` shows the flag, not `--help`.
    """

    name: str
    type: type
    default: object
    help: str
    group: str = "run"
    least: float | None = None
    below: float | None = None
    choices: tuple[str, ...] | None = None
    optional: bool = False
    is_list: bool = False
    example: object = None
    metavar: str | None = None
    advanced: bool = False

    @property
    def flag(self) -> str:
        """The flag of the command line.

        Example:

        >>> OPTIONS["embedding_dim"].flag
        '--embedding-dim'
        """
        return name_flag(self.name)

    @property
    def range(self) -> str:
        """The accepted values in words, or an empty string if every value of the type is accepted.

        Example:

        >>> OPTIONS["dropout"].range, OPTIONS["order"].range, OPTIONS["boundary"].range
        ('in [0, 1)', '2 to 1,023', 'one of sentence, stream')
        """
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.is_list:
            return "rising integers separated by commas"
        if self.least is None:
            return ""
        if self.below is None:
            return f"{self.least} or more"
        if self.type is float:
            return f"in [{self.least}, {self.below})"
        return f"{self.least} to {int(self.below) - 1:,}"

    def accepts(self, value: object) -> bool:
        """Return whether the value has the right type and lies in the range."""
        if value is None:
            return self.optional
        if not isinstance(value, _KINDS[self.type]) or (isinstance(value, bool) and self.type is not bool):
            return False
        if self.choices:
            return value in self.choices
        if self.is_list:
            return _LIST.fullmatch(value) is not None and _rises(parse_integers(value))
        if self.type is float and not _is_finite(value):
            return False
        return (self.least is None or value >= self.least) and (self.below is None or value < self.below)

    def check(self, value: object, argument: str | None = None) -> None:
        """Refuse a value that is not accepted: see `check_option`."""
        if self.accepts(value):
            return
        right_type = isinstance(value, _KINDS[self.type]) and not isinstance(value, bool)
        kind = [] if self.choices or self.is_list or right_type else [_NAMES[self.type]]
        if self.type is float and right_type and not _is_finite(value):
            kind = ["finite"]
        wanted = ", ".join([*kind, *filter(None, [self.range])])
        wanted += ", or None" if self.optional else ""
        example = self.default if self.example is None else self.example
        raise InputError(
            f"`{argument or self.name}` must be {wanted}. Received: {_shorten(value)}. Fix: give a value such as "
            f"{example!r}."
        )


def _is_finite(value: numbers.Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


def _rises(values: tuple[int, ...]) -> bool:
    return list(values) == sorted(set(values))


def parse_integers(text: str) -> tuple[int, ...]:
    """Return the integers of an option such as `cutoffs`, which are separated by commas.

    Example:

    >>> parse_integers("2000,7000"), parse_integers("")
    ((2000, 7000), ())
    """
    return tuple(map(int, filter(None, text.split(","))))


_SHARE = dict(type=float, least=0, below=1, metavar="P")

_DATA = [
    Option(
        name="corpus",
        group="data",
        type=str,
        default="python_reference",
        help="python_reference, brown, brown/marks, tfds:NAME, or a DIR of prepare",
        metavar="NAME",
    ),
    Option(
        name="token",
        group="data",
        type=str,
        default="word",
        choices=("word", "character"),
        help="unit that is predicted and counted",
    ),
    Option(
        name="tokenizer",
        group="data",
        type=str,
        default="words",
        choices=("words", "whitespace", "sentencepiece"),
        help="tokenizer of text; sentencepiece: subwords",
    ),
    Option(
        name="pieces",
        group="data",
        type=int,
        default=8000,
        least=300,
        help="number of subwords",
    ),
    Option(
        name="pieces_kind",
        advanced=True,
        group="data",
        type=str,
        default="unigram",
        choices=("unigram", "bpe"),
        help="kind of the sentencepiece model",
    ),
    Option(
        name="normalise",
        advanced=True,
        group="data",
        type=str,
        default=None,
        optional=True,
        choices=("lower", "numbers", "lemmas"),
        example="lower",
        help="normalisation of tokens before words are counted",
    ),
    Option(
        name="boundary",
        advanced=True,
        group="data",
        type=str,
        default="sentence",
        choices=("sentence", "stream"),
        help="whether n-grams stay within a sentence, or cross sentence ends as in one stream of words",
    ),
    Option(
        name="vocabulary_scope",
        advanced=True,
        group="data",
        type=str,
        default="train",
        choices=("train", "corpus"),
        help="text whose words are counted: the training split, or all splits as in the paper",
    ),
    Option(
        name="min_count",
        group="data",
        type=int,
        default=2,
        least=1,
        help="least count of a word in the vocabulary; rarer words become <unk>",
    ),
    Option(
        name="max_size",
        advanced=True,
        group="data",
        type=int,
        default=None,
        optional=True,
        least=1,
        example=20_000,
        help="largest number of words in the vocabulary, the most frequent ones",
    ),
    Option(
        name="vocabulary_size",
        group="data",
        type=int,
        default=None,
        least=2,
        example=10_000,
        help="|V|, number of words in the vocabulary with its 4 special tokens",
        metavar="V",
    ),
    Option(
        name="tokens",
        group="data",
        type=int,
        default=None,
        optional=True,
        least=1,
        example=1_000_000,
        help="tokens of the training text",
    ),
]

_MODEL = [
    Option(
        name="order",
        group="model",
        type=int,
        default=21,
        least=2,
        below=1 << 10,
        help="n, order of the n-grams; a context has n-1 words",
    ),
    Option(
        name="embedding_dim",
        group="model",
        type=int,
        default=60,
        least=1,
        help="m, components of a word's feature vector",
        metavar="M",
    ),
    Option(
        name="hidden_units",
        group="model",
        type=int,
        default=100,
        least=0,
        help="h, hidden units; 0 with direct connections means no hidden layer",
        metavar="H",
    ),
    Option(
        name="direct_connections",
        group="model",
        type=bool,
        default=False,
        help="direct connections W from the word features to the output",
    ),
    Option(
        name="pointer",
        advanced=True,
        group="model",
        type=bool,
        default=False,
        help="pointer: the words of the context are outputs of their own, so that the network can repeat them",
    ),
    Option(
        name="averages_after",
        advanced=True,
        group="model",
        type=str,
        default="4",
        is_list=True,
        example="4,20",
        help="distances after which context words are averaged, not concatenated; 4,20 makes one average of words 5 "
        "to 20 back and one of the words from 21 on",
        metavar="N,…",
    ),
    Option(
        name="activation",
        advanced=True,
        group="model",
        type=str,
        default="gelu",
        choices=("tanh", "relu", "gelu", "silu"),
        help="activation of the hidden units; the energy output always uses tanh",
    ),
    Option(
        name="residual_blocks",
        advanced=True,
        group="model",
        type=int,
        default=1,
        least=0,
        below=1 << 10,
        help="further hidden layers, each with a residual connection",
    ),
    Option(
        name="layer_norm",
        advanced=True,
        group="model",
        type=bool,
        default=True,
        help="layer normalisation before each residual block and before the output",
    ),
    Option(
        name="dtype",
        advanced=True,
        group="model",
        type=str,
        default="float32",
        choices=("float32", "mixed_bfloat16"),
        help="number format of matrix products; weights and sums stay float32",
    ),
]

_OUTPUT = [
    Option(
        name="output_layer",
        group="output",
        type=str,
        default="full",
        choices=("full", "sampled", "nce", "adaptive", "energy"),
        help="output layer and its training loss; evaluation is exactly normalised with each",
    ),
    Option(
        name="num_sampled",
        advanced=True,
        group="output",
        type=int,
        default=256,
        least=1,
        below=1 << 20,
        help="k, negative samples per batch of the outputs sampled, nce and energy",
        metavar="K",
    ),
    Option(
        name="proposal",
        advanced=True,
        group="output",
        type=str,
        default="unigram",
        choices=("unigram", "log-uniform"),
        help="proposal distribution of the negative samples",
    ),
    Option(
        name="self_normalisation",
        advanced=True,
        group="output",
        type=float,
        default=0.0,
        least=0,
        help="weight of the penalty on (log Z)^2, which keeps log Z close to 0; not with the adaptive output",
    ),
    Option(
        name="held_out_mass",
        advanced=True,
        group="output",
        default=0.0,
        help="label-smoothing mass for vocabulary words unseen in training; not with the adaptive output",
        **_SHARE,
    ),
    Option(
        name="cutoffs",
        advanced=True,
        group="output",
        type=str,
        default="",
        is_list=True,
        example="2000,7000",
        help="first id of each cluster of the adaptive output, such as 2000,7000; none: a ninth and two fifths of |V|",
        metavar="ID,…",
    ),
    Option(
        name="output_rank",
        advanced=True,
        group="output",
        type=int,
        default=None,
        optional=True,
        least=1,
        example=50,
        help="r, rank of the output matrix: features are projected to r numbers",
        metavar="R",
    ),
    Option(
        name="tied_output",
        advanced=True,
        group="output",
        type=bool,
        default=False,
        help="tied weights: C is also the output matrix, on features projected to m numbers",
    ),
    Option(
        name="shortlist_size",
        advanced=True,
        group="output",
        type=int,
        default=None,
        optional=True,
        least=1,
        example=2000,
        help="s, short-list: the network predicts the s most frequent words, an n-gram model the other words",
        metavar="S",
    ),
    Option(
        name="outside_output",
        advanced=True,
        group="output",
        type=bool,
        default=False,
        help="one more output for all words outside the short-list",
    ),
]

_REGULARISATION = [
    Option(
        name="weight_decay",
        advanced=True,
        group="regularisation",
        type=float,
        default=3e-5,
        least=0,
        help="weight decay (L2) of the weights and C, not of biases: theta -= rate * decay * theta",
    ),
    Option(
        name="dropout",
        group="regularisation",
        default=0.4,
        help="dropout rate of the hidden units",
        **_SHARE,
    ),
    Option(
        name="embedding_dropout",
        advanced=True,
        group="regularisation",
        default=0.2,
        help="dropout rate of the components of the context's feature vectors",
        **_SHARE,
    ),
    Option(
        name="word_dropout",
        advanced=True,
        group="regularisation",
        default=0.0,
        help="dropout rate of whole context words",
        **_SHARE,
    ),
]

_OPTIMISER = [
    Option(
        name="optimizer",
        group="optimiser",
        type=str,
        default="sgd",
        choices=("sgd", "adagrad", "adam"),
        help="optimiser",
    ),
    Option(
        name="learning_rate",
        group="optimiser",
        type=float,
        default=1.4,
        least=0,
        help="learning rate of the first update, for the mean loss of a batch",
    ),
    Option(
        name="schedule",
        advanced=True,
        group="optimiser",
        type=str,
        default="linear",
        choices=("linear", "inverse-time", "constant"),
        help="learning-rate schedule: linear to 0, the paper's eps_0 / (1 + r t), or constant",
    ),
    Option(
        name="decay_rate",
        advanced=True,
        group="optimiser",
        type=float,
        default=1e-8,
        least=0,
        help="r, decay of the learning rate per update with the inverse-time schedule",
        metavar="R",
    ),
    Option(
        name="initial_accumulator",
        advanced=True,
        group="optimiser",
        type=float,
        default=0.1,
        least=0,
        help="initial sum of squared gradients of the optimiser adagrad",
    ),
    Option(
        name="weight_average",
        advanced=True,
        group="optimiser",
        default=0.0,
        help="momentum of the moving average of the weights; 0: no average",
        **_SHARE,
    ),
    Option(
        name="batch_size",
        group="optimiser",
        type=int,
        default=96,
        least=1,
        help="n-grams per update",
    ),
]

_DISTRIBUTION = [
    Option(
        name="strategy",
        group="distribution",
        type=str,
        default="auto",
        choices=("auto", "one-device", "mirrored", "multi-worker"),
        help="distribution strategy: one device, all GPUs of this machine, or the workers that TF_CONFIG names; auto "
        "chooses by the devices and TF_CONFIG",
    ),
    Option(
        name="average_every",
        advanced=True,
        group="distribution",
        type=int,
        default=1,
        least=1,
        below=1 << 20,
        example=32,
        help="K, local SGD: each worker of TF_CONFIG takes K updates on its part of each batch, then all weights are "
        "averaged; 1: synchronous updates; short updates change K by up to 1/16, to make equal rounds of an epoch",
        metavar="K",
    ),
    Option(
        name="worker_timeout",
        advanced=True,
        group="distribution",
        type=int,
        default=300,
        least=1,
        help="seconds that a worker of TF_CONFIG waits for the others before it gives up",
        metavar="SECONDS",
    ),
]

_RUN = [
    Option(
        name="epochs",
        group="run",
        type=int,
        default=12,
        least=1,
        below=1 << 20,
        help="largest number of passes over the training text",
    ),
    Option(
        name="patience",
        advanced=True,
        group="run",
        type=int,
        default=3,
        least=1,
        help="early stopping: epochs without a better validation perplexity before training stops",
    ),
    Option(
        name="seed",
        group="run",
        type=int,
        default=1,
        least=0,
        below=1 << 31,
        help="random seed of initial weights, dropout, negative samples and the order of n-grams",
        metavar="SEED",
    ),
]

OPTIONS: dict[str, Option] = {
    option.name: option for option in (*_DATA, *_MODEL, *_OUTPUT, *_REGULARISATION, *_OPTIMISER, *_DISTRIBUTION, *_RUN)
}


def check_option(name: str, value: object, *, argument: str | None = None) -> None:
    """Refuse a value of another type or out of the range of an option.

    Args:
        name: the option, a key of `OPTIONS`.
        value: the given value.
        argument: the name that the error shows. Default: the option's.

    Raises:
        InputError: the value cannot be used.

    Example:

    >>> check_option("dropout", 1.5)
    Traceback (most recent call last):
    keras_nplm.io.errors.InputError: `dropout` must be in [0, 1). Received: 1.5. Fix: give a value such as 0.4.
    """
    OPTIONS[name].check(value, argument)


def _shorten(value: object) -> str:
    """`repr` of a value, cut after 80 characters."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a huge number"
    return text if len(text) <= 80 else f"{text[:80]}…"
