"""The table of options: name, type, range, choices, default, help and group of each option of a model and its training.

`NPLM`, `Configuration` and the flags of the command line all use this table, so that an option is described once.
It imports neither Keras nor TensorFlow. The choices are literal tuples: a test compares them with the code.
"""

import dataclasses
import numbers
import re
import sys
from collections.abc import Iterator

from keras_nplm.io.errors import check_argument, shorten_value

GROUPS = {
    "data": "text, tokens and vocabulary",
    "model": "context and hidden layers",
    "output": "output layer",
    "regularisation": "regularisation",
    "optimiser": "optimiser and learning rate",
    "distribution": "devices and workers",
    "run": "training run",
}
_NAMES = {int: "an integer", float: "a finite number", bool: "True or False", str: "a string"}
_KINDS = {int: numbers.Integral, float: numbers.Real, bool: bool, str: str}  # NumPy's numbers are numbers, too
_LIST = re.compile(r"(\d{1,18}(,\d{1,18})*)?")


def name_flag(name: str) -> str:
    """Return the flag of an option by its name in Python: `--embedding-dim`."""
    return "--" + name.replace("_", "-")


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of a model, its training or a command."""

    name: str  # in Python; the flag is `--name` with hyphens
    type: type
    default: object
    help: str  # a noun phrase; range, choices and default are added to it
    group: str = "run"  # a key of GROUPS
    least: float | None = None
    below: float | None = None  # the first value that is too large
    choices: tuple[str, ...] | None = None
    optional: bool = False  # None is accepted, too
    is_list: bool = False  # a string of rising integers, separated by commas
    example: object = None  # a value that an error message proposes if there is no default
    metavar: str | None = None  # the value in the usage line, by default after the type
    advanced: bool = False  # only `--help-all` shows the flag

    @property
    def flag(self) -> str:
        return name_flag(self.name)

    @property
    def range(self) -> str:
        """The accepted values in words, or an empty string if every value of the type is accepted."""
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
        if value is None or not self._has_type(value):
            return value is None and self.optional
        if self.choices:
            return value in self.choices
        if self.is_list:
            return _LIST.fullmatch(value) is not None and sorted({*parse_integers(value)}) == [*parse_integers(value)]
        return (self.least is None or value >= self.least) and (self.below is None or value < self.below)

    def _has_type(self, value: object) -> bool:
        if not isinstance(value, _KINDS[self.type]) or (isinstance(value, bool) and self.type is not bool):
            return False
        return self.type is not float or abs(value) <= sys.float_info.max

    def check(self, value: object, argument: str | None = None) -> None:
        """Refuse a value that is not accepted. The error may name a different `argument`."""
        if self.accepts(value):
            return
        kind = "" if self.choices or self.is_list or self._has_type(value) else _NAMES[self.type]
        wanted = ", ".join(filter(None, [kind, self.range, "or None" * self.optional]))
        example = self.default if self.example is None else self.example
        if example is None and self.choices:
            example = self.choices[0]
        fix = "leave it out." if example is None else f"give a value such as {example!r}."
        check_argument(argument or self.name, False, wanted, shorten_value(value), fix)


def parse_integers(text: str) -> tuple[int, ...]:
    """Return the integers of an option such as `cutoffs`, which are separated by commas."""
    return tuple(map(int, filter(None, text.split(","))))


# Of each group its options: name, with * if advanced; type, with ? if None is accepted; default; range: help.
_TABLE = """
[data]
corpus str python_reference any: python_reference, brown, brown/marks, tfds:NAME, or a DIR of prepare
token str word word|character: unit that is predicted and counted
tokenizer str words any: tokenizer of text
pieces int 8000 300..1000000: number of subwords
pieces_kind* str unigram unigram|bpe: kind of the sentencepiece model
normalise* str? none lower|numbers|lemmas: normalisation of tokens before words are counted
boundary* str sentence sentence|text|stream: where contexts end: at </s>; at blank lines; nowhere, in words without </s>
vocabulary_scope* str train train|corpus: text whose words are counted: that of training, or all splits as in the paper
min_count int 2 1..: least count of a word in the vocabulary; rarer words become <unk>
max_size* int? none 1..: largest number of words in the vocabulary, the most frequent ones
vocabulary_size int none 2..: |V|, number of words in the vocabulary with its 4 special tokens
tokens int? none 1..: tokens of the training text

[model]
order int 21 2..1023: n, order of the n-grams; a context has n-1 words
embedding_dim int 60 1..: m, components of a word's feature vector
hidden_units int 100 0..: h, hidden units; 0 with direct connections means no hidden layer
direct_connections bool False any: direct connections W from the word features to the output
pointer* bool False any: pointer: the words of the context are outputs of their own, so that the network can repeat them
averages_after* str 4 list: distances after which context words are averaged; 4,20: words 5 to 20 back, and from 21 on
activation* str gelu tanh|relu|gelu|silu: activation of the hidden units; the energy output always uses tanh
residual_blocks* int 1 0..1023: further hidden layers, each with a residual connection
layer_norm* bool True any: layer normalisation before each residual block and before the output
dtype* str float32 float32|mixed_bfloat16: number format of matrix products; weights and sums stay float32

[output]
output_layer str full full|sampled|nce|adaptive|energy|hybrid: output layer and its loss; its evaluation is exact
num_sampled* int 256 1..1048575: k, negative samples per batch of the outputs sampled, nce and energy
proposal* str unigram unigram|log-uniform: proposal distribution of the negative samples
self_normalisation* float 0.0 0..: weight of the penalty on (log Z)^2, which keeps log Z near 0; not with adaptive
held_out_mass* float 0.0 share: label-smoothing mass for words unseen in training; not with adaptive
cutoffs* str "" list: first id of each cluster of the adaptive output; none: a ninth and two fifths of |V|
output_rank* int? none 1..: r, rank of the output matrix: features are projected to r numbers
tied_output* bool False any: tied weights: C is also the output matrix, on features projected to m numbers
shortlist_size* int? none 1..: s, short-list: the network predicts the s most frequent words, an n-gram model the others
interpolated bool False any: mix a Kneser-Ney model of the same text in, by a weight fitted on validation

[regularisation]
weight_decay* float 3e-5 0..: weight decay (L2) of the weights and C, not of biases: theta -= rate * decay * theta
dropout float 0.4 share: dropout rate of the hidden units
embedding_dropout* float 0.2 share: dropout rate of the components of the context's feature vectors
word_dropout* float 0.0 share: dropout rate of whole context words

[optimiser]
optimizer* str sgd sgd|adagrad|adam: optimiser
learning_rate float 1.4 0..: learning rate of the first update
schedule* str linear linear|inverse-time|constant: learning rate: linear to 0, the paper's eps_0 / (1 + r t), constant
decay_rate* float 1e-8 0..: r, decay of the learning rate per update with the inverse-time schedule
initial_accumulator* float 0.1 0..: initial sum of squared gradients of the optimiser adagrad
weight_average* float 0.0 share: momentum of the moving average of the weights; 0: no average
batch_size* int 96 1..: n-grams per update
segment* int 1 1..1024: T, consecutive targets that share the look-up of their words; batch_size is a multiple of it

[distribution]
strategy str auto auto|one-device|mirrored|multi-worker: one device, all GPUs here, or the workers of TF_CONFIG
worker_timeout* int 300 1..: seconds that a worker of TF_CONFIG waits for the others before it gives up

[run]
epochs int 12 1..1048575: epochs, at most
patience* int 3 1..: early stopping: epochs without a better validation perplexity before training stops
minutes float? none 0..: minutes of one core for the run, which choose the options
seed int 1 0..2147483647: random seed of initial weights, dropout, samples and the order of n-grams
"""
_EXAMPLES = dict(cutoffs="2000,7000", max_size=20_000, tokens=1_000_000, vocabulary_size=10_000) | dict(
    normalise="lower", output_rank=50, shortlist_size=2000, minutes=30.0
)


def _read_table() -> Iterator[Option]:
    types, group = {"int": int, "float": float, "bool": bool, "str": str}, ""
    for line in filter(None, _TABLE.splitlines()):
        if line.startswith("["):
            group = line[1:-1]
            continue
        fields, help = line.split(": ", 1)
        name, kind, default, accepted = fields.split()
        type = types[kind.rstrip("?")]
        value = {"none": None, "False": False, "True": True, '""': ""}.get(default, default)
        value = type(value) if isinstance(value, str) else value
        rest = dict(optional=kind.endswith("?"), example=_EXAMPLES.get(name.rstrip("*")), advanced=name.endswith("*"))
        yield Option(name.rstrip("*"), type, value, help, group, **rest, **_read_range(accepted))


def _read_range(accepted: str) -> dict:
    if accepted in ("any", "list", "share"):
        return {"any": {}, "list": dict(is_list=True), "share": dict(least=0, below=1)}[accepted]
    if ".." not in accepted:
        return dict(choices=tuple(accepted.split("|")))
    least, _, most = accepted.partition("..")
    return dict(least=int(least), below=int(most) + 1 if most else None)


OPTIONS: dict[str, Option] = {option.name: option for option in _read_table()}


def check_option(name: str, value: object) -> None:
    """Refuse a value of another type or out of the range of an option."""
    OPTIONS[name].check(value)
