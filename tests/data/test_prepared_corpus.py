"""`keras-nplm prepare`: its directory gives the models of the text itself, without counting or
encoding again.
"""

import errno
import os
from unittest.mock import Mock

import pytest

import keras_nplm.training.prepare as prepare
from keras_nplm import EncodedCorpus, InputError, encode_sentences, open_corpus
from keras_nplm.cli.main import main
from keras_nplm.training.options import TextOptions
from keras_nplm.training.prepare import prepare_corpus

LINES = [f"the cat number {i % 7} sat on mat {i % 11}, été" for i in range(60)]


@pytest.fixture
def text(tmp_path) -> str:
    (tmp_path / "text.txt").write_text(
        "\n".join(LINES).replace(" 9, été", " 9, été\n"), encoding="utf-8"
    )
    return str(tmp_path / "text.txt")


@pytest.mark.parametrize("boundary", ["sentence", "text"])
def test_a_model_of_prepared_text_is_that_of_the_text(
    tmp_path, monkeypatch, text, read_files, boundary
):
    flags = "--tokenizer whitespace --normalise lower numbers --min-count 4"
    flags += " --set vocabulary_scope=corpus"
    flags += f" --boundary {boundary}"
    source = ["--train", text, *flags.split()]
    model = tmp_path / "model"
    prepared = tmp_path / "prepared"
    assert main(["ngram", *source, "--output", str(model)]) == 0
    assert main(["prepare", *source, "--output", str(prepared)]) == 0
    for name in ("count_vocabulary", "encode_corpus"):
        monkeypatch.setattr(prepare, name, None)  # the text is not counted or encoded again
    before = read_files(prepared)
    assert (
        main(["prepare", *source, "--output", str(prepared)]) == 0
        and read_files(prepared) == before
    )
    os.remove(text)
    for name in ("linked", "copied"):
        assert main(["ngram", "--corpus", str(prepared), "--output", str(tmp_path / name)]) == 0
        assert read_files(tmp_path / name) == read_files(model)
        shard = tmp_path / name / "corpus" / "train.00000.ids"
        assert shard.samefile(prepared / "corpus" / "train.00000.ids") == (name == "linked")
        monkeypatch.setattr(
            "os.link", Mock(side_effect=OSError(errno.EXDEV, "Invalid cross-device link"))
        )


def test_a_symbolic_link_is_linked_to_its_shard(tmp_path, text):
    prepared = tmp_path / "prepared"
    prepare_corpus(open_corpus(train=[text]), prepared)
    (prepared / "store").mkdir()
    for path in [*(prepared / "corpus").iterdir()]:
        path.rename(prepared / "store" / path.name)
        path.symlink_to(f"../store/{path.name}")
    encoded = EncodedCorpus.load(prepared / "corpus").link(tmp_path / "model")
    shard = tmp_path / "model" / "train.00000.ids"
    assert not shard.is_symlink() and len(encoded.ids("train"))


def test_an_interrupted_preparation_does_not_count_again(tmp_path, monkeypatch, text):
    corpus = open_corpus(train=[text])
    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr(prepare, "encode_corpus", Mock(side_effect=KeyboardInterrupt))
        prepare_corpus(corpus, tmp_path / "prepared")
    monkeypatch.setattr(prepare, "count_vocabulary", None)
    _, vocabulary = prepare_corpus(corpus, tmp_path / "prepared")
    assert "cat" in vocabulary.words


@pytest.mark.parametrize("name", ["brown/marks", "python_reference"])
def test_a_prepared_directory_named_as_a_text_is_not_ignored(
    tmp_path, monkeypatch, capsys, text, name
):
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", "--train", text, "--tokenizer", "whitespace", "--output", name]) == 0
    assert f"--corpus ./{name} --output" in capsys.readouterr().out
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


def test_all_lines_are_prepared_for_training(tmp_path, capsys, text):
    command = ["prepare", "--train", str(text), "--all", "--output", str(tmp_path / "prepared")]
    assert main(command) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:-1]] == ["train"]
    ngram = ["ngram", "--corpus", str(tmp_path / "prepared"), "--order", "2"]
    assert main([*ngram, "--output", str(tmp_path / "model")]) == 0
    assert main([*ngram, "--all", "--output", str(tmp_path / "other")]) == 2
    assert "prepare the text again by `keras-nplm prepare --all`" in capsys.readouterr().err


def test_prepared_text_keeps_its_options(tmp_path, capsys, messages, text):
    prepared = tmp_path / "prepared"
    assert main(["prepare", "--train", text, "--min-count", "3", "--output", str(prepared)]) == 0
    use = f"ngram --corpus {prepared} --output {tmp_path}/model"
    again = f"prepare --train {text} --output {prepared}"

    def refuse(command):
        assert main(command.split()) == 2
        messages.add(capsys.readouterr().err.splitlines()[-1])

    for command in (
        f"{use} --min-count 2",
        f"{use} --boundary text",
        f"{use} --tokenizer whitespace",
        f"{again} --min-count 2",
        f"prepare --corpus python_reference --output {prepared}",
        f"ngram --train {text} --output {prepared}",
        f"prepare --corpus {prepared} --output {tmp_path}/p",
    ):
        refuse(command)
    assert not (tmp_path / "model").exists()
    assert open_corpus(str(prepared)).tokenizer == "words"
    (prepared / "corpus" / "test.00000.ids").unlink()
    refuse(use)
    (prepared / "manifest.json").unlink()
    refuse(use)
