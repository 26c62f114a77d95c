"""Scorers of every tokenizer and the interface of KenLM; `tests/models/test_contract.py` has every
model.
"""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    NPLM,
    InputError,
    KenlmModel,
    LanguageModel,
    Vocabulary,
    kneser_ney,
    write_arpa,
)
from keras_nplm.data.ids import PAD_ID
from keras_nplm.data.shards import encode_lines
from keras_nplm.language_model import kenlm
from tests.tokenizers import KINDS, build_vocabulary

LINES = ["the Cat sat, 3 hats", "that cat's hat", "a mat: the act"] * 4


def _build(tokenizer, boundary):
    vocabulary = build_vocabulary(tokenizer, LINES, max_size=12)
    ids = encode_lines(LINES, vocabulary, tokenizer, "sentence")
    return LanguageModel(kneser_ney(ids, len(vocabulary), 3, boundary), vocabulary, tokenizer)


NAMES = ("words+lower+numbers", *KINDS)
MODELS = {
    (name, boundary): _build(name, boundary)
    for name in NAMES
    for boundary in ("sentence", "stream")
}


@pytest.mark.parametrize(("tokenizer", "boundary"), MODELS)
@settings(max_examples=30, deadline=None)
@given(
    words=st.lists(st.text("atCh3,é'", min_size=1, max_size=5), max_size=6), size=st.integers(1, 3)
)
def test_any_cut_at_spaces_gives_the_score_of_the_text(tokenizer, boundary, words, size):
    language_model = MODELS[tokenizer, boundary]
    scorer = language_model.scorer()
    state = scorer.begin()
    total = 0.0
    for start in range(0, len(words), size):
        log_prob, state = scorer.score(
            pickle.loads(pickle.dumps(state)), " ".join(words[start : start + size])
        )
        total += log_prob
    [score] = language_model.score([" ".join(words)], alone=True)  # also of no words
    [tokens] = language_model.score_tokens([" ".join(words)])
    assert total + scorer.end(state) == pytest.approx(score.log_prob, abs=1e-4)
    if words:  # a blank line has no tokens
        assert sum(token.log_prob for token in tokens) == pytest.approx(score.log_prob, abs=1e-4)
        assert [sum(token.is_unknown for token in tokens), len(tokens)] == [
            score.unk_tokens,
            score.tokens,
        ]
    assert all(word in scorer for word in words) == (score.unk_tokens == 0)
    full = language_model.codec.encode_beginning(" ".join(words), language_model.model.order)
    shortened = np.frombuffer(state, np.int32)
    assert np.isin(shortened, [PAD_ID, *full]).all() and len(shortened) == len(full)
    distributions = language_model.model.next_log_probs(np.stack([full, shortened]))
    np.testing.assert_array_equal(distributions[0], distributions[1])


def test_self_normalised_scores_are_those_of_a_model_loaded_so(tmp_path):
    network = NPLM(9, order=3, embedding_dim=2, hidden_units=3, boundary="sentence")
    language_model = LanguageModel(network, Vocabulary(["the", "cat", "sat", "on", "mat"]), "words")
    language_model.save(tmp_path / "model")
    scorer = language_model.scorer(self_normalised=True)
    log_prob, state = scorer.score(scorer.begin(), "the cat")
    loaded = LanguageModel.load(tmp_path / "model", self_normalised=True)
    [score] = loaded.score(["the cat"])
    assert log_prob + scorer.end(state) == pytest.approx(score.log_prob, abs=1e-5)
    assert loaded.scorer().score(scorer.begin(), "the cat") == (log_prob, state)
    contexts = np.frombuffer(scorer.begin(), np.int32)[None]
    for word in ("the", "cat"):
        scores, contexts = scorer.score_ids(contexts, language_model.vocabulary.encode([word]))
        log_prob -= scores[0]
    assert (log_prob, contexts.tobytes()) == (pytest.approx(0, abs=1e-5), state)


@pytest.mark.parametrize(
    ("order", "self_normalised"),
    [
        pytest.param(4, True, id="self-normalised"),
        pytest.param(4, False, id="normalised"),
        pytest.param(2, True, id="one word of context"),
    ],
)
def test_a_word_alone_is_scored_as_in_a_batch(order, self_normalised):
    network = NPLM(9, order, embedding_dim=2, hidden_units=3, boundary="sentence")
    language_model = LanguageModel(network, Vocabulary(["the", "cat", "sat", "on", "mat"]), "words")
    scorer = language_model.scorer(self_normalised)
    state = scorer.begin()
    for word in ["the", "cat", "unseen", "sat", "", "on the", "mat"]:
        log_prob, after = scorer.score(state, word)
        [wanted, _], [wanted_state, _] = scorer.score_batch([state] * 2, [word, "the"])
        assert log_prob == pytest.approx(wanted, abs=1e-6)
        assert (type(log_prob), after) == (float, wanted_state)
        state = after


@pytest.mark.parametrize("tokenizer", NAMES)
def test_an_empty_word_is_in_no_vocabulary_and_changes_nothing(tokenizer):
    scorer = MODELS[tokenizer, "sentence"].scorer()
    assert "" not in scorer and "the" in scorer
    _, state = scorer.score(scorer.begin(), "the")
    assert scorer.score(state, "") == (0.0, state)


ARPA = """
\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-99	<s>	-0.5
-1	</s>
-0.7	a	-0.2
-0.9	b

\\2-grams:
-0.3	<s> a
-0.4	a b

\\end\\
"""


def test_numbers_of_a_small_arpa_file(tmp_path):
    (tmp_path / "small.arpa").write_text(ARPA)
    model = KenlmModel(tmp_path / "small.arpa")
    expected = [
        (-0.5 - 0.9, 1, False),
        (-100, 1, True),
        (-0.7, 1, False),
        (-0.4, 2, False),
        (-1, 1, False),
    ]
    assert [
        (pytest.approx(row[0], abs=1e-4), *row[1:]) for row in model.full_scores("b c a b")
    ] == expected
    assert model.score("a b", bos=False, eos=False) == pytest.approx(-1.1, abs=1e-4)
    assert model.perplexity("a b") == pytest.approx(10 ** (1.7 / 3), rel=1e-4)


@pytest.fixture(scope="module", params=["sentence", "stream"])
def arpa(request, tmp_path_factory):
    language_model = MODELS["whitespace", request.param]
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    write_arpa(path, language_model.model, language_model.vocabulary)
    return path


@pytest.mark.packages
@pytest.mark.parametrize("has_unk", [True, False])
def test_numbers_are_those_of_kenlm(arpa, tmp_path, has_unk):
    real = pytest.importorskip("kenlm", reason="kenlm is not installed")
    lines = arpa.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if has_unk or "<unk>" not in line]
    for order in (1, 2, 3):
        removed = sum("<unk>" in line and line.count(" ") == order - 1 for line in lines) * (
            not has_unk
        )
        place = next(i for i, line in enumerate(kept) if line.startswith(f"ngram {order}="))
        kept[place] = f"ngram {order}={int(kept[place].split('=')[1]) - removed}"
    path = tmp_path / "model.arpa"
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    theirs = real.Model(str(path))
    ours = kenlm.Model(str(path))
    assert ours.order == theirs.order
    for sentence in [
        "the Cat sat, 3 hats",
        "that new hat </s> the <unk> Cat",
        "",
        "hats a",
        "new new that cat's hat",
    ]:
        assert ours.perplexity(sentence) == pytest.approx(theirs.perplexity(sentence), rel=1e-4)
        for bos, eos in ((True, True), (True, False), (False, True), (False, False)):
            assert ours.score(sentence, bos, eos) == pytest.approx(
                theirs.score(sentence, bos=bos, eos=eos), abs=1e-4
            )
            pairs = zip(
                ours.full_scores(sentence, bos=bos),
                theirs.full_scores(sentence, bos=bos),
                strict=True,
            )
            assert all(a[1:] == b[1:] and a[0] == pytest.approx(b[0], abs=1e-4) for a, b in pairs)
        for write in ("BeginSentenceWrite", "NullContextWrite"):
            states = kenlm.State(), real.State()
            getattr(ours, write)(states[0])
            getattr(theirs, write)(states[1])
            for word in [*sentence.split(), "</s>"]:
                after = kenlm.State(), real.State()
                full = (
                    ours.BaseFullScore(states[0], word, after[0]),
                    theirs.BaseFullScore(states[1], word, after[1]),
                )
                assert full[0].log_prob == pytest.approx(full[1].log_prob, abs=1e-4)
                assert full[0][1:] == (full[1].ngram_length, full[1].oov)
                again = kenlm.State()
                assert ours.BaseScore(states[0], word, again) == full[0].log_prob
                assert again == after[0] == copy.deepcopy(again) and len({again, after[0]}) == 1
                assert (word in ours) == (word in theirs)
                states = after


def test_kenlm_interface_of_a_model_directory(tmp_path):
    language_model = MODELS["sentencepiece", "sentence"]
    language_model.save(tmp_path / "model")
    model = KenlmModel(tmp_path / "model")
    [score] = language_model.score(["that new hat"])
    assert model.score("that new hat") == pytest.approx(score.log_prob / math.log(10), abs=1e-4)
    rows = [*model.full_scores("that new hat")]
    assert len(rows) == 4 and sum(row[0] for row in rows) == pytest.approx(
        model.score("that new hat")
    )
    assert "that" in model and model.order == 3
    with pytest.raises(InputError, match="does not exist"):
        KenlmModel(tmp_path / "absent")
