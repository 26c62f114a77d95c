"""Adding out-of-vocabulary words: the rules against plain loops, invalid requests, and the command."""

import hashlib
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    InputError,
    LanguageModel,
    Mixture,
    Uniform,
    Vocabulary,
    add_words,
)
from keras_nplm.cli.main import main
from keras_nplm.data.corpora import SPLITS, Corpus
from keras_nplm.data.encoding import encode_corpus, encode_sentences
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.experiments.studies import new_words
from keras_nplm.language_model.new_word_weights import context_gradients
from keras_nplm.language_model.new_words import RULES, count_new_words
from keras_nplm.layers.outputs import FullSoftmax
from keras_nplm.models.self_normalised import SelfNormalised

WORDS = ["the", "cat", "sat", "on", "mat", "."]
V, N = len(WORDS) + 4, 4
TEXT = ["the dog sat on the mat .", "", "the dog and the cat sat .", "on the dog", "a rug . and the dog"]
NEW = {"dog": 4, "and": 2, "a": 1, "rug": 1}
SHAPES = [{}, {"direct_connections": True}, {"direct_connections": True, "hidden_units": 0}]
SHAPES += [{"rank": 2}, {"tied": True}, {"output": "nce"}]


def _logits(model: NPLM, context_ids: np.ndarray) -> np.ndarray:
    """y = b + [U W] [tanh(d + H x); x], in NumPy."""
    C = model.embed.C.numpy().astype(np.float64)
    C[0] = 0
    x = C[context_ids].reshape(len(context_ids), -1)
    parts = [np.tanh(x @ model.hidden.H.numpy() + model.hidden.d.numpy())] if model.hidden is not None else []
    features = np.concatenate([*parts, *([x] if model.direct_connections else [])], axis=1)
    features = features if model.prob.P is None else features @ model.prob.P.numpy()
    return features @ model.prob.kernel.numpy().T + model.prob.b.numpy()


def _language_model(boundary: str = "stream", **options) -> LanguageModel:
    output = {name: options.pop(name) for name in ("rank", "tied") if name in options}
    options = {"embedding_dim": 3, "hidden_units": 5, "output": FullSoftmax(V, **output)} | options
    model = NPLM(V, order=N, boundary=boundary, **options)
    random = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(random.normal(0, 0.6, weight.shape))
    return LanguageModel(model, Vocabulary(WORDS), "whitespace")


def _find_ngrams(boundary: str) -> list[tuple[tuple[int, ...], int, list[int]]]:
    """Each n-gram of the text in known ids, the new word's index as target and as context words (-1: known word)."""
    new, found = list(NEW), []
    lines = [line.split() for line in TEXT if line]
    lines = [list(itertools.chain(*lines))] if boundary == "stream" else [[*line, "</s>"] for line in lines]
    for line in lines:
        tokens = [*["<pad>" if boundary == "stream" else "<s>"] * (N - 1), *line]
        vocabulary = Vocabulary(WORDS).words
        ids = [vocabulary.index(token) if token in vocabulary else 1 for token in tokens]
        numbers = [new.index(token) if token in new else -1 for token in tokens]
        for i in range(N - 1, len(tokens)):
            found.append((tuple(ids[i - N + 1 : i + 1]), numbers[i], numbers[i - N + 1 : i]))
    return found


def _softmax(model: NPLM, context) -> np.ndarray:
    y = np.exp(_logits(model, np.array([context])))[0]
    return y / y.sum()


@pytest.mark.parametrize("boundary, options", [("stream", {}), ("sentence", {"rank": 2}), ("stream", {"tied": True})])
def test_expectation_is_the_papers_rule(boundary, options):
    language_model = _language_model(boundary, **options)
    model, grown = language_model.model, add_words(language_model, TEXT, rule="expectation")
    assert grown.vocabulary.words == [*language_model.vocabulary.words, *NEW]
    C, kernel = model.embed.C.numpy(), model.prob.kernel.numpy()
    for number in range(len(NEW)):
        rows = []
        for ngram, word, _ in _find_ngrams(boundary):
            if word == number and any(ngram[:-1]):
                p = _softmax(model, ngram[:-1])
                p[:4] = 0
                rows.append(np.concatenate([p @ C, p @ kernel]) / p.sum())
        expected = np.mean(rows, axis=0)
        np.testing.assert_allclose(grown.model.embed.C.numpy()[V + number], expected[:3], atol=1e-5)
        np.testing.assert_allclose(grown.model.prob.kernel.numpy()[V + number], expected[3:], atol=1e-5)


@pytest.mark.parametrize("options", SHAPES)
def test_gradients_equal_finite_differences(options):
    model = _language_model(**options).model
    random = np.random.default_rng(2)
    contexts, targets = random.integers(1, V, (6, N - 1)), random.integers(1, V, 6)
    gradients = context_gradients(model, SelfNormalised(model), contexts, targets)
    if options.get("tied"):  # the feature vector alone moves, not the output's row
        model = _untied(model)
    C, step = model.embed.C.numpy(), 1e-2
    for row, place, component in itertools.product(range(6), range(N - 1), range(3)):
        values = []
        for sign in (1, -1):
            moved = np.concatenate([C, C[None, contexts[row, place]]])
            moved[-1, component] += sign * step
            context = contexts[row].copy()
            context[place] = V
            values.append(np.log(_softmax_of(model, moved, context)[targets[row]]))
        assert gradients[row, place, component] == pytest.approx((values[0] - values[1]) / 2 / step, abs=1e-3)


def _untied(model: NPLM) -> NPLM:
    untied = NPLM(V, order=N, embedding_dim=3, hidden_units=5, output=FullSoftmax(V, rank=3))
    untied.embed.C.assign(model.embed.C)
    untied.hidden.set_weights(model.hidden.get_weights())
    for name in ("P", "kernel", "b"):
        getattr(untied.prob, name).assign(getattr(model.prob, name))
    return untied


def _softmax_of(model: NPLM, C: np.ndarray, context: np.ndarray) -> np.ndarray:
    """P(· | context) with feature vectors that need not be the network's."""
    x = C[context].reshape(1, -1).astype(np.float64)
    parts = [np.tanh(x @ model.hidden.H.numpy() + model.hidden.d.numpy())] if model.hidden is not None else []
    features = np.concatenate([*parts, *([x] if model.direct_connections else [])], axis=1)
    features = features if model.prob.P is None else features @ model.prob.P.numpy()
    y = np.exp(features @ model.prob.kernel.numpy().T + model.prob.b.numpy())[0]
    return y / y.sum()


@pytest.mark.parametrize(
    "boundary, options",
    [("stream", SHAPES[1]), ("sentence", {}), ("stream", {"rank": 2}), ("sentence", {"tied": True})],
)
def test_likelihood_takes_one_step_up(boundary, options):
    language_model = _language_model(boundary, **options)
    model, grown = language_model.model, add_words(language_model, TEXT).model
    found, m = _find_ngrams(boundary), 3
    sums, numbers, pairs = np.zeros((len(NEW), m)), np.zeros(len(NEW)), []
    for ngram, _, numbers_there in found:
        for place, number in enumerate(numbers_there):
            if number >= 0:
                contexts, target = np.array([ngram[:-1]]), np.array([ngram[-1]])
                gradient = context_gradients(model, SelfNormalised(model), contexts, target)[0, place]
                pairs.append(gradient)
                sums[number] += gradient
                numbers[number] += 1
    fisher = sum(np.outer(g, g) for g in pairs) / len(pairs)
    prior = 30 * (N - 1) * np.trace(fisher) / m * np.eye(m)
    steps = [np.linalg.solve(n * fisher + prior, g) for n, g in zip(numbers, sums, strict=True)]

    inside = np.array([ngram[:-1] for ngram, _, _ in found])
    features = np.asarray(model.prob.project(model.features(inside))).astype(np.float64)
    weights = np.array([_softmax(model, context)[1] for context in inside])
    weights /= weights.sum()
    mean = weights @ features
    variance = (weights @ (features - mean) ** 2).mean()
    rows = []
    for number in range(len(NEW)):
        own = features[[word == number and any(ngram[:-1]) for ngram, word, _ in found]]
        rows.append(0.1 * len(own) / (len(own) + 2) * (own.mean(axis=0) - mean) / variance)
    C, kernel = model.embed.C.numpy()[1], model.prob.kernel.numpy()[1]
    if options.get("tied"):
        np.testing.assert_allclose(grown.embed.C.numpy()[V:], C + steps + np.array(rows), atol=1e-4)
    else:
        np.testing.assert_allclose(grown.embed.C.numpy()[V:], C + np.array(steps), atol=1e-4)
        np.testing.assert_allclose(grown.prob.kernel.numpy()[V:], kernel + np.array(rows), atol=1e-4)


@pytest.mark.parametrize("rule, boundary", [("expectation", "stream"), ("likelihood", "sentence")])
def test_a_new_words_mean_probability_is_its_frequency(rule, boundary):
    language_model = _language_model(boundary)
    given = {"dog": 0.3, "and": 0.1, "a": 0.002, "rug": 0.01}
    inside = np.array([ngram[:-1] for ngram, _, _ in _find_ngrams(boundary)])
    for options, expected in (
        ({"prior_tokens": 50}, np.array(list(NEW.values())) / (len(inside) + 50)),
        ({"frequencies": given}, list(given.values())),
    ):
        grown = add_words(language_model, TEXT, rule=rule, **options)
        mean = np.exp(grown.model.next_log_probs(inside)).mean(axis=0)
        np.testing.assert_allclose(mean[V:], expected, rtol=1e-4)
        assert mean.sum() == pytest.approx(1, abs=1e-5)


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


@pytest.mark.parametrize(
    "sentences, options, message",
    [
        (["the cat"], {}, "no out-of-vocabulary word with `min_count` 1"),
        (TEXT, {"min_count": 9}, "no out-of-vocabulary word with `min_count` 9"),
        (TEXT, {"min_count": 0}, "`min_count` must be 1 or more"),
        (TEXT, {"words": ["dog", "cat"]}, "'cat' is already in the vocabulary"),
        (TEXT, {"words": ["<unk>"]}, "'<unk>' is already in the vocabulary"),
        (TEXT, {"words": ["cow"]}, "'cow' must occur 1 times or more .* Received: 0"),
        (TEXT, {"words": ["dog rug"]}, "'dog rug' must occur"),
        (TEXT, {"words": ["rug"], "min_count": 2}, "'rug' must occur 2 times or more .* Received: 1"),
        (TEXT, {"words": []}, "`words` must name 1 word or more"),
        ([], {}, "The text must have 1 word or more"),
        (["", " "], {}, "The text must have 1 word or more"),
        (["cow"], {}, "'cow' has no word before it"),
        (["the </s> dog"], {}, "reserved token </s>"),
        (TEXT, {"rule": "guess"}, "`rule` must be one of likelihood, expectation"),
        (TEXT, {"prior_tokens": 0}, "`prior_tokens` must be 1 or more"),
        (TEXT, {"words": ["dog"], "frequencies": {"cow": 0.1}}, "Missing: 'dog'"),
        (TEXT, {"words": ["dog"], "frequencies": {"dog": 1.0}}, "sum to less than 1"),
        (TEXT, {"words": ["dog"], "frequencies": {"dog": 0.0}}, "must be above 0 .* Received: minimum 0"),
    ],
)
def test_invalid_requests_are_refused(sentences, options, message):
    with pytest.raises(InputError, match=message):
        add_words(_language_model(), sentences, **options)


def test_models_without_rows_for_words_are_refused():
    vocabulary = Vocabulary(WORDS)
    mixture = Mixture([Uniform(V, "stream"), Uniform(V, "stream")], [0.5, 0.5])
    for model, message in ((mixture, "to an NPLM. Received: Mixture"), (NPLM(V, output="adaptive"), "a row for each")):
        with pytest.raises(InputError, match=message):
            add_words(LanguageModel(model, vocabulary, "words"), TEXT)


def test_new_words_are_counted():
    assert count_new_words(_language_model(), TEXT) == NEW
    assert list(count_new_words(_language_model(), TEXT)) == ["dog", "and", "a", "rug"]


def test_the_study_measures_the_models(tmp_path, monkeypatch):
    monkeypatch.setattr(new_words, "_OCCURRENCES", (1,))

    def corpus(split):
        return lambda: iter([line.split() for line in TEXT * (3 if split == "validation" else 1) if line])

    trained = _language_model()
    trained.vocabulary = trained.vocabulary.with_words(["dog", "and"])
    trained.model = NPLM(V + 2, order=N, embedding_dim=3, hidden_units=5, boundary="stream")
    without = _language_model()
    for row, language_model in zip(new_words.ROWS, (trained, without), strict=True):
        language_model.save(tmp_path / row.name)
    text = Corpus("text", "whitespace", {split: corpus(split) for split in SPLITS})
    encode_corpus(text, trained.vocabulary, tmp_path / new_words.ROWS[0].name / "corpus")
    report = new_words.measure(tmp_path)
    shown = [["<unk>" if word in ("a", "rug") else word for word in line.split()] for line in TEXT if line]
    ngrams = extract_ngrams(encode_sentences(shown, trained.vocabulary), N, "stream")
    follows = (ngrams[:, :-1] >= V).any(axis=1) & (ngrams[:, -1] < V) & (ngrams[:, -1] != 1)

    def check(measures, log_prob):
        assert measures["following"] == pytest.approx(log_prob[follows].mean(), abs=1e-5)
        assert measures["themselves"] == pytest.approx(log_prob[ngrams[:, -1] >= V].mean(), abs=1e-5)
        assert measures["perplexity"] == pytest.approx(np.exp(-log_prob.mean()), rel=1e-5)

    check(report["trained"], trained.model.log_prob(ngrams[:, :-1], ngrams[:, -1]))
    first = [line.split() for line in TEXT * 3 if line]  # each word once, others unknown
    first = [["<unk>" if w in ("dog", "and", "a", "rug") else w for w in line] for line in first]
    first[0][1], first[1][2] = "dog", "and"
    lines, frequencies = new_words.limit_occurrences([line.split() for line in TEXT * 3 if line], ["dog", "and"], 1)
    unknown = [["<unk>" if word in ("a", "rug") else word for word in line.split()] for line in lines]
    assert unknown == first
    expected = {"dog": 1 / 10_002, "and": 1 / 10_010}
    assert frequencies == pytest.approx(expected)
    for rule in RULES:
        model = add_words(without, [" ".join(line) for line in first], ["dog", "and"], rule=rule, frequencies=expected)
        ids = extract_ngrams(encode_sentences(shown, model.vocabulary), N, "stream")
        check(report["introduced"][0][rule], model.model.log_prob(ids[:, :-1], ids[:, -1]))
    old = np.where(ngrams < V, ngrams, 1)
    log_prob = without.model.log_prob(old[:, :-1], old[:, -1]).astype(np.float64)
    unknown = 24 / 69  # of validation: dog, and, a, rug
    for place, token in enumerate([word for line in shown for word in line]):
        if token in expected:
            log_prob[place] += np.log(expected[token] / unknown)
        elif token == "<unk>":
            log_prob[place] += np.log(1 - sum(expected.values()) / unknown)
    check(report["introduced"][0]["unknown"], log_prob)
    assert len(new_words.format_report(report).splitlines()) == 2 + 3 + 1


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
    run("export", target, tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served" / "1")).signatures["score"]
    scores = served(sentences=tf.constant(lines))["log_prob"].numpy()
    np.testing.assert_allclose(scores, [score.log_prob for score in grown.score(lines)], rtol=1e-5)
    assert main(["add-words", str(model_directory), "--text", str(text), "--output", str(target)]) == 2
    assert "already holds a model" in capsys.readouterr().err
    assert (
        main(["add-words", str(target), "--text", str(text), "--output", str(tmp_path / "x"), "--words", "zonk"]) == 2
    )
    assert "'zonk' is already in the vocabulary" in capsys.readouterr().err and not (tmp_path / "x").exists()
    assert main(["evaluate", str(target)]) == 2 and "evaluate lines of text" in capsys.readouterr().err
