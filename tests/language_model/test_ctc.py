"""The language model of pyctcdecode: weighted scores of the text, and the decodes of pyctcdecode's
own over KenLM.
"""

import itertools
import math

import numpy as np
import pytest

from keras_nplm import NPLM, CtcLanguageModel, LanguageModel, Vocabulary, write_arpa
from tests.tokenizers import build_model

LABELS = ["", " ", "a", "b"]
OFFSET = -0.7  # log10, of an unknown word
LN10 = math.log(10)
WORDS = ["a", "b", "ab", "abba", "ba"]


def _build_network(boundary):
    network = NPLM(4 + 4, order=3, embedding_dim=3, hidden_units=4, boundary=boundary)
    rng = np.random.default_rng(0)
    for weight in network.trainable_weights:
        weight.assign(rng.normal(0, 1, weight.shape))
    return LanguageModel(network, Vocabulary(WORDS[:4]), "words+lower")


def _build_decoder(language_model):
    pyctcdecode = pytest.importorskip("pyctcdecode", reason="pyctcdecode is not installed")
    alphabet = pyctcdecode.Alphabet.build_alphabet(LABELS)
    return pyctcdecode.BeamSearchDecoderCTC(alphabet, language_model)


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
def test_scores_are_weighted_and_the_last_one_has_the_end(boundary):
    language_model = _build_network(boundary)
    scores = CtcLanguageModel(language_model, alpha=0.5, beta=1.5, unk_score_offset=OFFSET)
    first, state = scores.score(scores.get_start_state(), "ab")
    last, _ = scores.score(state, "ba", is_last_word=True)
    [whole] = language_model.score(["ab ba"])
    assert first + last == pytest.approx(0.5 * (whole.log_prob + OFFSET * LN10) + 2 * 1.5, abs=1e-5)
    # an empty last word, of a text that ends in a space, has only the end
    end = language_model.scorer().end(state)
    assert scores.score(state, "", is_last_word=True) == (pytest.approx(0.5 * end), state)
    assert scores.score(state, "") == (0.0, state)
    scores.reset_params(score_boundary=False)
    assert scores.score(state, "", is_last_word=True) == (0.0, state)


def test_partial_words_are_beginnings_of_words():
    scores = CtcLanguageModel(_build_network("sentence"), unk_score_offset=-10)
    parts = {"ab": 0, "AB": 0, "abb": 0, "ba": -10, "bababababababa": -10 * 14 / 6}
    # a text that ends in a space has no partial word
    parts[""] = 0
    assert {part: scores.score_partial_token(part) for part in parts} == pytest.approx(parts)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Return a back-off model of words, and pyctcdecode's language model of it, over KenLM."""
    real = pytest.importorskip("kenlm", reason="kenlm is not installed")
    pyctcdecode = pytest.importorskip("pyctcdecode", reason="pyctcdecode is not installed")
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(60)]
    language_model = build_model("whitespace", lines, vocabulary=Vocabulary(WORDS))
    write_arpa(path, language_model.model, language_model.vocabulary)
    return language_model, pyctcdecode.LanguageModel(real.Model(str(path)), WORDS)


@pytest.mark.packages
@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"alpha": 1.3, "beta": -0.4, "unk_score_offset": -2.5}, id="tuned"),
        pytest.param({"lm_score_boundary": False}, id="no boundary"),
        pytest.param({"alpha": 0.0, "unk_score_offset": 0.0}, id="zeros"),
    ],
)
def test_scores_and_decodes_are_those_of_pyctcdecode(pair, params):
    pair = (CtcLanguageModel(pair[0]), pair[1])
    decoders = [*map(_build_decoder, pair)]
    defaults = {"alpha": 0.5, "beta": 1.5, "unk_score_offset": -10.0, "lm_score_boundary": True}
    for decoder in decoders:
        decoder.reset_params(**defaults | params)
    ours, theirs = pair
    assert ours.order == theirs.order
    for part in ("a", "ab", "abb", "abbab", "x", "bababab", "bbbbbbbbbbbb"):
        assert ours.score_partial_token(part) == pytest.approx(theirs.score_partial_token(part))
    rng = np.random.default_rng(1)
    for _ in range(30):
        states = ours.get_start_state(), theirs.get_start_state()
        for word in rng.choice([*WORDS, "bb", "unknown"], 5).tolist():
            for is_last in (True, False):
                found, after = ours.score(states[0], word, is_last)
                wanted, after_theirs = theirs.score(states[1], word, is_last)
                assert found == pytest.approx(wanted, abs=1e-4)
            states = after, after_theirs
    texts = set()
    for seed, hotwords in itertools.product(range(3), (None, ["abb", "bbb"])):
        logits = np.random.default_rng(seed).normal(0, 2, (12, len(LABELS)))
        # the text ends in a letter: after a space, pyctcdecode adds an unknown word
        logits[-1, :2] = -100
        found, wanted = (
            decoder.decode_beams(logits, beam_width=30, hotwords=hotwords) for decoder in decoders
        )
        assert [beam[0] for beam in found] == [beam[0] for beam in wanted]
        for beam, expected in zip(found, wanted, strict=True):
            assert beam[3:] == pytest.approx(expected[3:], abs=2e-3)
        texts.add(found[0][0])
    assert len(texts) > 1
