"""The paper's claims are judged by the rows of a report."""

import json
import shlex

import numpy as np
import pytest

from keras_nplm import LanguageModel, Vocabulary
from keras_nplm.cli.main import main
from keras_nplm.experiments.claims import SIZE_COMMAND, judge_claims, measure_similar_words
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


def judge_curves(direct: list[float], without: list[float]) -> dict:
    names = ("mlp1-paper", "mlp1-paper-no-direct")
    curves = [dict(zip(names, pair, strict=True)) for pair in zip(direct, without, strict=True)]
    return judge("direct", {"rows": [], "curves": curves})


def test_direct_connections_are_faster_and_not_better():
    judged = judge_curves([120, 105, 106, 107], [130, 115, 103, 104])
    evidence = "validation 105 after 2 epochs against 3; best 105 against 103"
    assert (judged["evidence"], judged["holds"]) == (evidence, "yes")
    judged = judge_curves([120, 100, 101, 102], [130, 115, 103, 104])
    assert judged["holds"] == "no"


def test_a_claim_is_open_while_validation_still_improves():
    judged = judge_curves([120, 105, 106, 107], [130, 115, 103, 102])
    assert judged["evidence"].endswith("best 105 against 102, still falling")
    assert judged["holds"] == "open"


def test_learned_features_are_compared_with_fixed_random_ones():
    rows = [make_row("brown-no-held-out", 90), make_row("brown-random-features", 120)]
    judged = judge("learned features", {"rows": rows})
    assert (judged["evidence"], judged["holds"]) == ("90 against 120 (-25%)", "yes")


def test_the_share_of_the_output_layer_is_that_of_the_paper():
    judged = judge("nearly all of the cost", {"rows": []})
    assert judged["evidence"] == f"99.7% by its formula, 99.7% by `{SIZE_COMMAND}`"


def test_size_counts_the_example_of_the_cost(capsys):
    assert main([*shlex.split(SIZE_COMMAND)[1:], "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)["flops_scoring"] / 2
    # x has 5 words of 100 components; H, U and W are multiplied with
    assert counted == 500 * 60 + 17_964 * (60 + 500)


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
