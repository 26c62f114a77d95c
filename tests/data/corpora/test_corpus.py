"""Corpora by name and from text files, their splits and their downloads."""

import hashlib
import itertools
import pydoc_data.topics
import types
import urllib.error
import urllib.request
from pathlib import Path
from unittest.mock import Mock

import pytest

from keras_nplm import InputError, Vocabulary, open_corpus
from keras_nplm.data.corpora import chunks, python_reference
from keras_nplm.data.corpus import SPLITS
from keras_nplm.io.files import remove_contents


def test_the_default_corpus_needs_no_network_and_writes_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(urllib.request, "urlopen", None)
    for name in ("HOME", "TFDS_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    sentences = {split: list(open_corpus().sentences(split)) for split in SPLITS}
    assert not list(tmp_path.iterdir()) and capfd.readouterr() == ("", "")
    tokens = {split: sum(map(len, found)) for split, found in sentences.items()}
    assert 40_000 < sum(tokens.values()) < 60_000
    assert 0.75 < tokens["train"] / sum(tokens.values()) < 0.9
    # no paragraph is in both
    train, *held_out = (
        {" ".join(words) for words in found if len(words) > 12} for found in sentences.values()
    )
    for long in held_out:
        assert len(train & long) <= 0.01 * len(long)
    whole = open_corpus(all_lines=True)
    assert whole.name == "python_reference all"
    assert [*whole.sentences("train")] == [*itertools.chain(*sentences.values())]


def test_the_markup_of_later_versions_of_python_is_removed_too(monkeypatch):
    text = """\
The ``del`` statement
*******************

Deletion is *recursively* defined, see `Names`.  In **all** cases [1]:

   del_stmt ::= "del" target_list

   del x, y

* A name that is "unbound" raises a "NameError".

+---+
| a |
+---+
"""
    monkeypatch.setattr(pydoc_data.topics, "topics", {"the del statement": text})
    assert list(python_reference.read_split("train")) == [
        "Deletion is recursively defined, see Names.",
        "In all cases:",
        "A name that is unbound raises a NameError.",
    ]


def test_lines_are_split_at_random_wherever_the_text_is_cut(tmp_path, monkeypatch):
    lines = [f"line {i}" for i in range(4000)]
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    Path(names[0]).write_text("\n".join([*lines[:3000], "", "line 7"]))
    Path(names[1]).write_text("\n".join([*lines[3000:], "line 7"]))
    corpus = open_corpus(train=names, shuffle=True)
    sentences = {split: [" ".join(line) for line in corpus.sentences(split)] for split in SPLITS}
    assert sorted(itertools.chain(*sentences.values())) == sorted([*lines, "line 7", "line 7"])
    assert 3100 < len(sentences["train"]) < 3300
    assert 340 < len(sentences["test"]) < 460
    # in the order of the text; equal lines are together
    numbers = [int(line.split()[1]) for line in sentences["train"] if line != "line 7"]
    assert numbers == sorted(numbers)
    assert sorted(found.count("line 7") for found in sentences.values()) == [0, 0, 3]
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 500)
    cut = open_corpus(train=names, shuffle=True)
    for split in SPLITS:
        assert [" ".join(line) for line in cut.sentences(split)] == sentences[split]


@pytest.mark.parametrize(
    "name, file", [("brown/plain", "brown.zip"), ("tfds:tiny_shakespeare", "input.txt")]
)
def test_without_a_network_the_error_names_url_and_data_dir(tmp_path, monkeypatch, name, file):
    monkeypatch.setattr(
        urllib.request, "urlopen", Mock(side_effect=urllib.error.URLError("no network"))
    )
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path / "prepared"))
    with pytest.raises(
        InputError, match=f"{file} is needed .*no network.*fetch it from http.*--data-dir"
    ):
        open_corpus(name, data_dir=str(tmp_path))


@pytest.mark.long
def test_brown_has_the_split_and_vocabulary_of_the_paper(brown_directory):
    corpus = open_corpus("brown", data_dir=str(brown_directory))
    sentences = {split: list(corpus.sentences(split)) for split in SPLITS}
    sizes = [(len(lines), sum(map(len, lines))) for lines in sentences.values()]
    assert sizes == [(35_523, 800_001), (11_690, 200_021), (10_127, 161_170)]
    whole = list(itertools.chain.from_iterable(sentences.values()))
    assert len(Vocabulary.build(whole, min_count=4)) == 4 + 17_904
    checksum = hashlib.sha256("\n".join(map(" ".join, whole)).encode()).hexdigest()
    assert checksum == "28b2f182e6b966d0fae3b5f93f466a713e8461a8247444be21a1760789c7a870"


@pytest.mark.long
def test_the_brown_builder_has_the_sentences_of_the_corpus(brown_directory):
    import tensorflow_datasets as tfds

    import keras_nplm.data.corpora.tfds_builders  # noqa: F401  TFDS knows `brown` after it

    def download(url):
        return brown_directory / "brown.zip"

    manager = types.SimpleNamespace(download=download)
    corpus = open_corpus("brown/marks", data_dir=str(brown_directory))
    builder = tfds.builder_cls("brown")(config="marks")
    for split, examples in builder._split_generators(manager).items():
        lines = [example["text"].split() for _, example in examples]
        assert [words for words in lines if words] == list(corpus.sentences(split))
    assert next(corpus.sentences("train"))[:2] == ["<text>", "<paragraph>"]


def test_the_name_of_a_corpus_of_many_files_is_bounded(tmp_path):
    for number in range(400):
        (tmp_path / f"{number:0200}.txt").write_text("the cat\n")
    first = tmp_path / f"{0:0200}.txt"
    train = [str(tmp_path / "*.txt")]
    name = open_corpus(train=train).name
    assert f"text {first} and 399 more files (3200 bytes, crc32 " in name and len(name) < 1000
    assert open_corpus(train=train).name == name
    (tmp_path / f"{7:0200}.txt").write_text("the dog\n")
    changed = open_corpus(train=train).name
    assert changed != name and remove_contents(changed) == remove_contents(name)


def test_training_files_that_are_held_out_are_named(tmp_path, capsys):
    for name in ("train.txt", "web.txt", "new.txt"):
        (tmp_path / name).write_text("the cat\n", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(tmp_path / "train.txt")
    train, web, new, link = (
        str(tmp_path / f"{name}.txt") for name in ("train", "web", "new", "link")
    )
    open_corpus(train=[train], resample=[(0.5, [web])], validation=[new])
    assert not capsys.readouterr().err
    open_corpus(train=[train], resample=[(0.5, [web])], validation=[new, link], test=[web])
    first, second = capsys.readouterr().err.splitlines()
    assert f"the validation file {link} is a training file, too" in first
    assert f"the test file {web} is a training file, too" in second


def test_only_text_that_is_not_resampled_is_split_by_lines(tmp_path):
    """Splits that are not named do not exist where one is, or all lines are of training."""
    for name in ("news", "web"):
        (tmp_path / name).write_text("\n".join(f"{name} {i}" for i in range(20)))
    news, web = ([str(tmp_path / name)] for name in ("news", "web"))
    all_news, all_web = ([[name, str(i)] for i in range(20)] for name in ("news", "web"))
    shared = {"resample": [(0.5, web)]}
    for options, expected in (
        (shared, {"train": all_news[:16] + all_web}),
        ({"all_lines": True}, {"train": all_news}),
        ({"all_lines": True, **shared}, {"train": all_news + all_web}),
        ({"validation": web}, {"train": all_news, "validation": all_web}),
        ({"test": web}, {"train": all_news, "test": all_web}),
    ):
        corpus = open_corpus(train=news, **options)
        found = {split: [*corpus.sentences(split)] for split in corpus.splits}
        if options == shared:
            assert found.pop("validation") + found.pop("test") == all_news[16:]
            assert corpus.splits["train"].shares == ((1, 1.0), (1, 0.5))
        assert found == expected and corpus.name.endswith(" all") == ("all_lines" in options)
    corpus = open_corpus(validation=news, test=news, **shared)
    assert corpus.splits["train"].shares == ((1, 0.5),)
