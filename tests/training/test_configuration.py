"""Options of a training run and the named configurations."""

import dataclasses
import shlex

import pytest

from keras_nplm import CONFIGURATIONS, Configuration
from keras_nplm.cli.flags import open_named_corpus, read_tokenizer
from keras_nplm.cli.main import build_parser
from keras_nplm.data.tokenizers import registry
from keras_nplm.io.options import OPTIONS
from keras_nplm.training.configuration import SMALL, TOKENIZERS, train_command


def test_fields_have_the_types_and_defaults_of_the_table():
    for field in dataclasses.fields(Configuration):
        option = OPTIONS[field.name]
        assert field.type == (option.type | None if option.optional else option.type), field.name
        assert field.default == option.default, field.name


def test_the_configuration_without_options_is_named_small():
    assert CONFIGURATIONS[SMALL] == Configuration()
    assert (Configuration().boundary, Configuration().ngram_order) == ("sentence", 5)
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
        ("train --config names", "characters", None),
        ("train --config names --token word", "words", None),
        ("ngram --config phone", "sentencepiece", 4000),
        ("train --config phone --pieces 500", "sentencepiece", 500),
        ("train --config phone --token character", "characters", None),
    ],
)
def test_a_named_configuration_brings_its_tokenizer(flags, tokenizer, pieces):
    options = build_parser().parse_args([*flags.split(), "--output", "model"])
    corpus = open_named_corpus(options)
    assert corpus.tokenizer == tokenizer
    assert pieces is None or corpus.subwords.pieces == pieces


MLP9 = dataclasses.asdict(CONFIGURATIONS["mlp9"]) | {"min_count": 2}


@pytest.mark.parametrize("kind", [kind for kind in registry.TOKENIZERS if kind != "sentencepiece"])
def test_train_command_names_the_tokenizer(kind):
    config = {"kind": "nplm", "corpus": "tfds:x", "tokenizer": kind, **dataclasses.asdict(Configuration())}
    words = shlex.split(train_command(config))
    options = build_parser().parse_args([*words[1:], "--output", "model"])
    assert read_tokenizer(options) == kind


@pytest.mark.parametrize(
    "config, flags",
    [
        (dict(order=3, layer_norm=False, max_size=9), "brown --config small --order 3 --no-layer-norm --max-size 9"),
        (dict(corpus="text a.txt"), None),
        (dict(tokenizer="sentencepiece"), None),
        ({"tokenizer": "bytes", **MLP9}, "brown --tokenizer bytes --config mlp9"),
        (dict(corpus="tfds:x", tokenizer="words+lower"), "tfds:x --tokenizer words --normalise lower --config small"),
    ],
)
def test_train_command_lists_all_options(config, flags):
    config = {"kind": "nplm", "corpus": "brown", **dataclasses.asdict(Configuration()), **config}
    assert train_command(config) == (flags and f"keras-nplm train --corpus {flags}")
