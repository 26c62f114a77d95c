"""What commands print for people: tables of results, sentences with figures, ranked words."""

from keras_nplm.cli.completing import complete
from keras_nplm.cli.printing import print_lines, print_result, print_splits

TEST = {"perplexity": 50.0, "tokens": 6500, "unk_tokens": 40, "bits_per_character": 1.5}
VALIDATION = {**TEST, "perplexity": 40.0, "tokens": 630}
RESULTS = [
    {
        "weights": [[0.75, 0.25]],
        "components": ["nplm", "back-off"],
        "validation": VALIDATION,
        "test": TEST,
        "network": {"validation": 45.0, "test": 60.0},
        "kneser_ney": {"validation": 50.0, "test": 40.0},
    },
    {"test": {**TEST, "bits_per_character": None}},  # nothing is compared
    {  # only `train` knows that a part is Kneser-Ney
        "weights": [[0.5, 0.3, 0.2]],
        "components": ["back-off", "back-off", "uniform"],
        "sources": ["runs/kn", "back-off", "uniform"],
    },
    # validation and test that are far apart are explained
    {"validation": {**TEST, "perplexity": 50}, "test": {**TEST, "perplexity": 30}},
    {"validation": {**TEST, "perplexity": 30}, "test": {**TEST, "perplexity": 40.5}},
    {"validation": {**TEST, "perplexity": 30}, "test": {**TEST, "perplexity": 39.9}},
]


def test_results_are_tables_and_sentences(capsys, messages):
    for result in RESULTS:
        print_splits({**result, "directory": "runs/mine"})
        messages.add(capsys.readouterr().out)
    # a figure that is absent leaves its sentence out
    print_lines(
        {"tokens": 6500, "text": {"words": 9}}, "{tokens:,}", "{seconds} s", "{text[words]}"
    )
    # small probabilities have significant digits
    print_result(complete, {"the c": {"cat": 0.5616, "car": 0.0012, "cot": 2.14e-5, "cut": 0.0}})
    messages.add(capsys.readouterr().out)
