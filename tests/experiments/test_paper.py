"""Table 1: its rows, and the report on small versions of them, made by their commands on Brown."""

import json

import numpy as np
import pytest

from keras_nplm import CONFIGURATIONS, NPLM, EncodedCorpus, InputError, LanguageModel, Vocabulary
from keras_nplm.cli.main import main
from keras_nplm.experiments import paper
from keras_nplm.experiments.paper_rows import PAPER_ROWS, find_row
from keras_nplm.experiments.rows import Row

TINY = "--embedding-dim 4 --hidden-units 4 --batch-size 4096 --epochs 1"
SMALL_ROWS = (
    Row("mlp1", "MLP1", f"train --config mlp1 {TINY}", (284, 268), ("MLP2", 275, 257)),
    find_row("trigram"),
    find_row("kneser-ney-5"),
)


def test_every_row_of_table_1_exists():
    figures = {
        **{"MLP1": (284, 268), "MLP3": (327, 310), "MLP5": (296, 279), "MLP7": (309, 293), "MLP9": (280, 276)},
        **{"MLP2": (275, 257), "MLP4": (286, 272), "MLP6": (273, 259), "MLP8": (284, 270), "MLP10": (265, 252)},
    }
    rows = {row.title: row.paper for row in PAPER_ROWS} | {
        row.mixed[0]: row.mixed[1:] for row in PAPER_ROWS if row.mixed
    }
    assert figures.items() <= rows.items()
    assert sum(row.name.startswith("kneser-ney") for row in PAPER_ROWS) == 3
    assert sum(row.name.startswith("class") for row in PAPER_ROWS) == 7
    shapes = {"mlp1": (5, 50, 60, True), "mlp3": (5, 0, 60, True), "mlp5": (5, 50, 30, True), "mlp7": (3, 50, 30, True)}
    for name, shape in (shapes | {"mlp9": (5, 100, 30, False)}).items():
        c = CONFIGURATIONS[name]
        assert (c.order, c.hidden_units, c.embedding_dim, c.direct_connections) == shape


def test_the_papers_learning_rate_is_summed_over_the_batch():
    c = CONFIGURATIONS["mlp1-paper"]
    assert c.learning_rate / c.batch_size == pytest.approx(1e-3)
    assert c.decay_rate / c.batch_size == pytest.approx(1e-8)
    assert (c.weight_decay, c.schedule, c.optimizer) == (1e-4, "inverse-time", "sgd")


@pytest.mark.long
def test_rows_are_made_resumed_and_reported(tmp_path, brown_directory, monkeypatch, capsys):
    monkeypatch.setattr(paper, "PAPER_ROWS", SMALL_ROWS)
    command = ["paper", "--output", str(tmp_path), "--data-dir", str(brown_directory), "--json"]
    assert main([*command, "--rows", "kneser-ney-5"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in report["rows"]] == ["kneser-ney-5"]
    assert report["rows"][0]["test"] == pytest.approx(329.86, abs=0.05)
    assert main([*command, "--jobs", "2"]) == 0
    out, err = capsys.readouterr()
    assert "[2/2]" in err and "kneser-ney-5: made" not in err  # finished rows are kept
    report = json.loads(out)
    figures = {row["name"]: row for row in report["rows"]}
    assert set(figures) == {row.name for row in SMALL_ROWS}
    half, fitted = (m for m in report["mixtures"] if m["title"].startswith("MLP2"))
    assert half["weights"] == [0.5, 0.5] and half["paper"] == [275, 257]
    alone = min(figures["mlp1"]["validation"], figures["trigram"]["validation"])
    assert fitted["validation"] <= min(half["validation"], alone) + 0.01  # one event more than the text's is in the fit
    scores = np.load(tmp_path / "log_probs" / "mlp1.npz"), np.load(tmp_path / "log_probs" / "trigram.npz")
    both = np.log(0.5 * np.exp(scores[0]["test"].astype(float)) + 0.5 * np.exp(scores[1]["test"].astype(float)))
    assert half["test"] == pytest.approx(np.exp(-both.mean()), rel=1e-6)
    unseen = report["unseen"]
    encoded = EncodedCorpus.load(tmp_path / "rows" / "kneser-ney-5" / "corpus")
    train, test = (encoded.ids(split) for split in ("train", "test"))
    train, test = train[train != 3].tolist(), [0] * 4 + test[test != 3].tolist()
    seen = set(zip(*(train[i:] for i in range(5)), strict=False))
    expected = [five not in seen for five in zip(*(test[i:] for i in range(5)), strict=False)]
    assert (unseen["tokens"], unseen["unseen_tokens"]) == (len(expected), sum(expected)) == (161_170, sum(expected))
    means = unseen["mean_log_prob"]["kneser-ney-5"]
    share = unseen["unseen_tokens"] / unseen["tokens"]
    whole = share * means["unseen"] + (1 - share) * means["seen"]
    assert np.exp(-whole) == pytest.approx(figures["kneser-ney-5"]["test"], rel=1e-5)
    five = next(row for row in report["parameters"] if row["order"] == 5)
    assert five["network"] == 17905 * (1 + 300 + 50) + 50 * (1 + 240) and five["possible_ngrams"] == 17905**5
    markdown = (tmp_path / "table.md").read_text()
    assert f"| MLP1 | 284 | 268 | {figures['mlp1']['validation']:.1f} |" in markdown


def test_neighbours_and_map_are_those_of_the_word_vectors(monkeypatch):
    vocabulary = Vocabulary([*(f"w{chr(97 + i)}" for i in range(26)), "class", "1984", "may"])
    language_model = LanguageModel(NPLM(len(vocabulary), order=3, embedding_dim=8, hidden_units=2), vocabulary, "words")
    monkeypatch.setattr(paper, "_QUERIES", ("class", "zyzzyva", "may"))
    monkeypatch.setattr(paper, "_MAP_WORDS", 27)
    words = paper._report_words(language_model)
    assert list(words["nearest"]) == ["class", "may"]
    for word, pairs in words["nearest"].items():
        assert pairs == [[other, round(cosine, 3)] for other, cosine in language_model.nearest(word, 6)]
    assert [word for word, *_ in words["map"]] == vocabulary.words[4:31]
    assert np.abs([point for _, *point in words["map"]]).max() == 1


@pytest.mark.long
def test_rows_are_reported_when_another_row_fails(tmp_path, brown_directory, monkeypatch, capsys):
    broken = Row("broken", "broken", "ngram --order 1")
    monkeypatch.setattr(paper, "PAPER_ROWS", (broken, SMALL_ROWS[-1]))
    assert main(["paper", "--output", str(tmp_path), "--data-dir", str(brown_directory)]) == 1
    error = capsys.readouterr().err
    assert "1 row(s) failed: broken" in error and "`order`" in error
    assert "kneser-ney-5" in (tmp_path / "table.md").read_text()


def test_unknown_rows_are_refused(tmp_path):
    with pytest.raises(InputError, match="must be names of mlp1, mlp3.* Received: 'mlp11'"):
        paper.reproduce(tmp_path / "paper", rows=["mlp11"])
    with pytest.raises(InputError, match="`jobs` must be 1 or more"):
        paper.reproduce(tmp_path / "paper", jobs=-1)
    assert not (tmp_path / "paper").exists()
