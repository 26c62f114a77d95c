"""`keras-nplm ngram` and `mix`: n-gram models estimated from counts, and mixtures of models."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from keras_nplm.cli.configurations import (
    ConfigName,
    TextFlags,
    announce_text,
    get_configuration,
)
from keras_nplm.cli.corpus import (
    NO_TEXTS,
    CorpusFlags,
    Resample,
    Texts,
    WordFile,
    choose_tokenizer,
    open_given_corpus,
)
from keras_nplm.cli.parameters import (
    FETCHED,
    NONE_GIVEN,
    SEVERAL,
    Given,
    Output,
    Reader,
    Switch,
    check_left_out,
    flatten,
    make_parameter,
    number,
    read_path,
)
from keras_nplm.cli.printing import VOCABULARY, print_lines, print_splits, printed_by
from keras_nplm.io.fields import FieldFacts
from keras_nplm.models.defaults import DECAY, FLATNESS, LENGTH
from keras_nplm.training.methods import NgramOptions

if TYPE_CHECKING:
    NgramFlags = Given
else:
    NgramFlags = flatten(
        {NgramOptions: Group.create_ordered("n-gram model")},
        word_classes="classes by clustering",
    )

_GROUP = Group.create_ordered("model of a different toolkit")
# flags of a text that also belong to a model or to counts without the text
_FLAGS_OF_TOKENS = ("token", "tokenizer", "normalise", "boundary")
_FLAGS_OF_COUNTS = (*_FLAGS_OF_TOKENS, "order", "min_count", "max_size")
ArpaFile = Annotated[str | None, Parameter(metavar="FILE", group=_GROUP, converter=read_path)]


def _print_ngram(result: dict) -> None:
    numbers = enumerate(result["ngrams"], start=1)
    listed = ", ".join(f"{number:,} {order}-grams" for order, number in numbers)
    measured = ": {seconds} s, {cpu_seconds} CPU s" if "seconds" in result else ""
    print_lines(
        result, listed + measured, "text is read with the tokenizer {tokenizer}", VOCABULARY
    )
    print_splits(result)


@printed_by(_print_ngram)
def ngram(
    *,
    output: Output,
    config: Annotated[ConfigName, Parameter(show=False)] = None,
    method: NgramFlags = NONE_GIVEN,
    arpa: ArpaFile = None,
    counts: ArpaFile = None,
    corpus: CorpusFlags = NONE_GIVEN,
    texts: Texts = NO_TEXTS,
    vocabulary: WordFile = None,
    resample: Resample = (),
    words: TextFlags = NONE_GIVEN,
) -> dict:
    """Estimate an n-gram model and evaluate it.

    Args:
        arpa: ARPA file, plain or .gz, to read instead of a corpus; its --tokenizer is whitespace,
            unless it is given; to mix it with a model, name the vocabulary.txt and the tokenizer of
            the model
        counts: file of n-gram counts, as `ngram-count -write` of SRILM writes, plain or .gz, from
            which Kneser-Ney is estimated instead of from a corpus; its highest order is the default
            of --order, and whitespace that of --tokenizer
    """
    from keras_nplm.training.estimate import estimate, estimate_from_counts, import_arpa

    named = get_configuration(config)
    given = {**vars(texts), "resample": resample, **method, **corpus, **words}
    if arpa is not None:
        fix = "leave it out. The ARPA file holds a whole model."
        check_left_out({"counts": counts}, "with `--arpa`", "drop one of them.")
        check_left_out(_leave_out(given, _FLAGS_OF_TOKENS), "with `--arpa`", fix)
        result = import_arpa(
            arpa,
            output,
            vocabulary=vocabulary,
            tokenizer=choose_tokenizer(corpus),
            normalise=texts.normalise,
            boundary=words.get("boundary", named.options.text.boundary),
        )
    elif counts is not None:
        fix = "leave it out. Kneser-Ney is estimated from the counts, without their text."
        check_left_out(_leave_out(given, _FLAGS_OF_COUNTS), "with `--counts`", fix)
        if vocabulary is not None:
            cut = {name: words.get(name) for name in ("min_count", "max_size")}
            check_left_out(cut, "with `--vocabulary`", "leave it out.")
        result = estimate_from_counts(
            counts,
            output,
            order=method.get("order"),
            text=dataclasses.replace(named.options.text, **words),
            vocabulary=vocabulary,
            tokenizer=choose_tokenizer(corpus),
            normalise=texts.normalise,
        )
    else:
        opened = open_given_corpus(
            corpus, texts, resample, named=named.corpus, words=words, vocabulary=vocabulary
        )
        chosen = named.options.replace(**{**opened.fixed_options, **words})
        announce_text(config, chosen.text, words)
        options = {"method": "kneser-ney", "order": chosen.network.ngram_order, **method}
        result = estimate(corpus=opened, directory=output, text=chosen.text, **options)
    result["directory"] = output
    return result


def _leave_out(given: Given, names: Sequence[str]) -> Given:
    return {name: value for name, value in given.items() if name not in names}


def _print_mixture(result: dict) -> None:
    if len(result["weights"]) > 1:
        print(f"weights for {len(result['weights'])} bins of the context's frequency")
    print_lines(
        result,
        "caches: decay {decay:g}",
        "caches: n-gram decay {ngram_decay:g}",
        "caches: flatness {flatness:g}",
    )
    print_splits(result)


def _make_cache_flag(facts: FieldFacts, metavar: str) -> Parameter:
    """Return the flag of a cache: with a number, or without one, which is then chosen."""
    return Parameter(
        converter=Reader(facts, is_list=True),
        consume_multiple=(0, 1),
        metavar=f"[{metavar}]",
        show_default=f"off; without {metavar}: chosen on the validation split",
    )


_MODELS = (
    "model directories with the same vocabulary; an ARPA file gets the vocabulary and the "
    "tokenizer of the first directory, and its other words count as <unk>"
)
Decay = Annotated[list[float] | None, _make_cache_flag(DECAY, "WORDS")]
Flatness = Annotated[list[float] | None, _make_cache_flag(FLATNESS, "FLATNESS")]


@printed_by(_print_mixture)
def mix(
    *directories: Annotated[
        str,
        FETCHED,
        Parameter(name="MODEL", help=_MODELS, required=True),
    ],
    output: Output,
    weights: Annotated[
        list[float] | None,
        SEVERAL,
        number(float, metavar="W", is_list=True, show_default="fitted on the validation split"),
    ] = None,
    by_frequency: Switch = False,
    unigram_cache: Decay = None,
    ngram_cache: Decay = None,
    continuous_cache: Flatness = None,
    cache_length: Annotated[int | None, make_parameter(LENGTH)] = None,
    uniform: Switch = False,
) -> dict:
    """Mix models, with weights fitted on the validation split.

    Args:
        weights: fixed weights, one per model
        by_frequency: separate weights for each bin of the context's frequency
        unigram_cache: unigram cache, whose words weigh 1/e after this number of words, as one more
            model
        ngram_cache: n-gram cache: words after the same context weigh more, with this decay in
            words, as one more model
        continuous_cache: continuous cache of the first network, with this flatness, as one more
            model
        uniform: the uniform distribution as one more model; its weight comes last
    """
    from keras_nplm.training import mix as mixing

    if (unigram_cache, ngram_cache, continuous_cache) == (None, None, None):
        fix = "add --unigram-cache, --ngram-cache or --continuous-cache."
        check_left_out({"cache_length": cache_length}, "without a cache", fix)
    result = mixing.mix(
        directories,
        output,
        weights=weights,
        by_frequency=by_frequency,
        unigram_cache=_read_cache(unigram_cache),
        ngram_cache=_read_cache(ngram_cache),
        continuous_cache=_read_cache(continuous_cache),
        cache_length=LENGTH.default if cache_length is None else cache_length,
        uniform=uniform,
    )
    result["directory"] = output
    return result


def _read_cache(given: list[float] | None) -> float | bool:
    """Return the number of a cache, True to choose it, or False without the cache."""
    if given is None:
        return False
    return given[0] if given else True
