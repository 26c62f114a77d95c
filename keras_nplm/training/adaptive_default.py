"""The adaptive default: options of a training run chosen by the size of the text.

Options are decided in this order: the kind of network, its sizes, the objective, the optimiser. The
table of choices is the docstring of `choose_options`.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from keras_nplm.io.parts import check_given
from keras_nplm.training.configurations import (
    POINTER_SEGMENT,
    SMALL,
    format_flag,
    list_flags,
)
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
_MANY_TYPES = 5000  # from this vocabulary on: 512 negative samples, not 256
# from this vocabulary on: noise-contrastive estimation. At 25,500 types both give one perplexity;
# at 5,900 sampled softmax is 3% better. With a pointer it is 6% worse at 17,900.
_NCE_TYPES = 30_000
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

_SAMPLING_OPTIONS = {"num_sampled", "proposal"}

_SHOWN = ("order", "embedding_dim", "hidden_units", "objective", "epochs")
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
                     5,000 types, with 512 below 30,000; noise-contrastive estimation with 512 from
                     there on, and with a pointer from 5,000 types on
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

    Other networks are interpolated with a Kneser-Ney and a class-based model of the same text,
    below 20 million tokens.

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
    crosses_sentences = given.get("boundary", "sentence") != "sentence"
    has_long_context = _affords_pointer(given, statistics, effort, crosses_sentences)
    network = given.get("network") or _choose_network(given, statistics, has_long_context)
    chosen = _choose_sizes(given, statistics, network)
    if has_long_context and crosses_sentences:
        chosen.update(order=_TEXT_ORDER, averages_after=(4, 10, 20, 40, 80, 160))
    elif has_long_context:
        chosen.update(order=_SENTENCE_ORDER, averages_after=(4, 20))
        effort /= _POINTER_COST
    _spend(effort, chosen)
    head = given.get("head", "linear")
    has_own_ngrams = network == "hybrid" or given.get("shortlist_size")
    context = "averaged" if "averages_after" in {**chosen, **given} else "concatenated"
    if "spelling_bits" in chosen or _asks_for_spelled_words(given):
        context = "spelled"
    chosen.update(
        network=network,
        context=context,
        hidden="none" if Head.kinds[head].has_hidden_layer else "deep",
        objective=_choose_objective(given, statistics, network, head),
        num_sampled=256 if statistics.vocabulary_size < _MANY_TYPES else 512,
        interpolated=not has_own_ngrams and statistics.tokens < _NGRAM_TOKENS,
    )
    _choose_training(chosen, given, statistics, network, replicas)
    return build_run_options({**chosen, **given}, given)


def _choose_network(
    given: Mapping[str, Any], statistics: TextStatistics, has_long_context: bool
) -> str:
    """Choose an n-gram model inside for small vocabularies, a pointer where it pays."""
    is_small = statistics.vocabulary_size < _HYBRID_TYPES and statistics.tokens < _NGRAM_TOKENS
    has_other_output = not {"head", "objective", *_SAMPLING_OPTIONS}.isdisjoint(given)
    has_other_ngrams = given.get("shortlist_size") or given.get("interpolated")
    is_plain = not (has_other_output or has_other_ngrams) and given.get("segment", 1) == 1
    if (statistics.unit != "words" and is_small and is_plain) or _asks_for_spelled_words(given):
        return "hybrid"
    return "pointer" if has_long_context else "context"


def _affords_pointer(
    given: Mapping[str, Any], statistics: TextStatistics, effort: float, crosses_sentences: bool
) -> bool:
    """Return whether a pointer with a longer context pays, and the given options suit it."""
    least_types = {"words": _SAMPLED_TYPES, "subwords": _HYBRID_TYPES, "characters": math.inf}
    return (
        statistics.vocabulary_size >= least_types[statistics.unit]
        and effort >= (_TEXT_EFFORT if crosses_sentences else _POINTER_EFFORT)
        and given.get("head", "linear") == "linear"
        and not given.get("shortlist_size")
        and given.get("order", _SENTENCE_ORDER) >= _SENTENCE_ORDER
        and given.get("network", "pointer") == "pointer"
    )


def _asks_for_spelled_words(given: Mapping[str, Any]) -> bool:
    """Return whether the given options ask for the context `spelled`."""
    has_options = not {"near_characters", "spelled_words", "spelling_bits"}.isdisjoint(given)
    return given.get("context", "spelled" if has_options else "") == "spelled"


def _choose_sizes(
    given: Mapping[str, Any], statistics: TextStatistics, network: str
) -> dict[str, Any]:
    """Choose context, width, dropout and epochs."""
    decades = min(2.0, math.log10(statistics.tokens / _TOKENS))
    growth = max(0.0, decades)
    most_components = _round_to(4 * math.sqrt(statistics.vocabulary_size), 10)
    width = min(_round_to(60 * 1.45**growth, 10), most_components)
    units = _round_to(100 * 1.7**growth, 20)
    dropout = round(min(0.4, 0.3 - 0.1 * decades), 2)
    epochs = max(3, min(16, round(8 * 2 ** (-0.85 * decades))))
    sizes = dict(
        order=21,
        averages_after=(4,),
        embedding_dim=width,
        hidden_units=units,
        dropout=dropout,
        embedding_dropout=round(min(0.2, max(0.0, 0.15 - 0.05 * decades)), 2),
        epochs=epochs,
    )
    if statistics.unit != "characters":
        return sizes
    sizes.update(hidden_units=2 * units, dropout=round(dropout / 3, 2))
    if network != "hybrid":
        sizes.update(averages_after=(10,), embedding_dim=max(30, width), embedding_dropout=0.0)
        return {**sizes, "epochs": round(1.5 * epochs)}
    del sizes["averages_after"]
    if not _spells_words(given, statistics):
        return {**sizes, "order": 12, "embedding_dim": 30, "epochs": 2 * epochs}
    rows = max(1024, statistics.tokens / _CHARACTERS_PER_ROW)
    least, most = _SPELLED_DIMS
    sizes.update(
        order=_SPELLED_ORDER,
        spelling_bits=round(math.log2(rows)),
        embedding_dim=max(least, min(most, width)),
        hidden_units=min(2 * units, _SPELLED_UNITS),
        dropout=0.0,
        # their vectors soon know the text by heart: of two epochs of Brown the first is best
        epochs=max(1, round(0.4 * epochs)),
    )
    return sizes


def _spells_words(given: Mapping[str, Any], statistics: TextStatistics) -> bool:
    """Return whether the words that characters spell have vectors."""
    if "context" in given or _asks_for_spelled_words(given):
        return _asks_for_spelled_words(given)
    is_long = given.get("order", _SPELLED_ORDER) > Spelled.near_characters
    has_other_context = "averages_after" in given or given.get("freeze_embedding")
    return statistics.tokens >= _SPELLED_TOKENS and is_long and not has_other_context


def _spend(effort: float, sizes: dict[str, Any]) -> None:
    """Change width, dropout and epochs to those of a network that takes `effort` times as long."""
    bounded = max(effort, 0.2)
    factor = bounded ** (0.3 if effort > 1 else 0.5)
    doublings = math.log2(bounded)
    for name, step in (("embedding_dim", 10), ("hidden_units", 20)):
        sizes[name] = _round_to(sizes[name] * factor, step)
    for name, more, most in (("dropout", 0.05, 0.45), ("embedding_dropout", 0.02, 0.2)):
        sizes[name] = round(min(most, max(0.0, sizes[name] + more * doublings)), 2)
    sizes["epochs"] = max(1, round(sizes["epochs"] * effort**0.5))


def _round_to(value: float, step: int) -> int:
    """Round to a positive multiple of a step."""
    return max(step, round(value / step) * step)


def _choose_objective(
    given: Mapping[str, Any], statistics: TextStatistics, network: str, head: str
) -> str:
    if network == "hybrid" or head == "adaptive":
        return "likelihood"
    if head == "energy":
        return "sampled"
    has_few_types = statistics.vocabulary_size < _SAMPLED_TYPES
    if has_few_types and _SAMPLING_OPTIONS.isdisjoint(given):
        return "likelihood"
    contrasted = _MANY_TYPES if network == "pointer" else _NCE_TYPES
    return "sampled" if statistics.vocabulary_size < contrasted else "nce"


def _choose_training(
    chosen: dict[str, Any],
    given: Mapping[str, Any],
    statistics: TextStatistics,
    network: str,
    replicas: int,
) -> None:
    """Add the optimiser, its rate, batches and average to the chosen options."""
    is_of_characters = statistics.unit == "characters"
    is_hybrid = network == "hybrid"
    optimizer = given.get("optimizer", "adam" if is_hybrid else "sgd")
    rates = {
        "adagrad": 0.1,
        "adam": 0.003 if is_of_characters else 0.002,
        "sgd": _choose_sgd_rate(given, statistics),
    }
    batch_size = 64 if statistics.tokens < _LARGE_TOKENS else 128
    if is_hybrid:
        batch_size = 256 if is_of_characters else 128
    if "spelling_bits" in chosen:
        rates["adam"], batch_size = 0.004, 512
    has_segments = network == "pointer" and "batch_size" not in given
    segment = given.get("segment", POINTER_SEGMENT if has_segments else 1)
    chosen.update(
        optimizer=optimizer,
        learning_rate=rates[optimizer],
        weight_average=0.998 if is_hybrid and is_of_characters else 0.0,
        batch_size=batch_size + -batch_size % (replicas * segment),
        segment=segment,
    )


def _choose_sgd_rate(given: Mapping[str, Any], statistics: TextStatistics) -> float:
    # clusters of so few words diverged at 1.4
    has_small_clusters = (
        given.get("head") == "adaptive" and statistics.vocabulary_size < _SAMPLED_TYPES
    )
    if statistics.vocabulary_size >= _MANY_TYPES:
        rate = 1.2 if statistics.tokens < _LARGE_TOKENS else 1.7
    else:
        rate = 0.5 if statistics.unit == "characters" or has_small_clusters else 1.4
    if rate * statistics.largest_share <= _MOST_STEP:
        return rate
    return round(_MOST_STEP / statistics.largest_share, 2)


def describe_choice(
    options: Options,
    statistics: TextStatistics,
    given: Mapping[str, Any],
    command: Sequence[str] = (),
) -> str:
    """Return lines for the user: the size of the text, what most people change, and the command
    with explicit options.

    `command` is the command line whose flags gave `given`. Without one, the flags alone are listed.
    """
    line = complete_command(options, given if command else {}, command)
    counts = f"{statistics.tokens:,} tokens and {statistics.vocabulary_size:,} types"
    flat = options.flatten()
    words = [word for name in _SHOWN if name in flat for word in format_flag(name, flat[name])]
    return f"Options chosen for {counts}: {' '.join(words)}. In full:\n  {line}"


def complete_command(options: Options, given: Mapping[str, Any], command: Sequence[str]) -> str:
    """Return a command line with the flags of the options that its own flags did not give."""
    flags = list_flags(options, SMALL, without=given)
    return shlex.join([*command, "--config", SMALL, *flags])
