"""Words of subwords: the beam search finds what a search over all spellings finds."""

import numpy as np
import pytest

from keras_nplm import LanguageModel, Uniform, Vocabulary, kneser_ney
from keras_nplm.data.shards import encode_text
from keras_nplm.data.subwords import Subwords
from keras_nplm.language_model.completion import WordPieces, complete_words

LINES = ["the cat sat, they ate that hat", "chat: the act – 我们可以", "that cat's hat", "é ☃"] * 5


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary.from_subwords(Subwords.train(LINES, 300))


@pytest.fixture(scope="module")
def language_model(vocabulary) -> LanguageModel:
    ids = np.concatenate([*encode_text(LINES, vocabulary, "sentencepiece")])
    model = kneser_ney(ids, len(vocabulary), 3, "sentence")
    return LanguageModel(model, vocabulary, "sentencepiece")


class _TwoLetters:
    """A model of order 2 with random probabilities over few pieces, so that all spellings can be listed."""

    order, boundary = 2, "sentence"

    def __init__(self, vocabulary: Vocabulary, pieces: list[str]):
        self.ids = [3, *(vocabulary.words.index(piece) for piece in pieces)]
        weights = np.random.default_rng(0).exponential(size=(len(vocabulary), len(self.ids)))
        self.probabilities = np.zeros((len(vocabulary), len(vocabulary)))
        self.probabilities[:, self.ids] = weights / weights.sum(axis=1, keepdims=True)

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities[context_ids[:, -1]]).astype(np.float32)


def _list_words(model, vocabulary: Vocabulary, first: int, begins, most: int) -> dict[str, float]:
    """Sum P over all spellings of up to `most` pieces, one piece after the other."""
    sums: dict[str, float] = {}

    def extend(spelling: list[int], probability: float) -> None:
        name = "".join(vocabulary.words[i] for i in spelling).replace("▁", "")
        p = model.probabilities[spelling[-1]]
        if name:
            end = sum(p[i] for i in model.ids if begins(spelling[-1], i))
            sums[name] = sums.get(name, 0.0) + probability * end
        if len(spelling) < most:
            for i in model.ids:
                if not begins(spelling[-1], i):
                    extend([*spelling, i], probability * p[i])

    p = model.probabilities[first]
    starts = [i for i in model.ids if begins(first, i)]
    total = sum(p[i] for i in starts)
    for i in starts:
        if i == 3:
            sums["</s>"] = p[i] / total
        else:
            extend([i], p[i] / total)
    return sums


@pytest.mark.parametrize("context", ["▁the", ",", "▁"])
def test_the_beam_finds_the_words_of_an_exhaustive_search(vocabulary, context):
    pieces = [name for name in ("▁", "▁the", "at", "t", "▁c", ",", "我") if name in vocabulary.words]
    assert {"▁", "▁the", "t", ","} <= {*pieces}
    model = _TwoLetters(vocabulary, pieces)
    letter = {name: name[-1] in "eatc" for name in pieces}

    def begins(before: int, i: int) -> bool:
        last, name = vocabulary.words[before], vocabulary.words[i]
        if name in ("</s>",) or name.startswith("▁"):
            return True
        return last != "▁" and not (letter[last] and name[0] in "eatc")

    first = vocabulary.words.index(context)
    expected = _list_words(model, vocabulary, first, begins, 6)
    best = sorted(expected, key=lambda word: -expected[word])[:6]
    context_ids = np.array([first], np.int32)
    words = complete_words(model, context_ids, WordPieces(vocabulary), top_k=9999, beam=2000)[:6]
    assert [word for word, _ in words] == best
    np.testing.assert_allclose([p for _, p in words], [expected[word] for word in best], rtol=0.02)  # longer spellings
    assert [word for word, _ in complete_words(model, context_ids, WordPieces(vocabulary), top_k=4, beam=8)] == best[:4]
    prefixed = complete_words(
        model, np.array([first], np.int32), WordPieces(vocabulary), prefix="th", top_k=3, beam=500
    )
    assert [word for word, _ in prefixed] == sorted(
        (word for word in expected if word.startswith("th")), key=lambda word: -expected[word]
    )[:3]


def test_probabilities_of_all_words_sum_to_one_at_most(language_model):
    words = language_model.next_words("the", top_k=10_000)
    assert 0.8 < sum(p for _, p in words) <= 1 + 1e-6 and len({word for word, _ in words}) == len(words)
    assert [p for _, p in words] == sorted((p for _, p in words), reverse=True)


def test_whole_words_are_completed(language_model):
    assert {"cat", "act"} <= {word for word, _ in language_model.next_words("the", top_k=5)}
    assert "cat" in dict(language_model.next_words("the ", top_k=5))
    assert dict(language_model.next_words("chat", top_k=3))[":"] > 0.5
    assert language_model.next_words("chat ", top_k=3)[0][0] != ":"


def test_words_may_begin_with_a_prefix(language_model):
    def complete(prefix: str) -> list[str]:
        ids = language_model.vocabulary.subwords.encode_ids("the")
        context = np.append([2], ids)[-2:].astype(np.int32)
        pieces = WordPieces(language_model.vocabulary)
        return [word for word, _ in complete_words(language_model.model, context, pieces, prefix=prefix, top_k=4)]

    assert complete("ca")[0] == "cat" and all(word.startswith("ca") for word in complete("ca"))
    assert complete("我")[0].startswith("我") and "</s>" not in complete("</")
    assert all(word.startswith("<") for word in complete("<"))


def test_a_uniform_model_completes_text(vocabulary):
    model = LanguageModel(Uniform(len(vocabulary), "stream"), vocabulary, "sentencepiece")
    assert "</s>" not in dict(model.next_words("", top_k=50))
    assert len(model.next_words("cat", top_k=5)) == 5


def test_generated_text_has_whole_words(language_model):
    for seed in range(5):
        text = language_model.generate("the cat", num_words=6, seed=seed)
        assert text == language_model.generate("the cat ", num_words=6, seed=seed)
        assert "▁" not in text and "<0x" not in text
    assert language_model.generate("the", num_words=1, temperature=0) in (" cat", " act", " hat")
    assert not language_model.generate("", num_words=3, seed=2).startswith(" ")


def test_scores_do_not_depend_on_the_batch(language_model):
    scores = [*language_model.score(["the cat <s>", "chat", ""])]
    assert scores == [next(language_model.score([line])) for line in ["the cat <s>", "chat", ""]]
    assert scores[2].tokens == 1 and scores[0].unk_tokens == 0
    figures = language_model.evaluate(["the cat <s>", "chat"])
    assert figures["log_prob"] == pytest.approx(scores[0].log_prob + scores[1].log_prob)
