"""Invalid input of the language model is refused in one line that names it."""

import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    AdaptiveHead,
    DynamicSettings,
    InputError,
    LanguageModel,
    Uniform,
    Vocabulary,
    add_words,
)
from keras_nplm.data.tokenizers.registry import TOKENIZERS, get_tokenizer
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


_MODEL_CALLS = [  # of an n-gram model of sentences
    (lambda model: model.next_words("the", top_k=0), "`top_k` must be 1 or more"),
    (lambda model: model.evaluate(), "has no corpus/, .* lines of text"),
    (lambda model: model.evaluate(TEXT, [LogZ()]), "log Z .* NPLM. Received: BackoffModel"),
    (lambda model: model.nearest("cat"), "an NPLM for word vectors. Received: BackoffModel"),
    (
        lambda model: _wrap(model.model, boundary="stream"),
        "`boundary` must be 'sentence', as the model was trained",
    ),
    (
        lambda model: LanguageModel.from_preset("../x"),
        r"`name` must be one of reference\. Received: '\.\./x'",
    ),
    (lambda model: model.generate("the", num_words=0), "`num_words` must be 1 to"),
    (lambda model: model.generate("the", temperature=np.nan), "`temperature` must be 0 or more"),
]


def _add(text, **options):
    return lambda model: add_words(model, text, **options)


_NETWORK_CALLS = [
    (_add(TEXT, words=["dog", "cat"]), "'cat' is already in the vocabulary"),
    (
        lambda model: add_words(_wrap(NPLM(9, boundary="stream")), ["cow"]),
        "'cow' has no word before it",
    ),
    (_add(["the </s> dog"]), "reserved token </s>"),
    (lambda model: add_words(_wrap(compose(9, head=AdaptiveHead(9))), TEXT), "a row for each"),
    (lambda model: model.adapt([]), "2 lines"),
    (
        lambda model: LanguageModel(model.model, Vocabulary(["a"]), "words"),
        "of the model's size, 9. Received: 5 words",
    ),
    (
        lambda model: LanguageModel(Uniform(5), Vocabulary(["cat"], {"cats": "cat"}), "words"),
        r"with `\+lemmas`",
    ),
    (
        lambda model: _wrap(Uniform(9)).evaluate(TEXT, dynamic=DynamicSettings()),
        "`model` must be an NPLM or a mixture",
    ),
]


_CALLS = [("n-grams", *row) for row in _MODEL_CALLS] + [("network", *row) for row in _NETWORK_CALLS]


@pytest.mark.parametrize(("kind", "call", "words"), _CALLS)
def test_invalid_calls_are_refused(build_ngram_model, network, kind, call, words):
    with pytest.raises(InputError, match=words):
        call(network if kind == "network" else build_ngram_model("sentence"))


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
