"""Adding out-of-vocabulary words: the vocabulary, invalid requests, and the command."""

import hashlib
import json

import numpy as np
import pytest

from keras_nplm import NPLM, LanguageModel, Vocabulary, add_words, export_saved_model
from keras_nplm.cli.main import main
from keras_nplm.language_model.new_words import count_new_words

WORDS = ["the", "cat", "sat", "on", "mat", "."]
V, N = len(WORDS) + 4, 4
TEXT = ["the dog sat on the mat .", "", "the dog and the cat sat .", "on the dog", "a rug . and the dog"]
NEW = {"dog": 4, "and": 2, "a": 1, "rug": 1}


def _language_model(boundary: str = "stream") -> LanguageModel:
    model = NPLM(V, order=N, embedding_dim=3, hidden_units=5, boundary=boundary)
    random = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(random.normal(0, 0.6, weight.shape))
    return LanguageModel(model, Vocabulary(WORDS), "whitespace")


def test_adding_words_leaves_the_model_unchanged():
    language_model = _language_model("sentence")
    weights = [weight.numpy().copy() for weight in language_model.model.weights]
    before = language_model.evaluate(TEXT)
    grown = add_words(language_model, TEXT, ["rug", "dog"])
    assert grown.vocabulary.words[V:] == ["dog", "rug"] and grown.corpus is None
    assert (grown.boundary, grown.tokenizer_name) == ("sentence", "whitespace")
    after = grown.evaluate(TEXT)
    assert (before["unk_tokens"], after["unk_tokens"]) == (8, 3)
    assert language_model.evaluate(TEXT) == before and len(language_model.vocabulary) == V
    for weight, value in zip(language_model.model.weights, weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
    several = add_words(add_words(language_model, TEXT, ["dog"]), TEXT, min_count=2)  # and the others, met beside it
    assert several.vocabulary.words[V:] == ["dog", "and"]
    np.testing.assert_array_equal(several.model.embed.C.numpy()[:V], language_model.model.embed.C.numpy())


def test_the_order_of_the_words_has_no_influence():
    language_model = _language_model()
    grown = add_words(language_model, TEXT, ["and", "dog"]), add_words(language_model, TEXT, ["dog", "and", "dog"])
    for one, other in zip(grown[0].model.weights, grown[1].model.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    for rule in ("likelihood", "expectation"):
        tiny = add_words(language_model, ["the cow"], rule=rule).model  # nothing follows, and few contexts there are
        assert all(np.isfinite(weight.numpy()).all() for weight in tiny.weights)
        assert np.exp(tiny.next_log_probs([[0, 0, 4]])).sum() == pytest.approx(1, abs=1e-5)


def test_new_words_are_counted():
    assert count_new_words(_language_model(), TEXT) == NEW
    assert list(count_new_words(_language_model(), TEXT)) == ["dog", "and", "a", "rug"]


def _contents(directory) -> dict[str, str]:
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_command_writes_a_model_directory(model_directory, tmp_path, capsys):
    text, target, before = tmp_path / "text.txt", tmp_path / "grown", _contents(model_directory)
    text.write_text("The frumple is an object.\nA frumple has a zonk.\n", encoding="utf-8")

    def run(*arguments) -> dict:
        assert main([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    result = run("add-words", model_directory, "--text", text, "--words", "frumple", "zonk", "--output", target)
    assert result["added_words"] == {"frumple": 2, "zonk": 1} and _contents(model_directory) == before
    assert json.loads((target / "metrics.json").read_text()).items() <= result.items()
    small, grown = LanguageModel.load(model_directory), LanguageModel.load(target)
    assert grown.vocabulary.words == [*small.vocabulary.words, "frumple", "zonk"]
    lines = text.read_text().splitlines()
    made = add_words(small, lines, ["frumple", "zonk"])
    assert list(grown.score(lines)) == list(made.score(lines))
    assert small.corpus and made.corpus is None  # which is encoded without the words
    unknown = run("evaluate", model_directory, "--text", text)["unk_tokens"]
    assert run("evaluate", target, "--text", text)["unk_tokens"] == unknown - 3
    assert [score["unk_tokens"] for score in run("score", target, text)["sentences"]] == [
        score.unk_tokens for score in grown.score(lines)
    ]
    assert run("complete", target, "the frumple")["the frumple"] == dict(grown.next_words("the frumple", 5))
    assert len(run("nearest", target, "frumple")["frumple"]) == 10
    assert main(["add-words", str(model_directory), "--text", str(text), "--output", str(target)]) == 2
    assert "already holds a model" in capsys.readouterr().err
    assert (
        main(["add-words", str(target), "--text", str(text), "--output", str(tmp_path / "x"), "--words", "zonk"]) == 2
    )
    assert "'zonk' is already in the vocabulary" in capsys.readouterr().err and not (tmp_path / "x").exists()
    assert main(["evaluate", str(target)]) == 2 and "evaluate lines of text" in capsys.readouterr().err


@pytest.mark.long
def test_a_model_with_added_words_is_served(model_directory, tmp_path):
    import tensorflow as tf

    lines = ["The frumple is an object.", "A frumple has a zonk."]
    language_model = add_words(LanguageModel.load(model_directory), lines)
    export_saved_model(language_model, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["score"]
    scores = served(sentences=tf.constant(lines))["log_prob"].numpy()
    np.testing.assert_allclose(scores, [score.log_prob for score in language_model.score(lines)], rtol=1e-5)
