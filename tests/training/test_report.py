"""The HTML report: well-formed and self-contained, with the numbers of the run, the model and Kneser-Ney."""

import dataclasses
import html.parser
import json
import re
import shutil

import numpy as np
import pytest

from keras_nplm import (
    Corpus,
    InputError,
    LanguageModel,
    RunError,
    estimate,
    open_corpus,
    train,
)
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.training import report
from keras_nplm.training.charts import draw_words, escape_html
from keras_nplm.training.report import write_run_report

_VOID = {"meta"}


class _Page(html.parser.HTMLParser):
    """The page as a browser sees it: tags, each closed in order, and the text within them."""

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


@pytest.fixture(scope="module")
def metrics(model_directory) -> dict:
    return json.loads((model_directory / "metrics.json").read_text())


@pytest.fixture(scope="module")
def written(model_directory, metrics, tmp_path_factory) -> tuple[str, dict]:
    """A report; its charts by their titles, each as axes and notes; the vectors and places of the map of words."""
    path, charts, render_svg = tmp_path_factory.mktemp("report") / "report.html", {}, report.render_svg
    mapped = []

    def record_map(vectors):
        mapped.extend([vectors, word_map(vectors)])
        return mapped[1]

    def record(figure, title, notes=None):
        charts[title] = figure.axes[0], notes
        return render_svg(figure, title, notes)

    config = json.loads((model_directory / "config.json").read_text())
    with pytest.MonkeyPatch.context() as context:
        context.setattr(report, "render_svg", record)
        context.setattr(report, "word_map", record_map)
        write_run_report(path, LanguageModel.load(model_directory), config, metrics)
    return path.read_text(encoding="utf-8"), charts | {"vectors and places": mapped}


@pytest.fixture(scope="module")
def text(written) -> str:
    return written[0]


@pytest.fixture(scope="module")
def charts(written) -> dict:
    return written[1]


def test_train_writes_the_same_report(text, model_directory):
    assert (model_directory / "report.html").read_text(encoding="utf-8") == text


def test_page_is_well_formed_and_self_contained(text):
    page = _Page(text)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe"}
    assert all(not set(attributes) & {"src", "href", "onload"} for _, attributes in page.tags)
    references = re.findall(r"(?:url\(|xlink:href=\")(.)", text)
    assert set(references) <= {"#"} and "@import" not in text
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert text.count("<svg") == 4
    assert page.of("body", "h2") == [
        "Learning curves", "Perplexity", "Continuations", "Nearest words", "Map of the words",
    ]  # fmt: skip


def test_figures_are_of_the_run_and_a_kneser_ney_model(text, charts, metrics, small_configuration, tmp_path):
    options = {name: getattr(small_configuration, name) for name in ("order", "boundary", "min_count")}
    ngrams = estimate("kneser-ney", open_corpus(), tmp_path / "ngrams", **options)
    page = _Page(text)
    expected = []
    for name, figures in (("network", metrics), ("KN 4-gram", ngrams)):
        of_splits = [figures[split]["perplexity"] for split in ("validation", "test")]
        of_test = [figures["test"][name] for name in ("perplexity_without_unk", "perplexity_per_word")]
        expected += [name, *(f"{x:.2f}" for x in of_splits + of_test), f"{figures['test']['bits_per_character']:.3f}"]
    assert page.of("td")[-12:] == expected
    facts = dict(zip(page.of("dl", "div", "dt"), page.of("dl", "div", "dd"), strict=False))
    assert facts["parameters"] == f"{metrics['parameters']:,}" and facts["seconds"] == f"{metrics['seconds']:,}"
    assert page.of("pre")[0].startswith("keras-nplm train --")
    for split in ("validation", "test"):
        assert facts[f"{split} tokens"].startswith(f"{metrics[split]['tokens']:,}, of these ")
        assert facts[f"{split} tokens"].endswith(f" </s> and {metrics[split]['unk_tokens']:,} <unk>")
    ratio = metrics["test"]["perplexity"] / ngrams["test"]["perplexity"]
    assert f"test perplexity is {ratio:.3f} times" in text
    bars = charts["perplexity of the models"][0].patches
    drawn = [model[split]["perplexity"] for split in ("validation", "test") for model in (metrics, ngrams)]
    np.testing.assert_allclose([bar.get_width() for bar in bars], drawn)


def test_curves_hold_the_figures_of_the_history(charts, metrics):
    history = metrics["history"]
    training, validation, best = charts["perplexity by epoch"][0].lines
    (rates,) = charts["learning rate by epoch"][0].lines
    for line, key in (
        (training, "train_perplexity"),
        (validation, "validation_perplexity"),
        (rates, "learning_rate"),
    ):
        np.testing.assert_array_equal(line.get_ydata(), [epoch[key] for epoch in history])
    np.testing.assert_array_equal(best.get_xdata(), [metrics["best_epoch"]])


def test_samples_are_those_of_the_model(text, model_directory):
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
        assert escape_html(language_model.generate(prompt, 40, seed=seed, temperature=0.7)) in text
    words = page.of("dt", "bdi")
    assert len(words) == 20
    near = [pair for word in words for pair in language_model.nearest(word, 5)]
    assert page.of("dd", "bdi") == [word for word, _ in near]
    assert page.of("dd", "small") == [f"{cosine:.2f}" for _, cosine in near]


def test_map_has_the_frequent_words_with_their_counts(charts, model_directory):
    counts = {}
    for sentence in open_corpus().sentences("train"):
        for word in sentence:
            counts[word] = counts.get(word, 0) + 1
    axes, notes = charts["map of the words"]
    assert len(notes) == len(axes.texts) == 250
    found = [re.fullmatch(r"(.+): ([\d,]+) times in the training text", note).groups() for note in notes.values()]
    assert all(counts[word] == int(count.replace(",", "")) for word, count in found)
    frequent = sorted((count for word, count in counts.items() if any(map(str.isalpha, word))), reverse=True)
    assert sorted((counts[word] for word, _ in found), reverse=True) == frequent[:250]
    language_model = LanguageModel.load(model_directory)
    words = [word for word, _ in found]
    vectors, places = charts["vectors and places"]
    C = language_model.model.embed.C.numpy()
    np.testing.assert_array_equal(vectors, C[language_model.vocabulary.encode(words)])
    for expected, drawn in zip(draw_words(places, words).axes[0].texts, axes.texts, strict=True):
        assert expected.get_text() == drawn.get_text() and expected.get_gid() == drawn.get_gid()
        np.testing.assert_allclose(expected.get_position(), drawn.get_position())


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
        {"output_layer": "nce", "num_sampled": 3, "boundary": "stream"},
        pytest.param({}, marks=pytest.mark.long),
        pytest.param(
            {"output_layer": "adaptive", "cutoffs": "6", "hidden_units": 0, "direct_connections": True},
            marks=pytest.mark.long,
        ),
        pytest.param({"order": 2, "max_size": 3}, marks=pytest.mark.long),
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
    drawn = _Page(text[text.rindex("<svg") : text.rindex("</svg>") + 6]).of("text")
    kept = LanguageModel.load(tmp_path / "model").vocabulary.words[4:]
    expected = [word if len(word) <= 24 else word[:23] + "…" for word in kept if any(map(str.isalpha, word))]
    assert drawn == expected and "<script>alert(1)</scrip…" in drawn
    assert ("the training perplexity is unknown" in text) == (configuration.output_layer == "nce")
    assert len(kept) == (3 if "max_size" in options else 10)


def test_large_text_has_no_baseline_and_the_page_says_so(model_directory, metrics, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_nplm.training.report._MAX_BASELINE_TOKENS", 1000)
    monkeypatch.setattr("keras_nplm.training.report.kneser_ney", None)
    monkeypatch.setattr("keras_nplm.training.report.word_map", lambda vectors: vectors[:, :2])
    config = json.loads((model_directory / "config.json").read_text())
    write_run_report(tmp_path / "report.html", LanguageModel.load(model_directory), config, metrics)
    page = _Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert any("Without a Kneser–Ney model" in paragraph for paragraph in page.of("p"))
    assert "network" in page.of("td") and "KN 4-gram" not in page.of("td")


class _Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


@pytest.mark.long
def test_missing_report_is_written_by_the_next_call(tmp_path, monkeypatch, short_corpus, short_configuration, capsys):
    """A run that is killed while it writes the report, or cannot write it, is complete without it."""
    configuration = dataclasses.replace(short_configuration, epochs=1)
    rename = shutil.os.replace

    def kill(source, target):
        if target.name == "report.html":
            raise _Killed
        rename(source, target)

    with monkeypatch.context() as context:
        context.setattr("os.replace", kill)
        with pytest.raises(_Killed):
            train(configuration, short_corpus, tmp_path / "model")
    page = tmp_path / "model" / "report.html"
    assert (tmp_path / "model" / "metrics.json").exists() and not page.exists()

    def interrupt(*arguments):  # as h5py does if a signal comes while it reads a file
        try:
            raise KeyboardInterrupt
        finally:
            raise InputError("model.keras must be a whole model file.")

    with monkeypatch.context() as context:
        context.setattr("keras_nplm.training.train.write_run_report", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(configuration, short_corpus, tmp_path / "model")

    def fail(*arguments):
        raise RunError("The disk is full.")

    with monkeypatch.context() as context:
        context.setattr("keras_nplm.training.train.write_run_report", fail)
        metrics = train(configuration, short_corpus, tmp_path / "model")
    error = capsys.readouterr().err
    assert "report.html was not written: The disk is full. Fix: run the same command again" in error
    assert not page.exists()
    assert train(configuration, short_corpus, tmp_path / "model") == metrics
    assert b"Nearest words" in page.read_bytes()
    page.write_text("kept")
    train(configuration, short_corpus, tmp_path / "model")
    assert page.read_text() == "kept"
