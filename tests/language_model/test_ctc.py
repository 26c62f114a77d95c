"""The language model of pyctcdecode: its beam search finds the text that brute force over all
labels finds.
"""

import itertools
import json
import math
from collections import defaultdict

import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    InputError,
    LanguageModel,
    Vocabulary,
    encode_sentences,
    kneser_ney,
    write_arpa,
)
from keras_nplm.language_model.ctc import CtcLanguageModel

LABELS = ["", " ", "a", "b"]
OFFSET = -0.7  # log10, of an unknown word
LN10 = math.log(10)


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
        log_prob = score.log_prob + OFFSET * LN10 * score.unk_tokens
        totals[text] += alpha * log_prob + beta * len(text.split())
    return max(texts, key=totals.get), max(totals.values())


@pytest.mark.packages
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
            best = decoder.decode_beams(
                logits, beam_width=5000, beam_prune_logp=-1e9, token_min_logp=-1e9
            )[0]
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
    assert first + last == pytest.approx(0.5 * (whole.log_prob + OFFSET * LN10) + 2 * 1.5, abs=1e-5)


def test_partial_words_are_beginnings_of_words():
    scores = CtcLanguageModel(_language_model("sentence"), unk_score_offset=-10)
    parts = {"ab": 0, "AB": 0, "abb": 0, "ba": -10, "bababababababa": -10 * 14 / 6}
    assert {part: scores.score_partial_token(part) for part in parts} == pytest.approx(parts)
    # a text that ends in a space has no partial word
    assert scores.score_partial_token("") == 0


def test_an_empty_last_word_has_only_the_end():
    scores = CtcLanguageModel(
        _language_model("sentence"), alpha=0.5, beta=1.5, unk_score_offset=OFFSET
    )
    _, state = scores.score(scores.get_start_state(), "ab")
    scorer = scores.language_model.scorer()
    assert scores.score(state, "", is_last_word=True) == (
        pytest.approx(0.5 * scorer.end(state)),
        state,
    )
    assert scores.score(state, "") == (0.0, state)
    scores.reset_params(score_boundary=False)
    assert scores.score(state, "", is_last_word=True) == (0.0, state)


def test_an_unknown_parameter_is_refused_and_changes_nothing(messages):
    scores = CtcLanguageModel(_language_model("stream"))
    before = scores.serializable_attrs
    messages.refuse(lambda: scores.reset_params(unk_score_offset=-3.0, gamma=1.0))
    assert scores.serializable_attrs == before
    scores.reset_params(alpha=None, beta=2)
    assert scores.serializable_attrs == {**before, "beta": 2}


def test_a_saved_language_model_gives_the_same_scores(tmp_path):
    scores = CtcLanguageModel(
        _language_model("sentence"), 0.3, 0.2, OFFSET, self_normalised=True, score_boundary=False
    )
    scores.save_to_dir(tmp_path)
    loaded = CtcLanguageModel.load_from_dir(tmp_path)
    assert (loaded.serializable_attrs, loaded.self_normalised) == (scores.serializable_attrs, True)
    for word in ("ab", "ba", ""):
        found, wanted = (
            model.score(model.get_start_state(), word, True) for model in (loaded, scores)
        )
        assert found == (pytest.approx(wanted[0]), wanted[1])
    with pytest.raises(InputError, match="already holds a model"):
        scores.save_to_dir(tmp_path)
    attributes = json.loads((tmp_path / "attrs.json").read_text())
    for name in attributes:
        (tmp_path / "attrs.json").write_text(json.dumps({**attributes, name: "?"}))
        with pytest.raises(InputError, match=f"`{name}`.* must be"):
            CtcLanguageModel.load_from_dir(tmp_path)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Return a back-off model of words, and pyctcdecode's language model of it, over KenLM."""
    real = pytest.importorskip("kenlm", reason="kenlm is not installed")
    pyctcdecode = pytest.importorskip("pyctcdecode", reason="pyctcdecode is not installed")
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    rng = np.random.default_rng(0)
    words = ["a", "b", "ab", "abba", "ba"]
    sentences = [rng.choice(words, rng.integers(1, 6)).tolist() for _ in range(60)]
    vocabulary = Vocabulary(words)
    ids = encode_sentences(sentences, vocabulary)
    language_model = LanguageModel(
        kneser_ney(ids, len(vocabulary), order=3), vocabulary, "whitespace"
    )
    write_arpa(path, language_model.model, vocabulary)
    return language_model, pyctcdecode.LanguageModel(real.Model(str(path)), words)


PARAMETERS = [
    pytest.param({}, id="defaults"),
    pytest.param({"alpha": 1.3, "beta": -0.4, "unk_score_offset": -2.5}, id="tuned"),
    pytest.param({"score_boundary": False}, id="no boundary"),
    pytest.param({"alpha": 0.0, "unk_score_offset": 0.0}, id="zeros"),
]


@pytest.mark.packages
@pytest.mark.parametrize("params", PARAMETERS)
def test_each_score_is_that_of_pyctcdecode(pair, params):
    language_model, theirs = pair
    ours = CtcLanguageModel(language_model)
    defaults = ours.serializable_attrs
    for model in (ours, theirs):
        model.reset_params(**defaults)
        model.reset_params(**params)
    assert ours.serializable_attrs == theirs.serializable_attrs
    assert ours.order == theirs.order
    for part in ("a", "ab", "abb", "abbab", "x", "bababab", "bbbbbbbbbbbb"):
        assert ours.score_partial_token(part) == pytest.approx(theirs.score_partial_token(part))
    rng = np.random.default_rng(1)
    for _ in range(30):
        states = ours.get_start_state(), theirs.get_start_state()
        for word in rng.choice(["a", "b", "ab", "abba", "ba", "bb", "unknown"], 5).tolist():
            for is_last in (True, False):
                found, after = ours.score(states[0], word, is_last)
                wanted, after_theirs = theirs.score(states[1], word, is_last)
                assert found == pytest.approx(wanted, abs=1e-4)
            states = after, after_theirs


@pytest.mark.packages
@pytest.mark.parametrize("params", PARAMETERS)
@pytest.mark.parametrize("hotwords", [None, ["abb", "bbb"]], ids=["no hotwords", "hotwords"])
def test_whole_decodes_are_those_of_pyctcdecode(pair, params, hotwords):
    import pyctcdecode

    language_model, theirs = pair
    alphabet = pyctcdecode.Alphabet.build_alphabet(LABELS)
    decoders = [
        pyctcdecode.BeamSearchDecoderCTC(alphabet, model)
        for model in (CtcLanguageModel(language_model), theirs)
    ]
    defaults = CtcLanguageModel(language_model).serializable_attrs
    params = {**defaults, **params}
    params["lm_score_boundary"] = params.pop("score_boundary")
    texts = set()
    for seed in range(3):
        logits = np.random.default_rng(seed).normal(0, 2, (12, len(LABELS)))
        # the text ends in a letter: after a space, pyctcdecode adds an unknown word
        logits[-1, :2] = -100
        found = []
        for decoder in decoders:
            decoder.reset_params(**params)
            beams = decoder.decode_beams(logits, beam_width=30, hotwords=hotwords)
            found.append(
                [(text, round(logit, 3), round(score, 3)) for text, _, _, logit, score in beams]
            )
        assert len(found[0]) == len(found[1]) > 3
        for ours, expected in zip(*found, strict=True):
            assert ours[0] == expected[0] and ours[1:] == pytest.approx(expected[1:], abs=2e-3)
        texts.add(found[0][0][0])
    assert len(texts) > 1


@pytest.mark.packages
def test_a_decoder_is_saved_and_its_parts_are_loaded(pair, tmp_path):
    import pyctcdecode

    language_model, theirs = pair
    scores = CtcLanguageModel(language_model, 0.8, 0.3)
    decoder = pyctcdecode.BeamSearchDecoderCTC(pyctcdecode.Alphabet.build_alphabet(LABELS), scores)
    decoder.save_to_dir(str(tmp_path))
    loaded = CtcLanguageModel.load_from_dir(tmp_path / "language_model")
    alphabet = pyctcdecode.Alphabet.loads((tmp_path / "alphabet.json").read_text())
    logits = np.random.default_rng(0).normal(0, 2, (12, len(LABELS)))
    again = pyctcdecode.BeamSearchDecoderCTC(alphabet, loaded)
    assert again.decode(logits) == decoder.decode(logits)
    several = pyctcdecode.language_model.MultiLanguageModel([scores, theirs])
    state = several.get_start_state()
    found = several.score(state, "ab")[0]
    expected = (scores.score(state[0], "ab")[0] + theirs.score(state[1], "ab")[0]) / 2
    assert (several.order, found) == (3, pytest.approx(expected))
    assert pyctcdecode.BeamSearchDecoderCTC(alphabet, several).decode(logits)


@pytest.mark.packages
def test_the_interface_has_all_names_of_pyctcdecode():
    kind = pytest.importorskip("pyctcdecode", reason="pyctcdecode is not installed").LanguageModel
    # how KenLM's three files lie in a directory
    own = {"parse_directory_contents"}
    missing = [
        name
        for name in dir(kind)
        if not (name.startswith("_") or name in own or hasattr(CtcLanguageModel, name))
    ]
    assert not missing
