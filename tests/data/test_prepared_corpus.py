"""`keras-nplm prepare`: its directory gives the models of the text itself, without counting or
encoding again.
"""

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from keras_nplm import Corpus, InputError, encode_sentences, estimate, open_corpus
from keras_nplm.cli.main import main
from keras_nplm.training.options import TextOptions
from keras_nplm.training.prepare import prepare_corpus
from tests.files import read_untimed_files

LINES = [f"the cat number {i % 7} sat on mat {i % 11}, été" for i in range(60)]


@pytest.fixture
def text(tmp_path) -> str:
    (tmp_path / "text.txt").write_text(
        "\n".join(LINES).replace(" 9, été", " 9, été\n"), encoding="utf-8"
    )
    return str(tmp_path / "text.txt")


@pytest.mark.parametrize("boundary", ["sentence", "text"])
def test_a_model_of_prepared_text_is_that_of_the_text(tmp_path, monkeypatch, text, boundary):
    flags = "--tokenizer whitespace --normalise lower numbers --min-count 4"
    flags += " --set vocabulary_scope=corpus"
    flags += f" --boundary {boundary}"
    source = ["--train", text, *flags.split()]
    model = tmp_path / "model"
    prepared = tmp_path / "prepared"
    assert main(["ngram", *source, "--output", str(model)]) == 0
    assert main(["prepare", *source, "--output", str(prepared)]) == 0
    before = read_untimed_files(prepared)
    assert main(["prepare", *source, "--output", str(prepared)]) == 0
    assert read_untimed_files(prepared) == before
    os.remove(text)  # it is not counted or encoded again
    for name in ("linked", "copied"):
        assert main(["ngram", "--corpus", str(prepared), "--output", str(tmp_path / name)]) == 0
        assert read_untimed_files(tmp_path / name) == read_untimed_files(model)
        shard = tmp_path / name / "corpus" / "train.00000.ids"
        assert shard.samefile(prepared / "corpus" / "train.00000.ids") == (name == "linked")
        monkeypatch.setattr(
            "os.link", Mock(side_effect=OSError(errno.EXDEV, "Invalid cross-device link"))
        )


@pytest.mark.parametrize("name", ["brown/marks", "python_reference"])
def test_a_prepared_directory_named_as_a_text_is_not_ignored(here, run, text, name):
    printed = run(f"prepare --train {text} --tokenizer whitespace --output {name}").out
    assert f"--corpus ./{name} --output" in printed
    with pytest.raises(InputError, match=f"Received: '{name}'.* Fix: name the .* ./{name},"):
        open_corpus(name)
    assert open_corpus(f"./{name}").tokenizer == "whitespace"


def test_a_prepared_corpus_has_the_sentences_of_its_ids(tmp_path, text):
    encoded, vocabulary = prepare_corpus(
        open_corpus(train=[text]), tmp_path / "prepared", TextOptions(min_count=20)
    )
    corpus = open_corpus(str(tmp_path / "prepared"))
    sentence = " ".join(next(corpus.sentences("train")))
    assert sentence == "the cat number <unk> sat on mat <unk> , été"
    for split in ("train", "validation", "test"):
        assert (encode_sentences(corpus.sentences(split), vocabulary) == encoded.ids(split)).all()
    prepare_corpus(open_corpus(train=[text], tokenizer="sentencepiece"), tmp_path / "subwords")
    assert list(open_corpus(str(tmp_path / "subwords")).sentences("test")) == LINES[54:]


def test_all_lines_are_prepared_for_training(here, run, text):
    printed = run(f"prepare --train {text} --all --output prepared").out
    assert [line.split()[0] for line in printed.splitlines()[2:-1]] == ["train"]
    run("ngram --corpus prepared --order 2 --output model")
    refused = run("ngram --corpus prepared --order 2 --all --output other", status=2).err
    assert "prepare the text again by `keras-nplm prepare --all`" in refused


def test_prepared_text_keeps_its_options(here, run, messages, text):
    run(f"prepare --train {text} --min-count 3 --output prepared")
    use = "ngram --corpus prepared --output model"
    again = f"prepare --train {text} --output prepared"

    def refuse(command):
        messages.add(run(command, status=2).err.splitlines()[-1])

    for command in (
        f"{use} --min-count 2",
        f"{use} --boundary text",
        f"{use} --tokenizer whitespace",
        f"{again} --min-count 2",
        "prepare --corpus python_reference --output prepared",
        f"ngram --train {text} --output prepared",
        "prepare --corpus prepared --output p",
    ):
        refuse(command)
    assert not Path("model").exists()
    assert open_corpus("prepared").tokenizer == "words"
    Path("prepared", "corpus", "test.00000.ids").unlink()
    refuse(use)


def test_prepared_texts_of_one_name_are_not_taken_for_each_other(tmp_path):
    """The sentences of a Python function have a name, and no checksum."""
    for name, words in (("a", "the cat"), ("b", "a dog")):
        sentences = [words.split()] * 9
        splits = dict.fromkeys(("train", "validation", "test"), sentences.__iter__)
        prepare_corpus(Corpus("db", "whitespace", splits), tmp_path / name)
    first, second = (open_corpus(str(tmp_path / name)) for name in "ab")
    estimate("kneser-ney", first, tmp_path / "model", order=2)
    with pytest.raises(InputError, match="holds a run with other options: shards"):
        estimate("kneser-ney", second, tmp_path / "model", order=2)
