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


def test_no_words_are_refused(ngram_model):
    with pytest.raises(InputError, match="`top_k` must be 1 or more"):
        ngram_model.next_words("the", top_k=0)


def test_a_split_without_a_corpus_is_refused(ngram_model):
    with pytest.raises(InputError, match="has no corpus/, .* lines of text"):
        ngram_model.evaluate()


def test_log_z_of_an_ngram_model_is_refused(ngram_model):
    with pytest.raises(InputError, match="log Z .* NPLM. Received: BackoffModel"):
        ngram_model.evaluate(TEXT, [LogZ()])


def test_word_vectors_of_an_ngram_model_are_refused(ngram_model):
    with pytest.raises(InputError, match="n-gram models have none. Received: BackoffModel"):
        ngram_model.nearest("cat")


def test_scores_of_a_mixture_need_its_probabilities(ngram_model, network):
    mixture = Mixture([ngram_model.model, network.model], [0.5, 0.5])
    with pytest.raises(
        InputError, match="a network alone, .* Received: Mixture.*--no-interpolated"
    ):
        self_normalise(mixture)
    with pytest.raises(InputError, match="Received: BackoffModel. Fix: leave `self_normalised`"):
        self_normalise(ngram_model.model)


def test_another_boundary_than_that_of_the_training_is_refused(ngram_model):
    with pytest.raises(InputError, match="`boundary` must be 'sentence', as the model was trained"):
        _wrap(ngram_model.model, boundary="stream")


def test_an_unknown_preset_is_refused():
    with pytest.raises(InputError, match=r"`name` must be one of starter\. Received: '\.\./x'"):
        LanguageModel.from_preset("../x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"num_words": 0}, "`num_words` must be 1 to", id="no words"),
        pytest.param(
            {"temperature": np.nan}, "`temperature` must be a finite number, 0 or more", id="nan"
        ),
    ],
)
def test_options_of_generation_out_of_range_are_refused(ngram_model, options, message):
    with pytest.raises(InputError, match=message):
        ngram_model.generate("the", **options)


def test_a_known_word_is_not_added(network):
    with pytest.raises(InputError, match="'cat' is already in the vocabulary"):
        add_words(network, TEXT, words=["dog", "cat"])


def test_a_new_word_needs_a_context():
    with pytest.raises(InputError, match="'cow' has no word before it"):
        add_words(_wrap(NPLM(9, boundary="stream")), ["cow"])


def test_a_reserved_token_is_not_added(network):
    with pytest.raises(InputError, match="reserved token </s>"):
        add_words(network, ["the </s> dog"])


def test_words_are_not_added_to_an_adaptive_head():
    with pytest.raises(InputError, match="a row for each"):
        add_words(_wrap(compose(9, head=AdaptiveHead(9))), TEXT)


def test_an_empty_text_does_not_adapt(network):
    with pytest.raises(InputError, match="2 lines"):
        network.adapt([])


def test_lists_of_words_are_no_vocabulary(ngram_model):
    with pytest.raises(InputError, match="`vocabulary` must be a Vocabulary. Received: list. Fix:"):
        LanguageModel(ngram_model.model, ["a", "b"], "words")


@pytest.mark.parametrize("path", [None, 5])
def test_objects_that_are_no_paths_are_refused(ngram_model, path):
    received = type(path).__name__
    with pytest.raises(InputError, match=f"`directory` must be a path. Received: {received}."):
        ngram_model.save(path)
    with pytest.raises(InputError, match=f"`directory` must be a path. Received: {received}."):
        LanguageModel.load(path)


def test_a_vocabulary_of_another_size_is_refused(network):
    with pytest.raises(InputError, match="of the model's size, 9. Received: 5 words"):
        LanguageModel(network.model, Vocabulary(["a"]), "words")


def test_a_vocabulary_of_lemmas_needs_a_tokenizer_of_lemmas():
    with pytest.raises(InputError, match=r"with `\+lemmas`"):
        LanguageModel(Uniform(5), Vocabulary(["cat"], {"cats": "cat"}), "words")


def test_a_model_without_weights_does_not_learn():
    with pytest.raises(InputError, match="`model` must be an NPLM or a mixture"):
        _wrap(Uniform(9)).evaluate(TEXT, dynamic=DynamicSettings())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ngrams.npz", None, "Cannot read .*ngrams.npz"),
        ("config.json", b'{"kind":"back-off"}', "config.json must have the field 'tokenizer'"),
        (
            "config.json",
            b'{"kind":"tree","tokenizer":"words","boundary":"stream"}',
            "one of .*uniform, .* 'tree'",
        ),
        ("vocabulary.txt", b"<pad>\n<unk>\n<s>\n</s>\nthe\n", "has 5 words, and the model has 9"),
    ],
)
def test_damaged_directories_are_refused(build_ngram_model, tmp_path, name, content, message):
    build_ngram_model("stream").save(tmp_path)
    with pytest.raises(InputError, match="already holds a model"):
        build_ngram_model("stream").save(tmp_path)
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        LanguageModel.load(tmp_path)


def test_a_network_of_a_newer_version_is_refused(tmp_path):
    _wrap(compose(9)).save(tmp_path)
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["config.json"] = parts["config.json"].replace(b"TanhHidden", b"GatedHidden")
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    message = "this version of keras_nplm. Received: the class GatedHidden, .* Fix: update"
    with pytest.raises(InputError, match=message):
        LanguageModel.load(tmp_path)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (object(), "must be an NPLM, a Shortlist, .* Received: object"),
        (Uniform(8), "of the model's size, 8"),
    ],
)
def test_models_that_cannot_be_saved_are_refused(build_ngram_model, tmp_path, model, message):
    changed = build_ngram_model("sentence")
    changed.model = model
    with pytest.raises(InputError, match=message):
        changed.save(tmp_path)


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
