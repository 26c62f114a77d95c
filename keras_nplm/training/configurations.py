"""Named configurations: the paper's networks and other published variants."""

import dataclasses
import re
import shlex
from collections.abc import Container, Mapping
from typing import Any

from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.training.options import (
    CorpusOptions,
    Options,
    describe_run_options,
    read_options,
)


@dataclasses.dataclass(frozen=True)
class NamedConfiguration:
    """Options under a name, as `--config` takes it."""

    name: str
    description: str
    options: Options = Options()
    corpus: CorpusOptions = CorpusOptions()
    """its tokenizer is that of the configuration, where no flag gives another one"""


SMALL = "small"  # the named configuration that `Options()` is
POINTER_SEGMENT = 16  # targets that share the look-up of the many words of a pointer

CONFIGURATIONS: dict[str, NamedConfiguration] = {}


def _name(
    name: str,
    description: str,
    base: Options = Options(),
    corpus: CorpusOptions = CorpusOptions(),
    **changes: Any,
) -> Options:
    """Name the options that differ from others by some changes, and return them."""
    options = base.replace(**changes)
    CONFIGURATIONS[name] = NamedConfiguration(name, description, options, corpus)
    return options


_name(SMALL, "for about 50,000 words: 4 words and the average of 16 more, one residual block")

# The paper's network of Brown: n-1 words concatenated, one tanh layer, n-grams that cross sentence
# ends; words seen 3 times or fewer in the whole corpus are merged into one.
_PAPER = Options.of(
    boundary="stream",
    vocabulary_scope="corpus",
    min_count=4,
    order=5,
    context="concatenated",
    hidden="tanh",
    dropout=0.15,
    embedding_dropout=0.0,
    learning_rate=1.8,
    epochs=6,
)
_MLP1 = _name(
    "bengio2003",
    "the network of Bengio et al. (2003): n=5, m=60, h=50, direct connections, tanh",
    _PAPER,
    hidden_units=50,
    direct_connections=True,
    epochs=5,
)
_BROWN = _name(
    "brown", "the paper's network tuned for Brown, full softmax", _PAPER, held_out_mass=0.04
)
_BROWN_NCE = _name(
    "brown-nce",
    "Brown with noise-contrastive estimation, 512 negative samples",
    _BROWN,
    objective="nce",
    num_sampled=512,
    self_normalisation=0.3,
    dropout=0.0,
    batch_size=64,
    epochs=5,
)
_name(
    "brown-nce-quick",
    "the same in 3 epochs, self-normalised: log Z close to 0",
    _BROWN_NCE,
    num_sampled=256,
    self_normalisation=1.0,
    batch_size=128,
    epochs=3,
)
# Gradients of C, H and v differ by orders of magnitude in the energy output: Adagrad scales each.
_name(
    "brown-energy",
    "the paper's energy-based variant (section 5.1) on Brown",
    _PAPER,
    head="energy",
    hidden="none",
    objective="sampled",
    num_sampled=128,
    dropout=0.0,
    optimizer="adagrad",
    initial_accumulator=1e-5,
    learning_rate=0.1,
    weight_decay=0.0,
    batch_size=64,
    epochs=4,
)

# The last 4 words in their order, windows of dozens of words as averages, one residual block.
_MODERN_SMALL = _name(
    "modern-small",
    "NCE, 60 words of context with averages, residual block; minutes on a CPU",
    _BROWN_NCE,
    order=61,
    context="averaged",
    averages_after=(4, 10, 20, 40),
    embedding_dim=100,
    hidden="deep",
    hidden_units=200,
    dropout=0.2,
    learning_rate=1.2,
)
_MODERN = _name(
    "modern",
    "modern-small with more dropout and more epochs",
    _MODERN_SMALL,
    dropout=0.3,
    embedding_dropout=0.1,
    epochs=8,
)
# The pointer repeats names and topic words, so four times as many words of context pay. A tied
# output has 0.4 times the parameters, so it needs less dropout. The average of the weights is best
# before the rate is 0, when the network begins to know the text by heart.
_name(
    "modern-pointer",
    "modern with a tied output and a pointer to 240 words, which it can repeat",
    _MODERN,
    network="pointer",
    order=241,
    averages_after=(4, 10, 20, 40, 80, 160),
    tied_output=True,
    dropout=0.2,
    embedding_dropout=0.05,
    segment=POINTER_SEGMENT,
    batch_size=128,
    learning_rate=1.4,
    weight_average=0.9995,
)
# After Sun & Iyyer (2021).
_name(
    "modern-large",
    "256 words of context, 6 residual blocks, for 100 million words and GPUs",
    boundary="stream",
    order=257,
    averages_after=(8, 16, 32, 64, 128),
    embedding_dim=512,
    hidden_units=2048,
    residual_blocks=6,
    tied_output=True,
    dropout=0.1,
    embedding_dropout=0.1,
    dtype="mixed_bfloat16",
    optimizer="adam",
    learning_rate=1e-3,
    weight_decay=0.01,
    batch_size=4096,
    epochs=10,
)
# 4,000 subwords with two tables of 100 and 200 columns fill 1.4 MB in 8 bits. A tied output would
# not be smaller, because an 8-bit file holds the table of an embedding and that of a product apart.
_name(
    "phone",
    "for a million subwords, a file below 2 MB; --tokenizer sentencepiece --pieces 4000",
    corpus=CorpusOptions(tokenizer="sentencepiece", pieces=4000),
    embedding_dim=100,
    hidden_units=200,
    objective="sampled",
    num_sampled=256,
    dropout=0.18,
    embedding_dropout=0.09,
    batch_size=64,
    epochs=4,
)
_name(
    "names",
    "characters of names, one name a line; --token character",
    corpus=CorpusOptions(token="character"),
    min_count=1,
    order=11,
    context="concatenated",
    embedding_dim=20,
    hidden_units=200,
    activation="tanh",
    dropout=0.3,
    embedding_dropout=0.0,
    optimizer="adam",
    learning_rate=3e-3,
    batch_size=256,
    epochs=20,
)

_name("mlp1", "row MLP1 of the paper's Table 1: n=5, h=50, m=60, direct connections", _MLP1)
_name(
    "mlp3",
    "row MLP3: n=5, no hidden layer, m=60, direct connections",
    _MLP1,
    hidden="none",
    epochs=4,
)
_MLP5 = _name(
    "mlp5", "row MLP5: n=5, h=50, m=30, direct connections", _MLP1, embedding_dim=30, epochs=6
)
_name("mlp7", "row MLP7: n=3, h=50, m=30, direct connections", _MLP5, order=3)
_name("mlp9", "row MLP9: n=5, h=100, m=30, no direct connections", _PAPER, embedding_dim=30)
# The paper's optimiser: per example a step of 1e-3/(1 + 1e-8 t) and weight decay 1e-4. A batch of
# 512 examples takes the sum of their steps: the rate for its mean is 512 times as large, and t
# counts 512 examples per update.
_name(
    "mlp1-paper",
    "row MLP1 with the paper's own optimiser",
    _MLP1,
    dropout=0.0,
    schedule="inverse-time",
    learning_rate=1e-3 * 512,
    decay_rate=1e-8 * 512,
    batch_size=512,
    weight_decay=1e-4,
)

# text files have no name to repeat
_CORPUS = re.compile(r"python_reference|brown(/marks)?|tfds:[\w/:.=,*-]+")


def train_command(config: Mapping[str, Any]) -> str | None:
    """Return the `keras-nplm train` command that reproduces a `config.json`, without `--output`.

    None if it was not trained, or if its text files, its tokenizer, background model, vocabulary or
    vectors have no name to repeat.

    >>> train_command({"corpus": "brown", **CONFIGURATIONS["brown"].options.write_config()})
    'keras-nplm train --corpus brown --config brown'
    """
    corpus = config.get("corpus", "text ")
    has_files = not {"background", "vocabulary", "vectors"}.isdisjoint(config)
    if "head" not in config or has_files or not _CORPUS.fullmatch(corpus):
        return None
    tokenizer = get_tokenizer(config.get("tokenizer", "words"))
    is_own = not type(tokenizer).__module__.startswith("keras_nplm.")  # no flag names its class
    if tokenizer.is_trained or is_own:
        return None
    options = read_options(config)
    nearest = min(CONFIGURATIONS, key=lambda name: len(_list_differences(options, name)))
    words = ["keras-nplm", "train"]
    if corpus != "python_reference":
        words += ["--corpus", corpus]
    has_tokenizer = CONFIGURATIONS[nearest].corpus != CorpusOptions()
    if not tokenizer.tokens_are_words or corpus.startswith("tfds:") or has_tokenizer:
        words += tokenizer.flags
    if tokenizer.steps:
        words += ["--normalise", *tokenizer.steps]
    # of tokens that are not counted, which these flags would contradict
    without = () if tokenizer.has_unknown else ("min_count", "max_size")
    flags = list_flags(options, nearest, without=without)
    return shlex.join([*words, "--config", nearest, *flags])


def list_flags(options: Options, base: str, *, without: Container[str] = ()) -> list[str]:
    """List the flags that turn a named configuration into these options, `--set` last."""
    flat = options.flatten()
    known = describe_run_options()
    words: list[str] = []
    of_set: list[str] = []
    for name in _list_differences(options, base):
        if name in without:
            continue
        if known[name].advanced:
            of_set.append(f"{name}={_format_value(flat[name])}")
        else:
            words += format_flag(name, flat[name])
    return [*words, *(["--set", *of_set] if of_set else [])]


def format_flag(name: str, value: object) -> list[str]:
    """Return the words of a flag: `--order 5`, `--no-interpolated`."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", _format_value(value)]


def _format_value(value: object) -> str:
    """Return a value as the command line takes it: `5`, `4,20`, `yes`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_list(value) if isinstance(value, tuple) else str(value)


def format_list(values: tuple) -> str:
    """Return a list of numbers as a flag takes it: `4,20`."""
    return ",".join(map(str, values))


def _list_differences(options: Options, base: str) -> list[str]:
    """List the options that differ from a named configuration."""
    flat = options.flatten()
    named = CONFIGURATIONS[base].options.flatten()
    known = describe_run_options()
    return [name for name in flat if flat[name] != named.get(name, known[name].default)]
