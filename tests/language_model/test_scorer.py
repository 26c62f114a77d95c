"""Scorers of every tokenizer; `tests/models/test_contract.py` has every model."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_nplm import LanguageModel, Vocabulary
from keras_nplm.data.ids import PAD_ID
from tests.language_models import VOCABULARY, build
from tests.tokenizers import KINDS, build_model, build_vocabulary

LINES = ["the Cat sat, 3 hats", "that cat's hat", "a mat: the act"] * 4
MODELS = {
    (name, boundary): build_model(
        name, LINES, 3, boundary, build_vocabulary(name, LINES, max_size=12)
    )
    for name in ("words+lower+numbers", *KINDS)
    for boundary in ("sentence", "stream")
}
# without a token for the space
MODELS["letters", "sentence"] = build_model("characters", LINES, vocabulary=Vocabulary([*"achty"]))


@pytest.mark.parametrize(("tokenizer", "boundary"), MODELS)
@settings(max_examples=30)
@example(words=["a", "a"], spaces=["|"] * 5)
@given(
    words=st.lists(st.text("atCh3,é'", min_size=1, max_size=5), max_size=6),
    spaces=st.lists(st.sampled_from(["|", " |", "| ", " | ", "| |", " "]), min_size=5),
)
def test_any_cut_at_spaces_gives_the_score_of_the_text(tokenizer, boundary, words, spaces):
    """A space is given with the word before, with the word after, with both, alone or with none."""
    language_model = MODELS[tokenizer, boundary]
    scorer = language_model.scorer()
    state = scorer.begin()
    total = 0.0
    text = "".join(itertools.chain(*zip(["", *spaces], words, strict=False)))
    for part in text.split("|") if words else []:
        log_prob, state = scorer.score(pickle.loads(pickle.dumps(state)), part)
        total += log_prob
    assert "" not in scorer and scorer.score(state, "") == (0.0, state)
    [score] = language_model.score([" ".join(words)], alone=True)  # also of no words
    [tokens] = language_model.score_tokens([" ".join(words)])
    assert total + scorer.end(state) == pytest.approx(score.log_prob, abs=1e-4)
    if words:  # a blank line has no tokens
        assert sum(token.log_prob for token in tokens) == pytest.approx(score.log_prob, abs=1e-4)
        assert [sum(token.is_unknown for token in tokens), len(tokens)] == [
            score.unk_tokens,
            score.tokens,
        ]
    has_unknown_space = tokenizer == "letters" and len(words) > 1
    is_known = all(word in scorer for word in words) and not has_unknown_space
    assert is_known == (score.unk_tokens == 0)
    full = language_model.codec.encode_beginning(" ".join(words), language_model.model.order)
    shortened = np.frombuffer(state, np.int32)
    assert np.isin(shortened, [PAD_ID, *full]).all() and len(shortened) == len(full)
    distributions = language_model.model.next_log_probs(np.stack([full, shortened]))
    np.testing.assert_array_equal(distributions[0], distributions[1])


def test_self_normalised_scores_are_those_of_its_lines(tmp_path):
    language_model = LanguageModel(build("nplm", "sentence"), VOCABULARY, "whitespace")
    language_model.save(tmp_path / "model")
    loaded = LanguageModel.load(tmp_path / "model", self_normalised=True)
    [score] = loaded.score(["w1 w2"])
    normalised, _ = language_model.scorer().score(language_model.scorer().begin(), "w1 w2")
    for model in (loaded, pickle.loads(pickle.dumps(loaded))):
        scorer = model.scorer()
        log_prob, state = scorer.score(scorer.begin(), "w1 w2")
        assert log_prob + scorer.end(state) == pytest.approx(score.log_prob, abs=1e-5)
        assert log_prob != pytest.approx(normalised, abs=0.01)
