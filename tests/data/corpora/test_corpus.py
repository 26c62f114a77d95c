import subprocess
import sys
from pathlib import Path

import pytest

from keras_nplm import InputError, open_corpus
from keras_nplm.data.corpora import SPLITS


def test_built_in_corpora_load_no_tensorflow():
    code = """if True:
    import sys, keras_nplm
    import keras_nplm.data.encoding, keras_nplm.data.ngram_arrays, keras_nplm.data.resampling
    corpus = keras_nplm.open_corpus()
    vocabulary = keras_nplm.Vocabulary.build(corpus.sentences("train"))
    assert len(keras_nplm.encode_sentences(corpus.sentences("test"), vocabulary))
    print(sorted({"keras", "tensorflow", "tensorflow_datasets"} & set(sys.modules)))
    """
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


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


def test_the_name_of_a_text_depends_on_files_sizes_and_split(tmp_path):
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
        open_corpus(train=a, resample=[(0.5, b)]).name,
        open_corpus(train=a, resample=[(0.4, b)]).name,
    }
    Path(paths[0]).write_text("a line\n" * 20 + "more\n")
    assert len(names | {open_corpus(train=a).name}) == 8


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
    with pytest.raises(InputError, match="name --train, or both --validation and --test"):
        open_corpus(resample=[(0.5, web)])
    corpus = open_corpus(resample=[(0.5, web)], validation=news, test=news)
    assert corpus.splits["train"].shares == ((1, 0.5),)


def test_invalid_names_and_shares_of_files_are_refused(tmp_path):
    for name in ("in.txt", "web.txt"):
        (tmp_path / name).write_text("a line\n" * 20)
    train, web = [str(tmp_path / "in.txt")], [str(tmp_path / "web.txt")]
    for share in (0, 2, float("nan"), -1, "x"):
        with pytest.raises(InputError, match=r"share of a text in an epoch must be a number in \(0, 1\]"):
            open_corpus(train=train, resample=[(share, web)])
    for resample in ([(0.5, train)], [(0.5, web), (1, [str(tmp_path / "*")])]):
        with pytest.raises(InputError, match=r"(in|web).txt is named twice"):
            open_corpus(train=train, resample=resample)
    with pytest.raises(InputError, match="No such text file: .*none"):
        open_corpus(train=[str(tmp_path / "none*")])
    with pytest.raises(InputError, match="--validation and --test need --train"):
        open_corpus(test=["text.txt"])
    with pytest.raises(InputError, match="--validation and --test must be given together"):
        open_corpus(train=train, test=web)
    with pytest.raises(InputError, match="`corpus` must be .* Received: 'penn'"):
        open_corpus("penn")


@pytest.mark.parametrize(
    "content, options, message",
    [
        (b"", {}, "text.txt is empty"),
        ("été".encode("latin1"), {}, r"text.txt is not UTF-8 text \(byte 0\).*iconv -f LATIN1"),
        (b"one\ntwo\n\xe9\n", {}, r"text.txt is not UTF-8 text \(byte 8\)"),
        ("text".encode("utf-16"), {}, "text.txt is not UTF-8.*iconv -f UTF-16 "),
        (b"the cat\nthe\0 cat\n", {}, "text.txt must not hold NUL characters. Received: one at byte 11"),
        (b"a\nb\nc\nd\n", {"fractions": (float("nan"),) * 3}, "must be three positive numbers"),
        (b"one line\n", {}, "1 lines of text are too few to split"),
        (b"a\nb\nc\nd\n", {"fractions": (0.5, 0.5, 0.5)}, "must be three positive numbers that sum to 1"),
        (b"a\n", {"tokenizer": "nltk"}, "`tokenizer` must be one of words, whitespace"),
    ],
)
def test_invalid_text_is_refused(tmp_path, content, options, message):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_corpus(train=[str(path)], **options)
