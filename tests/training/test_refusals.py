"""Invalid options of training: each is refused by an error that names it, and no directory is left."""

import functools

import pytest

from keras_nplm import AdaptiveConfiguration, Configuration, InputError, LazyAdam, LazySGD, choose_configuration
from keras_nplm.training.distribution import open_strategy
from keras_nplm.training.estimate import estimate
from keras_nplm.training.mix import mix
from keras_nplm.training.sizes import compute_sizes
from keras_nplm.training.train import train

_SIZES = functools.partial(compute_sizes, Configuration())
_TRAIN, _ESTIMATE = "train", "estimate"  # with a corpus and a directory
_ROWS = [
    (Configuration, dict(order=1), "`order` must be 2 to 1,023. Received: 1."),
    (Configuration, dict(dropout=1.0), "`dropout` must be in [0, 1). Received: 1.0."),
    (Configuration, dict(optimizer="magic"), "`optimizer` must be one of sgd, adagrad, adam. Received: 'magic'."),
    (Configuration, dict(hidden_units=0), "`hidden_units` must be 1 or more without `direct_connections`."),
    (Configuration, dict(output_layer="adaptive", held_out_mass=0.1), "`held_out_mass` must be 0 with `output_layer`"),
    (Configuration, dict(output_layer="energy", shortlist_size=9), "`shortlist_size` must be left out with `output_la"),
    (Configuration, dict(output_layer="energy", pointer=True), "`pointer` must be off with `output_layer` energy."),
    (Configuration, dict(tied_output=True, shortlist_size=9), "`shortlist_size` must be left out with `tied_output`."),
    (
        Configuration,
        dict(output_layer="adaptive", direct_connections=True),
        "`direct_connections` must be off with `output_layer` adaptive",
    ),
    (choose_configuration, dict(tokens=0, types=10), "`tokens` must be 1 or more"),
    (choose_configuration, dict(tokens=10, types=1), "`vocabulary_size` must be 2 or more"),
    (AdaptiveConfiguration, dict(given={"dropout": 2.0}), "`dropout` must be in"),
    (AdaptiveConfiguration, dict(given={"epoch": 2}), "`epoch` must be an option of a configuration"),
    *[(_SIZES, dict(vocabulary_size=size), "`vocabulary_size` must be") for size in (-1, 1, 4)],
    (LazySGD, dict(momentum=0.9), "`momentum` must be 0"),
    (LazyAdam, dict(amsgrad=True), "`amsgrad` must be 0"),
    (open_strategy, dict(name="several"), "`strategy` must be one of auto, one-device"),
    (open_strategy, dict(worker_timeout=0), "`worker_timeout` must be 1 or more. Received: 0."),
    (_TRAIN, dict(background="no"), "`background` requires `shortlist_size`"),
    (_ESTIMATE, dict(method="magic"), "`method` must be one of kneser-ney"),
    (_ESTIMATE, dict(order=0), "`order` must be 1 to"),
    (_ESTIMATE, dict(boundary="book"), "`boundary` must be one of"),
    (_ESTIMATE, dict(method="class-based", word_classes="none.tsv"), "`word_classes` must be an existing file"),
    (_ESTIMATE, dict(num_classes=7), "`method` must be class-based with word classes"),
    (_ESTIMATE, dict(paper_bins=True), "`method` must be deleted-interpolation with `paper_bins`"),
    (mix, dict(unigram_cache=0), "`unigram_cache` must be 1 or more. Received: 0"),
    (mix, dict(ngram_cache=0.5), "`ngram_cache` must be 1 or more. Received: 0.5"),
    (mix, dict(continuous_cache=-1.0), "`continuous_cache` must be 0 or more. Received: -1"),
    (mix, dict(continuous_cache=True), "`continuous_cache` must be left out without a neural network"),
    (mix, dict(unigram_cache=True, cache_length=0), "`cache_length` must be 1 to 65,535. Received: 0"),
    (mix, dict(unigram_cache=True, weights=[0.5, 0.5]), "`unigram_cache` must be a number with `weights`"),
]


@pytest.mark.parametrize("call, options, message", _ROWS)
def test_invalid_options_are_refused(
    tmp_path, short_corpus, short_configuration, kneser_ney_directory, call, options, message
):
    output = tmp_path / "model"
    if call is _TRAIN:
        call = functools.partial(train, AdaptiveConfiguration({}), short_corpus, output)
    elif call is _ESTIMATE:
        call = functools.partial(estimate, **{"method": "kneser-ney", "corpus": short_corpus, "directory": output})
    elif call is mix:
        call = functools.partial(mix, [kneser_ney_directory], output)
    with pytest.raises(ValueError) as error:  # the optimisers raise the error of Keras
        call(**options)
    assert message in str(error.value) and not output.exists()
    assert isinstance(error.value, InputError) or call in (LazySGD, LazyAdam)
