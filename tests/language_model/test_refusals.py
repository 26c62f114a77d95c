"""Invalid input of the language model is refused in one line that names it."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    AdaptiveHead,
    DynamicSettings,
    LanguageModel,
    Mixture,
    RunError,
    Uniform,
    Vocabulary,
    add_words,
    kneser_ney,
)
from keras_nplm.data.tokenizers.registry import TOKENIZERS, get_tokenizer
from keras_nplm.language_model.scorer import self_normalise
from keras_nplm.models.networks.log_z import LogZ
from tests.networks import compose
from tests.tokenizers import build_vocabulary

WORDS = ["the", "cat", "sat", "on", "mat"]
TEXT = ["the dog sat on the mat", "", "the dog and the cat sat", "on the dog", "a rug and the dog"]


def _wrap(model, boundary: str | None = None) -> LanguageModel:
    return LanguageModel(model, Vocabulary(WORDS), "words", boundary)


def test_language_models_refuse(build_ngram_model, messages):
    ngrams = build_ngram_model("sentence")
    network = LanguageModel(compose(9), Vocabulary(WORDS), "whitespace", "sentence")
    lemmas = Vocabulary(["cat"], {"cats": "cat"})
    for call in (
        lambda: ngrams.evaluate(),  # a split without a corpus
        lambda: ngrams.evaluate(TEXT, [LogZ()]),
        lambda: ngrams.evaluate(TEXT, dynamic=True),  # without a network, and without a corpus
        lambda: ngrams.nearest("cat"),
        lambda: ngrams.adapt(TEXT),
        lambda: self_normalise(Mixture([ngrams.model, network.model], [0.5, 0.5])),
        lambda: _wrap(ngrams.model, boundary="stream"),
        lambda: LanguageModel.from_preset("../x"),
        lambda: ngrams.generate("the", temperature=np.nan),
        lambda: add_words(network, TEXT, words=["dog", "cat"]),  # cat is known
        lambda: add_words(_wrap(NPLM(9, boundary="stream")), ["cow"]),  # without a context
        lambda: add_words(network, ["the </s> dog"]),
        lambda: add_words(_wrap(compose(9, head=AdaptiveHead(9))), TEXT),
        lambda: network.adapt([]),
        lambda: LanguageModel(network.model, Vocabulary(["a"]), "words"),
        lambda: LanguageModel(Uniform(5), lemmas, "words"),
        lambda: _wrap(Uniform(9)).evaluate(TEXT, dynamic=DynamicSettings()),
        lambda: LanguageModel(
            kneser_ney(np.array([4, 5, 6, 3]), 7, 1), Vocabulary(list("abc")), "characters"
        ),
    ):
        messages.refuse(call)


@pytest.mark.parametrize(
    "kind", [kind for kind in TOKENIZERS if not get_tokenizer(kind).has_unknown]
)
def test_no_word_is_added_to_tokens_that_spell_every_text(kind, messages):
    vocabulary = build_vocabulary(kind, TEXT * 9)
    model = LanguageModel(compose(len(vocabulary)), vocabulary, kind, "sentence")
    messages.refuse(lambda: add_words(model, TEXT))


def test_nothing_is_written_over_files_of_others(build_ngram_model, tmp_path, messages):
    for name in ("notes.txt", "config.json"):
        (tmp_path / name).write_text("theirs")
        messages.refuse(lambda: build_ngram_model("stream").save(tmp_path))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "notes.txt": "theirs",
        "config.json": "theirs",
    }


def test_a_saved_model_is_replaced_on_request_alone(
    build_ngram_model, here, run, messages, memory_store
):
    first, second = build_ngram_model("stream"), build_ngram_model("sentence")
    for name in ("saved", "new/saved", "gs://bucket/saved"):
        first.save(name, overwrite=True)  # there is nothing
    messages.refuse(lambda: second.save("saved"))
    run("ngram --output run")
    run("mix run --uniform --output mixture")
    for command in ("run", "mixture"):  # they hold a text and figures
        messages.refuse(lambda command=command: second.save(command, overwrite=True))
    Path("other").mkdir()
    Path("other/notes.txt").touch()
    messages.refuse(lambda: second.save("other", overwrite=True))
    for name in ("saved", "gs://bucket/saved"):
        second.save(name, overwrite=True)
        assert LanguageModel.load(name).boundary == "sentence"
    assert LanguageModel.load("new/saved").boundary == "stream"
    assert sorted(map(str, Path().rglob("*nplm*"))) == []


@pytest.mark.parametrize("failing", ["new", "manifest.json"])
def test_a_model_that_cannot_be_replaced_stays(build_ngram_model, here, monkeypatch, failing):
    build_ngram_model("stream").save("saved")
    before = read_files(here)

    def fail(function, source, target):
        if failing in (Path(source).name, Path(target).name):
            raise OSError(errno.ENOSPC, "No space left")
        return function(source, target)

    for owner, name in ((os, "replace"), (Path, "rename")):
        function = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *paths, function=function: fail(function, *paths))
    with pytest.raises((OSError, RunError)):
        build_ngram_model("sentence").save("saved", overwrite=True)
    monkeypatch.undo()
    assert read_files(here) == before


def read_files(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_damaged_directory_is_refused(tmp_path, build_ngram_model, messages):
    build_ngram_model("sentence").save(tmp_path)
    (tmp_path / "vocabulary.txt").write_bytes(b"<pad>\n<unk>\n<s>\n</s>\nthe\n")
    messages.refuse(lambda: LanguageModel.load(tmp_path))
