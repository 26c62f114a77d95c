"""The named configurations, and the command that repeats a run."""

import shlex

import pytest

from keras_nplm import CONFIGURATIONS, Options
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


@pytest.mark.parametrize(
    "options, config, flags",
    [
        pytest.param(
            Options.of(order=3, layer_norm=False, max_size=9, averages_after=(1, 2)),
            {},
            "brown --config small --order 3 --set max_size=9 averages_after=1,2 layer_norm=no",
            id="numbers, switches and lists",
        ),
        pytest.param(
            CONFIGURATIONS["names"].options.replace(hidden="tanh"),
            {},
            "brown --tokenizer words --config names --set hidden=tanh",
            id="options without an effect are left out",
        ),
        pytest.param(Options(), dict(corpus="text a.txt"), None, id="files without a name"),
        pytest.param(Options(), dict(tokenizer="sentencepiece"), None, id="subwords"),
        pytest.param(Options(), dict(tokenizer="commas"), None, id="a tokenizer of one's own"),
        pytest.param(
            Options(),
            dict(corpus="tfds:x", tokenizer="words+lower"),
            "tfds:x --tokenizer words --normalise lower --config small",
            id="tokenizer and normalisation",
        ),
    ],
)
def test_train_command_lists_all_options(options, config, flags, monkeypatch):
    monkeypatch.setitem(registry.TOKENIZERS, "commas", CommaTokenizer)
    config = {"kind": "nplm", "corpus": "brown", **options.write_config(), **config}
    assert train_command(config) == (flags and f"keras-nplm train --corpus {flags}")


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_command_gives_the_same_options(name):
    configuration = CONFIGURATIONS[name]
    assert configuration.name == name and len(configuration.description) < 90
    options = configuration.options
    config = {"kind": "nplm", "corpus": "brown", **options.write_config()}
    first = {"mlp1": "bengio2003"}.get(name, name)
    assert train_command(config).endswith(f" --config {first}")
    changes = dict(epochs=7, dropout=0.5, tied_output=False)
    known = options.flatten()
    options = options.replace(**{name: changes[name] for name in changes if name in known})
    config = {"kind": "nplm", "corpus": "brown", **options.write_config()}
    words = train_command(config).split()[1:]
    _, bound = parse([*words, "--output", "model"])
    named = CONFIGURATIONS[bound.arguments["config"]].options
    assert named.replace(**bound.arguments["options"]) == options
