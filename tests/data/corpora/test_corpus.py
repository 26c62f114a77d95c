import urllib.request

import pytest

from keras_nplm import InputError, open_corpus
from keras_nplm.data.corpora import SPLITS


def test_the_default_corpus_needs_no_network_and_writes_nothing(tmp_path, monkeypatch, capfd):
    def no_network(*args, **kwargs):
        raise AssertionError("the embedded default must not use the network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    for name in ("HOME", "TFDS_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    sentences = {split: list(open_corpus().sentences(split)) for split in SPLITS}
    assert not list(tmp_path.iterdir()) and capfd.readouterr() == ("", "")
    tokens = {split: sum(map(len, found)) for split, found in sentences.items()}
    assert 55_000 < sum(tokens.values()) < 80_000 and min(tokens.values()) > 4_000
    assert 0.75 < tokens["train"] / sum(tokens.values()) < 0.9
    long = {split: {" ".join(s) for s in found if len(s) > 12} for split, found in sentences.items()}
    for one, two in (("train", "validation"), ("train", "test"), ("validation", "test")):  # no paragraph is in both
        assert len(long[one] & long[two]) <= 0.01 * len(long[two])


def test_text_files_are_read_line_by_line(tmp_path):
    for name, text in {"a.txt": "\ufeffThe cat sat.\r\n\n", "b.txt": "It's late"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    one = str(tmp_path / "a.txt")
    corpus = open_corpus(train=[str(tmp_path / "*.txt"), one], validation=[one], test=[one])
    assert list(corpus.sentences("train")) == [["The", "cat", "sat", "."], ["It's", "late"]]
    corpus = open_corpus(train=[one], validation=[one], test=[one], tokenizer="whitespace")
    assert list(corpus.sentences("test")) == [["The", "cat", "sat."]]


def test_only_text_that_is_not_resampled_is_split_by_lines(tmp_path):
    lines = {name: [f"{name} {i}" for i in range(20)] for name in ("news", "web")}
    for name, text in lines.items():
        (tmp_path / name).write_text("\n".join(text))
    news, web = [str(tmp_path / "news")], [str(tmp_path / "web")]
    corpus = open_corpus(train=news, resample=[(0.5, web)])
    sentences = {split: list(map(" ".join, corpus.sentences(split))) for split in SPLITS}
    assert sentences["train"] == lines["news"][:16] + lines["web"]
    assert sentences["validation"] + sentences["test"] == lines["news"][16:]
    assert corpus.splits["train"].shares == ((1, 1.0), (1, 0.5))
    with pytest.raises(InputError, match="name --train, or --validation and --test"):
        open_corpus(resample=[(0.5, web)])
    corpus = open_corpus(resample=[(0.5, web)], validation=news, test=news)
    assert corpus.splits["train"].shares == ((1, 0.5),)
