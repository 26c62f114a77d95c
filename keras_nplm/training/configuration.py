"""The options of a training run, and the named sets of them: the defaults, the paper's rows, the sources' sketch."""

import dataclasses
import math
import numbers
import re
import shlex

from keras_nplm.data.ngram_arrays import BOUNDARIES
from keras_nplm.data.tokenizers import CHARACTERS, name_parts
from keras_nplm.io.errors import InputError
from keras_nplm.layers.context import check_averages, near_order
from keras_nplm.layers.hidden import ACTIVATIONS
from keras_nplm.layers.outputs import OUTPUTS, PROPOSALS
from keras_nplm.training.optimizers import OPTIMIZERS

_NUMBERS = r"(\d{1,18}(,\d{1,18})*)?"
DTYPES = ("float32", "mixed_bfloat16")
SCHEDULES = ("linear", "inverse-time", "constant")
SCOPES = ("train", "corpus")
_TYPES = {int: numbers.Integral, float: numbers.Real, int | None: numbers.Integral | None}  # NumPy's numbers, too


def _option(default, help, *, least=None, below=None, choices=None):
    """A field with what it is for and the values that it may take."""
    return dataclasses.field(default=default, metadata=dict(help=help, least=least, below=below, choices=choices))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configuration:
    """The options of a training run; each is a flag of `keras-nplm train`.

    Raises:
        InputError: an option is out of its range.

    Example:

    >>> Configuration(order=3, embedding_dim=30).order
    3
    """

    order: int = _option(5, "n: a context has n-1 words", least=2, below=1 << 10)
    embedding_dim: int = _option(60, "m: components of a word's feature vector", least=1)
    hidden_units: int = _option(100, "h: hidden units; 0, with direct connections, for no hidden layer", least=0)
    direct_connections: bool = _option(False, "connect the word features straight to the output (W)")
    weight_decay: float = _option(3e-5, "on weights and C, not on biases; theta -= rate decay theta", least=0)
    dropout: float = _option(0.15, "share of hidden units left out in training", least=0, below=1)
    embedding_dropout: float = _option(0.0, "share of the context's components left out in training", least=0, below=1)
    held_out_mass: float = _option(0.0, "probability for words that training lacks; not adaptive", least=0, below=1)
    output_layer: str = _option(
        "full", "how the output trains; probabilities are exact with each", choices=tuple(OUTPUTS)
    )
    num_sampled: int = _option(256, "k: words drawn a batch, by sampled, nce and energy", least=1, below=1 << 20)
    proposal: str = _option("unigram", "how they are drawn", choices=PROPOSALS)
    self_normalisation: float = _option(0.0, "keeps ln Z near 0 (not adaptive)", least=0)
    cutoffs: str = _option("", "adaptive: first ids of its clusters, as 2000,7000; default: by |V|")
    output_rank: int | None = _option(None, "low-rank output: features projected to so many first", least=1)
    tied_output: bool = _option(False, "let C be the output's kernel too, on features projected to m")
    shortlist_size: int | None = _option(None, "s: predict the s most frequent words; n-grams the others", least=1)
    outside_output: bool = _option(False, "with a short-list: one more output, for words outside it")
    averages_after: str = _option("", "4,20: words 5 to 20 back enter as one average, those from 21 on as another")
    word_dropout: float = _option(0.0, "share of the context's words left out in training", least=0, below=1)
    activation: str = _option("tanh", "of hidden units (not of the energy output's)", choices=ACTIVATIONS)
    residual_blocks: int = _option(0, "further hidden layers, each added to what it is given", least=0, below=1 << 10)
    layer_norm: bool = _option(False, "normalise what residual blocks and output are given")
    dtype: str = _option("float32", "of matrix products; weights and sums stay float32", choices=DTYPES)
    boundary: str = _option("stream", "whether n-grams cross sentence ends", choices=BOUNDARIES)
    vocabulary_scope: str = _option("train", "where words are counted; in the paper the corpus", choices=SCOPES)
    min_count: int = _option(2, "words seen less often become <unk>", least=1)
    max_size: int | None = _option(None, "keep this many words at most", least=1)
    optimizer: str = _option("sgd", "the optimiser", choices=tuple(OPTIMIZERS))
    initial_accumulator: float = _option(0.1, "adagrad: where its sums of squared gradients begin", least=0)
    learning_rate: float = _option(1.8, "at the start, for the mean loss of a batch", least=0)
    schedule: str = _option("linear", "linear: to 0; inverse-time: the paper's eps_0/(1+rt)", choices=SCHEDULES)
    decay_rate: float = _option(1e-8, "r of the inverse-time schedule; t counts updates", least=0)
    weight_average: float = _option(0.0, "keep a moving average of the weights, of this momentum", least=0, below=1)
    batch_size: int = _option(96, "n-grams in an update", least=1)
    epochs: int = _option(9, "passes over the training text, at most", least=1, below=1 << 20)
    patience: int = _option(3, "epochs without a better validation perplexity before training stops", least=1)
    seed: int = _option(1, "of initialisation, dropout, drawn words and the order of n-grams", least=0, below=1 << 31)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value, allowed = getattr(self, field.name), field.metadata
            if not isinstance(value, _TYPES.get(field.type, field.type)):
                raise InputError(f"`{field.name}` must be of another type. Received: {value!r}.")
            if allowed["choices"] and value not in allowed["choices"]:
                raise InputError(f"`{field.name}` must be one of {', '.join(allowed['choices'])}. Received: {value!r}.")
            if value is None or allowed["least"] is None:
                continue
            if not allowed["least"] <= value < (allowed["below"] or math.inf):
                below = f", below {allowed['below']}" if allowed["below"] else ""
                raise InputError(f"`{field.name}` must be {allowed['least']} or more{below}. Received: {value}.")
        for option in ("held_out_mass", "self_normalisation"):
            value = getattr(self, option)
            if self.output_layer == "adaptive" and value:
                raise InputError(f"`{option}` must be 0 with `output_layer` adaptive. Received: {value}.")
        no_rows = self.output_layer in ("adaptive", "energy")
        refused = {f"an {self.output_layer} output": no_rows, "a tied output": self.tied_output}
        for what in [what for what, on in refused.items() if on and self.shortlist_size is not None]:
            raise InputError(f"`shortlist_size` cannot go with {what}. Received: {self.shortlist_size}.")
        if self.outside_output and self.shortlist_size is None:
            raise InputError("`outside_output` must be off without a `shortlist_size`: nothing is outside.")
        for option in ("cutoffs", "averages_after"):
            value = getattr(self, option)
            if not re.fullmatch(_NUMBERS, value):
                raise InputError(f"`{option}` must be numbers with commas between them. Received: {value!r}.")
        check_averages(numbers_of(self.averages_after))
        if not self.hidden_units and not self.direct_connections:
            raise InputError("`hidden_units` must be 1 or more without `direct_connections`. Received: 0.")

    @property
    def ngram_order(self) -> int:
        """The order of the n-gram model that sees the words which the network sees each in its place."""
        return near_order(self.order, self.averages)

    @property
    def averages(self) -> tuple[int, ...]:
        """The numbers of `averages_after` beyond which the context has words."""
        return tuple(edge for edge in numbers_of(self.averages_after) if edge < self.order - 1)


def numbers_of(text: str) -> tuple[int, ...]:
    """The numbers of an option such as `cutoffs`.

    Example:

    >>> numbers_of("2000,7000"), numbers_of("")
    ((2000, 7000), ())
    """
    return tuple(map(int, filter(None, text.split(","))))


# The paper's rule for the words of Brown: those seen 3 times or fewer in the whole corpus are merged into one.
_PAPER = Configuration(vocabulary_scope="corpus", min_count=4)

# The paper's optimiser: a step of 1e-3/(1 + 1e-8 t) an example and weight decay 1e-4. A batch of 512 examples takes the
# sum of their steps: 512 times the step for its mean, and t counts 512 at a time.
_PAPER_BATCH = 512
_PAPER_OPTIMISER = dict(
    schedule="inverse-time",
    learning_rate=1e-3 * _PAPER_BATCH,
    decay_rate=1e-8 * _PAPER_BATCH,
    batch_size=_PAPER_BATCH,
    weight_decay=1e-4,
    dropout=0.0,
    epochs=5,
)

# The body of the modern networks: one more hidden layer, what goes into it and out of it normalised.
_BODY = dict(residual_blocks=1, layer_norm=True, activation="gelu")

# For text of any kind, where there is little of it.
_DEFAULT = _BODY | dict(order=21, averages_after="4", embedding_dropout=0.2, dropout=0.4, learning_rate=1.4, epochs=12)

# For the characters of names, one a line.
_NAMES = dict(
    order=11,
    embedding_dim=20,
    hidden_units=200,
    residual_blocks=1,
    layer_norm=True,
    dropout=0.3,
    min_count=1,
    optimizer="adam",
    learning_rate=3e-3,
    batch_size=256,
    epochs=20,
)

# For 100 million words and more on GPUs, after Sun & Iyyer (2021).
_LARGE = dict(
    order=257,
    averages_after="8,16,32,64,128",
    embedding_dim=512,
    hidden_units=2048,
    activation="gelu",
    residual_blocks=6,
    layer_norm=True,
    dropout=0.1,
    embedding_dropout=0.1,
    tied_output=True,
    dtype="mixed_bfloat16",
    optimizer="adam",
    learning_rate=1e-3,
    weight_decay=0.01,
    batch_size=4096,
    epochs=10,
)

# Noise-contrastive estimation whose logits will do as log-probabilities.
_NCE = dict(output_layer="nce", held_out_mass=0.04, dropout=0.0)
_BROWN_NCE = _NCE | dict(num_sampled=512, self_normalisation=0.3, batch_size=64, epochs=5)

# Beyond four words in their places, windows of dozens of words as averages, for what the text is about.
_MODERN_SMALL = (
    _BROWN_NCE
    | _BODY
    | dict(
        order=61,
        averages_after="4,10,20,40",
        embedding_dim=100,
        hidden_units=200,
        dropout=0.2,
        learning_rate=1.2,
    )
)

_MODERN = _MODERN_SMALL | dict(dropout=0.3, embedding_dropout=0.1, epochs=8)

# The energy-based variant; its rows of C, H and v want steps of sizes that are far apart.
_ENERGY = dict(
    output_layer="energy",
    num_sampled=128,
    optimizer="adagrad",
    initial_accumulator=1e-5,
    learning_rate=0.1,
    batch_size=64,
    weight_decay=0.0,
    dropout=0.0,
    epochs=4,
)


def _paper(**options) -> Configuration:
    return dataclasses.replace(_PAPER, **options)


CONFIGURATIONS: dict[str, Configuration] = {
    "default": Configuration(boundary="sentence", **_DEFAULT),
    "brown": _paper(held_out_mass=0.04, epochs=6),
    "brown-quick": _paper(held_out_mass=0.04, epochs=2, dropout=0.0),
    "brown-nce": _paper(**_BROWN_NCE),
    "brown-nce-quick": _paper(**_NCE, num_sampled=256, self_normalisation=1.0, batch_size=128, epochs=3),
    "brown-energy": _paper(**_ENERGY),
    "modern-small": _paper(**_MODERN_SMALL),
    "modern": _paper(**_MODERN),
    "modern-large": Configuration(**_LARGE),
    "names": Configuration(boundary="sentence", **_NAMES),
    "mlp1": _paper(order=5, hidden_units=50, embedding_dim=60, direct_connections=True, epochs=5),
    "mlp3": _paper(order=5, hidden_units=0, embedding_dim=60, direct_connections=True, epochs=4),
    "mlp5": _paper(order=5, hidden_units=50, embedding_dim=30, direct_connections=True, epochs=6),
    "mlp7": _paper(order=3, hidden_units=50, embedding_dim=30, direct_connections=True, epochs=6),
    "mlp9": _paper(order=5, hidden_units=100, embedding_dim=30, epochs=6),
    "mlp1-paper": _paper(order=5, hidden_units=50, embedding_dim=60, direct_connections=True, **_PAPER_OPTIMISER),
    "sketch": _paper(order=11, hidden_units=50, embedding_dim=30, direct_connections=True),
}


def train_command(config: dict) -> str | None:
    """The command that trains a model with the options of a `config.json`, all but its `--output`.

    Returns:
        None where the model is no network, or its text files or background are not known by name.

    Example:

    >>> train_command({"kind": "nplm", "corpus": "brown", **dataclasses.asdict(CONFIGURATIONS["brown-quick"])})
    'keras-nplm train --corpus brown --config brown-quick'
    """
    corpus = config.get("corpus", "text ")
    if config.get("kind") not in ("nplm", "shortlist") or corpus.startswith("text ") or "background" in config:
        return None
    words = ["keras-nplm", "train"]
    words += ["--corpus", corpus] if corpus != "python_reference" else []
    base, steps = name_parts(config.get("tokenizer", "words"))
    words += ["--token", "character"] if base == CHARACTERS else []
    words += ["--tokenizer", base] if corpus.startswith("tfds:") and base != CHARACTERS else []
    words += ["--normalise", *steps] if steps else []
    names = [field.name for field in dataclasses.fields(Configuration)]
    chosen = Configuration(**{name: config[name] for name in names if name in config})
    differing = {
        named: [name for name in names if getattr(chosen, name) != getattr(base, name)]
        for named, base in CONFIGURATIONS.items()
    }
    named = min(differing, key=lambda named: len(differing[named]))
    words += ["--config", named] if named != "default" else []
    for name in differing[named]:
        flag, value = name.replace("_", "-"), getattr(chosen, name)
        words += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return shlex.join(words)
