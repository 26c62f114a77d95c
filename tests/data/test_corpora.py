import hashlib
import itertools
import shutil
import subprocess
import sys
import types
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import tensorflow_datasets as tfds

from keras_nplm import InputError, Vocabulary, open_corpus
from keras_nplm.data.corpora import SPLITS
from keras_nplm.data.corpora.download import download_file


def _sizes(corpus):
    sentences = {split: list(corpus.sentences(split)) for split in SPLITS}
    return {split: (len(lines), sum(map(len, lines))) for split, lines in sentences.items()}


def test_the_embedded_default_is_real_english_of_about_65_000_tokens():
    corpus = open_corpus()
    sizes = _sizes(corpus)
    tokens = {split: size for split, (_, size) in sizes.items()}
    assert 55_000 < sum(tokens.values()) < 80_000
    assert 0.75 < tokens["train"] / sum(tokens.values()) < 0.9
    assert min(tokens.values()) > 4_000
    words = set(itertools.chain.from_iterable(corpus.sentences("train")))
    assert {"the", "expression", "raise", ".", ","} <= words


def test_no_paragraph_of_the_embedded_default_stands_in_two_splits():
    corpus = open_corpus()
    long = {split: {" ".join(s) for s in corpus.sentences(split) if len(s) > 12} for split in SPLITS}
    for one, other in itertools.combinations(SPLITS, 2):
        assert len(long[one] & long[other]) <= 0.01 * len(long[other])


def test_brown_has_the_papers_split_and_vocabulary(brown_directory):
    corpus = open_corpus("brown", data_dir=str(brown_directory))
    assert _sizes(corpus) == {"train": (35_523, 800_001), "validation": (11_690, 200_021), "test": (10_127, 161_170)}
    whole = list(itertools.chain.from_iterable(corpus.sentences(split) for split in SPLITS))
    assert len({token for sentence in whole for token in sentence}) == 56_057
    assert len(Vocabulary.build(whole, min_count=4)) == 4 + 17_904
    text = "\n".join(map(" ".join, whole))
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "28b2f182e6b966d0fae3b5f93f466a713e8461a8247444be21a1760789c7a870"
    )


def test_brown_with_marks_has_its_texts_and_paragraphs_told_apart(brown_directory):
    corpus = open_corpus("brown/marks", data_dir=str(brown_directory))
    tokens = list(itertools.chain.from_iterable(itertools.chain.from_iterable(map(corpus.sentences, SPLITS))))
    assert tokens[:3] == ["<text>", "<paragraph>", "The"]
    assert tokens.count("<text>") == 500
    assert sum(token not in ("<text>", "<paragraph>") for token in tokens) == 1_161_192


def test_built_in_corpora_load_no_tensorflow():
    code = """if True:
    import sys, keras_nplm
    import keras_nplm.data.encoding, keras_nplm.data.ngram_arrays, keras_nplm.data.shuffling, keras_nplm.data.resampling
    corpus = keras_nplm.open_corpus()
    vocabulary = keras_nplm.Vocabulary.build(corpus.sentences("train"))
    assert len(keras_nplm.encode_sentences(corpus.sentences("test"), vocabulary))
    print(sorted({"keras", "tensorflow", "tensorflow_datasets"} & set(sys.modules)))
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_damaged_archive_is_refused(tmp_path):
    (tmp_path / "brown.zip").write_bytes(b"not a zip file")
    with pytest.raises(InputError, match="brown.zip is damaged: its sha256 must be 9b27.* Fix: delete the file"):
        open_corpus("brown/plain", data_dir=str(tmp_path))


@pytest.mark.parametrize("name, file", [("brown/plain", "brown.zip"), ("tfds:tiny_shakespeare", "input.txt")])
def test_a_missing_download_names_its_url_and_data_dir(tmp_path, monkeypatch, name, file):
    def no_network(*args, **kwargs):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path / "prepared"))
    with pytest.raises(InputError, match=f"{file} is needed .*no network.*fetch it from http.*--data-dir"):
        open_corpus(name, data_dir=str(tmp_path))


def test_a_download_is_kept_in_the_data_directory_if_whole(tmp_path, monkeypatch):
    content = b"an archive"
    (tmp_path / "remote.zip").write_bytes(content)
    url, path = (tmp_path / "remote.zip").as_uri(), tmp_path / "data" / "local.zip"
    with pytest.raises(InputError, match="local.zip from file:.* is damaged"):
        download_file(url, "0" * 64, len(content), path)
    assert not path.exists()
    download_file(url, hashlib.sha256(content).hexdigest(), len(content), path)
    assert path.read_bytes() == content and [*path.parent.iterdir()] == [path]
    with pytest.raises(InputError, match="other.zip is needed and cannot be downloaded .*No such file.* --data-dir"):
        download_file(url.replace("remote", "other"), "0" * 64, len(content), tmp_path / "other.zip")


def test_a_tfds_set_gives_the_sentences_of_its_builder():
    corpus = open_corpus("tfds:python_reference", tokenizer="whitespace")
    for split in SPLITS:
        assert list(corpus.sentences(split)) == list(open_corpus().sentences(split))


@pytest.mark.long
def test_brown_as_a_tfds_set_is_the_built_in_corpus(brown_directory):
    builder_class = tfds.builder_cls("brown")
    for name, marks in {"plain": False, "marks": True}.items():
        builder = builder_class(config=name)
        manager = types.SimpleNamespace(download=lambda url: brown_directory / "brown.zip")
        corpus = open_corpus(f"brown/{name}", data_dir=str(brown_directory))
        for split, examples in builder._split_generators(manager).items():
            texts = [example["text"].split() for _, example in examples]
            assert texts == list(corpus.sentences(split)) and (texts[0][0] == "<text>") == (marks and split == "train")


def test_text_files_are_read_line_by_line(tmp_path):
    for name, text in {"a.txt": "\ufeffThe cat sat.\r\n\n", "b.txt": "It's late"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    one = str(tmp_path / "a.txt")
    corpus = open_corpus(train=[str(tmp_path / "*.txt"), one], validation=[one], test=[one])
    assert list(corpus.sentences("train")) == [["The", "cat", "sat", "."], ["It's", "late"]]
    corpus = open_corpus(train=[one], validation=[one], test=[one], tokenizer="whitespace")
    assert list(corpus.sentences("test")) == [["The", "cat", "sat."]]


def test_one_text_is_split_by_its_lines(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"line {i}\n\n" for i in range(10)))
    corpus = open_corpus(train=[str(path)], fractions=(0.6, 0.2, 0.2))
    lines = {split: [sentence[1] for sentence in corpus.sentences(split)] for split in SPLITS}
    assert lines == {"train": list("012345"), "validation": list("67"), "test": list("89")}


def test_the_name_of_a_text_tells_files_sizes_and_split(tmp_path):
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        Path(path).write_text("a line\n" * 20)
    a, b, c = ([path] for path in paths)
    names = {
        open_corpus(train=paths).name,
        open_corpus(train=a, validation=b, test=c).name,
        open_corpus(train=a, validation=c, test=b).name,
        open_corpus(train=a).name,
        open_corpus(train=a, fractions=(0.6, 0.2, 0.2)).name,
    }
    Path(paths[0]).write_text("a line\n" * 20 + "more\n")
    assert len(names | {open_corpus(train=a).name}) == 6


@pytest.mark.parametrize(
    "content, options, message",
    [
        (b"", {}, "text.txt is empty"),
        ("été".encode("latin1"), {}, r"text.txt is not UTF-8 text \(byte 0\)"),
        (b"one\ntwo\n\xe9\n", {}, r"text.txt is not UTF-8 text \(byte 8\)"),
        ("text".encode("utf-16"), {}, "text.txt is not UTF-8"),
        ("text".encode("utf-16-le"), {}, r"text.txt is not UTF-8 text \(byte 1\)"),
        (b"a\nb\nc\nd\n", {"fractions": (float("nan"),) * 3}, "must be three positive numbers"),
        (b"one line\n", {}, "1 lines of text are too few to split"),
        (b"a\nb\nc\nd\n", {"fractions": (0.5, 0.5, 0.5)}, "must be three positive numbers that sum to 1"),
        (b"a\n", {"tokenizer": "nltk"}, "`tokenizer` must be one of words, whitespace"),
    ],
)
def test_bad_text_is_refused(tmp_path, content, options, message):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_corpus(train=[str(path)], **options)


def test_names_that_stand_for_nothing_are_refused(tmp_path):
    with pytest.raises(InputError, match="No such text file: .*none"):
        open_corpus(train=[str(tmp_path / "none*")])
    with pytest.raises(InputError, match="--validation and --test need --train"):
        open_corpus(test=["text.txt"])
    with pytest.raises(InputError, match="`corpus` must be .* Received: 'penn'"):
        open_corpus("penn")
    with pytest.raises(InputError, match="TFDS has no set 'no_such_set'"):
        open_corpus("tfds:no_such_set")
    shutil.rmtree(tmp_path)


def test_the_default_corpus_needs_no_network_and_writes_nothing(tmp_path, monkeypatch, capfd):
    def no_network(*args, **kwargs):
        raise AssertionError("the embedded default must not use the network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    for name in ("HOME", "TFDS_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    assert next(open_corpus().sentences("train"))
    assert not list(tmp_path.iterdir()) and capfd.readouterr() == ("", "")
