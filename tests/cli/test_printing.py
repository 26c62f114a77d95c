"""What commands print for people: tables of results, sentences with figures, ranked words."""

from keras_nplm.cli.completing import complete
from keras_nplm.cli.printing import print_lines, print_result, print_splits

FIGURES = {
    "perplexity": 50.0,
    "tokens": 6500,
    "unk_tokens": 40,
    "bits_per_character": 1.5,
}


def test_the_end_of_training_is_one_table(capsys):
    validation = {**FIGURES, "perplexity": 40.0, "tokens": 630}
    print_splits(
        {
            "weights": [[0.75, 0.25]],
            "components": ["nplm", "back-off"],
            "validation": validation,
            "test": FIGURES,
            "network": {"validation": 45.0, "test": 60.0},
            "kneser_ney": {"validation": 50.0, "test": 40.0},
            "directory": "runs/mine",
        }
    )
    assert capsys.readouterr().out.splitlines() == [
        "weights: 0.7500 network, 0.2500 Kneser-Ney",
        "            tokens  perplexity  bits per character  network alone  Kneser-Ney"
        "  vs Kneser-Ney",
        "validation     630       40.00               1.500          45.00       50.00"
        "         -20.0%",
        "test         6,500       50.00               1.500          60.00       40.00"
        "         +25.0%",
        'the model is in runs/mine; next: keras-nplm complete runs/mine "a context"',
    ]


def test_a_table_without_an_ngram_model_compares_nothing(capsys):
    figures = {**FIGURES, "bits_per_character": None}
    print_splits({"test": figures, "directory": "runs/mine"})
    assert capsys.readouterr().out.splitlines()[:2] == [
        "      tokens  perplexity  bits per character",
        "test   6,500       50.00                none",
    ]


def test_components_of_a_mixture_are_named_by_their_directories(capsys):
    print_splits(
        {
            "weights": [[0.5, 0.3, 0.2]],
            "components": ["back-off", "back-off", "uniform"],
            "sources": ["runs/kn", "back-off", "uniform"],
            "directory": "runs/mine",
        }
    )
    first = capsys.readouterr().out.splitlines()[0]
    # only `train` knows that it is Kneser-Ney
    expected = "0.5000 runs/kn, 0.3000 n-gram model, 0.2000 uniform distribution"
    assert first == f"weights: {expected}"


def test_a_sentence_whose_figures_are_absent_is_left_out(capsys):
    print_lines(
        {"tokens": 6500, "text": {"words": 9}}, "{tokens:,}", "{seconds} s", "{text[words]}"
    )
    assert capsys.readouterr().out.splitlines() == ["6,500", "9"]


def test_validation_and_test_that_are_far_apart_are_explained(capsys):
    def print_perplexities(validation, test):
        splits = {"validation": validation, "test": test}
        figures = {
            split: {"tokens": 90, "perplexity": perplexity, "bits_per_character": None}
            for split, perplexity in splits.items()
        }
        print_splits({**figures, "directory": "runs/mine"})
        return capsys.readouterr().out

    assert "test against validation -40%: the two texts differ" in print_perplexities(50, 30)
    assert "--shuffle splits its lines at random" in print_perplexities(30, 40.5)
    assert "texts differ" not in print_perplexities(30, 39.9)


def test_small_probabilities_have_significant_digits(capsys):
    print_result(complete, {"the c": {"cat": 0.5616, "car": 0.0012, "cot": 2.14e-5, "cut": 0.0}})
    assert capsys.readouterr().out.splitlines() == [
        "the c …",
        "   0.5616 cat",
        "   0.0012 car",
        "  2.1e-05 cot",
        "   0.0000 cut",
    ]
