"""LanguageModel: evaluate, next words, save and load, for n-gram models without TensorFlow."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from keras_nplm import NPLM, InputError, LanguageModel, Mixture, Uniform, Vocabulary, evaluate
from keras_nplm.data.corpora import Corpus
from keras_nplm.data.encoding import encode_corpus, encode_sentences

LINES = ["the cat sat", "", "on the mat"]  # a line without words is not a sentence of a text


def test_next_words_are_the_most_probable_words(build_ngram_model):
    language_model = build_ngram_model("stream")
    probabilities = np.exp(language_model.model.next_log_probs([[0, 4]])[0])
    words = language_model.next_words("the", top_k=5)
    assert dict(words) == pytest.approx({language_model.vocabulary.words[i]: probabilities[i] for i in range(4, 9)})
    assert [p for _, p in words] == sorted((p for _, p in words), reverse=True)
    assert language_model.next_words("cat sat on the", top_k=1) == language_model.next_words("on the", top_k=1)
    assert language_model.next_words("the", top_k=9) == language_model.next_words("the", top_k=5)
    with pytest.raises(InputError, match="`top_k` must be 1 or more"):
        language_model.next_words("the", top_k=0)
    with pytest.raises(InputError, match="reserved token </s>"):
        LanguageModel(language_model.model, language_model.vocabulary, "whitespace").next_words("the </s>")


def test_evaluate_takes_lines_ids_or_a_split(build_ngram_model, tmp_path):
    language_model = build_ngram_model("sentence")
    result = language_model.evaluate(LINES)
    scores = [score for line, score in zip(LINES, language_model.score(LINES), strict=True) if line]
    assert result["log_prob"] == pytest.approx(sum(score.log_prob for score in scores), rel=1e-6)
    assert result["tokens"] == sum(score.tokens for score in scores) == 8

    ids = encode_sentences([line.split() for line in LINES if line], language_model.vocabulary)
    assert language_model.evaluate(ids) == language_model.evaluate(ids.tolist()) == result
    assert result.items() >= evaluate(language_model.model, ids).items()

    sentences = {
        split: lambda: iter([line.split() for line in LINES if line]) for split in ("train", "validation", "test")
    }
    corpus = Corpus("lines", "words", sentences)
    language_model.corpus = encode_corpus(corpus, language_model.vocabulary, tmp_path / "corpus")
    assert language_model.evaluate() == language_model.evaluate("validation") == result
    with pytest.raises(InputError, match="one of train, validation, test. Received: 'book'"):
        language_model.evaluate("book")
    with pytest.raises(InputError, match="log Z .* NPLM. Received: BackoffModel"):
        language_model.evaluate(ids, ln_z=True)


def test_the_boundary_is_the_models(build_ngram_model):
    stream = build_ngram_model("stream")
    assert stream.boundary == "stream" and stream.evaluate(LINES)["tokens"] == 6
    with pytest.raises(InputError, match="`boundary` must be 'stream', .* this BackoffModel .*Received: 'sentence'"):
        LanguageModel(stream.model, stream.vocabulary, "words", "sentence")
    with pytest.raises(InputError, match="`boundary` must be one of stream, sentence. Received: 'book'"):
        LanguageModel(stream.model, stream.vocabulary, "words", "book")
    assert repr(stream) == "LanguageModel(BackoffModel, order=3, |V|=9, tokenizer='words', boundary='stream')"


@pytest.mark.parametrize("kind", ["n-gram", "mixture", "NPLM"])
def test_a_saved_model_loads_and_answers_the_same(build_ngram_model, tmp_path, kind):
    ngrams = build_ngram_model("sentence")
    model = ngrams.model
    if kind == "mixture":
        model = Mixture([model, Uniform(len(ngrams.vocabulary), "sentence")], [0.7, 0.3])
    if kind == "NPLM":
        model = NPLM(len(ngrams.vocabulary), order=3, embedding_dim=4, hidden_units=5)
    language_model = LanguageModel(model, ngrams.vocabulary, "words", "sentence")
    language_model.save(tmp_path)
    loaded = LanguageModel.load(tmp_path)
    assert type(loaded.model) is type(model) and repr(loaded) == repr(language_model)
    assert loaded.next_words("the cat") == language_model.next_words("the cat")
    assert loaded.vocabulary == language_model.vocabulary
    with pytest.raises(InputError, match="has no corpus/, .* lines of text"):
        loaded.evaluate()
    with pytest.raises(InputError, match="already holds a model"):
        language_model.save(tmp_path)


def test_a_model_without_files_cannot_be_saved(build_ngram_model, tmp_path):
    language_model = build_ngram_model("sentence")
    language_model.model = object()
    with pytest.raises(InputError, match="must be an NPLM, a Shortlist, .* Received: object"):
        language_model.save(tmp_path)


def test_ngram_models_load_neither_keras_nor_tensorflow(tmp_path):
    code = f"""
import sys
from keras_nplm import LanguageModel, Mixture, NBestList, Uniform, Vocabulary, encode_sentences, fit_mixture, kneser_ney

vocabulary = Vocabulary(["the", "cat"])
ids = encode_sentences([["the", "cat"], ["the"]], vocabulary)
ngrams = kneser_ney(ids, len(vocabulary), 2, "sentence")
mixture = fit_mixture([ngrams, Uniform(len(vocabulary), "sentence")], ids)
for name, model in (("ngrams", ngrams), ("mixture", mixture)):
    LanguageModel(model, vocabulary, "words").save({str(tmp_path)!r} + "/" + name)
    language_model = LanguageModel.load({str(tmp_path)!r} + "/" + name)
    language_model.evaluate(["the cat"])
    list(language_model.score(["the cat"]))
    list(language_model.rescore([NBestList("0", ["the cat", "cat"])]))
    language_model.next_words("the")
    language_model.generate("the", 3)
print(sorted({{"keras", "tensorflow", "tensorflow_datasets"}} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr


def test_a_trained_directory_answers_for_its_text(model_directory):
    language_model = LanguageModel.load(model_directory)
    metrics = json.loads((model_directory / "metrics.json").read_text())
    assert language_model.evaluate("validation") == metrics["validation"]
    assert language_model.next_words("The value of the", top_k=3)[0][1] > 0.005
    likely, unlikely = language_model.score(["This is the name of a function.", "function name the this a of is."])
    assert likely.tokens == unlikely.tokens == 9 and likely.log_prob > unlikely.log_prob


def test_a_vocabulary_of_lemmas_needs_their_tokenizer():
    with pytest.raises(InputError, match=r"needs a tokenizer with `\+lemmas`. Received: 'words'"):
        LanguageModel(Uniform(5, "sentence"), Vocabulary(["cat"], {"cats": "cat"}), "words")


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("ngrams.npz", b"x" * 100, "ngrams.npz"),
        ("ngrams.npz", None, "Cannot read .*ngrams.npz"),
        ("config.json", b"{", "config.json is not valid JSON"),
        ("config.json", b'{"kind":"back-off"}', "config.json must have the field 'tokenizer'"),
        ("config.json", b"{}", "must name the `kind` of the model. Received: None"),
        (
            "config.json",
            b'{"kind":"tree","tokenizer":"words","boundary":"stream"}',
            "must be one of uniform, .* 'tree'",
        ),
        ("config.json", b'{"kind":"nplm","tokenizer":"words","boundary":"stream"}', "model.keras does not exist"),
        ("vocabulary.txt", b"<pad>\n<unk>\n<s>\n</s>\nthe\n", "has 5 words, and the model has 9"),
    ],
)
def test_damaged_directories_are_refused(build_ngram_model, tmp_path, name, content, message):
    build_ngram_model("stream").save(tmp_path)
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        LanguageModel.load(tmp_path)


def test_a_missing_directory_is_refused(tmp_path):
    with pytest.raises(InputError, match="none does not exist"):
        LanguageModel.load(tmp_path / "none")


def test_a_damaged_network_file_is_refused(tmp_path, model_directory):
    shutil.copytree(model_directory, tmp_path / "copy")
    path = tmp_path / "copy" / "model.keras"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(InputError, match="model.keras"):
        LanguageModel.load(tmp_path / "copy")


def test_the_preset_predicts_python_documentation():
    language_model = LanguageModel.from_preset("reference")
    assert repr(language_model) == "LanguageModel(NPLM, order=21, |V|=2164, tokenizer='words', boundary='sentence')"
    assert "class" in dict(language_model.next_words("If the"))


def test_an_unknown_preset_is_refused():
    with pytest.raises(InputError, match=r"`name` must be one of reference\. Received: '\.\./x'"):
        LanguageModel.from_preset("../x")


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
@pytest.mark.parametrize(
    "text, context, prefix", [("the ca", "the", "ca"), ("the ", "the", ""), ("", "", ""), ("x", "", "x")]
)
def test_prefix_completion_selects_from_the_next_words(build_ngram_model, boundary, text, context, prefix):
    language_model = build_ngram_model(boundary)
    expected = [
        pair for pair in language_model.next_words(context, 100) if pair[0].startswith(prefix) and pair[0] != "</s>"
    ]
    assert language_model.complete_prefix(text, 100) == expected
    assert language_model.complete_prefix(text, 1) == expected[:1]


def test_prefix_completion_refuses_misuse(build_ngram_model):
    with pytest.raises(InputError, match="`top_k` must be 1 or more. Received: 0"):
        build_ngram_model("sentence").complete_prefix("the ca", 0)
