"""`keras-nplm train` and `size`: train a network; count its parameters and operations before."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from keras_nplm.cli.configurations import ConfigName, announce_text, get_configuration
from keras_nplm.cli.corpus import (
    GROUP,
    NO_TEXTS,
    CorpusFlags,
    Resample,
    Texts,
    WordFile,
    open_given_corpus,
)
from keras_nplm.cli.parameters import (
    FETCHED,
    NONE_GIVEN,
    Called,
    Given,
    Output,
    check_left_out,
    flatten,
    make_parameter,
)
from keras_nplm.cli.printing import VOCABULARY, print_lines, print_splits, printed_as, printed_by
from keras_nplm.data.tokenizers.base import Unit
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.fields import describe_fields
from keras_nplm.io.memory import keep_freed_memory
from keras_nplm.training.adaptive_default import CHOSEN_OPTIONS
from keras_nplm.training.network import Network
from keras_nplm.training.optimisation import Training
from keras_nplm.training.options import (
    CorpusOptions,
    Options,
    RunOptions,
    TextOptions,
    TextStatistics,
    read_options,
)

_NETWORK = Group.create_ordered("network")
_TRAINING = Group.create_ordered("training")
# what people change first
_USUAL = (
    "min_count",
    "order",
    "embedding_dim",
    "hidden_units",
    "objective",
    "interpolated",
    "epochs",
    "seed",
)
# on the numbers of parameters and operations
_WITHOUT_EFFECT = (
    "activation",
    "dtype",
    "proposal",
    "self_normalisation",
    "held_out_mass",
    "interpolated",
    "dropout",
    "embedding_dropout",
    "word_dropout",
)

if TYPE_CHECKING:
    OptionFlags = Given
    NetworkFlags = Given
    RunFlags = Given
else:
    _GROUPS = {
        TextOptions: GROUP,
        Network: _NETWORK,
        Training: _TRAINING,
    }
    OptionFlags = flatten(_GROUPS, usual=_USUAL, **dict.fromkeys(CHOSEN_OPTIONS, "auto"))
    NetworkFlags = flatten({Network: _NETWORK}, without=_WITHOUT_EFFECT, usual=_USUAL)
    RunFlags = flatten({RunOptions: _TRAINING})

_STATISTICS = describe_fields(TextStatistics)
_TOKEN = describe_fields(CorpusOptions)["token"]
_EPOCHS = describe_fields(Training)["epochs"]
_HELP = "model directory whose model predicts the words outside the short-list"
Background = Annotated[
    str | None,
    FETCHED,
    Parameter(
        help=_HELP, metavar="DIR", group=_NETWORK, show=False, show_default="a Kneser-Ney model"
    ),
]
_HELP = (
    "pretrained word vectors from which C starts, as text of GloVe, word2vec or fastText, plain or "
    "compressed; their width is --embedding-dim"
)
VectorFile = Annotated[
    str | None, FETCHED, Parameter(help=_HELP, metavar="FILE", group=_NETWORK, show=False)
]


def _print_training(result: dict) -> None:
    if "parameters" not in result:
        print("this worker has finished; worker 0 wrote the model")
        return
    measured = "trained {parameters:,} parameters: {seconds} s, {cpu_seconds} CPU s, "
    print_lines(
        result,
        f"{measured}{{ngrams_per_second:,}} n-grams/s, {_describe_epoch(result)}",
        VOCABULARY,
        "vectors: {vectors[found]:,} of {vectors[words]:,} words in {vectors[file]}",
    )
    print_splits(result)
    directory = Path(result["directory"])
    report = directory / "report.html"
    if report.exists():
        print(f"learning curves, samples and word vectors: open {report} in a browser")
    logs = directory / "logs"
    if logs.exists():
        print(f"all of training: tensorboard --logdir {shlex.quote(str(logs))}")


def _describe_epoch(result: dict) -> str:
    """Name the epoch that was kept, with advice if training went on long after it."""
    best = result["best_epoch"]
    epochs = len(result["history"])
    if "validation" not in result:
        return f"epoch {best}, the last: no validation text compares epochs"
    if best == 0:  # the n-gram model of a hybrid is better than all epochs
        return f"best epoch 0 of {epochs}: the n-gram model alone is better"
    if 4 * best < 3 * epochs:
        fix = "Fix: fewer --epochs or more --dropout, so that training ends with its best."
        return f"best epoch {best} of {epochs}. {fix}"
    return f"best epoch {best}"


@printed_by(_print_training)
def train(
    *,
    output: Output,
    config: Annotated[ConfigName, Parameter(show_default="auto, by text size")] = None,
    corpus: CorpusFlags = NONE_GIVEN,
    texts: Texts = NO_TEXTS,
    vocabulary: WordFile = None,
    resample: Resample = (),
    options: OptionFlags = NONE_GIVEN,
    background: Background = None,
    vectors: VectorFile = None,
    run: RunFlags = NONE_GIVEN,
    call: Called,
) -> dict:
    """Train a network and evaluate it."""
    keep_freed_memory()
    request = RunOptions(**run)
    if request.minutes is not None:
        check_left_out({"config": config}, "with `--minutes`", "drop one of them.")
    strategy: Any = request.strategy
    if corpus.get("corpus", "").startswith("tfds:"):
        # workers must be known before TensorFlow reads the text
        from keras_nplm.training.distribution import open_strategy

        strategy = open_strategy(strategy, worker_timeout=request.worker_timeout)
    named = get_configuration(config)
    if config is not None:  # options that exclude each other are refused before a text is read
        named.options.replace(**options)
    opened = open_given_corpus(
        corpus, texts, resample, named=named.corpus, words=options, vocabulary=vocabulary
    )
    chosen = options
    if config is not None:
        replaced = named.options.replace(**{**opened.fixed_options, **options})
        chosen = replaced.flatten()
        announce_text(config, replaced.text, options)
    _check_directories(output, background, options)
    from keras_nplm.training.train import train

    result = train(
        opened,
        output,
        **chosen,
        strategy=strategy,
        background=background,
        vectors=vectors,
        worker_timeout=request.worker_timeout,
        minutes=request.minutes,
        command=_drop_minutes(call.words),
    )
    result["directory"] = output
    return result


def _drop_minutes(words: Sequence[str]) -> list[str]:
    """Return the command that is printed with all options: it repeats the run without measuring."""
    kept = ["keras-nplm"]
    is_value = False
    for word in words:
        if word == "--minutes":
            is_value = True
        elif not is_value and not word.startswith("--minutes="):
            kept.append(word)
        else:
            is_value = False
    return kept


def _check_directories(output: str, background: str | None, given: Mapping[str, Any]) -> None:
    """Refuse unusable directories before TensorFlow is imported; `train` checks them again."""
    from keras_nplm.io.stages import MANIFEST, check_stages
    from keras_nplm.language_model.directory import read_description

    # a worker may find the directory half written by the chief
    if "TF_CONFIG" not in os.environ:
        check_stages(Path(output))
    if not given.get("shortlist_size"):
        fix = "add --set shortlist_size=2000."
        check_left_out({"background": background}, "without `shortlist_size`", fix)
    # a later call needs the background no more
    if background is not None and not (Path(output) / MANIFEST).exists():
        read_description(Path(background))


def _read_network(directory: str) -> tuple[Options, int]:
    """Return the options of the network of a model directory, and |V|."""
    from keras_nplm.language_model.directory import read_description

    config, vocabulary = read_description(Path(directory))
    fix = "name a directory that `train` wrote."
    check_argument("DIR", "head" in config, "a directory with a trained network", directory, fix)
    return read_options(config), len(vocabulary)


@printed_as(
    "{parameters:,} parameters",
    "{flops_scoring:.3g} floating-point operations per n-gram to score, normalised exactly",
    "{flops_training:.3g} floating-point operations per n-gram in training",
    "{flops_of_all_epochs:.3g} floating-point operations in all epochs",
)
def size(
    directory: Annotated[
        str | None, FETCHED, Parameter(name="DIR", help="model directory written by train")
    ] = None,
    /,
    *,
    vocabulary_size: Annotated[int | None, make_parameter(_STATISTICS["vocabulary_size"])] = None,
    tokens: Annotated[int | None, make_parameter(_STATISTICS["tokens"])] = None,
    token: Annotated[Literal["word", "character"] | None, make_parameter(_TOKEN)] = None,
    config: ConfigName = None,
    network: NetworkFlags = NONE_GIVEN,
    epochs: Annotated[int | None, make_parameter(_EPOCHS)] = None,
) -> dict:
    """Count a network's parameters and floating-point operations.

    The network is that of a model directory, or of the options. With `--tokens` the operations of
    all epochs are counted. Without `--config` it also chooses the options, by the size of the text.
    """
    from keras_nplm.training.adaptive_default import choose_options
    from keras_nplm.training.sizes import compute_sizes

    if tokens is None:
        of_the_text = {"token": token, "epochs": epochs}
        check_left_out(of_the_text, "without `--tokens`", "add --tokens N.")
    if config is not None:
        check_left_out({"token": token}, "with `--config`", "drop one of them.")
    given = dict(network)
    if epochs is not None:
        given["epochs"] = epochs
    if directory is not None:
        others = {"vocabulary_size": vocabulary_size, "config": config, "token": token}
        check_left_out(others, "with a model directory", "leave it out.")
        options, vocabulary_size = _read_network(directory)
        options = options.replace(**given)
    elif vocabulary_size is None:
        raise InputError(
            "`--vocabulary-size` must be given without a model directory. Received: none. "
            "Fix: add --vocabulary-size N, or name a directory."
        )
    elif tokens is None or config is not None:
        options = get_configuration(config).options.replace(**given)
    else:
        unit: Unit = "characters" if token == "character" else "words"
        statistics = TextStatistics(tokens=tokens, vocabulary_size=vocabulary_size, unit=unit)
        options = choose_options(given, statistics)
    result = compute_sizes(options.network, vocabulary_size)
    if tokens is not None:
        epoch = result["flops_training"] * tokens
        result["flops_of_all_epochs"] = epoch * options.training.epochs
    return result
