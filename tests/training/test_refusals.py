"""Invalid options of training: each is refused by an error that names it, and no directory is
left.
"""

import re

import pytest

from keras_nplm import (
    NPLM,
    InputError,
    LanguageModel,
    LazyAdam,
    LazySGD,
    NetworkOptions,
    Options,
    TextOptions,
    TextStatistics,
    TrainingOptions,
    Vocabulary,
    choose_options,
)
from keras_nplm.training.distribution import open_strategy
from keras_nplm.training.estimate import estimate
from keras_nplm.training.mix import mix
from keras_nplm.training.sizes import compute_sizes
from keras_nplm.training.train import train


def _case(call, message, **options):
    name = " and ".join(options)
    return pytest.param(call, options, message, id=f"{call.__name__}, {name}")


@pytest.mark.parametrize(
    "call, options, message",
    [
        _case(NetworkOptions, "`order` must be 2 to 1,023. Received: 1.", order=1),
        _case(NetworkOptions, "`dropout` must be in [0, 1). Received: 1.0.", dropout=1.0),
        _case(
            TrainingOptions,
            "`optimizer` must be one of sgd, adagrad, adam. Received: 'magic'.",
            optimizer="magic",
        ),
        _case(TextOptions, "`boundary` must be one of", boundary="book"),
        _case(open_strategy, "`strategy` must be one of auto, one-device", name="several"),
        _case(open_strategy, "`worker_timeout` must be 1 or more. Received: 0.", worker_timeout=0),
    ],
)
def test_invalid_options_are_refused(call, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        call(**options)


@pytest.mark.parametrize(
    "given, message",
    [
        (dict(decay_rate=0.5), "`decay_rate` must be left out with `schedule` linear"),
        (dict(initial_accumulator=1.0), "`initial_accumulator` must be left out with `optimizer`"),
        (dict(cutoffs=(5,)), "`cutoffs` must be left out with `head` linear. Received: (5,)"),
        (dict(head="adaptive", output_rank=50), "`output_rank` must be left out with `head` ada"),
        (
            dict(head="adaptive", tied_output=True),
            "`tied_output` must be left out with `head` ada",
        ),
        (
            dict(hidden="none", direct_connections=True, dropout=0.5),
            "`dropout` must be left out with `hidden` none. Received: 0.5",
        ),
    ],
)
def test_options_of_a_part_that_is_not_chosen_are_refused(given, message):
    with pytest.raises(InputError, match=re.escape(message)):
        Options.of(**given)


def test_statistics_of_no_text_are_refused():
    with pytest.raises(InputError, match="`tokens` must be 1 or more"):
        TextStatistics(tokens=0, vocabulary_size=10)
    with pytest.raises(InputError, match="`vocabulary_size` must be 2 or more"):
        TextStatistics(tokens=10, vocabulary_size=1)


@pytest.mark.parametrize(
    "given, message",
    [
        pytest.param({"dropout": 2.0}, "`dropout` must be in", id="dropout 2"),
        pytest.param({"epoch": 2}, "`epoch` must be an option of a run", id="an unknown name"),
        pytest.param(
            {"hidden": "tanh", "layer_norm": True},
            "`layer_norm` must be left out",
            id="layer_norm of tanh",
        ),
    ],
)
def test_no_default_is_chosen_for_invalid_options(given, message):
    with pytest.raises(InputError, match=message):
        choose_options(given, TextStatistics(tokens=100, vocabulary_size=10))


@pytest.mark.parametrize("size", [-1, 1, 4])
def test_sizes_of_no_vocabulary_are_refused(size):
    with pytest.raises(InputError, match="`vocabulary_size` must be"):
        compute_sizes(NetworkOptions(), vocabulary_size=size)


@pytest.mark.parametrize(
    "kind, options, message",
    [
        _case(LazySGD, "`momentum` must be 0", momentum=0.9),
        _case(LazyAdam, "`amsgrad` must be 0", amsgrad=True),
    ],
)
def test_optimisers_refuse_what_lazy_updates_cannot_do(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options)


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param(
            {"background": "no"}, "`background` requires `shortlist_size`", id="background"
        ),
        pytest.param(
            {"options": {"epoch": 2}}, "`epoch` must be an option of a run", id="an unknown name"
        ),
        pytest.param(
            {"options": {"shortlist_size": 9, "tied_output": True}},
            "`shortlist_size` must be",
            id="a tied output of a short-list",
        ),
        pytest.param(
            {"options": {"batch_size": 9, "segment": 2}},
            "`batch_size` must be a multiple of",
            id="batches with a part of a segment",
        ),
        pytest.param(
            {"options": {"batch_size": "64"}},
            "`batch_size` must be an integer",
            id="a batch size as text",
        ),
        pytest.param(
            {"options": {"segment": 0}}, "`segment` must be 1 to 1,024", id="segments of no word"
        ),
        pytest.param(
            {"options": "brown"}, "`options` must be `Options` or options by name", id="a name"
        ),
        pytest.param(
            {"minutes": -1.0},
            "`minutes` must be 0 or more, or None. Received: -1.0.",
            id="minutes -1",
        ),
        pytest.param(
            {"options": Options(), "minutes": 1.0},
            "`minutes` must be None with all options.",
            id="minutes with all options",
        ),
    ],
)
def test_train_leaves_no_directory_after_invalid_options(tmp_path, short_corpus, options, message):
    arguments = {"options": None, **options}
    with pytest.raises(InputError, match=re.escape(message)):
        train(corpus=short_corpus, directory=tmp_path / "model", **arguments)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param({"method": "magic"}, "`method` must be one of kneser-ney", id="no method"),
        pytest.param({"order": 0}, "`order` must be 1 to", id="order 0"),
        pytest.param(
            {"method": "class-based", "word_classes": "none.tsv"},
            "`word_classes` must be an existing file",
            id="no file of classes",
        ),
        pytest.param(
            {"method": "class-based", "word_classes": "none.tsv", "num_classes": 7},
            "`num_classes` must be left out with `word_classes`",
            id="a number beside a file of classes",
        ),
        pytest.param(
            {"num_classes": 7},
            "`method` must be class-based with word classes",
            id="classes of kneser-ney",
        ),
        pytest.param(
            {"paper_bins": True},
            "`method` must be deleted-interpolation with `paper_bins`",
            id="bins of kneser-ney",
        ),
    ],
)
def test_estimate_leaves_no_directory_after_invalid_options(
    tmp_path, short_corpus, options, message
):
    arguments = {"method": "kneser-ney", **options}
    with pytest.raises(InputError, match=message):
        estimate(corpus=short_corpus, directory=tmp_path / "model", **arguments)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param(
            {"unigram_cache": 0},
            "`unigram_cache` must be 1 or more. Received: 0",
            id="unigram cache",
        ),
        pytest.param(
            {"ngram_cache": 0.5},
            "`ngram_cache` must be 1 or more. Received: 0.5",
            id="n-gram cache",
        ),
        pytest.param(
            {"continuous_cache": -1.0},
            "`continuous_cache` must be 0 or more. Received: -1",
            id="continuous cache",
        ),
        pytest.param(
            {"continuous_cache": True},
            "`continuous_cache` must be left out without a neural network",
            id="continuous cache of n-grams",
        ),
        pytest.param(
            {"unigram_cache": True, "cache_length": 0},
            "`cache_length` must be 1 to 65,535. Received: 0",
            id="an empty cache",
        ),
        pytest.param(
            {"unigram_cache": True, "weights": [0.5, 0.5]},
            "`unigram_cache` must be a number with `weights`",
            id="weights with a cache to be fitted",
        ),
    ],
)
def test_mix_leaves_no_directory_after_invalid_options(
    tmp_path, kneser_ney_directory, options, message
):
    with pytest.raises(InputError, match=message):
        mix([kneser_ney_directory], tmp_path / "model", **options)
    assert not (tmp_path / "model").exists()


def test_a_continuous_cache_without_hidden_units_is_refused(tmp_path):
    vocabulary = Vocabulary(["a", "b", "c", "d", "e"])
    network = NPLM(9, order=3, embedding_dim=2, hidden_units=0, direct_connections=True)
    LanguageModel(network, vocabulary, "words").save(tmp_path / "mlp3")
    with pytest.raises(InputError, match="`continuous_cache` must be left out with a network with"):
        mix([tmp_path / "mlp3"], tmp_path / "model", continuous_cache=0.5, weights=[0.5, 0.5])
    assert not (tmp_path / "model").exists()
