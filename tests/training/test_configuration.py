"""Options of a training run and the named configurations."""

import dataclasses

import numpy as np
import pytest

from keras_nplm import CONFIGURATIONS, Configuration, InputError
from keras_nplm.cli.flags import open_named_corpus
from keras_nplm.cli.main import build_parser
from keras_nplm.io.options import OPTIONS
from keras_nplm.training.configuration import DESCRIPTIONS, SMALL, TOKENIZERS, train_command


def test_fields_have_the_types_and_defaults_of_the_table():
    for field in dataclasses.fields(Configuration):
        option = OPTIONS[field.name]
        assert field.type == (option.type | None if option.optional else option.type), field.name
        assert field.default == option.default, field.name


def test_the_configuration_without_options_is_named_small():
    assert CONFIGURATIONS[SMALL] == Configuration()
    assert Configuration().boundary == "sentence"


def test_every_configuration_has_a_description():
    assert list(DESCRIPTIONS) == list(CONFIGURATIONS)
    assert all(DESCRIPTIONS.values())


@pytest.mark.parametrize(
    "options, message",
    [
        ({"order": 1}, "`order` must be 2 to 1,023. Received: 1."),
        ({"dropout": 1.0}, "`dropout` must be in [0, 1). Received: 1.0."),
        ({"optimizer": "magic"}, "`optimizer` must be one of sgd, adagrad, adam. Received: 'magic'."),
        ({"hidden_units": 0}, "`hidden_units` must be 1 or more without `direct_connections`."),
        ({"output_layer": "adaptive", "held_out_mass": 0.1}, "`held_out_mass` must be 0 with `output_layer` adaptive."),
        (
            {"output_layer": "energy", "shortlist_size": 9},
            "`shortlist_size` must be left out with `output_layer`",
        ),
        ({"tied_output": True, "shortlist_size": 9}, "`shortlist_size` must be left out with `tied_output`."),
        ({"outside_output": True}, "`outside_output` must be off without `shortlist_size`."),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(InputError) as caught:
        Configuration(**options)
    assert message in str(caught.value)
    assert "Fix: " in str(caught.value)


def test_numbers_of_numpy_are_accepted():
    configuration = Configuration(order=np.int64(5), dropout=np.float32(0.5))
    assert (configuration.order, configuration.dropout) == (5, 0.5)


@pytest.mark.parametrize(
    "name, n, h, m, direct",
    [
        ("bengio2003", 5, 50, 60, True),
        ("mlp1", 5, 50, 60, True),
        ("mlp3", 5, 0, 60, True),
        ("mlp5", 5, 50, 30, True),
        ("mlp7", 3, 50, 30, True),
        ("mlp9", 5, 100, 30, False),
        ("sketch", 11, 50, 30, True),
        ("brown", 5, 100, 60, False),
    ],
)
def test_configurations_of_the_paper_have_its_shapes(name, n, h, m, direct):
    c = CONFIGURATIONS[name]
    assert (c.order, c.hidden_units, c.embedding_dim, c.direct_connections) == (n, h, m, direct)
    assert (c.vocabulary_scope, c.min_count, c.boundary) == ("corpus", 4, "stream")
    assert (c.averages_after, c.activation, c.residual_blocks, c.layer_norm) == ("", "tanh", 0, False)


def test_the_ngram_order_is_that_of_the_near_words():
    assert Configuration().ngram_order == 5
    assert Configuration(order=3).ngram_order == 3  # no word is far enough to be averaged


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_train_command_names_the_configuration(name):
    config = {"kind": "nplm", "corpus": "brown", **dataclasses.asdict(CONFIGURATIONS[name])}
    named = {"mlp1": "bengio2003"}.get(name, name)
    words = " --tokenizer words" if name in TOKENIZERS else ""  # they would bring a different one
    assert train_command(config) == f"keras-nplm train --corpus brown{words} --config {named}"


@pytest.mark.parametrize(
    "flags, tokenizer, pieces",
    [
        ("--config names", "characters", None),
        ("--config names --token word", "words", None),
        ("--config phone", "sentencepiece", 4000),
        ("--config phone --pieces 500", "sentencepiece", 500),
        ("--config phone --tokenizer sentencepiece", "sentencepiece", 4000),
        ("--config phone --token character", "characters", None),
        ("--config modern", "words", None),
        ("--tokenizer sentencepiece", "sentencepiece", 8000),
        ("", "words", None),
    ],
)
@pytest.mark.parametrize("command", ["train", "ngram"])
def test_a_named_configuration_brings_its_tokenizer(command, flags, tokenizer, pieces):
    options = build_parser().parse_args([command, "--output", "model", *flags.split()])
    corpus = open_named_corpus(options)
    assert corpus.tokenizer == tokenizer
    assert pieces is None or corpus.subwords.pieces == pieces


def test_train_command_lists_options_beside_the_configuration():
    config = {"kind": "nplm", **dataclasses.asdict(Configuration(order=3, layer_norm=False, max_size=9))}
    expected = "keras-nplm train --corpus brown --config small --order 3 --no-layer-norm --max-size 9"
    assert train_command(config | {"corpus": "brown"}) == expected
    assert train_command(config | {"corpus": "text a.txt"}) is None


def test_train_command_names_the_subwords():
    config = {"kind": "nplm", "corpus": "brown", "tokenizer": "sentencepiece+lower", "min_count": 7}
    expected = (
        "keras-nplm train --corpus brown --tokenizer sentencepiece --pieces 400 --pieces-kind bpe --normalise lower"
    )
    assert train_command(config | {"pieces": 400, "pieces_kind": "bpe"}) == f"{expected} --config small"
    assert "--pieces" not in train_command(config | {"pieces": 8000, "pieces_kind": "unigram"})
    assert train_command(config | {"pieces_file": "a.model"}) is None


def test_train_command_names_the_normalisation():
    config = {"kind": "nplm", "corpus": "tfds:lm1b", "tokenizer": "whitespace+lower+lemmas"}
    expected = "keras-nplm train --corpus tfds:lm1b --tokenizer whitespace --normalise lower lemmas"
    assert train_command(config).startswith(expected)
