"""Invalid options of training: each is refused by an error that names it, and no directory is
left.
"""

import functools

import pytest

from keras_nplm import (
    InputError,
    LazyAdam,
    LazySGD,
    NetworkOptions,
    Options,
    TextOptions,
    TextStatistics,
    TrainingOptions,
    choose_options,
)
from keras_nplm.training.distribution import open_strategy
from keras_nplm.training.estimate import estimate
from keras_nplm.training.mix import mix
from keras_nplm.training.sizes import compute_sizes
from keras_nplm.training.train import train

_SIZES = functools.partial(compute_sizes, NetworkOptions())
_CHOOSE = functools.partial(
    choose_options, statistics=TextStatistics(tokens=100, vocabulary_size=10)
)
_TRAIN, _ESTIMATE = "train", "estimate"  # with a corpus and a directory
_ROWS = [
    (NetworkOptions, dict(order=1), "`order` must be 2 to 1,023. Received: 1."),
    (NetworkOptions, dict(dropout=1.0), "`dropout` must be in [0, 1). Received: 1.0."),
    (
        TrainingOptions,
        dict(optimizer="magic"),
        "`optimizer` must be one of sgd, adagrad, adam. Received: 'magic'.",
    ),
    (TextStatistics, dict(tokens=0, vocabulary_size=10), "`tokens` must be 1 or more"),
    (TextStatistics, dict(tokens=10, vocabulary_size=1), "`vocabulary_size` must be 2 or more"),
    (_CHOOSE, dict(given={"dropout": 2.0}), "`dropout` must be in"),
    (_CHOOSE, dict(given={"epoch": 2}), "`epoch` must be an option of a run"),
    (_CHOOSE, dict(given={"hidden": "tanh", "layer_norm": True}), "`layer_norm` must be left out"),
    *[(_SIZES, dict(vocabulary_size=size), "`vocabulary_size` must be") for size in (-1, 1, 4)],
    (LazySGD, dict(momentum=0.9), "`momentum` must be 0"),
    (LazyAdam, dict(amsgrad=True), "`amsgrad` must be 0"),
    (open_strategy, dict(name="several"), "`strategy` must be one of auto, one-device"),
    (open_strategy, dict(worker_timeout=0), "`worker_timeout` must be 1 or more. Received: 0."),
    (_TRAIN, dict(background="no"), "`background` requires `shortlist_size`"),
    (_TRAIN, dict(options={"epoch": 2}), "`epoch` must be an option of a run"),
    (_TRAIN, dict(options={"shortlist_size": 9, "tied_output": True}), "`shortlist_size` must be"),
    (_TRAIN, dict(options={"batch_size": 9, "segment": 2}), "`batch_size` must be a multiple of"),
    (_TRAIN, dict(minutes=-1.0), "`minutes` must be 0 or more, or None. Received: -1.0."),
    (_TRAIN, dict(options=Options(), minutes=1.0), "`minutes` must be None with all options."),
    (_ESTIMATE, dict(method="magic"), "`method` must be one of kneser-ney"),
    (_ESTIMATE, dict(order=0), "`order` must be 1 to"),
    (TextOptions, dict(boundary="book"), "`boundary` must be one of"),
    (
        _ESTIMATE,
        dict(method="class-based", word_classes="none.tsv"),
        "`word_classes` must be an existing file",
    ),
    (_ESTIMATE, dict(num_classes=7), "`method` must be class-based with word classes"),
    (_ESTIMATE, dict(paper_bins=True), "`method` must be deleted-interpolation with `paper_bins`"),
    (mix, dict(unigram_cache=0), "`unigram_cache` must be 1 or more. Received: 0"),
    (mix, dict(ngram_cache=0.5), "`ngram_cache` must be 1 or more. Received: 0.5"),
    (mix, dict(continuous_cache=-1.0), "`continuous_cache` must be 0 or more. Received: -1"),
    (
        mix,
        dict(continuous_cache=True),
        "`continuous_cache` must be left out without a neural network",
    ),
    (
        mix,
        dict(unigram_cache=True, cache_length=0),
        "`cache_length` must be 1 to 65,535. Received: 0",
    ),
    (
        mix,
        dict(unigram_cache=True, weights=[0.5, 0.5]),
        "`unigram_cache` must be a number with `weights`",
    ),
]


@pytest.mark.parametrize("call, options, message", _ROWS)
def test_invalid_options_are_refused(
    tmp_path, short_corpus, short_options, kneser_ney_directory, call, options, message
):
    output = tmp_path / "model"
    if call is _TRAIN:
        call = functools.partial(train, corpus=short_corpus, directory=output)
        options = {"options": None, **options}
    elif call is _ESTIMATE:
        call = functools.partial(
            estimate, **{"method": "kneser-ney", "corpus": short_corpus, "directory": output}
        )
    elif call is mix:
        call = functools.partial(mix, [kneser_ney_directory], output)
    with pytest.raises(ValueError) as error:  # the optimisers raise the error of Keras
        call(**options)
    assert message in str(error.value) and not output.exists()
    assert isinstance(error.value, InputError) or call in (LazySGD, LazyAdam)
