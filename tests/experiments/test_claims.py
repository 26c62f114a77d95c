"""The paper's claims are judged by the rows of a report."""

import numpy as np
import pytest

from keras_nplm import LanguageModel, Vocabulary
from keras_nplm.experiments.claims import judge_claims, measure_similar_words
from keras_nplm.models.base import NextWordModel


def make_row(name: str, test: float, epochs: int = 5) -> dict:
    return {"name": name, "title": name, "validation": test + 10, "test": test, "epochs": epochs}


def judge(statement: str, report: dict) -> dict | None:
    rows = [row for row in judge_claims(report) if statement in row["statement"]]
    return rows[0] if rows else None


@pytest.mark.parametrize(
    "hidden, expected", [pytest.param(90, "yes", id="for"), pytest.param(110, "no", id="against")]
)
def test_a_claim_is_judged_by_test_perplexity(hidden, expected):
    judged = judge("a hidden layer", {"rows": [make_row("mlp1", hidden), make_row("mlp3", 100)]})
    assert judged["holds"] == expected
    assert judged["evidence"] == f"{hidden} against 100 ({hidden - 100:+d}%)"


def test_a_claim_without_its_rows_is_left_out():
    assert judge("a hidden layer", {"rows": [make_row("mlp1", 90)]}) is None
    assert judge("similar contexts", {"rows": []}) is None


def test_mixing_must_help_each_network():
    rows = [make_row("mlp1", 100), make_row("mlp3", 100)]
    mixtures = [{"title": "MLP2, 0.5", "test": 95}, {"title": "MLP4, 0.5", "test": 101}]
    judged = judge("mixing with the trigram", {"rows": rows, "mixtures": mixtures})
    assert (judged["evidence"], judged["holds"]) == ("-5% to +1%; 1 of 2 networks", "no")


def test_the_best_ngram_model_is_chosen_on_validation():
    better_on_test = make_row("class-500-3", 105) | {"validation": 200}
    rows = [make_row("kneser-ney-5", 110), better_on_test]
    report = {"rows": rows, "mixtures": [{"title": "MLP10, 0.5", "test": 100}]}
    judged = judge("best n-gram model", report)
    assert judged["evidence"] == "10%: 100 against 110 (kneser-ney-5)"


def test_direct_connections_are_faster_and_not_better():
    without = make_row("mlp1-paper-no-direct", 100, epochs=20)
    judged = judge("direct", {"rows": [make_row("mlp1-paper", 105, epochs=10), without]})
    assert judged["holds"] == "yes"
    judged = judge("direct", {"rows": [make_row("mlp1-paper", 95, epochs=10), without]})
    assert judged["holds"] == "no"


def test_the_share_of_the_output_layer_is_that_of_the_paper():
    assert judge("nearly all of the cost", {"rows": []})["evidence"].startswith("99.7%")


class LikesAfter(NextWordModel):
    """P("sat") is 1/2 after "cat" and "dog", and 1/10 after other words."""

    order = 2
    boundary = "sentence"

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary_size = len(vocabulary)
        self.animals = vocabulary.encode(["cat", "dog"])

    def _log_prob(self, context_ids, target_ids):
        is_animal = np.isin(context_ids[:, -1], self.animals)
        return np.log(np.where(is_animal, 0.5, 0.1)).astype(np.float32)


def test_a_similar_word_in_the_place_of_another_changes_little(monkeypatch):
    vocabulary = Vocabulary(["sat", "cat", *(f"w{number}" for number in range(60)), "dog"])
    language_model = LanguageModel(LikesAfter(vocabulary), vocabulary, "words")
    monkeypatch.setattr(LanguageModel, "nearest", lambda self, word, top_k: [("dog", 0.9)])
    ids = vocabulary.encode(["cat", "sat", "</s>"] * 50)
    figures = measure_similar_words(language_model, ids, ["cat", "absent"])
    assert figures == pytest.approx({"kept": 2, "nearest": 2, "random": 10}, rel=1e-5)
