"""The picture of the paper's Table 1: its rows, its axis and its caption, from recorded figures."""

import pytest
from PIL import Image

from keras_nplm.experiments.paper import digest_figures, draw_figure, write_figure
from keras_nplm.experiments.records import PICTURE, load_report


@pytest.fixture(scope="module")
def report() -> dict:
    return load_report("paper")


def test_rows_are_the_networks_with_their_mixtures_and_kneser_ney(report):
    bars, _ = draw_figure(report).axes
    networks = [f"MLP{number}" for number in (1, 3, 5, 7, 9)]
    expected = [title for name in networks for title in (name, f"{name} + trigram")]
    expected += [f"Kneser-Ney, n = {order}" for order in (3, 4, 5)]
    assert [label.get_text() for label in bars.get_yticklabels()] == expected
    paper, ours = bars.containers
    rows = {row["name"]: row for row in report["rows"]}
    assert paper.datavalues[:2].tolist() == [268, 257]
    assert paper.datavalues[-1] == 321
    assert ours.datavalues[0] == rows["mlp1"]["test"]
    assert ours.datavalues[-1] == rows["kneser-ney-5"]["test"]


def test_bars_begin_at_200(report):
    bars, _ = draw_figure(report).axes
    left, right = bars.get_xlim()
    assert left == 200
    assert right > 331  # the longest bar


def test_caption_explains_the_figure_of_the_papers_optimiser(report):
    figure = draw_figure(report)
    caption = " ".join(figure.get_supxlabel().split())
    assert "MLP2, MLP4, … in the paper" in caption
    assert "Its test perplexity after 5 epochs is 360; the paper has 268." in caption
    _, curves = figure.axes
    labels = [text.get_text() for text in curves.get_legend().get_texts()]
    assert labels == ["with direct connections", "without direct connections"]


def test_caption_says_whether_training_has_ended_early(report):
    def write_caption(curve: list[float]) -> str:
        curves = [{"epoch": 1 + place, "mlp1-paper": value} for place, value in enumerate(curve)]
        figure = draw_figure({**report, "curves": curves})
        return " ".join(figure.get_supxlabel().split())

    assert "The curves still fall" in write_caption([300, 290, 280])
    assert write_caption([300, 280, 290]).endswith("This training has no bar.")


def test_a_report_of_some_rows_has_a_picture(report, tmp_path):
    rows = [row for row in report["rows"] if row["name"] == "mlp1"]
    write_figure(tmp_path / "paper.png", {"rows": rows, "curves": []})
    assert (tmp_path / "paper.png").stat().st_size > 10_000


def read_comment(path) -> str:
    with Image.open(path) as picture:
        return picture.info["Comment"]


def test_the_picture_of_the_readme_is_of_the_recorded_figures(report, tmp_path):
    assert read_comment(PICTURE) == digest_figures(report)
    changed = {**report, "rows": [{**report["rows"][0], "test": 123.4}]}
    write_figure(tmp_path / "paper.png", changed)
    assert read_comment(tmp_path / "paper.png") == digest_figures(changed) != digest_figures(report)
