import dataclasses
import html.parser
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_nplm import (
    Corpus,
    LanguageModel,
    RunError,
    estimate,
    open_corpus,
    train,
)
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.training.charts import (
    bar_chart,
    escaped,
    line_chart,
    ticks,
    word_chart,
)
from keras_nplm.training.report import write_run_report

_SVG = "{http://www.w3.org/2000/svg}"
_VOID = {"meta"}


class _Page(html.parser.HTMLParser):
    """What a browser would see: tags, each closed in its turn, and the text within them."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in _VOID:
            self.texts.append((".".join([*(name for name, _ in self.open), tag]), []))
            self.open.append((tag, self.texts[-1][1]))

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            self.open[-1][1].append(data)

    def of(self, *path: str) -> list[str]:
        """The texts of the elements at the end of a path."""
        return ["".join(parts) for where, parts in self.texts if where.endswith(".".join(path))]


def _charts(text: str) -> list[ElementTree.Element]:
    """The charts of a page, in its order: perplexity, learning rate, bars, words."""
    return [ElementTree.fromstring(svg) for svg in re.findall("<svg.*?</svg>", text, re.DOTALL)]


def _values(chart: ElementTree.Element, name: str) -> list[float]:
    """The values of the points of a line, read off the axis: between the lowest and the highest tick."""
    labels = [e for e in chart.iter(f"{_SVG}text") if e.get("class") == "tick" and e.get("text-anchor") == "end"]
    grid = [
        float(re.fullmatch(r"M\d+ ([\d.]+)H\d+", e.get("d"))[1])
        for e in chart.iter(f"{_SVG}path")
        if e.get("class") == "grid"
    ]
    at = [float(label.text) for label in labels[: len(grid)]]
    assert (grid[0], grid[-1]) == (256, 34)  # the whole height is used
    (line,) = [e for e in chart.iter(f"{_SVG}polyline") if e.get("class") == name]
    y = [float(point.split(",")[1]) for point in line.get("points").split()]
    return [at[0] + (at[-1] - at[0]) * (grid[0] - place) / (grid[0] - grid[-1]) for place in y]


@pytest.fixture(scope="module")
def text(model_directory) -> str:
    return (model_directory / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def metrics(model_directory) -> dict:
    return json.loads((model_directory / "metrics.json").read_text())


def test_the_page_is_well_formed_and_needs_nothing_else(text):
    page = _Page(text)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe"}
    assert all(not set(attributes) & {"src", "href", "onload"} for _, attributes in page.tags)
    assert "url(" not in text and "@import" not in text
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}
    assert len(_charts(text)) == 4
    assert page.of("body", "h2") == [
        "Learning curves", "Perplexity", "Continuations", "Nearest words", "A map of the words",
    ]  # fmt: skip


def test_its_figures_are_those_of_the_run_and_of_a_kneser_ney_model(text, metrics, small_configuration, tmp_path):
    options = {name: getattr(small_configuration, name) for name in ("order", "boundary", "min_count")}
    ngrams = estimate("kneser-ney", open_corpus(), tmp_path / "ngrams", **options)
    page = _Page(text)
    expected = []
    for name, figures in (("network", metrics), ("KN 4-gram", ngrams)):
        of_splits = [figures[split]["perplexity"] for split in ("validation", "test")]
        expected += [name, *(f"{x:.2f}" for x in [*of_splits, figures["test"]["perplexity_without_unk"]])]
    assert page.of("td")[-8:] == expected
    facts = dict(zip(page.of("dl", "div", "dt"), page.of("dl", "div", "dd"), strict=False))
    assert facts["parameters"] == f"{metrics['parameters']:,}" and facts["seconds"] == f"{metrics['seconds']:,}"
    assert page.of("pre")[0].startswith("keras-nplm train --")
    ratio = metrics["test"]["perplexity"] / ngrams["test"]["perplexity"]
    assert f"test perplexity is {ratio:.3f} times" in text

    bars = _charts(text)[2]
    lengths = [float(bar.get("width")) for bar in bars.iter(f"{_SVG}rect")]
    drawn = [model[split]["perplexity"] for split in ("validation", "test") for model in (metrics, ngrams)]
    np.testing.assert_allclose(lengths, np.array(drawn) * max(lengths) / max(drawn), atol=0.01)
    values = [label.text for label in bars.iter(f"{_SVG}text") if label.get("class") == "value"]
    assert values == [f"{perplexity:.2f}" for perplexity in drawn]


def test_the_curves_run_through_the_figures(text, metrics):
    perplexity, rate = _charts(text)[:2]
    for chart, name, key in (
        (perplexity, "line s1", "train_perplexity"),
        (perplexity, "line s2", "validation_perplexity"),
        (rate, "line s1", "learning_rate"),
    ):
        expected = [epoch[key] for epoch in metrics["history"]]
        np.testing.assert_allclose(_values(chart, name), expected, atol=1e-3 * max(expected))
    (ring,) = [e for e in perplexity.iter(f"{_SVG}circle") if e.get("class") == "best s2" and e.get("r") == "7"]
    dots = [e for e in perplexity.iter(f"{_SVG}circle") if e.get("class") == "dot s2"]
    assert (ring.get("cx"), ring.get("cy")) == tuple(dots[metrics["best_epoch"] - 1].get(a) for a in ("cx", "cy"))


def test_its_samples_are_what_the_model_says(text, model_directory):
    language_model = LanguageModel.load(model_directory)
    page = _Page(text)
    contexts = page.of("h3", "bdi")
    assert len(contexts) == 4 and all(len(context.split()) == 4 for context in contexts)
    sentences = [" ".join(sentence) for sentence in open_corpus().sentences("validation")]
    assert all(any(sentence.startswith(context) for sentence in sentences) for context in contexts)
    proposed = [pair for context in contexts for pair in language_model.next_words(context, 6)]
    assert page.of("div", "div", "div", "bdi") == [word for word, _ in proposed]
    assert page.of("div", "div", "div", "small") == [f"{probability:.3f}" for _, probability in proposed]
    for seed, prompt in enumerate(page.of("blockquote", "em"), start=1):
        assert escaped(language_model.generate(prompt, 40, seed=seed, temperature=0.7)) in text
    words = page.of("dt", "bdi")
    assert len(words) == 20
    near = [pair for word in words for pair in language_model.nearest(word, 5)]
    assert page.of("dd", "bdi") == [word for word, _ in near]
    assert page.of("dd", "small") == [f"{cosine:.2f}" for _, cosine in near]


def test_the_map_has_the_frequent_words_with_their_counts(text, model_directory):
    counts = {}
    for sentence in open_corpus().sentences("train"):
        for word in sentence:
            counts[word] = counts.get(word, 0) + 1
    titles = [word[0].text for word in _charts(text)[3].iter(f"{_SVG}text")]
    assert len(titles) == 250
    listed = [re.fullmatch(r"(.+): ([\d,]+) times in the training text", title).groups() for title in titles]
    assert all(counts[word] == int(count.replace(",", "")) for word, count in listed)
    lettered = sorted((count for word, count in counts.items() if any(map(str.isalpha, word))), reverse=True)
    assert sorted((counts[word] for word, _ in listed), reverse=True) == lettered[:250]
    language_model = LanguageModel.load(model_directory)
    words = [word for word, _ in listed]
    places = word_map(language_model.model.embed.C.numpy()[language_model.vocabulary.encode(words)])
    notes = [title.removeprefix(f"{word}: ") for word, title in zip(words, titles, strict=True)]
    assert word_chart("words in the plane", places, words, notes) in text


_ODD = [
    "<script>alert(1)</script>",
    "&amp;",
    "\"x'",
    "a\u0301\u0323b",
    "שלום",
    "</title>",
    "\x07\x1b",
    "漢字",
    "]]>",
    "x" * 99,
]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output_layer": "nce", "num_sampled": 3, "boundary": "stream"},
        {"output_layer": "adaptive", "cutoffs": "6", "hidden_units": 0, "direct_connections": True},
        {"order": 2, "max_size": 3},
    ],
)
def test_odd_words_are_shown_as_text(tmp_path, small_configuration, options):
    rng = np.random.default_rng(0)
    sentences = [[_ODD[i] for i in rng.choice(len(_ODD), 5, p=np.arange(10, 0, -1) / 55)] for _ in range(60)]
    splits = {"train": sentences[:40], "validation": sentences[40:50], "test": sentences[50:]}
    corpus = Corpus("</h1><b>&", "whitespace", {name: (lambda part=part: iter(part)) for name, part in splits.items()})
    configuration = dataclasses.replace(
        small_configuration, **{"epochs": 1, "batch_size": 16, "min_count": 1} | options
    )
    train(configuration, corpus, tmp_path / "model")
    text = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    page = _Page(text)
    assert not {tag for tag, _ in page.tags} & {"script", "b", "x"}
    assert page.of("body", "h1") == ["</h1><b>&"]
    shown = [word[0].tail for word in _charts(text)[3].iter(f"{_SVG}text")]
    kept = LanguageModel.load(tmp_path / "model").vocabulary.words[4:]
    expected = [word if len(word) <= 24 else word[:23] + "…" for word in kept if any(map(str.isalpha, word))]
    assert shown == expected and "<script>alert(1)</scrip…" in shown
    assert ("there is no training perplexity" in text) == (configuration.output_layer == "nce")
    assert len(kept) == (3 if "max_size" in options else 10)


def test_a_large_text_has_no_baseline_and_the_page_says_so(model_directory, metrics, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_nplm.training.report._BASELINE_TOKENS", 1000)
    monkeypatch.setattr("keras_nplm.training.report.kneser_ney", None)
    config = json.loads((model_directory / "config.json").read_text())
    write_run_report(tmp_path / "report.html", LanguageModel.load(model_directory), config, metrics)
    page = _Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert any("No n-gram model stands beside it" in said for said in page.of("p"))
    assert "network" in page.of("td") and "KN 4-gram" not in page.of("td")


class _Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


def test_a_run_without_its_page_is_whole_and_gets_it_when_asked_again(
    tmp_path, monkeypatch, small_configuration, capsys
):
    configuration = dataclasses.replace(small_configuration, epochs=1)
    rename = shutil.os.replace

    def killed(source, target):
        if target.name == "report.html":
            raise _Killed
        rename(source, target)

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(_Killed):
        train(configuration, open_corpus(), tmp_path / "model")
    monkeypatch.undo()
    page = tmp_path / "model" / "report.html"
    assert (tmp_path / "model" / "metrics.json").exists() and not page.exists()

    def full(*arguments):
        raise RunError("The disk is full.")

    monkeypatch.setattr("keras_nplm.training.train.write_run_report", full)
    metrics = train(configuration, open_corpus(), tmp_path / "model")
    assert "report.html was not written: The disk is full. Fix: run the same command again" in capsys.readouterr().err
    assert not page.exists()
    monkeypatch.undo()
    assert train(configuration, open_corpus(), tmp_path / "model") == metrics
    written = page.read_bytes()
    page.write_text("kept")
    train(configuration, open_corpus(), tmp_path / "model")
    assert page.read_text() == "kept" and b"Nearest words" in written


@given(st.floats(1e-6, 1e7), st.floats(0, 1e3))
def test_ticks_enclose_the_range_evenly(low, spread):
    high = low + low * spread
    places = ticks(low, high)
    assert 2 <= len(places) <= 9
    tolerance = 1e-6 * (places[-1] - places[0])
    assert places[0] <= low + tolerance and places[-1] >= high - tolerance
    np.testing.assert_allclose(np.diff(places), places[1] - places[0], rtol=1e-6)


@given(st.lists(st.floats(1, 1e6) | st.just(float("inf")), min_size=1, max_size=30))
def test_a_curve_of_any_values_is_drawn_within_its_frame(values):
    chart = ElementTree.fromstring(line_chart("t", {"a": values}, "y"))
    (line,) = chart.iter(f"{_SVG}polyline")
    points = np.array([tuple(map(float, point.split(","))) for point in line.get("points").split()]).reshape(-1, 2)
    assert len(points) == sum(map(np.isfinite, values))
    assert (points >= [56, 34]).all() and (points <= [464, 256]).all()


def test_bars_without_finite_values_are_drawn():
    ElementTree.fromstring(bar_chart("t", {"a": {"x": float("inf"), "y": 0.0}}))


@settings(max_examples=20, deadline=None)
@given(arrays(np.float64, (40, 2), elements=st.floats(-3, 3)), st.data())
def test_words_on_a_map_do_not_cover_each_other(places, data):
    words = data.draw(st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=40, max_size=40))
    chart = ElementTree.fromstring(word_chart("t", places, words, ["note"] * 40))
    width, height = map(float, chart.get("viewBox").split()[2:])
    boxes = [(float(e.get("x")), float(e.get("y")) - 4, len(e[0].tail) * 7.0) for e in chart.iter(f"{_SVG}text")]
    for number, (x, y, w) in enumerate(boxes):
        assert x - w / 2 >= 0 and x + w / 2 <= width and 6 <= y <= height - 6
        for other_x, other_y, other_w in boxes[:number]:
            assert abs(x - other_x) >= (w + other_w) / 2 or abs(y - other_y) >= 12.5


@given(st.text())
def test_any_text_can_stand_in_html_and_in_svg(value):
    shown = escaped(value.replace("\r", ""))
    assert ElementTree.fromstring(f"<a b='{shown}'>{shown}</a>").text in (None, *[html.unescape(shown)])
