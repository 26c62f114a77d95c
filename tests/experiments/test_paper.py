"""The picture of the paper's Table 1: its rows, its axis and its caption, from recorded figures."""

import pytest
from PIL import Image

from keras_nplm.experiments.paper import digest_figures, draw_figure, write_figure
from keras_nplm.experiments.paper_optimiser import NO_DIRECT, PAPER
from keras_nplm.experiments.records import PICTURE, load_report

CURVES = {PAPER: [400, 300, 290, 295], NO_DIRECT: [420, 310, 300, 299]}


def list_epochs(curves: dict[str, list[float]]) -> list[dict]:
    """Return the rows of the table of curves."""
    length = max(len(curve) for curve in curves.values())
    epochs: list[dict] = [{"epoch": 1 + place} for place in range(length)]
    for name, curve in curves.items():
        for epoch, perplexity in zip(epochs, curve, strict=False):
            epoch[name] = perplexity
    return epochs


@pytest.fixture(scope="module")
def recorded() -> dict:
    return load_report("paper")


@pytest.fixture(scope="module")
def report(recorded) -> dict:
    """The recorded rows, with figures and curves of the paper's optimiser that are made up."""
    own = {"name": PAPER, "title": "MLP1", "paper": [284, 268], "validation": 290, "test": 270}
    rows = [row for row in recorded["rows"] if row["name"] != PAPER]
    return {**recorded, "rows": [*rows, own], "curves": list_epochs(CURVES)}


def test_rows_are_the_networks_with_their_mixtures_and_kneser_ney(report):
    bars, _ = draw_figure(report).axes
    networks = [f"MLP{number}" for number in (1, 3, 5, 7, 9)]
    expected = [title for name in networks for title in (name, f"{name} + trigram")]
    expected += [f"Kneser-Ney, n = {order}" for order in (3, 4, 5)]
    expected.append("MLP1, the paper's optimiser, marks")
    assert [label.get_text() for label in bars.get_yticklabels()] == expected
    paper, ours = bars.containers
    rows = {row["name"]: row for row in report["rows"]}
    assert paper.datavalues[:2].tolist() == [268, 257]
    assert paper.datavalues[-2] == 321
    assert ours.datavalues[0] == rows["mlp1"]["test"]
    assert ours.datavalues[-2] == rows["kneser-ney-5"]["test"]


def test_bars_begin_at_200(report):
    bars, _ = draw_figure(report).axes
    left, right = bars.get_xlim()
    assert left == 200
    assert right > 331  # the longest bar


def test_caption_explains_the_figure_of_the_papers_optimiser(report):
    figure = draw_figure(report)
    caption = " ".join(figure.get_supxlabel().split())
    assert "MLP2, MLP4, … in the paper" in caption
    best = "The best of 4 epochs is epoch 3. Its test perplexity is 270; the paper has 268."
    assert best in caption
    _, curves = figure.axes
    labels = [text.get_text() for text in curves.get_legend().get_texts()]
    assert labels == ["with direct connections", "without direct connections"]
    assert [line.get_ydata().tolist() for line in curves.get_lines()] == list(CURVES.values())


def test_a_report_of_some_rows_has_a_picture_of_its_bars(report, tmp_path):
    rows = [row for row in report["rows"] if row["name"] == "mlp1"]
    some = {"rows": rows, "curves": []}
    (bars,) = draw_figure(some).axes
    assert [label.get_text() for label in bars.get_yticklabels()] == ["MLP1"]
    assert "Right" not in draw_figure(some).get_supxlabel()
    write_figure(tmp_path / "paper.png", some)
    assert (tmp_path / "paper.png").stat().st_size > 10_000


def read_comment(path) -> str:
    with Image.open(path) as picture:
        return picture.info["Comment"]


def test_the_picture_of_the_readme_is_of_the_recorded_figures(recorded, tmp_path):
    assert read_comment(PICTURE) == digest_figures(recorded)
    changed = {**recorded, "rows": [{**recorded["rows"][0], "test": 123.4}]}
    write_figure(tmp_path / "paper.png", changed)
    written = read_comment(tmp_path / "paper.png")
    assert written == digest_figures(changed) != digest_figures(recorded)
