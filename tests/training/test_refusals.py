"""Options of training that are refused before a directory is made; `messages.json` has the
sentences.
"""

import functools

from keras_nplm import (
    NPLM,
    LanguageModel,
    LazyAdam,
    LazySGD,
    Options,
    TextOptions,
    TextStatistics,
    Vocabulary,
    choose_options,
    open_corpus,
)
from keras_nplm.training.distribution import open_strategy
from keras_nplm.training.estimate import estimate
from keras_nplm.training.mix import mix
from keras_nplm.training.network import Network, Tanh
from keras_nplm.training.sizes import compute_sizes
from keras_nplm.training.train import train


def test_values_of_options(messages):
    for call, options in (
        (Network, {"order": 1}),
        (Network, {"head": "linear"}),
        (Tanh, {"dropout": 1.0}),
        (Options.of, {"optimizer": "magic"}),
        (TextOptions, {"boundary": "book"}),
        (TextStatistics, {"tokens": 0, "vocabulary_size": 10}),
        (TextStatistics, {"tokens": 10, "vocabulary_size": 1}),
        (open_strategy, {"name": "several"}),
        (functools.partial(compute_sizes, Network()), {"vocabulary_size": 4}),
    ):
        messages.refuse(functools.partial(call, **options))


def test_options_that_exclude_each_other(messages):
    for given in (
        {"batch_size": 10, "segment": 4},
        {"context": "spelled", "order": 41},
        {"context": "spelled", "network": "hybrid", "freeze_embedding": True},
        {"context": "spelled", "network": "hybrid", "order": 11},
        {"averages_after": ()},
        {"cutoffs": (5, 20)},
        {"head": "energy"},
        {"hidden": "none"},
        {"hidden": "tanh", "residual_blocks": 2},
        {"head": "adaptive", "direct_connections": True},
        {"head": "adaptive", "network": "pointer"},
        {"head": "adaptive", "shortlist_size": 9},
        {"head": "adaptive", "objective": "nce"},
        {"head": "adaptive", "output_rank": 50},
        {"tied_output": True, "output_rank": 1},
        {"network": "hybrid", "objective": "nce"},
        {"network": "hybrid", "shortlist_size": 9},
        {"network": "hybrid", "interpolated": True},
        {"shortlist_size": 9, "interpolated": True},
        {"shortlist_size": 9, "tied_output": True},
        {"output_layer": "full"},
    ):
        messages.refuse(functools.partial(Options.of, **given))


def test_no_default_is_chosen_for_invalid_options(messages):
    for given in ({"dropout": 2.0}, {"epoch": 2}, {"hidden": "tanh", "layer_norm": True}):
        statistics = TextStatistics(tokens=100, vocabulary_size=10)
        messages.refuse(functools.partial(choose_options, given, statistics))


def test_optimisers_refuse_what_lazy_updates_cannot_do(messages):
    messages.refuse(lambda: LazySGD(momentum=0.9), ValueError)
    messages.refuse(lambda: LazyAdam(amsgrad=True), ValueError)


def test_train_leaves_no_directory_after_invalid_options(
    tmp_path, short_text, short_corpus, messages
):
    for options in (
        {"background": "no"},
        {"epoch": 2},
        {"shortlist_size": 9, "tied_output": True},
        {"batch_size": 9, "segment": 2},
        {"batch_size": "64"},
        {"segment": 0},
        {"minutes": -1.0},
    ):
        messages.refuse(functools.partial(train, short_corpus, tmp_path / "model", **options))
    without_validation = open_corpus(train=[short_text], all_lines=True)
    for options in (
        {},
        {"epochs": 2, "interpolated": True},
        {"epochs": 2, "network": "hybrid"},
        {"minutes": 1.0},
    ):
        messages.refuse(functools.partial(train, without_validation, tmp_path / "model", **options))
    assert not (tmp_path / "model").exists()


def test_estimate_leaves_no_directory_after_invalid_options(tmp_path, short_corpus, messages):
    for options in (
        {"method": "magic"},
        {"order": 0},
        {"method": "class-based", "word_classes": "none.tsv"},
        {"method": "class-based", "word_classes": "none.tsv", "num_classes": 7},
        {"num_classes": 7},
        {"paper_bins": True},
    ):
        arguments = {"method": "kneser-ney", "corpus": short_corpus, **options}
        messages.refuse(functools.partial(estimate, directory=tmp_path / "model", **arguments))
    assert not (tmp_path / "model").exists()


def test_mix_leaves_no_directory_after_invalid_options(tmp_path, kneser_ney_directory, messages):
    network = NPLM(9, order=3, embedding_dim=2, hidden_units=0, direct_connections=True)
    vocabulary = Vocabulary(["a", "b", "c", "d", "e"])
    LanguageModel(network, vocabulary, "words").save(tmp_path / "without_features")
    for directory, options in (
        (kneser_ney_directory, {"unigram_cache": 0}),
        (kneser_ney_directory, {"ngram_cache": 0.5}),
        (kneser_ney_directory, {"continuous_cache": -1.0}),
        (kneser_ney_directory, {"continuous_cache": True}),
        (kneser_ney_directory, {"unigram_cache": True, "cache_length": 0}),
        (kneser_ney_directory, {"unigram_cache": True, "weights": [0.5, 0.5]}),
        (tmp_path / "without_features", {"continuous_cache": 0.5, "weights": [0.5, 0.5]}),
    ):
        messages.refuse(functools.partial(mix, [directory], tmp_path / "model", **options))
    assert not (tmp_path / "model").exists()
