"""The language model of pyctcdecode: its beam search finds the text that brute force over all labels finds."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

from keras_nplm import NPLM, InputError, LanguageModel, Vocabulary
from keras_nplm.language_model.ctc import CtcLanguageModel

LABELS = ["", " ", "a", "b"]
OFFSET = -0.7  # of an unknown word


def _language_model(boundary):
    network = NPLM(4 + 4, order=3, embedding_dim=3, hidden_units=4, boundary=boundary)
    rng = np.random.default_rng(0)
    for weight in network.trainable_weights:
        weight.assign(rng.normal(0, 1, weight.shape))
    return LanguageModel(network, Vocabulary(["a", "b", "ab", "abba"]), "words+lower")


def _search_all(logits, language_model, alpha, beta):
    """Return the best text over all sequences of labels, with the sum over its alignments."""
    totals = defaultdict(lambda: -np.inf)
    for path in itertools.product(range(len(LABELS)), repeat=len(logits)):
        text = " ".join("".join(LABELS[label] for label, _ in itertools.groupby(path)).split())
        totals[text] = np.logaddexp(totals[text], sum(logits[range(len(path)), path]))
    texts = list(totals)
    for text, score in zip(texts, language_model.score(texts, alone=True), strict=True):
        totals[text] += alpha * score.log_prob + beta * len(text.split()) + OFFSET * score.unk_tokens
    return max(texts, key=totals.get), max(totals.values())


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
def test_beam_search_equals_brute_force(boundary):
    pyctcdecode = pytest.importorskip("pyctcdecode", reason="pyctcdecode is not installed")
    language_model = _language_model(boundary)
    scores = CtcLanguageModel(language_model, unk_score_offset=OFFSET)
    decoder = pyctcdecode.BeamSearchDecoderCTC(pyctcdecode.Alphabet.build_alphabet(LABELS), scores)
    changed = 0
    for seed in range(4):
        logits = np.random.default_rng(seed).normal(0, 2, (6, len(LABELS)))
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        found = []
        for alpha, beta in ((0.0, 0.0), (1.5, 0.4)):
            decoder.reset_params(alpha=alpha, beta=beta)
            best = decoder.decode_beams(logits, beam_width=5000, beam_prune_logp=-1e9, token_min_logp=-1e9)[0]
            text, total = _search_all(logits, language_model, alpha, beta)
            assert best[0] == text and best[4] == pytest.approx(total, abs=1e-4)
            found.append(text)
        changed += found[0] != found[1]
    assert changed  # the language model matters


def test_scores_are_weighted_and_the_last_one_has_the_end():
    language_model = _language_model("sentence")
    scores = CtcLanguageModel(language_model, alpha=0.5, beta=1.5, unk_score_offset=OFFSET)
    first, state = scores.score(scores.get_start_state(), "ab")
    last, _ = scores.score(state, "ba", is_last_word=True)
    [whole] = language_model.score(["ab ba"])
    assert first + last == pytest.approx(0.5 * whole.log_prob + 2 * 1.5 + OFFSET, abs=1e-5)


def test_partial_words_are_beginnings_of_words():
    scores = CtcLanguageModel(_language_model("sentence"), unk_score_offset=-10)
    parts = {"ab": 0, "AB": 0, "abb": 0, "ba": -10, "bababababababa": -10 * 14 / 6}
    assert {part: scores.score_partial_token(part) for part in parts} == pytest.approx(parts)
    with pytest.raises(InputError, match="`score_boundary` must be left out"):
        scores.reset_params(score_boundary=False)
