"""The adaptive default: options of a training run chosen by the size of the text.

Options are decided in this order: the kind of network, its sizes, the objective, the optimiser. The
table of choices is the docstring of `choose_options`.
"""

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from keras_nplm.io.parts import check_given
from keras_nplm.training.configurations import POINTER_SEGMENT, SMALL, list_flags
from keras_nplm.training.network import Head, Spelled
from keras_nplm.training.options import (
    RUN_CLASSES,
    Options,
    TextStatistics,
    build_run_options,
)

_TOKENS = 60_000  # of the embedded default: where the widths below hold
_LARGE_TOKENS = 2_000_000  # from here on larger batches
_SAMPLED_TYPES = 512  # from this vocabulary on negative samples cost less than the full softmax
_NCE_TYPES = 5000  # from this vocabulary on: noise-contrastive estimation
_HYBRID_TYPES = 10_000  # an n-gram model inside below it, of characters or subwords
_NGRAM_TOKENS = 20_000_000  # an n-gram model inside or beside the network below it
_SPELLED_TOKENS = 500_000  # characters from which on words that they spell have vectors
_SPELLED_ORDER = 61  # of contexts of about ten spelled words
_SPELLED_DIMS = (30, 48)  # least and most of the vectors of characters and of spelled words
_SPELLED_UNITS = 320  # more did not pay beside an n-gram model and the vectors of words
# Most of the learning rate times the share of the commonest token, whose output moves with so much
# of each batch. SGD diverged at 0.52, in tables with 43% dashes, and not at 0.26. Usual texts have
# up to 0.15.
_MOST_STEP = 0.25
_CHARACTERS_PER_ROW = 32  # of the training text, for each vector of a spelled word
_SENTENCE_ORDER = 41  # of a pointer where contexts end with their sentence
_TEXT_ORDER = 241  # of a pointer where they cross sentences
_POINTER_EFFORT = 1.6  # from this effort on: a pointer in sentences
_TEXT_EFFORT = 0.7  # from this effort on: a pointer across sentences
_POINTER_COST = 1.4  # a pointer in sentences takes 1.4 times as long

_SAMPLING_OPTIONS = ("num_sampled", "proposal")
_SPELLED_OPTIONS = ("near_characters", "spelled_words", "spelling_bits")

CHOSEN_OPTIONS = (
    "network",
    "order",
    "context",
    "averages_after",
    "spelling_bits",
    "embedding_dim",
    "hidden_units",
    "objective",
    "num_sampled",
    "interpolated",
    "dropout",
    "embedding_dropout",
    "weight_average",
    "optimizer",
    "learning_rate",
    "batch_size",
    "epochs",
)


def choose_options(
    given: Mapping[str, Any],
    statistics: TextStatistics,
    *,
    effort: float = 1.0,
    replicas: int = 1,
) -> Options:
    """Choose network, width, context, dropout, objective and optimiser by the size of the text.

    N is the number of tokens and |V| the number of types. d = log10(N / 60,000), at most 2, counts
    the decades of text beyond the embedded default, and d+ = max(d, 0). The rules:

        width        m = 60 * 1.45^d+, at most 4 sqrt(|V|); h = 100 * 1.7^d+
        context      20 words: the last 4 concatenated, the others averaged
        dropout      0.3 - 0.1 d of the hidden units, 0.15 - 0.05 d of the embeddings
        epochs       8 * 2^(-0.85 d), from 3 to 16
        objective    the likelihood below 512 types; sampled softmax with 256 negative samples below
                     5,000 types; noise-contrastive estimation with 512 from there on
        batch        64 n-grams, 128 from 2 million tokens on. With a pointer they are segments of
                     16 targets
        rate         of SGD by |V| and N, at most 0.25 / share of the commonest token

    Characters and subwords have a Kneser-Ney model inside the network, the network hybrid, below
    10,000 types and 20 million tokens. Such a network trains with Adam: of subwords with rate 0.002
    and batches of 128, of characters with rate 0.003 and batches of 256. A network of characters
    has 11 of them in a context, m = 30, a third of the dropout of the hidden units, twice the
    epochs, and averaged weights. From 500,000 characters on, the present word and the six before it
    have vectors, too, one for each 32 characters of the text (the context spelled). Then
    m = 4 sqrt(|V|), from 30 to 48, and h is at most 320, without dropout of the hidden units. The
    epochs are 0.4 times as many, 1 at least, with rate 0.004 and batches of 512.

    Where contexts cross sentences, with the boundaries `"text"` and `"stream"`, words have a
    pointer to 240 words.

    Other networks are interpolated with a Kneser-Ney model of the same text, below 20 million
    tokens.

    If the tokens are characters, the last 10 are concatenated, m is at least 30, h is doubled, and
    epochs are 1.5 times as many. Spelling is learned by heart, so the dropout is a third, of the
    hidden units only.

    The default takes about 0.3 ms of CPU time for each token, 0.5 ms with a pointer to 240 words.
    With another `effort`, a multiple of that time, the width grows by effort^0.3 and the epochs
    grow by effort^0.5. From 1.6 on words have a pointer and 40 words of context. Below 1 both
    shrink.

    The rules were tuned on validation splits of 3,000 to 5 million tokens.

    Args:
        given: options by name that are not chosen.
        statistics: size of the text.
        effort: above 0, CPU time relative to the default; see `plan_minutes`.
        replicas: number of devices, of which a chosen batch size is a multiple.

    Raises:
        InputError: a given option is out of range or contradicts a different one.

    Example:

    >>> brown = TextStatistics(tokens=850_000, vocabulary_size=12_000)
    >>> choose_options({}, brown).network.objective.num_sampled
    512
    >>> choose_options({"objective": "sampled"}, brown).network.objective.kind
    'sampled'
    """
    check_given(given, *RUN_CLASSES)
    network = _choose_network(given, statistics, effort)
    sizes = _choose_sizes(given, statistics, network)
    if _affords_pointer(given, statistics, effort):
        sizes = _lengthen_context(sizes, given)
        if not _crosses_sentences(given):
            effort /= _POINTER_COST
    sizes = _spend(effort, sizes)
    head = given.get("head", "linear")
    objective = given.get("objective", _choose_objective(given, network, head, statistics))
    chosen = {
        **_list_network_options(given, statistics, network, sizes, objective),
        **_list_training_options(given, statistics, network, sizes, replicas),
    }
    return build_run_options({**chosen, **given}, given)


# The kind of network


def _choose_network(given: Mapping[str, Any], statistics: TextStatistics, effort: float) -> str:
    """An n-gram model inside for small vocabularies, a pointer where it pays."""
    if "network" in given:
        return given["network"]
    if _suits_hybrid(given, statistics) or _asks_for_spelled_words(given):
        return "hybrid"
    return "pointer" if _affords_pointer(given, statistics, effort) else "context"


def _suits_hybrid(given: Mapping[str, Any], statistics: TextStatistics) -> bool:
    """Whether the text has few types, and no given option asks for another kind of network."""
    if statistics.unit == "words" or statistics.vocabulary_size >= _HYBRID_TYPES:
        return False
    if statistics.tokens >= _NGRAM_TOKENS:
        return False
    has_other_output = any(name in given for name in ("head", "objective", *_SAMPLING_OPTIONS))
    has_other_ngrams = given.get("shortlist_size") or given.get("interpolated")
    return not (has_other_output or has_other_ngrams) and given.get("segment", 1) == 1


def _affords_pointer(given: Mapping[str, Any], statistics: TextStatistics, effort: float) -> bool:
    """Whether a pointer with a longer context pays, and the given options suit it."""
    if statistics.unit == "characters" or statistics.vocabulary_size < _SAMPLED_TYPES:
        return False
    if statistics.unit == "subwords" and statistics.vocabulary_size < _HYBRID_TYPES:
        return False
    if effort < (_TEXT_EFFORT if _crosses_sentences(given) else _POINTER_EFFORT):
        return False
    has_rows = given.get("head", "linear") == "linear" and not given.get("shortlist_size")
    is_long = given.get("order", _SENTENCE_ORDER) >= _SENTENCE_ORDER
    return has_rows and is_long and given.get("network", "pointer") == "pointer"


def _crosses_sentences(given: Mapping[str, Any]) -> bool:
    return given.get("boundary", "sentence") != "sentence"


# Sizes


@dataclasses.dataclass(frozen=True)
class _Sizes:
    """Context, width, dropout and epochs."""

    order: int
    averages_after: tuple[int, ...]  # (): all words are concatenated
    spelling_bits: int | None  # of the vectors of spelled words; None: they have none
    embedding_dim: int
    hidden_units: int
    dropout: float
    embedding_dropout: float
    epochs: int


def _choose_sizes(given: Mapping[str, Any], statistics: TextStatistics, network: str) -> _Sizes:
    decades = min(2.0, math.log10(statistics.tokens / _TOKENS))
    growth = max(0.0, decades)
    most_components = _round_to(4 * math.sqrt(statistics.vocabulary_size), 10)
    sizes = _Sizes(
        order=21,
        averages_after=(4,),
        spelling_bits=None,
        embedding_dim=min(_round_to(60 * 1.45**growth, 10), most_components),
        hidden_units=_round_to(100 * 1.7**growth, 20),
        dropout=round(min(0.4, 0.3 - 0.1 * decades), 2),
        embedding_dropout=round(min(0.2, max(0.0, 0.15 - 0.05 * decades)), 2),
        epochs=max(3, min(16, round(8 * 2 ** (-0.85 * decades)))),
    )
    if statistics.unit != "characters":
        return sizes
    if network != "hybrid":
        return _spell_by_heart(sizes)
    if _spells_words(given, statistics):
        return _spell_words(sizes, statistics)
    return _spell_with_ngrams(sizes)


def _spell_by_heart(sizes: _Sizes) -> _Sizes:
    """The sizes for characters: wide, with little dropout, for more epochs."""
    return dataclasses.replace(
        sizes,
        averages_after=(10,),
        embedding_dim=max(30, sizes.embedding_dim),
        hidden_units=2 * sizes.hidden_units,
        dropout=round(sizes.dropout / 3, 2),
        embedding_dropout=0.0,
        epochs=round(1.5 * sizes.epochs),
    )


def _spell_with_ngrams(sizes: _Sizes) -> _Sizes:
    """The sizes for characters beside an n-gram model inside the network."""
    return dataclasses.replace(
        sizes,
        order=12,
        averages_after=(),
        embedding_dim=30,
        hidden_units=2 * sizes.hidden_units,
        dropout=round(sizes.dropout / 3, 2),
        epochs=2 * sizes.epochs,
    )


def _spells_words(given: Mapping[str, Any], statistics: TextStatistics) -> bool:
    """Whether the words that characters spell have vectors."""
    if _asks_for_spelled_words(given):
        return True
    if "context" in given:
        return False
    is_long = given.get("order", _SPELLED_ORDER) > Spelled.near_characters
    has_other_context = "averages_after" in given or given.get("freeze_embedding", False)
    return statistics.tokens >= _SPELLED_TOKENS and is_long and not has_other_context


def _asks_for_spelled_words(given: Mapping[str, Any]) -> bool:
    """Return whether the given options ask for the context `spelled`."""
    if "context" in given:
        return given["context"] == "spelled"
    return any(name in given for name in _SPELLED_OPTIONS)


def _spell_words(sizes: _Sizes, statistics: TextStatistics) -> _Sizes:
    """The sizes for characters with vectors of the words that they spell."""
    rows = max(1024, statistics.tokens / _CHARACTERS_PER_ROW)
    least, most = _SPELLED_DIMS
    embedding_dim = max(least, min(most, sizes.embedding_dim))
    # their vectors soon know the text by heart: of two epochs of Brown the first is best
    epochs = max(1, round(0.4 * sizes.epochs))
    sizes = _spell_with_ngrams(sizes)
    return dataclasses.replace(
        sizes,
        order=_SPELLED_ORDER,
        embedding_dim=embedding_dim,
        spelling_bits=round(math.log2(rows)),
        hidden_units=min(sizes.hidden_units, _SPELLED_UNITS),
        dropout=0.0,
        epochs=epochs,
    )


def _lengthen_context(sizes: _Sizes, given: Mapping[str, Any]) -> _Sizes:
    """The context of a pointer."""
    if _crosses_sentences(given):
        averages = (4, 10, 20, 40, 80, 160)
        return dataclasses.replace(sizes, order=_TEXT_ORDER, averages_after=averages)
    return dataclasses.replace(sizes, order=_SENTENCE_ORDER, averages_after=(4, 20))


def _spend(effort: float, sizes: _Sizes) -> _Sizes:
    """Width, dropout and epochs of a network that may take `effort` times as long."""
    bounded = max(effort, 0.2)
    factor = bounded ** (0.3 if effort > 1 else 0.5)
    doublings = math.log2(bounded)
    dropout = max(0.0, sizes.dropout + 0.05 * doublings)
    embedding_dropout = max(0.0, sizes.embedding_dropout + 0.02 * doublings)
    return dataclasses.replace(
        sizes,
        embedding_dim=_round_to(sizes.embedding_dim * factor, 10),
        hidden_units=_round_to(sizes.hidden_units * factor, 20),
        dropout=round(min(0.45, dropout), 2),
        embedding_dropout=round(min(0.2, embedding_dropout), 2),
        epochs=max(1, round(sizes.epochs * effort**0.5)),
    )


def _round_to(value: float, step: int) -> int:
    """Round to a positive multiple of a step."""
    return max(step, round(value / step) * step)


# The objective


def _choose_objective(
    given: Mapping[str, Any], network: str, head: str, statistics: TextStatistics
) -> str:
    if network == "hybrid" or head == "adaptive":
        return "likelihood"
    if head == "energy":
        return "sampled"
    if statistics.vocabulary_size < _SAMPLED_TYPES:
        asks_for_samples = any(name in given for name in _SAMPLING_OPTIONS)
        return "sampled" if asks_for_samples else "likelihood"
    return "sampled" if statistics.vocabulary_size < _NCE_TYPES else "nce"


def _choose_num_sampled(objective: str, statistics: TextStatistics) -> int:
    is_large = statistics.vocabulary_size >= _NCE_TYPES
    return 512 if is_large and objective != "likelihood" else 256


# The optimiser


def _choose_optimizer(given: Mapping[str, Any], network: str) -> str:
    return given.get("optimizer", "adam" if network == "hybrid" else "sgd")


def _choose_learning_rate(
    optimizer: str, head: str, sizes: _Sizes, statistics: TextStatistics
) -> float:
    is_of_characters = statistics.unit == "characters"
    if optimizer == "adagrad":
        return 0.1
    if optimizer == "adam":
        if sizes.spelling_bits is not None:
            return 0.004
        return 0.003 if is_of_characters else 0.002
    # clusters of so few words diverged at 1.4
    has_small_clusters = head == "adaptive" and statistics.vocabulary_size < _SAMPLED_TYPES
    if statistics.vocabulary_size < _NCE_TYPES:
        rate = 0.5 if is_of_characters or has_small_clusters else 1.4
    else:
        rate = 1.2 if statistics.tokens < _LARGE_TOKENS else 1.7
    if rate * statistics.largest_share <= _MOST_STEP:
        return rate
    return round(_MOST_STEP / statistics.largest_share, 2)


def _choose_batch_size(network: str, sizes: _Sizes, statistics: TextStatistics) -> int:
    if sizes.spelling_bits is not None:
        return 512
    if network == "hybrid":
        return 256 if statistics.unit == "characters" else 128
    return 64 if statistics.tokens < _LARGE_TOKENS else 128


def _choose_segment(given: Mapping[str, Any], network: str) -> int:
    if "segment" in given:
        return given["segment"]
    return POINTER_SEGMENT if network == "pointer" and "batch_size" not in given else 1


# The options of these choices


def _list_network_options(
    given: Mapping[str, Any],
    statistics: TextStatistics,
    network: str,
    sizes: _Sizes,
    objective: str,
) -> dict[str, Any]:
    has_no_ngrams = network != "hybrid" and not given.get("shortlist_size")
    options: dict[str, Any] = dict(
        network=network,
        order=sizes.order,
        context=_name_context(given, sizes),
        embedding_dim=sizes.embedding_dim,
        hidden="none" if Head.kinds[given.get("head", "linear")].has_hidden_layer else "deep",
        hidden_units=sizes.hidden_units,
        objective=objective,
        num_sampled=_choose_num_sampled(objective, statistics),
        interpolated=has_no_ngrams and statistics.tokens < _NGRAM_TOKENS,
        dropout=sizes.dropout,
        embedding_dropout=sizes.embedding_dropout,
    )
    if sizes.averages_after:
        options["averages_after"] = sizes.averages_after
    if sizes.spelling_bits:
        options["spelling_bits"] = sizes.spelling_bits
    return options


def _name_context(given: Mapping[str, Any], sizes: _Sizes) -> str:
    if sizes.spelling_bits is not None or _asks_for_spelled_words(given):
        return "spelled"
    is_averaged = bool(sizes.averages_after) or "averages_after" in given
    return "averaged" if is_averaged else "concatenated"


def _list_training_options(
    given: Mapping[str, Any],
    statistics: TextStatistics,
    network: str,
    sizes: _Sizes,
    replicas: int,
) -> dict[str, Any]:
    segment = _choose_segment(given, network)
    batch_size = _choose_batch_size(network, sizes, statistics)
    batch_size += -batch_size % segment
    batch_size += -batch_size % (replicas * segment)
    is_averaged = network == "hybrid" and statistics.unit == "characters"
    optimizer = _choose_optimizer(given, network)
    head = given.get("head", "linear")
    return dict(
        optimizer=optimizer,
        learning_rate=_choose_learning_rate(optimizer, head, sizes, statistics),
        weight_average=0.998 if is_averaged else 0.0,
        batch_size=batch_size,
        segment=segment,
        epochs=sizes.epochs,
    )


def describe_choice(
    options: Options,
    statistics: TextStatistics,
    given: Mapping[str, Any],
    command: Sequence[str] = (),
) -> str:
    """Return a line for the user: the size of the text, and the command with explicit options.

    `command` is the command line whose flags gave `given`. Without one, the flags alone are listed.
    """
    line = complete_command(options, given if command else {}, command)
    counts = f"{statistics.tokens:,} tokens and {statistics.vocabulary_size:,} types"
    return f"Options chosen for {counts}. The same options in full:\n  {line}"


def complete_command(options: Options, given: Mapping[str, Any], command: Sequence[str]) -> str:
    """Return a command line with the flags of the options that its own flags did not give."""
    flags = list_flags(options, SMALL, without=given)
    return shlex.join([*command, "--config", SMALL, *flags])
