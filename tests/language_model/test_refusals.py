"""Invalid input of the language model is refused in one line that names it."""

import zipfile

import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    AdaptiveHead,
    DynamicSettings,
    InputError,
    LanguageModel,
    Mixture,
    Uniform,
    Vocabulary,
    add_words,
)
from keras_nplm.data.tokenizers.registry import TOKENIZERS, get_tokenizer
from keras_nplm.language_model.scorer import self_normalise
from keras_nplm.models.networks.log_z import LogZ
from keras_nplm.models.networks.self_normalised import SelfNormalised
from tests.networks import compose
from tests.tokenizers import build_vocabulary

WORDS = ["the", "cat", "sat", "on", "mat"]
TEXT = ["the dog sat on the mat", "", "the dog and the cat sat", "on the dog", "a rug and the dog"]


@pytest.fixture(scope="module")
def network() -> LanguageModel:
    return LanguageModel(
        NPLM(9, order=3, embedding_dim=2, hidden_units=3),
        Vocabulary(WORDS),
        "whitespace",
        "sentence",
    )


def _wrap(model, tokenizer: str = "words", boundary: str | None = None) -> LanguageModel:
    return LanguageModel(model, Vocabulary(WORDS), tokenizer, boundary)


@pytest.fixture
def ngram_model(build_ngram_model) -> LanguageModel:
    return build_ngram_model("sentence")


def test_language_models_refuse(network, ngram_model, messages):
    def build_mixture():
        return Mixture([ngram_model.model, network.model], [0.5, 0.5])

    lemmas = Vocabulary(["cat"], {"cats": "cat"})
    for call in (
        lambda: ngram_model.next_words("the", top_k=0),
        lambda: ngram_model.evaluate(),  # a split without a corpus
        lambda: ngram_model.evaluate(TEXT, [LogZ()]),
        lambda: ngram_model.nearest("cat"),
        lambda: ngram_model.adapt(TEXT),
        lambda: ngram_model.scorer(self_normalised=True),
        lambda: self_normalise(build_mixture()),
        lambda: _wrap(ngram_model.model, boundary="stream"),
        lambda: LanguageModel.from_preset("../x"),
        lambda: ngram_model.generate("the", num_words=0),
        lambda: ngram_model.generate("the", temperature=np.nan),
        lambda: add_words(network, TEXT, words=["dog", "cat"]),  # cat is known
        lambda: add_words(_wrap(NPLM(9, boundary="stream")), ["cow"]),  # without a context
        lambda: add_words(network, ["the </s> dog"]),
        lambda: add_words(_wrap(compose(9, head=AdaptiveHead(9))), TEXT),
        lambda: network.adapt([]),
        lambda: LanguageModel(network.model, Vocabulary(["a"]), "words"),
        lambda: LanguageModel(Uniform(5), lemmas, "words"),
        lambda: _wrap(Uniform(9)).evaluate(TEXT, dynamic=DynamicSettings()),
    ):
        messages.refuse(call)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ngrams.npz", None),
        ("config.json", b'{"kind":"back-off"}'),
        ("config.json", b'{"kind":"tree","tokenizer":"words","boundary":"stream"}'),
        ("vocabulary.txt", b"<pad>\n<unk>\n<s>\n</s>\nthe\n"),
    ],
    ids=["tables", "fields", "kind", "vocabulary"],
)
def test_damaged_directories_are_refused(build_ngram_model, tmp_path, name, content, messages):
    build_ngram_model("stream").save(tmp_path)
    messages.refuse(lambda: build_ngram_model("stream").save(tmp_path))
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    messages.refuse(lambda: LanguageModel.load(tmp_path))


def test_a_network_of_a_newer_version_is_refused(tmp_path, messages):
    _wrap(compose(9)).save(tmp_path)
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["config.json"] = parts["config.json"].replace(b"TanhHidden", b"GatedHidden")
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    messages.refuse(lambda: LanguageModel.load(tmp_path))


def test_models_that_cannot_be_saved_are_refused(build_ngram_model, tmp_path, messages):
    changed = build_ngram_model("sentence")
    for model in (SelfNormalised(compose(9)), Uniform(8)):
        changed.model = model
        messages.refuse(lambda: changed.save(tmp_path))


@pytest.mark.parametrize(
    "kind", [kind for kind in TOKENIZERS if not get_tokenizer(kind).has_unknown]
)
def test_no_word_is_added_to_tokens_that_spell_every_text(kind):
    vocabulary = build_vocabulary(kind, TEXT * 9)
    network = NPLM(len(vocabulary), order=3, embedding_dim=2, hidden_units=3)
    model = LanguageModel(network, vocabulary, kind, "sentence")
    with pytest.raises(InputError, match=f"cannot be added to .* Received: tokenizer '{kind}'"):
        add_words(model, TEXT)


@pytest.mark.parametrize("name", ["ngrams.npz", "notes.txt", "metrics.json"])
def test_a_directory_with_other_files_is_refused(build_ngram_model, tmp_path, name):
    (tmp_path / name).write_text("theirs")
    with pytest.raises(InputError, match="choose a new `directory`, such as .*. Or delete"):
        build_ngram_model("stream").save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "theirs"


def test_a_run_that_is_not_finished_is_named(tmp_path, build_ngram_model):
    directory = tmp_path / "model"
    build_ngram_model("sentence").save(directory)
    (directory / "ngrams.npz").unlink()
    (directory / "corpus").mkdir()
    (directory / "corpus" / "corpus.json").write_text("{}")
    with pytest.raises(InputError, match="is not finished. .*ngrams.npz.* Fix: run its command"):
        LanguageModel.load(directory)
    (directory / "metrics.json").write_text("{}")
    with pytest.raises(InputError, match="Cannot read .*ngrams.npz"):
        LanguageModel.load(directory)
