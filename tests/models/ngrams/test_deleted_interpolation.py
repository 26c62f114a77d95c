"""Deleted interpolation against the formula in plain Python, and against the paper on Brown."""

import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import evaluate
from keras_nplm.data.boundary import predicted_ids
from keras_nplm.models.ngrams import deleted_interpolation
from tests.models.ngrams.plain import V, list_events, pad_contexts, texts


@pytest.mark.parametrize(
    "back_off", [pytest.param(False, id="bins of the paper"), pytest.param(True, id="backed off")]
)
@settings(max_examples=25)
@given(st.data(), st.sampled_from(["stream", "sentence", "text"]))
def test_model_follows_the_formula(back_off, data, boundary):
    ids = data.draw(texts(boundary))
    held_out = data.draw(texts(boundary))
    model = deleted_interpolation(ids, held_out, V, 3, boundary, back_off)
    counts = collections.Counter()
    totals = collections.Counter()
    for context, word in list_events(ids, 3, boundary):
        for k in range(len(context) + 1):
            ending = context[len(context) - k :]
            counts[ending, word] += 1
            totals[ending] += 1
    predicted = predicted_ids(V, boundary).tolist()
    tokens = max(sum(n for ending, n in totals.items() if len(ending) == 1), 1)
    per_length = math.ceil(math.log(tokens)) + 1
    contexts = [(), *itertools.product([1, *range(4, V)], repeat=2), (4,)][:60]
    expected = []
    for context in contexts:
        # by length; None: longer than the context
        endings = [context[len(context) - k :] if k <= len(context) else None for k in range(3)]
        numbers = [totals[ending] for ending in endings]
        longest = 1 if back_off and not numbers[2] else 2
        bin = max(math.ceil(-math.log((1 + numbers[longest]) / tokens)), 0)
        weights = model.weights[(2 - longest) * per_length + bin]
        row = []
        for word in range(V):
            p = [(word in predicted) / len(predicted)]
            for ending, number in zip(endings, numbers, strict=True):
                p.append(counts[ending, word] / number if number else p[-1])
            row.append(weights @ p)
        expected.append(row)
    found = np.exp(model.next_log_probs(pad_contexts(contexts, 3)))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    targets = np.arange(len(contexts)) % V
    one = np.exp(model.log_prob(pad_contexts(contexts, 3), targets))
    np.testing.assert_allclose(one, found[np.arange(len(contexts)), targets], atol=1e-9)


@pytest.mark.long
def test_perplexity_on_brown_is_that_of_the_paper(brown):
    train = brown.ids("train")
    held_out = brown.ids("validation")
    paper = deleted_interpolation(
        train, held_out, brown.vocabulary_size, 3, "stream", back_off=False
    )
    assert evaluate(paper, brown.ids("test"))["perplexity"] <= 355
    ours = deleted_interpolation(train, held_out, brown.vocabulary_size, 3, "stream")
    assert evaluate(ours, brown.ids("test"))["perplexity"] <= 341
