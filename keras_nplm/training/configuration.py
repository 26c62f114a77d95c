"""Options of a training run, and named configurations: the default, the paper's network, other published variants."""

import dataclasses
import re
import shlex
from collections.abc import Container

from keras_nplm.data.tokenizers.characters import CharacterTokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.tokenizers.subwords import SubwordTokenizer
from keras_nplm.io.errors import check_argument
from keras_nplm.io.options import OPTIONS, check_option, parse_integers
from keras_nplm.io.shapes import near_order


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configuration:
    """The options of a training run: network, output, regularisation, optimiser, vocabulary and epochs.

    Each option is a flag of `keras-nplm train`, whose `--help` documents it with its range. `Configuration()` is the
    named configuration `small`, for texts of about 50,000 tokens. `keras-nplm train` without `--config` uses the
    adaptive default instead: see `choose_configuration`.

    Raises:
        InputError: an option has another type, is out of its range, or contradicts a second option.
    """

    order: int = OPTIONS["order"].default
    embedding_dim: int = OPTIONS["embedding_dim"].default
    hidden_units: int = OPTIONS["hidden_units"].default
    direct_connections: bool = OPTIONS["direct_connections"].default
    weight_decay: float = OPTIONS["weight_decay"].default
    dropout: float = OPTIONS["dropout"].default
    embedding_dropout: float = OPTIONS["embedding_dropout"].default
    held_out_mass: float = OPTIONS["held_out_mass"].default
    output_layer: str = OPTIONS["output_layer"].default
    num_sampled: int = OPTIONS["num_sampled"].default
    proposal: str = OPTIONS["proposal"].default
    self_normalisation: float = OPTIONS["self_normalisation"].default
    cutoffs: str = OPTIONS["cutoffs"].default
    output_rank: int | None = OPTIONS["output_rank"].default
    tied_output: bool = OPTIONS["tied_output"].default
    shortlist_size: int | None = OPTIONS["shortlist_size"].default
    interpolated: bool = OPTIONS["interpolated"].default
    pointer: bool = OPTIONS["pointer"].default
    averages_after: str = OPTIONS["averages_after"].default
    word_dropout: float = OPTIONS["word_dropout"].default
    activation: str = OPTIONS["activation"].default
    residual_blocks: int = OPTIONS["residual_blocks"].default
    layer_norm: bool = OPTIONS["layer_norm"].default
    dtype: str = OPTIONS["dtype"].default
    boundary: str = OPTIONS["boundary"].default
    vocabulary_scope: str = OPTIONS["vocabulary_scope"].default
    min_count: int = OPTIONS["min_count"].default
    max_size: int | None = OPTIONS["max_size"].default
    optimizer: str = OPTIONS["optimizer"].default
    initial_accumulator: float = OPTIONS["initial_accumulator"].default
    learning_rate: float = OPTIONS["learning_rate"].default
    schedule: str = OPTIONS["schedule"].default
    decay_rate: float = OPTIONS["decay_rate"].default
    weight_average: float = OPTIONS["weight_average"].default
    batch_size: int = OPTIONS["batch_size"].default
    segment: int = OPTIONS["segment"].default
    epochs: int = OPTIONS["epochs"].default
    patience: int = OPTIONS["patience"].default
    seed: int = OPTIONS["seed"].default

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_option(field.name, getattr(self, field.name))
        self._check_pairs()

    def _check_pairs(self) -> None:
        """Refuse options that contradict each other."""
        output, is_listed = self.output_layer, self.shortlist_size is not None
        without_rows, rows = output in ("adaptive", "energy", "hybrid"), "choose the output full, sampled or nce."
        without_w = output in ("adaptive", "energy")
        adaptive, no_features = output == "adaptive", not (self.hidden_units or self.direct_connections)
        has_ngrams = is_listed or output == "hybrid"
        for option, conflicts, wanted, fix in (
            ("held_out_mass", adaptive and self.held_out_mass, "0 with `output_layer` adaptive", "leave it out."),
            ("self_normalisation", adaptive and self.self_normalisation, "0 with `output_layer` adaptive", rows),
            ("shortlist_size", without_rows and is_listed, f"left out with `output_layer` {output}", rows),
            ("shortlist_size", self.tied_output and is_listed, "left out with `tied_output`", "leave one of both out."),
            ("pointer", without_rows and self.pointer, f"off with `output_layer` {output}", rows),
            ("direct_connections", without_w and self.direct_connections, f"off with `output_layer` {output}", rows),
            ("batch_size", self.batch_size % self.segment, f"a multiple of `segment`, {self.segment}", "change one."),
            ("interpolated", has_ngrams and self.interpolated, "off with a short-list or hybrid", "leave one out."),
            ("hidden_units", no_features, "1 or more without `direct_connections`", "turn on `direct_connections`."),
        ):
            check_argument(option, not conflicts, wanted, getattr(self, option), fix)

    @property
    def kind(self) -> str:
        """The kind of the trained model in `config.json`."""
        if self.output_layer == "hybrid":
            return "hybrid"
        if self.shortlist_size is not None:
            return "shortlist"
        return "mixture" if self.interpolated else "nplm"

    @property
    def is_sampled(self) -> bool:
        """Whether training computes the scores of sampled words only."""
        return self.output_layer in ("sampled", "nce", "energy")

    @property
    def has_background(self) -> bool:
        """Whether the model has an n-gram model beside its network: a short-list, a hybrid or a mixture."""
        return self.kind != "nplm"

    @property
    def ngram_order(self) -> int:
        """The n-gram order that matches the network's concatenated (not averaged) context."""
        return near_order(self.order, self.averages)

    @property
    def averages(self) -> tuple[int, ...]:
        """The distances of `averages_after` that lie within the context."""
        return tuple(distance for distance in parse_integers(self.averages_after) if distance < self.order - 1)


# The paper's network: n-1 words concatenated, one tanh layer, n-grams that cross sentence ends.
_ONE_LAYER = dict(averages_after="", activation="tanh", residual_blocks=0, layer_norm=False)
_PAPER_TRAINING = dict(dropout=0.15, embedding_dropout=0.0, learning_rate=1.8, epochs=9)
_PAPER_NETWORK = _ONE_LAYER | dict(order=5, boundary="stream") | _PAPER_TRAINING

# The paper's vocabulary of Brown: words seen 3 times or fewer in the whole corpus are merged into one.
_BROWN = _PAPER_NETWORK | dict(vocabulary_scope="corpus", min_count=4)
_MLP1 = _BROWN | dict(hidden_units=50, direct_connections=True, epochs=5)

# The paper's optimiser: per example a step of 1e-3/(1 + 1e-8 t) and weight decay 1e-4. A batch of 512 examples takes
# the sum of their steps: the rate for its mean is 512 times as large, and t counts 512 examples per update.
_PAPER_RATE = dict(schedule="inverse-time", learning_rate=1e-3 * 512, decay_rate=1e-8 * 512, batch_size=512)
_PAPER_OPTIMISER = _PAPER_RATE | dict(weight_decay=1e-4, dropout=0.0, epochs=5)

_NAMES_NETWORK = dict(order=11, averages_after="", embedding_dim=20, hidden_units=200, activation="tanh", min_count=1)
_NAMES_TRAINING = dict(dropout=0.3, embedding_dropout=0.0, optimizer="adam", learning_rate=3e-3, batch_size=256)
_NAMES = _NAMES_NETWORK | _NAMES_TRAINING | dict(epochs=20)

# For 100 million words and more on GPUs, after Sun & Iyyer (2021).
_LARGE_CONTEXT = dict(order=257, averages_after="8,16,32,64,128", boundary="stream")
_LARGE_NETWORK = dict(embedding_dim=512, hidden_units=2048, residual_blocks=6, tied_output=True, dtype="mixed_bfloat16")
_LARGE_TRAINING = dict(dropout=0.1, embedding_dropout=0.1, optimizer="adam", learning_rate=1e-3, weight_decay=0.01)
_LARGE = _LARGE_CONTEXT | _LARGE_NETWORK | _LARGE_TRAINING | dict(batch_size=4096, epochs=10)

# For phones: 4,000 subwords with two tables of 100 and 200 columns fill 1.4 MB in 8 bits. A tied output would not be
# smaller, because an 8-bit file holds the table of an embedding and that of a product apart.
_PHONE_NETWORK = dict(embedding_dim=100, hidden_units=200, output_layer="sampled", num_sampled=256)
_PHONE = _PHONE_NETWORK | dict(dropout=0.18, embedding_dropout=0.09, batch_size=64, learning_rate=1.4, epochs=4)

_NCE = _BROWN | dict(output_layer="nce", held_out_mass=0.04, dropout=0.0)
_NCE_QUICK = _NCE | dict(num_sampled=256, self_normalisation=1.0, batch_size=128, epochs=3)
_BROWN_NCE = _NCE | dict(num_sampled=512, self_normalisation=0.3, batch_size=64, epochs=5)

# The last 4 words in their order, windows of dozens of words as averages, one residual block.
_MODERN_CONTEXT = dict(order=61, averages_after="4,10,20,40", dropout=0.2, learning_rate=1.2)
_MODERN_NETWORK = dict(embedding_dim=100, hidden_units=200, activation="gelu", residual_blocks=1, layer_norm=True)
_MODERN_DROPOUT = dict(dropout=0.3, embedding_dropout=0.1)
_MODERN_SMALL = _BROWN_NCE | _MODERN_CONTEXT | _MODERN_NETWORK

# The pointer repeats names and topic words, so four times as many words of context pay.
POINTER_SEGMENT = 16  # targets that share the look-up of the many words of a pointer
_POINTER_CONTEXT = dict(order=241, averages_after="4,10,20,40,80,160", pointer=True)
_POINTER_TRAINING = dict(segment=POINTER_SEGMENT, batch_size=128, learning_rate=1.4, epochs=8)
_MODERN_POINTER = _MODERN_SMALL | _MODERN_DROPOUT | _POINTER_CONTEXT | _POINTER_TRAINING

# Gradients of C, H and v differ by orders of magnitude in the energy output: Adagrad scales each.
_ENERGY_OPTIMISER = dict(optimizer="adagrad", initial_accumulator=1e-5, learning_rate=0.1, batch_size=64, epochs=4)
_ENERGY = _BROWN | _ENERGY_OPTIMISER | dict(output_layer="energy", num_sampled=128, weight_decay=0.0, dropout=0.0)

SMALL = "small"  # the named configuration that `Configuration()` is

# name: what it is for, and its differences from `Configuration()`
_NAMED: dict[str, tuple[str, dict]] = {
    SMALL: ("50,000 words of any kind: 4 words and the average of 16 more, one residual block", {}),
    "bengio2003": ("the network of Bengio et al. (2003): n=5, m=60, h=50, direct connections, tanh", _MLP1),
    "brown": ("the paper's network tuned for Brown, full softmax", _BROWN | dict(held_out_mass=0.04, epochs=6)),
    "brown-nce": ("Brown with noise-contrastive estimation, 512 negative samples", _BROWN_NCE),
    "brown-nce-quick": ("the same in 3 epochs, self-normalised: log Z close to 0", _NCE_QUICK),
    "brown-energy": ("the paper's energy-based variant (section 5.1) on Brown", _ENERGY),
    "modern-small": ("NCE, 60 words of context with averages, residual block; minutes on a CPU", _MODERN_SMALL),
    "modern": ("modern-small with more dropout and more epochs", _MODERN_SMALL | _MODERN_DROPOUT | dict(epochs=8)),
    "modern-pointer": ("modern with a pointer to 240 words of context, which it can repeat", _MODERN_POINTER),
    "modern-large": ("256 words of context, 6 residual blocks, for 100 million words and GPUs", _LARGE),
    "phone": ("1 million subwords, below 2 MB in 8 bits; --tokenizer sentencepiece --pieces 4000", _PHONE),
    "names": ("characters of names, one name a line; --token character", _NAMES),
    "mlp1": ("row MLP1 of the paper's Table 1: n=5, h=50, m=60, direct connections", _MLP1),
    "mlp3": ("row MLP3: n=5, no hidden layer, m=60, direct connections", _MLP1 | dict(hidden_units=0, epochs=4)),
    "mlp5": ("row MLP5: n=5, h=50, m=30, direct connections", _MLP1 | dict(embedding_dim=30, epochs=6)),
    "mlp7": ("row MLP7: n=3, h=50, m=30, direct connections", _MLP1 | dict(order=3, embedding_dim=30, epochs=6)),
    "mlp9": ("row MLP9: n=5, h=100, m=30, no direct connections", _BROWN | dict(embedding_dim=30, epochs=6)),
    "mlp1-paper": ("row MLP1 with the paper's own optimiser", _MLP1 | _PAPER_OPTIMISER),
}

CONFIGURATIONS = {name: Configuration(**options) for name, (_, options) in _NAMED.items()}
TOKENIZERS = {  # without flags
    "names": {"tokenizer": CharacterTokenizer.kind},
    "phone": {"tokenizer": SubwordTokenizer.kind, "pieces": 4000},
}
DESCRIPTIONS = {name: description for name, (description, _) in _NAMED.items()}


_CORPUS = re.compile(r"python_reference|brown(/marks)?|tfds:[\w/:.=,*-]+")  # text files have no name to repeat


def train_command(config: dict) -> str | None:
    """Return the `keras-nplm train` command that reproduces a `config.json`, without its `--output`.

    None if it was not trained, or if its text files, subwords or background model have no name to repeat.

    >>> train_command({"corpus": "brown", **dataclasses.asdict(CONFIGURATIONS["brown"])})
    'keras-nplm train --corpus brown --config brown'
    """
    corpus = config.get("corpus", "text ")
    if "output_layer" not in config or "background" in config or not _CORPUS.fullmatch(corpus):
        return None
    tokenizer = get_tokenizer(config.get("tokenizer", "words"))
    if tokenizer.is_trained:
        return None
    words = ["keras-nplm", "train"] + (["--corpus", corpus] if corpus != "python_reference" else [])
    names = [field.name for field in dataclasses.fields(Configuration)]
    chosen = Configuration(**{name: config[name] for name in names if name in config})
    nearest = min(CONFIGURATIONS, key=lambda name: len(_list_differences(chosen, name)))
    if not tokenizer.tokens_are_words or corpus.startswith("tfds:") or nearest in TOKENIZERS:
        words += tokenizer.flags
    if tokenizer.steps:
        words += ["--normalise", *tokenizer.steps]
    # of tokens that are not counted, which these flags would contradict
    without = () if tokenizer.has_unknown else ("min_count", "max_size")
    return shlex.join([*words, "--config", nearest, *list_flags(chosen, nearest, without=without)])


def list_flags(configuration: Configuration, base: str, *, without: Container[str] = ()) -> list[str]:
    """List the flags that turn a named configuration into another one."""
    words: list[str] = []
    for option in (name for name in _list_differences(configuration, base) if name not in without):
        flag, value = OPTIONS[option].flag, getattr(configuration, option)
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words += [flag, str(value)]
    return words


def _list_differences(configuration: Configuration, base: str) -> list[str]:
    """The options in which a configuration differs from a named one."""
    names = [field.name for field in dataclasses.fields(Configuration)]
    return [name for name in names if getattr(configuration, name) != getattr(CONFIGURATIONS[base], name)]
