"""The count-based models against plain Python, and against KenLM on Brown."""

import collections
import contextlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    InputError,
    Vocabulary,
    encode_corpus,
    evaluate,
    open_corpus,
)
from keras_nplm.data.ngram_arrays import ngram_positions, predicted_ids
from keras_nplm.models.ngrams import (
    BackoffModel,
    ClassBased,
    ContextFrequencies,
    DeletedInterpolation,
    FrequencyBins,
    class_based,
    count_ngrams,
    deleted_interpolation,
    exchange_classes,
    kneser_ney,
    load_classes,
    save_classes,
)
from keras_nplm.models.ngrams.interpolation import combine, fit_weights
from keras_nplm.models.ngrams.kneser_ney import estimate_discounts

V = 9  # <pad> <unk> <s> </s> and five words
BOUNDARIES = ("stream", "sentence")


def _texts(sentences=12):
    words = st.sampled_from([1, *range(4, V - 1)])  # the last word is never seen
    sentence = st.lists(words, min_size=1, max_size=9).map(lambda ids: [*ids, 3])
    return st.lists(sentence, min_size=1, max_size=sentences).map(lambda s: np.concatenate(s).astype(np.int32))


def _events(ids, order, boundary):
    """(context, word) of every target, the context as long as it is: no <pad>, one <s> at most."""
    tokens, positions = ngram_positions(ids, order, boundary)
    for position in positions.tolist():
        context = []
        for id in reversed(tokens[position - order + 1 : position].tolist()):
            if id == 0:
                break
            context.insert(0, id)
            if id == 2:
                break
        yield tuple(context), int(tokens[position])


class PlainKneserNey:
    """Chen & Goodman's formulas with dictionaries."""

    def __init__(self, ids, order, boundary):
        self.order = order
        self.predicted = predicted_ids(V, boundary).tolist()
        self.a = [collections.Counter() for _ in range(order)]
        for context, word in _events(ids, order, boundary):
            for k in range(1, order + 1):
                if k - 1 <= len(context):
                    self.a[k - 1][(*context[len(context) - k + 1 :], word)] += 1
        for k in range(order - 1, 0, -1):
            before = collections.Counter(ngram[1:] for ngram in self.a[k])
            self.a[k - 1] = {g: c if g[0] == 2 else max(before[g], 1) for g, c in self.a[k - 1].items()}

    def p(self, context, word):
        k = len(context) + 1
        followers = {g: c for g, c in self.a[k - 1].items() if g[:-1] == context}
        uniform = (word in self.predicted) / len(self.predicted)
        lower = uniform if k == 1 else self.p(context[1:], word)
        if not followers:
            return lower
        d = [0.0, *estimate_discounts(np.array(list(self.a[k - 1].values())))]
        total = sum(followers.values())
        gamma = sum(d[min(c, 3)] for c in followers.values()) / total
        c = followers.get((*context, word), 0)
        return (c - d[min(c, 3)]) / total + gamma * lower


def _padded(contexts, order):
    return np.array([[0] * (order - 1 - len(c)) + list(c) for c in contexts], np.int32).reshape(
        len(contexts), order - 1
    )


@settings(max_examples=40, deadline=None)
@given(_texts(), st.integers(2, 4), st.sampled_from(BOUNDARIES), st.integers(0, 1 << 30))
def test_kneser_ney_is_the_formula(ids, order, boundary, seed):
    model, plain = kneser_ney(ids, V, order, boundary), PlainKneserNey(ids, order, boundary)
    met = {context for context, _ in _events(ids, order, boundary)}
    rng = np.random.default_rng(seed)
    met |= {tuple(rng.integers(4, V, rng.integers(0, order)).tolist()) for _ in range(5)}
    contexts = sorted(met)[:25]
    log_probs = model.next_log_probs(_padded(contexts, order))
    expected = [[plain.p(context, word) for word in range(V)] for context in contexts]
    np.testing.assert_allclose(np.exp(log_probs), expected, atol=2e-6)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, atol=1e-5)
    for word in range(V):
        targets = np.full(len(contexts), word)
        np.testing.assert_array_equal(model.log_prob(_padded(contexts, order), targets), log_probs[:, word])


def test_discounts_are_chen_and_goodmans():
    counts = np.repeat([1, 2, 3, 4, 7], [100, 40, 20, 10, 5])
    y = 100 / (100 + 2 * 40)
    expected = [1 - 2 * y * 40 / 100, 2 - 3 * y * 20 / 40, 3 - 4 * y * 10 / 20]
    np.testing.assert_allclose(estimate_discounts(counts), expected)
    np.testing.assert_allclose(estimate_discounts(np.array([1, 1, 2])), [0.5, 1.0, 1.5])  # nothing seen 3 or 4 times
    np.testing.assert_allclose(
        estimate_discounts(np.repeat([1, 2, 3, 4], [1, 1, 1, 9])), [0.5, 1.0, 1.5]
    )  # D_3 is negative


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_ngrams_are_counted_as_a_loop_counts_them(boundary):
    rng = np.random.default_rng(0)
    ids = rng.integers(4, V, 300).astype(np.int32)
    ids[::7] = 3
    counted = count_ngrams(ids, V, 4, boundary)
    expected = collections.Counter()
    for context, word in _events(ids, 4, boundary):
        for k in range(1, len(context) + 2):
            expected[(*context[len(context) - k + 1 :], word)] += 1
    found = {}
    for k in range(1, 5):
        nodes, words = counted.nodes(k), counted.keys[k - 1] % V
        contexts = counted.contexts.words(k - 1)[nodes].tolist() if k > 1 else [[]] * len(words)
        found |= {(*c, w): n for c, w, n in zip(contexts, words.tolist(), counted.counts[k - 1].tolist(), strict=True)}
    assert found == dict(expected)
    full = np.array([g for g in expected if len(g) == 4])
    np.testing.assert_array_equal(counted.look_up(full), [expected[tuple(g)] for g in full.tolist()])
    assert counted.look_up(np.array([[4, 4, 4, 8], [8, 8, 8, 8]])).tolist() == [
        expected[4, 4, 4, 8],
        expected[8, 8, 8, 8],
    ]
    frequencies = ContextFrequencies.from_counts(counted)
    contexts = rng.integers(4, V, (50, 3))
    for row, context in zip(frequencies.look_up(contexts).tolist(), contexts.tolist(), strict=True):
        totals = [sum(n for g, n in expected.items() if list(g[:-1]) == context[3 - k :]) for k in (1, 2, 3)]
        assert row == totals
    assert frequencies.tokens == sum(n for g, n in expected.items() if len(g) == 2)


@pytest.mark.parametrize("back_off", [False, True])
@settings(max_examples=25, deadline=None)
@given(_texts(), _texts(), st.sampled_from(BOUNDARIES))
def test_deleted_interpolation_is_the_formula(back_off, ids, held_out, boundary):
    model = deleted_interpolation(ids, held_out, V, 3, boundary, back_off)
    counts = collections.Counter()
    for context, word in _events(ids, 3, boundary):
        for k in range(len(context) + 1):
            counts[context[len(context) - k :], word] += 1
    predicted = predicted_ids(V, boundary).tolist()
    tokens = sum(n for (c, _), n in counts.items() if len(c) == 1)
    tokens = max(tokens, 1)
    per_length = math.ceil(math.log(tokens)) + 1
    contexts = [(), *itertools.product([1, *range(4, V)], repeat=2), (4,)][:60]
    expected = []
    for context in contexts:
        total = {k: sum(n for (c, _), n in counts.items() if c == context[len(context) - k :]) for k in range(3)}
        total = {k: n if k <= len(context) else 0 for k, n in total.items()}
        if back_off:
            longest = 2 if total[2] else 1
            bin = (2 - longest) * per_length
        else:
            longest, bin = 2, 0
        bin += max(math.ceil(-math.log((1 + total[longest]) / tokens)), 0)
        row = []
        for word in range(V):
            p = [(word in predicted) / len(predicted)]
            for k in range(3):
                seen = k <= len(context) and total[k] > 0
                p.append(counts[context[len(context) - k :], word] / total[k] if seen else p[-1])
            row.append(model.weights[bin] @ p)
        expected.append(row)
    found = np.exp(model.next_log_probs(_padded(contexts, 3)))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
    targets = np.arange(len(contexts)) % V
    one = np.exp(model.log_prob(_padded(contexts, 3), targets))
    np.testing.assert_allclose(one, found[np.arange(len(contexts)), targets], atol=1e-9)


def test_weights_fitted_by_em_are_the_most_likely_ones():
    rng = np.random.default_rng(1)
    log_probs = np.log(rng.dirichlet([1, 1, 1], 500))
    bins = rng.integers(0, 2, 500)
    weights = fit_weights(log_probs, bins, 3)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights[2], 1 / 3)  # a bin without events

    def penalised(b, w):  # one event shared by the components is the prior w_1^(1/3) w_2^(1/3) w_3^(1/3)
        return combine(log_probs[bins == b], w).sum() + np.log(w).mean()

    for b in range(2):
        for other in rng.dirichlet([1, 1, 1], 300):
            assert penalised(b, other) <= penalised(b, weights[b]) + 1e-4


def test_words_that_neither_text_has_keep_a_probability():
    rng = np.random.default_rng(7)
    train, held_out = (np.append(4 + rng.zipf(1.3, n) % 100, 3).astype(np.int32) for n in (4000, 300))
    model = deleted_interpolation(train, held_out, 400, 3, "stream")  # 104 … 399 are in neither
    rarest = model.next_log_probs(np.stack([train[:200], train[1:201]], axis=1))[:, 399]
    assert rarest.min() > -math.log(397) - math.log(4 * (len(held_out) + 1))


def test_a_discount_of_0_is_none():
    np.testing.assert_allclose(
        estimate_discounts(np.array([1, 2, 3, 3, 4])), [0.5, 1.0, 1.5]
    )  # D_2 = 0 would leave γ = 0
    with pytest.raises(InputError, match="token 1 has probability 0 in every model"):
        fit_weights(np.array([[0.0, 0.0], [-np.inf, -np.inf]]))
    with pytest.raises(InputError, match="The held-out text"):
        fit_weights(np.zeros((0, 2)))


def test_the_papers_bins_and_ours():
    text = np.array([4, 5, 6, 4, 5, 7, 4, 5, 6, 3], np.int32)
    frequencies = ContextFrequencies.from_counts(count_ngrams(text, V, 3, "stream"))
    contexts = np.array([[4, 5], [7, 5], [8, 8], [0, 0]])
    paper, ours = FrequencyBins(frequencies, back_off=False), FrequencyBins(frequencies)
    rule = [math.ceil(-math.log((1 + x) / frequencies.tokens)) for x in (3, 0, 0, 0)]
    assert paper.find_bins(contexts).tolist() == rule and paper.number == max(rule) + 1
    offset = paper.number
    seen_5 = offset + math.ceil(-math.log((1 + 3) / frequencies.tokens))
    assert ours.find_bins(contexts).tolist() == [rule[0], seen_5, 2 * offset - 1, 2 * offset - 1]
    assert ours.number == 2 * offset


def _class_likelihood(ids, classes, boundary):
    bigrams = collections.Counter()
    for context, word in _events(ids, 2, boundary):
        if context:
            bigrams[classes[context[0]], classes[word]] += 1
    left, right = collections.Counter(), collections.Counter()
    for (g, h), n in bigrams.items():
        left[g] += n
        right[h] += n
    f = lambda counter: sum(n * math.log(n) for n in counter.values())  # noqa: E731
    return f(bigrams) - f(left) - f(right)


@settings(max_examples=25, deadline=None)
@given(_texts(30), st.integers(1, 3), st.sampled_from(BOUNDARIES))
def test_no_move_of_a_single_word_improves_exchanged_classes(ids, num_classes, boundary):
    seen = sorted(set(ids.tolist()) - {3})
    if num_classes > len(seen):
        with pytest.raises(InputError, match="`num_classes` must be 1 to"):
            exchange_classes(ids, V, num_classes, boundary)
        return
    moved = []
    classes = exchange_classes(ids, V, num_classes, boundary, after_sweep=lambda _, m: moved.append(m))
    assert classes[[0, 2, 3]].tolist() == [0, 2, 3]
    assert set(classes[[1, *range(4, V)]].tolist()) <= set(range(4, num_classes + 4))
    best = _class_likelihood(ids, classes.tolist(), boundary)
    if moved[-1]:  # it ended by the number of sweeps
        return
    for word, other in itertools.product(seen, range(4, num_classes + 4)):
        changed = classes.tolist()
        changed[word] = other
        assert _class_likelihood(ids, changed, boundary) <= best + 1e-6


def test_exchange_can_be_gone_on_with(tmp_path):
    rng = np.random.default_rng(3)
    ids = np.append(rng.integers(4, 60, 4000), 3).astype(np.int32)
    vocabulary = Vocabulary([f"w{i}" for i in range(60)])
    swept = []
    whole = exchange_classes(ids, 64, 8, "stream", after_sweep=lambda classes, _: swept.append(classes.copy()))
    assert len(swept) > 2
    save_classes(tmp_path / "word_classes.tsv", swept[0], vocabulary)
    start = load_classes(tmp_path / "word_classes.tsv", vocabulary)
    again = []
    exchange_classes(ids, 64, 8, "stream", start=start, after_sweep=lambda classes, _: again.append(classes.copy()))
    seen = np.unique(ids)
    np.testing.assert_array_equal(again[0][seen], swept[1][seen])
    assert whole.shape == (64,)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_class_based_model_is_the_product(boundary, tmp_path):
    rng = np.random.default_rng(0)
    ids = rng.choice([1, 4, 5, 6, 7], 400).astype(np.int32)
    ids[::9] = 3
    ids[-1] = 3
    held_out = np.array([4, 8, 5, 6, 3], np.int32)
    classes = np.array([0, 4, 2, 3, 4, 5, 5, 6, 5], np.int32)
    model = class_based(ids, held_out, classes, 3, boundary)
    assert 0 < model.uniform_weight < 1  # word 8 is never seen
    counts = np.bincount(ids, minlength=V)
    contexts = rng.integers(4, V, (20, 2))
    class_model = kneser_ney(classes[ids], 7, 3, boundary, np.array([4, 5, 6] + [3] * (boundary == "sentence")))
    by_class = np.exp(class_model.next_log_probs(classes[contexts]))
    predicted = predicted_ids(V, boundary)
    expected = np.zeros((20, V))
    for word in predicted.tolist():
        members = [w for w in predicted.tolist() if classes[w] == classes[word]]
        share = counts[word] / sum(counts[w] for w in members)
        expected[:, word] = (1 - model.uniform_weight) * by_class[:, classes[word]] * share
        expected[:, word] += model.uniform_weight / len(predicted)
    found = np.exp(model.next_log_probs(contexts))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    targets = rng.choice(predicted, 20)
    np.testing.assert_allclose(np.exp(model.log_prob(contexts, targets)), found[np.arange(20), targets], rtol=1e-9)
    with pytest.raises(InputError, match="1 words of the text have no class"):
        class_based(ids, held_out, np.where(np.arange(V) == 7, 1, classes), 3, boundary)


def test_saved_tables_give_the_same_numbers(tmp_path):
    rng = np.random.default_rng(0)
    ids = np.append(rng.choice([1, 4, 5, 6, 7, 8], 400), 3).astype(np.int32)
    classes = exchange_classes(ids, V, 3, "stream")
    models = [
        kneser_ney(ids, V, 2, "stream"),
        kneser_ney(ids, V, 5, "stream"),
        deleted_interpolation(ids, ids, V, 3, "stream"),
        class_based(ids, ids, classes, 4, "stream"),
    ]
    for model, cls in zip(models, (BackoffModel, BackoffModel, DeletedInterpolation, ClassBased), strict=True):
        model.save(tmp_path / "ngrams.npz")
        loaded = cls.load(tmp_path / "ngrams.npz")
        contexts = rng.integers(4, V, (30, model.order - 1))
        np.testing.assert_array_equal(loaded.next_log_probs(contexts), model.next_log_probs(contexts))
        assert (loaded.order, loaded.num_ngrams) == (model.order, model.num_ngrams)
    with pytest.raises(InputError, match="must hold the arrays weights"):
        DeletedInterpolation.load(tmp_path / "ngrams.npz")
    whole = (tmp_path / "ngrams.npz").read_bytes()
    for place in range(0, len(whole), 97):  # a flipped bit is found, or changes nothing that is read
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        (tmp_path / "ngrams.npz").write_bytes(bytes(flipped))
        with contextlib.suppress(InputError):
            np.testing.assert_array_equal(
                ClassBased.load(tmp_path / "ngrams.npz").next_log_probs(contexts), model.next_log_probs(contexts)
            )
    (tmp_path / "ngrams.npz").write_bytes(whole[:900])
    with pytest.raises(InputError, match="not a whole NumPy archive"):
        ClassBased.load(tmp_path / "ngrams.npz")
    with pytest.raises(InputError, match="Cannot read"):
        ClassBased.load(tmp_path / "none.npz")


@pytest.mark.parametrize("order, boundary, message", [(1, "stream", "`order`"), (3, "book", "`boundary`")])
def test_options_out_of_range_are_refused(order, boundary, message):
    with pytest.raises(InputError, match=message):
        kneser_ney(np.array([4, 5, 3]), V, order, boundary)
    with pytest.raises(InputError, match="no word to predict"):
        kneser_ney(np.array([3]), V, 3, "stream")
    model = kneser_ney(np.array([4, 5, 3]), V, 3, "stream")
    with pytest.raises(InputError, match="Ids must be 0 to 8"):
        model.log_prob(np.array([[4, 9]]), np.array([4]))
    with pytest.raises(InputError, match=r"`context_ids` must be \[B, 2\]"):
        model.next_log_probs(np.array([[4]]))


def test_tables_that_do_not_fit_together_are_refused(tmp_path):
    ids = np.append(np.random.default_rng(0).choice([1, 4, 5, 6, 7, 8], 400), 3).astype(np.int32)
    path = tmp_path / "ngrams.npz"
    damages = [
        (BackoffModel, kneser_ney(ids, V, 4, "stream"), ["keys.1", "log_probs.2", "backoffs.0", "contexts.0"]),
        (DeletedInterpolation, deleted_interpolation(ids, ids, V, 3, "stream"), ["keys.1", "context_counts.1"]),
    ]
    for cls, model, names in damages:
        model.save(path)
        stored = dict(np.load(path))
        for name in names:
            np.savez(path, **{key: value for key, value in stored.items() if key != name})
            with pytest.raises(InputError, match="fit together|lacks"):
                cls.load(path)
        np.savez(path, **stored | {"keys.0": stored["keys.0"][::-1]})
        with pytest.raises(InputError, match="fit together"):
            cls.load(path)
    with pytest.raises(InputError, match="fit together|lacks"):
        BackoffModel.load(path)  # of another kind


def test_a_text_of_one_sentence_and_too_many_classes_to_begin_with():
    ids = np.array([4, 5, 4, 5, 3], np.int32)
    assert exchange_classes(ids, 6, 1, "sentence").tolist() == [0, 4, 2, 3, 4, 4]
    with pytest.raises(InputError, match="The initial classes must be 1 classes or fewer. Received: 6"):
        exchange_classes(ids, 6, 1, "sentence", start=np.array([0, 4, 2, 3, 4, 9]))


def test_word_classes_files_are_checked(tmp_path):
    vocabulary = Vocabulary(["the", "cat"])
    path = tmp_path / "classes.tsv"
    path.write_text("the\t0\ncat\tone\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 2: expected a word, a tab and the number"):
        load_classes(path, vocabulary)
    path.write_text("the\t99999999999\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1: expected .* class, at most 6"):
        load_classes(path, vocabulary)
    path.write_text("a\t0\n", encoding="utf-8")
    with pytest.raises(InputError, match="must have classes of words in the vocabulary"):
        load_classes(path, vocabulary)


@pytest.fixture(scope="module")
def brown(brown_directory, tmp_path_factory):
    """Brown, the paper's split and vocabulary."""
    corpus = open_corpus("brown", data_dir=str(brown_directory))
    splits = itertools.chain.from_iterable(corpus.sentences(split) for split in corpus.splits)
    return encode_corpus(corpus, Vocabulary.build(splits, min_count=4), tmp_path_factory.mktemp("brown"))


@pytest.mark.parametrize(
    "boundary, order, validation, test",
    [
        ("stream", 3, 350.22, 332.70),
        ("stream", 4, 348.00, 330.51),
        ("stream", 5, 347.37, 329.86),
        ("sentence", 3, 254.90, 236.85),
        ("sentence", 5, 253.07, 235.15),
    ],
)
def test_kneser_ney_on_brown_is_kenlms(brown, boundary, order, validation, test):
    """The figures of `lmplz --vocab_pad` on the same text."""
    model = kneser_ney(brown.ids("train"), brown.vocabulary_size, order, boundary)
    found = [evaluate(model, brown.ids(split), boundary)["perplexity"] for split in ("validation", "test")]
    assert found == pytest.approx([validation, test], abs=0.05)


def test_the_papers_trigram_on_brown(brown):
    train, held_out = brown.ids("train"), brown.ids("validation")
    paper = deleted_interpolation(train, held_out, brown.vocabulary_size, 3, "stream", back_off=False)
    assert evaluate(paper, brown.ids("test"), "stream")["perplexity"] <= 355
    ours = deleted_interpolation(train, held_out, brown.vocabulary_size, 3, "stream")
    assert evaluate(ours, brown.ids("test"), "stream")["perplexity"] <= 341
