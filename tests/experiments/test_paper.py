"""Table 1: its rows are made, measured, mixed, tabled and drawn."""

import json

import numpy as np
import pytest
from PIL import Image

from keras_nplm import CONFIGURATIONS, LanguageModel
from keras_nplm.cli.main import main
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.experiments import paper
from keras_nplm.experiments.log_probs import measure_mixture
from keras_nplm.experiments.paper import PaperRow, draw_figure, load_record

TINY = "--embedding-dim 4 --hidden-units 4 --set batch_size=4096 --epochs 1"


def test_configurations_of_table_1_have_the_papers_shapes():
    shapes = {  # n, h, m, direct connections
        "1": (5, 50, 60, True),
        "3": (5, 0, 60, True),
        "5": (5, 50, 30, True),
        "7": (3, 50, 30, True),
        "9": (5, 100, 30, False),
    }
    for name, shape in shapes.items():
        options = CONFIGURATIONS[f"mlp{name}"].options.flatten()
        units = options.get("hidden_units", 0)
        width = options["embedding_dim"]
        assert (options["order"], units, width, options["direct_connections"]) == shape
    options = CONFIGURATIONS["mlp1-paper"].options.flatten()
    assert options["learning_rate"] / options["batch_size"] == pytest.approx(1e-3)
    assert options["decay_rate"] / options["batch_size"] == pytest.approx(1e-8)


def test_mixtures_are_weighted_sums_with_fitted_weights():
    random = np.random.default_rng(0)
    columns = {n: {split: np.log(random.random(50)) for split in HELD_OUT} for n in "ab"}
    mixture = measure_mixture(columns, "ab", [0.3, 0.7])
    fitted = measure_mixture(columns, "ab")["validation"]
    tried = [measure_mixture(columns, "ab", [w, 1 - w]) for w in np.linspace(0, 1, 101)]
    probability = 0.3 * np.exp(columns["a"]["test"]) + 0.7 * np.exp(columns["b"]["test"])
    assert mixture["test"] == pytest.approx(np.exp(-np.log(probability).mean()), rel=1e-6)
    assert fitted == pytest.approx(min(other["validation"] for other in tried), rel=1e-3)


def test_the_picture_has_the_recorded_rows_beside_the_papers_and_the_curves():
    report = load_record()
    rows = {row["name"]: row for row in report["rows"]}
    own = {"name": "mlp1-paper", "title": "MLP1", "paper": [284, 268], "test": 270}
    curves = {"mlp1-paper": [400, 300, 290], "mlp1-paper-no-direct": [420, 310]}
    report |= {"rows": [*report["rows"], own], "curves": curves}
    bars, drawn = draw_figure(report).axes
    networks = [f"MLP{number}" for number in (1, 3, 5, 7, 9)]
    expected = [title for name in networks for title in (name, f"{name} + trigram")]
    expected += [f"Kneser-Ney, n = {order}" for order in (3, 4, 5)]
    expected.append("MLP1, the paper's optimiser, marks")
    assert [label.get_text() for label in bars.get_yticklabels()] == expected
    there, here = bars.containers
    assert there.datavalues[[0, 1, -2]].tolist() == [268, 257, 321]
    assert here.datavalues[0] == rows["mlp1"]["test"]
    assert here.datavalues[-2:].tolist() == [rows["kneser-ney-5"]["test"], 270]
    assert [line.get_ydata().tolist() for line in drawn.get_lines()] == list(curves.values())


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_table_1_is_made_and_reported(tmp_path, monkeypatch, capsys):
    text = tmp_path / "text.txt"
    words = np.random.default_rng(0).zipf(1.3, (150, 9)) % 26
    text.write_text("".join(f"{' '.join(chr(97 + i) for i in line)}\n" for line in words))
    network = PaperRow(
        "mlp1",
        "MLP1",
        f"train --config mlp1 {TINY} --train {text}",
        paper=(284, 268),
        mixture="MLP2",
        mixture_paper=(275, 257),
        bar="MLP1",
        curve="a curve",
    )
    trigram = PaperRow("trigram", "trigram", f"ngram --boundary stream --train {text} --order 3")
    monkeypatch.setattr(paper, "ROWS", [network, trigram])
    assert main(["paper", "--output", str(tmp_path), "--json"]) == 0
    report = json.loads((tmp_path / "paper.json").read_text())
    assert report.items() <= json.loads(capsys.readouterr().out).items()
    made, mixed = report["rows"], report["mixtures"]
    assert [row["name"] for row in made] == ["mlp1", "trigram"]
    evaluated = [
        LanguageModel.load(tmp_path / "rows" / row["name"]).evaluate("test")["perplexity"]
        for row in made
    ]
    assert [row["test"] for row in made] == pytest.approx(evaluated)
    assert [row["title"] for row in mixed] == ["MLP2, 0.5", "MLP2, fitted"]
    assert mixed[0]["paper"] == [275, 257]
    assert mixed[1]["validation"] <= mixed[0]["validation"] + 0.01
    assert len(report["curves"]["mlp1"]) == 1
    assert [*report["origins"]] == [str(tmp_path / "rows" / row["name"]) for row in made]
    row = f"| MLP1 | 284 | 268 | {made[0]['validation']:.1f} |"
    assert row in (tmp_path / "paper.md").read_text()
    with Image.open(tmp_path / "paper.png") as picture:
        assert picture.info["Comment"] == paper.digest_figures(report)
