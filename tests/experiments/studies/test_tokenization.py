"""The study of tokenization: its texts, its rows, and the figures of a small network."""

import lzma
import shlex

import pytest

from keras_nplm import Configuration, EncodedCorpus, InputError, evaluate, kneser_ney, open_corpus, train
from keras_nplm.cli.main import build_parser, main
from keras_nplm.experiments.studies import tokenization as study

PAGE = """<html><head><title>T</title><style>p {}</style></head><body><div class="nav">Home</div>
<h1 class="title">1.1. Ein <em>Titel</em></h1><p>Ein Absatz,
 der  umbricht.</p><pre class="screen"># apt install x</pre><ul><li><p>Punkt eins</p></li><li>x</li></ul>
<p>Ein <code>Wort</code>.</p></body></html>"""


def test_each_different_paragraph_is_one_line(tmp_path):
    (tmp_path / "a.html").write_text(PAGE, encoding="utf-8")
    (tmp_path / "b.html").write_text(PAGE + "<p>Später</p>", encoding="utf-8")
    expected = ["Home", "1.1. Ein Titel", "Ein Absatz, der umbricht.", "Punkt eins", "Ein Wort.", "Später"]
    assert study.read_paragraphs(tmp_path) == expected
    with pytest.raises(InputError, match="must hold the HTML pages"):
        study.read_paragraphs(tmp_path / "absent")


def test_texts_are_split_in_their_order_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "_TEXTS", {"german": "German"})
    (tmp_path / "pages" / "de-DE").mkdir(parents=True)
    lines = [f"Absatz {number}." for number in range(20)]
    (tmp_path / "pages" / "de-DE" / "a.html").write_text("".join(f"<p>{line}</p>" for line in lines))
    for _ in range(2):
        study.write_texts(tmp_path / "texts", None, str(tmp_path / "pages"))
        files = [
            tmp_path / "texts" / "tokenization" / f"german.{split}.txt" for split in ("train", "validation", "test")
        ]
        texts = [path.read_text().split("\n")[:-1] for path in files]
        assert texts == [lines[:16], lines[16:18], lines[18:]]
        (tmp_path / "pages" / "de-DE" / "a.html").unlink(missing_ok=True)  # not read again
    bits = study.measure_xz(files[0], files[2])
    whole = b"".join(path.read_bytes() for path in (files[0], files[2]))
    size = len(lzma.compress(whole, preset=9)) - len(lzma.compress(files[0].read_bytes(), preset=9))
    assert bits == 8 * size / len(files[2].read_text())


def test_rows_are_commands_with_their_own_names():
    assert len({row.name for row in study.ROWS}) == len(study.ROWS) == 20
    parser = build_parser()
    for row in study.ROWS:
        assert shlex.join(row.arguments) == shlex.join(shlex.split(row.command))
        assert parser.parse_args([*row.arguments, "--output", "x"]).command == "train"


def test_other_studies_take_no_pages(tmp_path, capsys):
    assert main(["study", "modern", "--pages", "texts", "--output", str(tmp_path / "paper")]) == 2
    assert "`--pages` must be left out with the study modern" in capsys.readouterr().err
    assert not (tmp_path / "paper").exists()


def test_the_pages_of_the_user_are_read(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "_TEXTS", {"german": "German"})
    assert main(["study", "tokenization", "--pages", str(tmp_path), "--output", str(tmp_path / "paper")]) == 2
    assert f"{tmp_path / 'de-DE'} must hold the HTML pages" in capsys.readouterr().err


@pytest.mark.long
def test_figures_are_of_the_network_and_the_best_kneser_ney_model(tmp_path, monkeypatch):
    files = {}
    for number, split in enumerate(("train", "validation", "test")):
        path = tmp_path / "texts" / "tokenization" / f"german.{split}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"das ist {'ein ' * (i % 3)}Satz {i % (5 + number)}.\n" for i in range(90)))
        files[split] = [str(path)]
    options = dict(order=3, averages_after="", embedding_dim=8, hidden_units=8, epochs=1, min_count=1)
    monkeypatch.setattr(study, "_TEXTS", {"german": "German"})
    monkeypatch.setattr(study, "_TOKENIZERS", {"words": "", "characters": ""})
    for tokenizer in ("words", "characters"):
        corpus = open_corpus(**files, tokenizer=tokenizer)
        metrics = train(Configuration(**options), corpus, tmp_path / "rows" / f"german-{tokenizer}")
    report = study.measure(tmp_path / "rows")
    (text,) = report["texts"]
    characters = text["models"][1]
    assert characters["test"]["perplexity"] == metrics["test"]["perplexity"]
    assert 0 < characters["bytes_8_bits"] <= characters["bytes"]
    assert text["models"][0]["test"]["characters"] == characters["test"]["characters"]
    encoded = EncodedCorpus.load(tmp_path / "rows" / "german-characters" / "corpus")
    perplexities = {}
    for order in (4, 6, 8, 10):
        model = kneser_ney(encoded.ids("train"), encoded.vocabulary_size, order)
        perplexities[order] = [evaluate(model, encoded.ids(split))["perplexity"] for split in ("validation", "test")]
    best = min(perplexities, key=lambda order: perplexities[order][0])
    assert characters["kneser_ney"]["order"] == best
    assert characters["kneser_ney"]["perplexity"] == perplexities[best][1]
    monkeypatch.setattr(study, "measure_model", None)  # kept beside each model
    assert study.measure(tmp_path / "rows") == report
    assert study.format_report(report).count("\n") == 3
