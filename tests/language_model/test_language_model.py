import json
import shutil

import numpy as np
import pytest

from keras_nplm import NPLM, InputError, LanguageModel, Vocabulary


@pytest.fixture(scope="module")
def language_model(model_directory) -> LanguageModel:
    return LanguageModel.load(model_directory)


def _random(boundary) -> LanguageModel:
    vocabulary = Vocabulary(["the", "cat", "sat", "on", "mat"])
    model = NPLM(len(vocabulary), order=3, embedding_dim=4, hidden_units=5)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return LanguageModel(model, vocabulary, "words", boundary)


@pytest.mark.parametrize("boundary, start, end", [("stream", [0, 0], []), ("sentence", [2, 2], [3])])
def test_a_sentences_score_is_the_sum_over_its_words(boundary, start, end):
    language_model = _random(boundary)
    sentences = ["the cat sat", "", "a dog", "the mat on the mat " * 300]
    for sentence, score in zip(sentences, language_model.score(sentences), strict=True):
        ids = [*language_model.vocabulary.encode(sentence.split()).tolist(), *end]
        history, expected = list(start), 0.0
        for word in ids:
            expected += float(language_model.model.next_log_probs([history[-2:]])[0, word])
            history.append(word)
        assert score.log_prob == pytest.approx(expected, rel=1e-5)
        assert (score.tokens, score.unk_tokens) == (len(ids), ids.count(1))


def test_the_perplexity_of_sentences_is_that_of_their_scores():
    language_model = _random("sentence")
    lines = ["the cat sat", "", "on the mat"]  # a line without words is no sentence of a text
    result = language_model.evaluate(lines)
    scores = [score for line, score in zip(lines, language_model.score(lines), strict=True) if line]
    assert result["log_prob"] == pytest.approx(sum(score.log_prob for score in scores), rel=1e-6)
    assert result["tokens"] == sum(score.tokens for score in scores) == 8


def test_next_words_are_the_most_probable_ones():
    language_model = _random("stream")
    probabilities = np.exp(language_model.model.next_log_probs([[0, 4]])[0])
    words = language_model.next_words("the", top_k=5)
    assert dict(words) == pytest.approx({language_model.vocabulary.words[i]: probabilities[i] for i in range(4, 9)})
    assert [p for _, p in words] == sorted((p for _, p in words), reverse=True)
    assert language_model.next_words("cat sat on the", top_k=1) == language_model.next_words("on the", top_k=1)
    assert language_model.next_words("the", top_k=9) == language_model.next_words("the", top_k=5)
    with pytest.raises(InputError, match="`top_k` must be 1 or more"):
        language_model.next_words("the", top_k=0)
    with pytest.raises(InputError, match="reserved token </s>"):
        LanguageModel(language_model.model, language_model.vocabulary, "whitespace", "stream").next_words("the </s>")


def test_generation_is_seeded_and_follows_the_distribution():
    language_model = _random("stream")
    text = language_model.generate("the cat", 20, seed=1)
    assert text == language_model.generate("the cat", 20, seed=1) != language_model.generate("the cat", 20, seed=2)
    assert len(text.split()) == 20 and set(text.split()) <= set(language_model.vocabulary.words[4:])
    greedy = language_model.generate("the cat", 3, temperature=0)
    assert greedy.split()[0] == language_model.next_words("the cat", top_k=1)[0][0]
    assert language_model.generate("the cat", 3, top_k=1, seed=5) == greedy
    drawn = [language_model.generate("the", 1, seed=seed, temperature=0.5) for seed in range(400)]
    weights = {word: p**2 for word, p in language_model.next_words("the", top_k=5)}
    for word, weight in weights.items():
        expected = weight / sum(weights.values())
        assert drawn.count(word) / 400 == pytest.approx(expected, abs=4 * np.sqrt(expected / 400))


def test_generation_starts_a_line_after_each_sentence():
    language_model = _random("sentence")
    bias = language_model.model.prob.b
    bias.assign(bias.numpy() + 2 * (np.arange(9) == 3))  # </s> often
    text = language_model.generate("", 30)
    assert "\n" in text and len(text.split()) == 30 and "</s>" not in text
    bias.assign(bias.numpy() + 100 * (np.arange(9) == 3))  # nothing but </s>
    assert language_model.generate("", 3).split() == []


@pytest.mark.parametrize("options", [{"num_words": 0}, {"temperature": -1.0}, {"temperature": np.nan}, {"top_k": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InputError, match=f"`{next(iter(options))}` must be"):
        _random("stream").generate("the", **options)


def test_a_trained_directory_answers_for_its_text(language_model, model_directory):
    metrics = json.loads((model_directory / "metrics.json").read_text())
    assert language_model.evaluate("validation") == metrics["validation"]
    assert language_model.next_words("The value of the", top_k=3)[0][1] > 0.005
    likely, unlikely = language_model.score(["This is the name of a function.", "function name the this a of is."])
    assert likely.tokens == unlikely.tokens == 9 and likely.log_prob > unlikely.log_prob


def test_a_saved_language_model_loads_and_answers_the_same(tmp_path):
    language_model = _random("sentence")
    language_model.save(tmp_path)
    loaded = LanguageModel.load(tmp_path)
    assert loaded.next_words("the cat") == language_model.next_words("the cat")
    assert (loaded.vocabulary, loaded.boundary) == (language_model.vocabulary, "sentence")
    with pytest.raises(InputError, match="has no corpus/: name a text with --text"):
        loaded.evaluate()


def test_damaged_directories_are_refused(tmp_path, model_directory):
    with pytest.raises(InputError, match="There is no model directory"):
        LanguageModel.load(tmp_path / "none")

    def damaged(name, content=None):
        copy = tmp_path / f"{name}.{content!r:.5}"
        shutil.copytree(model_directory, copy)
        (copy / name).unlink() if content is None else (copy / name).write_bytes(content)
        return copy

    with pytest.raises(InputError, match=r"model.keras is not a whole model file"):
        LanguageModel.load(damaged("model.keras", (model_directory / "model.keras").read_bytes()[:5000]))
    with pytest.raises(InputError, match="has no model.keras"):
        LanguageModel.load(damaged("model.keras"))
    with pytest.raises(InputError, match=r"config.json is not valid JSON"):
        LanguageModel.load(damaged("config.json", b"{"))
    with pytest.raises(InputError, match=r"config.json lacks 'tokenizer'"):
        LanguageModel.load(damaged("config.json", b'{"kind":"nplm"}'))
    with pytest.raises(InputError, match="not that of a model of this version"):
        LanguageModel.load(damaged("config.json", b"{}"))
    with pytest.raises(InputError, match="5 words and the model .* belong to different models"):
        LanguageModel.load(damaged("vocabulary.txt", b"<pad>\n<unk>\n<s>\n</s>\nthe\n"))
