"""Words of subwords: the beam search finds what a search over all spellings finds."""

import collections
from collections.abc import Callable

import numpy as np
import pytest

from keras_nplm import LanguageModel, Vocabulary
from keras_nplm.data.ids import EOS_ID
from keras_nplm.data.subwords import Subwords
from keras_nplm.language_model.word_pieces import is_letter
from tests.language_models import Table
from tests.tokenizers import PARTS_OF_WORDS, build_model

LOWERED = ["words+lower", *(f"{kind}+lower" for kind in PARTS_OF_WORDS)]
LINES = ["the cat sat, they ate that hat", "chat: the act – 我们可以", "that cat's hat", "é ☃"] * 5


class _Pieces(Table):
    """Random probabilities over few pieces, so that all spellings can be listed."""

    def __init__(self, vocabulary: Vocabulary, pieces: list[str], seed: int):
        self.words = vocabulary.words
        self.ids = [EOS_ID, *map(vocabulary.words.index, pieces)]
        shape = len(vocabulary), len(self.ids)
        weights = np.random.default_rng(seed).exponential(size=shape) ** 3
        self.probabilities = np.zeros((len(vocabulary), len(vocabulary)))
        self.probabilities[:, self.ids] = weights / weights.sum(axis=1, keepdims=True)
        super().__init__(self.probabilities, "sentence")

    def list_words(self, first: int, allowed: Callable[[str], bool] | None) -> dict[str, float]:
        """Sum P over all spellings, each followed by whatever begins the next word."""
        sums: dict[str, float] = collections.defaultdict(float)
        p = self.probabilities[first]
        starts = [i for i in self.ids if allowed is None or allowed(self.words[i])]
        total = sum(p[i] for i in starts)
        partial = [("", i, p[i] / total) for i in starts]
        while partial:
            text, last, probability = partial.pop()
            if last == EOS_ID:
                continue
            text = text + self.words[last]
            p = self.probabilities[last]
            ends = [_begins_word(text, self.words[i]) for i in self.ids]
            sums[text.replace("▁", "")] += probability * p[self.ids][ends].sum()
            if probability > 3e-6:
                partial += [
                    (text, i, probability * p[i])
                    for i, end in zip(self.ids, ends, strict=True)
                    if not end
                ]
        return {word: probability for word, probability in sums.items() if word}


def _follows_space(piece: str) -> bool:
    return piece[0] == "▁" or piece == "</s>"


def _begins_word(text: str, piece: str) -> bool:
    """Whether a piece begins a new word after a text, by its characters alone."""
    return _follows_space(piece) or (
        text[-1] != "▁" and not (is_letter(text[-1]) and is_letter(piece[0]))
    )


_CASES = [  # text, its last token, how a word begins (None: with any piece), prefix
    ("", "<s>", None, ""),
    ("ab", "<s>", None, "ab"),
    ("b a", "b", _follows_space, "a"),
    ("b\xa0\t", "b", _follows_space, ""),
    (",", ",", None, ""),
    (",a", ",", lambda piece: not _follows_space(piece), "a"),
]


@pytest.mark.parametrize("case", _CASES)
@pytest.mark.parametrize("seed, space, top_k", [(0, False, 12), (1, True, 5)])
def test_completion_equals_brute_force_over_characters(case, seed, space, top_k):
    vocabulary = Vocabulary([*"ab,'我", *["▁"] * space])
    text, last, allowed, prefix = case
    if not space and last == "b":  # no piece has a space: any piece may begin a word after one
        allowed = None
    model = _Pieces(vocabulary, vocabulary.words[4:], seed)
    expected = model.list_words(vocabulary.words.index(last), allowed)
    _check_answers(LanguageModel(model, vocabulary, "characters"), text, prefix, expected, top_k)


def _check_answers(
    language_model, text: str, prefix: str, expected: dict[str, float], top_k: int
) -> None:
    found = [pair for pair in language_model.complete_prefix(text, top_k) if pair[1] > 1e-4]
    best = sorted((p for word, p in expected.items() if word.startswith(prefix)), reverse=True)
    np.testing.assert_allclose(
        [p for _, p in found], [expected[word] for word, _ in found], rtol=0.01
    )
    np.testing.assert_allclose([p for _, p in found], best[: len(found)], rtol=0.01)
    assert len(found) >= min(top_k, sum(p > 2e-4 for p in best))


@pytest.mark.parametrize("kind, seed", [("unigram", 0), ("bpe", 1)])
def test_completion_equals_brute_force_over_subwords(kind, seed):
    vocabulary = Vocabulary.from_subwords(Subwords.train(LINES, 300, kind))
    several = {"▁th", "▁the", "the", "at", "th", "▁c"} & {*vocabulary.words}
    model = _Pieces(vocabulary, ["▁", "t", "h", "a", ",", *sorted(several)], seed)
    language_model = LanguageModel(model, vocabulary, "sentencepiece")
    last = vocabulary.subwords.encode("at")[-1]
    for text, first, prefix in (
        ("", "<s>", ""),
        ("th", "<s>", "th"),
        ("at th", last, "th"),
        ("at ", last, ""),
    ):
        allowed = _follows_space if " " in text else None
        expected = model.list_words(vocabulary.words.index(first), allowed)
        _check_answers(language_model, text, prefix, expected, 8)
    best = dict(language_model.next_words("at ", 20))
    best.pop("</s>", None)
    assert best == pytest.approx(
        dict(language_model.complete_prefix("at ", 20)[: len(best)]), rel=1e-3
    )


def test_long_prefixes_are_completed_up_to_64_letters():
    model = build_model("characters", ["a" * 70 + "b"], 2, vocabulary=Vocabulary([*"ab"]))
    words = model.complete_prefix("a" * 64)
    assert words and all(word.startswith("a" * 64) for word, _ in words)
    assert not model.complete_prefix("a" * 65)


def test_words_of_subwords_are_whole_words():
    language_model = build_model("sentencepiece", LINES)
    words = language_model.next_words("the", top_k=500)
    assert 0.8 < sum(p for _, p in words) <= 1 + 1e-6 and len(dict(words)) == len(words)
    assert {"cat", "act"} <= {word for word, _ in words[:5]}
    [after_word, after_space] = (language_model.next_words(text, 1) for text in ("chat", "chat "))
    assert after_word[0][0] == ":" != after_space[0][0]
    for text in ("the ca", "☃ca", "(ca"):  # a character in bytes ends a word, too
        assert language_model.complete_prefix(text)[0][0].startswith("ca")


@pytest.mark.parametrize(
    "tokenizer, typed, word",
    [
        *((kind, "Hou", "House") for kind in ("words", "whitespace", *LOWERED)),
        *((kind, "ann", "anna") for kind in ("words", *LOWERED)),
        ("words", "the HOU", "HOUSE"),
        ("words", "E\u0301T", "ÉTÉ"),
        ("words", "mcd", "mcdonald"),
        ("characters", "Hou", "House"),  # no word has this capital
    ],
)
def test_a_prefix_in_another_case_is_completed_in_its_case(tokenizer, typed, word):
    lines = ["Anna leaves the house", "the house of McDonald", "été"] * 9
    model = build_model(tokenizer, lines, order=6)
    assert model.complete_prefix(typed, 1)[0][0] == word


def test_of_words_that_differ_in_case_the_most_probable_one_is_proposed():
    model = build_model("words", ["the house", "the House", "the house", "the horse"] * 9)
    [(word, probability), (other, _)] = model.complete_prefix("the HO", 5)
    assert (word, other) == ("HOUSE", "HORSE")
    assert probability == model.complete_prefix("the ho", 1)[0][1]
