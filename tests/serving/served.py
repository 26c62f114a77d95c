"""Served functions beside Python: the words after texts, and the scores of texts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import tensorflow as tf

from keras_nplm import LanguageModel


def check_served_words(
    functions: Mapping[str, Any],
    language_model: LanguageModel,
    texts: Sequence[str],
    k: int,
    names: Sequence[str] = ("predict_next", "complete_prefix"),
) -> None:
    """Compare the next words and the completions of texts."""
    methods = {
        "predict_next": language_model.next_words,
        "complete_prefix": language_model.complete_prefix,
    }
    for name in names:
        served = answer(functions[name], texts)
        words = served["words"].numpy()
        for text, row, probabilities in zip(texts, words, served["probabilities"], strict=True):
            is_word = row != b""
            assert not probabilities.numpy()[~is_word].any(), repr(text)
            found = zip(row[is_word], probabilities.numpy()[is_word].tolist(), strict=True)
            check_words({word.decode(): p for word, p in found}, methods[name], text, k)


def check_words(
    found: dict[str, float], predict: Callable[..., list[tuple[str, float]]], text: str, k: int
) -> None:
    """Compare the found words after a text with the k that a method of Python predicts.

    Of equally probable words any may be found.
    """
    expected = predict(text, k + 30)
    probabilities = [probability for _, probability in expected[:k]]
    assert [*found.values()] == pytest.approx(probabilities, rel=1e-3, abs=1e-12), repr(text)
    every = dict(expected)
    of_python = {word: every.get(word) for word in found}
    assert found == pytest.approx(of_python, rel=1e-3, abs=1e-12), repr(text)


def check_served_scores(function: Any, language_model: LanguageModel, texts: Sequence[str]) -> None:
    """Compare the scores of texts, which are texts of their own."""
    served = answer(function, texts)
    for place, text in enumerate(texts):
        score = next(language_model.score([text]))
        found = [served[name][place].numpy() for name in ("tokens", "unk_tokens", "log_prob")]
        expected = [score.tokens, score.unk_tokens, score.log_prob]
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5), repr(text)


def answer(function: Any, texts: Sequence[str]) -> dict[str, tf.Tensor]:
    """Return what a served function, or a signature of a SavedModel, says of texts."""
    given = tf.constant(texts, tf.string)
    if isinstance(function, tf.types.experimental.ConcreteFunction):
        [name] = function.structured_input_signature[1]
        return function(**{name: given})
    return getattr(function, "compute", function)(given)


def answer_request(loaded: Any, request: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Answer a REST request as TF Serving does."""
    signature = loaded.signatures[request.get("signature_name", "serving_default")]
    _, specs = signature.structured_input_signature
    assert specs.keys() == request["inputs"].keys()
    inputs = {name: tf.constant(request["inputs"][name], specs[name].dtype) for name in specs}
    assert all(specs[name].shape.is_compatible_with(inputs[name].shape) for name in specs)
    return signature(**inputs)
