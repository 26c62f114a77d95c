"""Dynamic evaluation of networks against a plain NumPy loop, and what must hold for every output layer."""

import keras
import numpy as np
import pytest

from keras_nplm import NPLM
from keras_nplm.layers.outputs import FullSoftmax, NoiseContrastive
from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.dynamic.network import DynamicNPLM, group_weights, measure_mean_squares

V, ORDER, M, H = 9, 3, 2, 4
RNG = np.random.default_rng(5)
NGRAMS = RNG.integers(1, V, (61, ORDER)).astype(np.int32)
NGRAMS[::7, 0] = 0  # <pad>
OUTPUTS = {
    "full": "full",
    "tied": FullSoftmax(V, tied=True),
    "rank": FullSoftmax(V, rank=2),
    "shortlist": FullSoftmax(V, shortlist_size=2, outside_output=True),
    "nce": NoiseContrastive(V, num_sampled=4),
    "adaptive": "adaptive",
    "energy": "energy",
}


def _network(output="full", **options) -> NPLM:
    keras.utils.set_random_seed(2)
    own = getattr(output, "includes_hidden_layer", output == "energy")
    options = dict(direct_connections=not own) | options
    if isinstance(output, keras.layers.Layer):
        output = type(output).from_config(output.get_config())
    model = NPLM(V, ORDER, M, H, output=output, **options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def _read(model, ngrams: np.ndarray, cuts=()) -> np.ndarray:
    return np.concatenate([model.log_prob(part[:, :-1], part[:, -1]) for part in np.split(ngrams, cuts)])


class _Oracle:
    """The paper's network with direct connections in float64, one n-gram at a time, and its gradient by hand."""

    def __init__(self, model: NPLM):
        self.names = ["C", "H", "d", "UW", "b"]
        self.C, self.H, self.d = (np.array(w, np.float64) for w in (model.embed.C, model.hidden.H, model.hidden.d))
        self.UW, self.b = np.array(model.prob.kernel, np.float64), np.array(model.prob.b, np.float64)

    def differentiate(self, ngram: np.ndarray) -> tuple[float, dict]:
        context, target = ngram[:-1], ngram[-1]
        x = np.concatenate([self.C[w] * (w != 0) for w in context])
        a = np.tanh(self.d + x @ self.H)
        f = np.concatenate([a, x])
        y = self.b + self.UW @ f
        log_p = y - y.max() - np.log(np.exp(y - y.max()).sum())
        delta = np.exp(log_p)
        delta[target] -= 1
        d_f = self.UW.T @ delta
        d_z = d_f[:H] * (1 - a**2)
        d_x = d_f[H:] + self.H @ d_z
        d_c = np.zeros_like(self.C)
        for place, word in enumerate(context):
            d_c[word] += d_x[place * M : (place + 1) * M] * (word != 0)
        gradient = {"C": d_c, "H": np.outer(x, d_z), "d": d_z, "UW": np.outer(delta, f), "b": delta}
        return log_p[target], gradient

    def mean_gradient(self, chunk: np.ndarray) -> tuple[list, dict]:
        parts = [self.differentiate(ngram) for ngram in chunk]
        return [p for p, _ in parts], {n: np.mean([g[n] for _, g in parts], axis=0) for n in self.names}

    def read(self, ngrams: np.ndarray, chunk: int, rate: float, scales: dict | None = None):
        result = []
        for first in range(0, len(ngrams), chunk):
            log_probs, gradient = self.mean_gradient(ngrams[first : first + chunk])
            result += log_probs
            for name in self.names:
                weight = getattr(self, name)
                weight -= rate * gradient[name] * (scales[name] if scales else 1)
        return np.array(result)


GROUPS = ({"embedding": 0.5, "hidden": 2.0, "output": 0.0, "biases": 4.0}, {"C": 0.5, "H": 2, "d": 2, "UW": 0, "b": 4})


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_sgd_is_the_plain_loop(groups):
    model, (factors, scales) = _network(), groups or ({}, None)
    expected = _Oracle(model).read(NGRAMS, 4, 0.7, scales)
    dynamic = DynamicNPLM(model, DynamicSettings(chunk=4, rate=0.7, **factors))
    assert np.allclose(_read(dynamic, NGRAMS), expected, atol=5e-5)
    static = _read(model, NGRAMS)
    assert np.allclose(static[:4], expected[:4], atol=1e-5)
    assert np.abs(static - expected)[4:].max() > 0.1


def test_a_tied_matrix_is_of_the_embedding():
    groups = group_weights(_network(OUTPUTS["tied"], direct_connections=False))
    assert sorted(groups) == ["biases", "embedding", "hidden", "hidden", "output"]


def test_steps_in_units_of_the_training_gradient():
    model = _network()
    oracle = _Oracle(model)
    gradients = [oracle.mean_gradient(NGRAMS[first : first + 4])[1] for first in range(0, 40, 4)]
    squares = {name: np.mean([gradient[name] ** 2 for gradient in gradients], axis=0) for name in oracle.names}
    measured = measure_mean_squares(model, NGRAMS[:42], chunk=4)
    by_shape = {square.shape: square for square in measured}
    assert len(by_shape) == 5
    for square in squares.values():
        assert np.allclose(by_shape[square.shape], square, rtol=1e-3, atol=1e-7)
    mean = np.mean(np.concatenate([np.sqrt(square[square > 0]) for square in squares.values()]))
    least = {name: (0.1 if name == "b" else 1.0) * mean for name in squares}
    scales = {name: mean / np.maximum(np.sqrt(square), least[name]) for name, square in squares.items()}
    expected = oracle.read(NGRAMS, 4, 0.05, scales=scales)
    dynamic = DynamicNPLM(model, DynamicSettings(chunk=4, rate=0.05, rule="rms"), measured)
    assert np.allclose(_read(dynamic, NGRAMS), expected, atol=1e-3)


@pytest.mark.parametrize(
    "name",
    ["shortlist", *(pytest.param(name, marks=pytest.mark.long) for name in OUTPUTS if name != "shortlist"), "pointer"],
)
def test_every_output_learns_after_it_predicts(name):
    model = _network(pointer=True) if name == "pointer" else _network(OUTPUTS[name])
    before = model.get_weights()
    dynamic = DynamicNPLM(model, DynamicSettings(chunk=5, rate=0.5))
    whole, static = _read(dynamic, NGRAMS), _read(model, NGRAMS)
    known = np.isfinite(static)
    assert known.all() or name == "shortlist"
    first = np.flatnonzero(known)[:5]
    assert np.allclose(whole[first], static[first], atol=1e-5)
    assert np.abs(whole[known] - static[known]).max() > 1e-2
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    dynamic.reset()
    assert np.array_equal(_read(dynamic, NGRAMS), whole)


def test_no_word_is_counted_after_it_was_seen():
    """Other words from a place on leave all log-probabilities before it as they are."""
    dynamic = DynamicNPLM(_network(), DynamicSettings(chunk=6, rate=0.7))
    whole = _read(dynamic, NGRAMS)
    for place in range(0, 61, 4):
        changed = NGRAMS.copy()
        changed[place:, -1] = changed[place:, -1] % (V - 1) + 1
        dynamic.reset()
        assert np.array_equal(_read(dynamic, changed)[:place], whole[:place])
