"""The named configurations, and the command that repeats a run."""

import shlex

import pytest

from keras_nplm import CONFIGURATIONS, Options, register_tokenizer
from keras_nplm.cli.app import parse
from keras_nplm.cli.corpus import choose_tokenizer
from keras_nplm.data.tokenizers import registry
from keras_nplm.training.configurations import SMALL, train_command
from tests.tokenizers import CommaTokenizer


def test_the_options_without_differences_are_named_small():
    assert CONFIGURATIONS[SMALL].options == Options()
    assert (Options().text.boundary, Options().network.ngram_order) == ("sentence", 5)


@pytest.mark.parametrize("kind", [kind for kind in registry.TOKENIZERS if kind != "sentencepiece"])
def test_train_command_names_the_tokenizer(kind):
    config = {"kind": "nplm", "corpus": "tfds:x", "tokenizer": kind, **Options().write_config()}
    words = shlex.split(train_command(config))
    _, bound = parse([*words[1:], "--output", "model"])
    assert choose_tokenizer(bound.arguments["corpus"]) == kind


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_command_gives_the_same_options(name):
    configuration = CONFIGURATIONS[name]
    assert configuration.name == name and len(configuration.description) < 90
    options = configuration.options
    config = {"kind": "nplm", "corpus": "brown", **options.write_config()}
    first = {"mlp1": "bengio2003"}.get(name, name)
    assert train_command(config).endswith(f" --config {first}")
    changes = dict(epochs=7, dropout=0.5, tied_output=False, max_size=9, averages_after=(1, 2))
    known = options.flatten()
    options = options.replace(**{name: changes[name] for name in changes if name in known})
    config = {"kind": "nplm", "corpus": "brown", **options.write_config()}
    words = train_command(config).split()[1:]
    _, bound = parse([*words, "--output", "model"])
    named = CONFIGURATIONS[bound.arguments["config"]].options
    assert named.replace(**bound.arguments["options"]) == options


@pytest.mark.parametrize(
    "config, flags",
    [
        (dict(corpus="text a.txt"), None),  # files have no name to repeat
        (dict(tokenizer="sentencepiece"), None),
        (dict(tokenizer="commas"), None),  # a tokenizer of one's own
        (
            dict(corpus="tfds:x", tokenizer="words+lower"),
            "tfds:x --tokenizer words --normalise lower --config small",
        ),
    ],
)
def test_train_command_names_the_text_or_is_none(config, flags, forget_tokenizers):
    register_tokenizer(CommaTokenizer)
    config = {"kind": "nplm", "corpus": "brown", **Options().write_config(), **config}
    assert train_command(config) == (flags and f"keras-nplm train --corpus {flags}")
