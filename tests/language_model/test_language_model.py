"""LanguageModel: evaluate, next words, save and load."""

import shutil

import numpy as np
import pytest

from keras_nplm import DynamicSettings, InputError, LanguageModel, evaluate
from keras_nplm.data.corpus import SPLITS, Corpus
from keras_nplm.data.encoding import encode_corpus, encode_sentences
from keras_nplm.language_model.dynamics import DYNAMICS_FILE, save_dynamics
from keras_nplm.models.dynamic import TunedDynamics
from keras_nplm.models.spelling import SPELLING_FILE

LINES = ["the cat sat", "", "on the mat"]  # a line without words is not a sentence of a text


def test_next_words_are_the_most_probable_words(build_ngram_model):
    language_model = build_ngram_model("stream")
    probabilities = np.exp(language_model.model.next_log_probs([[0, 4]])[0])
    words = language_model.next_words("the", top_k=5)
    assert dict(words) == pytest.approx(
        {language_model.vocabulary.words[i]: probabilities[i] for i in range(4, 9)}
    )
    assert [p for _, p in words] == sorted((p for _, p in words), reverse=True)
    assert language_model.next_words("the", top_k=9) == language_model.next_words("the", top_k=5)


def _split_at_spaces(language_model: LanguageModel) -> LanguageModel:
    """Return a model whose token ids have the characters of the text."""
    return LanguageModel(language_model.model, language_model.vocabulary, "whitespace")


def test_evaluate_takes_lines_ids_or_a_split(build_ngram_model, tmp_path):
    language_model = _split_at_spaces(build_ngram_model("sentence"))
    result = language_model.evaluate(LINES)
    scores = [score for line, score in zip(LINES, language_model.score(LINES), strict=True) if line]
    assert result["log_prob"] == pytest.approx(sum(score.log_prob for score in scores), rel=1e-6)
    assert result["tokens"] == sum(score.tokens for score in scores) == 8

    ids = encode_sentences([line.split() for line in LINES if line], language_model.vocabulary)
    assert language_model.evaluate(ids) == language_model.evaluate(ids.tolist()) == result
    assert result.items() >= evaluate(language_model.model, ids).items()

    sentences = dict.fromkeys(SPLITS, lambda: iter([line.split() for line in LINES if line]))
    corpus = Corpus("lines", "whitespace", sentences)
    language_model.corpus = encode_corpus(corpus, language_model.vocabulary, tmp_path / "corpus")
    assert language_model.evaluate() == language_model.evaluate("validation") == result
    assert build_ngram_model("stream").evaluate(LINES)["tokens"] == 6
    language_model = _split_at_spaces(build_ngram_model("text"))
    ids = encode_sentences(map(str.split, LINES), language_model.vocabulary, "text")
    assert 2 in ids.tolist() and language_model.evaluate(LINES) == language_model.evaluate(ids)


def test_parts_of_a_directory_are_read_when_first_used(model_directory, tmp_path):
    shutil.copytree(model_directory, tmp_path / "model")
    save_dynamics(tmp_path / "model", TunedDynamics(DynamicSettings(), None, 3.0, 2.0, 9, 1))
    loaded = LanguageModel.load(tmp_path / "model")
    for attribute, name in {
        "spelling": SPELLING_FILE,
        "dynamics": DYNAMICS_FILE,
        "corpus": "corpus.json",
    }.items():
        (path,) = (tmp_path / "model").rglob(name)
        kept = path.read_bytes()
        path.write_bytes(b"{")
        broken = LanguageModel.load(tmp_path / "model")
        assert broken.complete_prefix("The val")
        with pytest.raises(InputError, match=path.name):
            getattr(broken, attribute)
        path.write_bytes(kept)
    loaded.save(tmp_path / "again")  # with the files that it has not read yet
    assert LanguageModel.load(tmp_path / "again").dynamics.static == 3.0


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
@pytest.mark.parametrize(
    "text, context, prefix", [("the ca", "the", "ca"), ("the ", "the", ""), ("x", "", "x")]
)
def test_prefix_completion_selects_from_the_next_words(
    build_ngram_model, boundary, text, context, prefix
):
    language_model = build_ngram_model(boundary)
    words = [pair for pair in language_model.next_words(context, 100) if pair[0] != "</s>"]
    expected = [pair for pair in words if pair[0].startswith(prefix)]
    assert language_model.complete_prefix(text, 100) == expected
    assert language_model.complete_prefix(text, 1) == expected[:1]
