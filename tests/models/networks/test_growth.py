"""Networks with new words. Their probabilities: see tests/layers/outputs/test_contract.py."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import NPLM, FullSoftmax, NoiseContrastive
from keras_nplm.models.networks.growth import NewRows, grow, renormalise

V, J, N = 14, 3, 4
OUTPUTS = {
    "nce": lambda: NoiseContrastive(V, num_sampled=8, held_out_mass=0.2, seed=1, name="prob"),
    "held out": lambda: FullSoftmax(V, held_out_mass=0.2, self_normalisation=0.1, name="prob"),
}


def _model(kind: str, counts: np.ndarray) -> NPLM:
    model = NPLM(V, order=N, embedding_dim=3, hidden_units=5, output=OUTPUTS[kind]())
    model.prob.set_unigram(counts, 4)
    return model


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 30, 3000]), st.integers(1, 4))
def test_renormalised_is_the_softmax_of_all_logits(seed, scale, new):
    logits = np.random.default_rng(seed).normal(0, scale, (5, 6 + new))
    log_z = np.logaddexp.reduce(logits[:, :6], axis=1)
    before = logits[:, :6] - log_z[:, None]
    expected = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    old, added = renormalise(before, log_z, logits[:, 6:])
    np.testing.assert_allclose(np.concatenate([old, added], axis=1), expected, atol=1e-9)
    np.testing.assert_allclose(renormalise(before[:, 2], log_z, logits[:, 6:])[0], expected[:, 2], atol=1e-9)


def test_distributions_that_training_samples_from_grow():
    counts = np.array([0, 5, 0, 3, 9, 7, 5, 4, 4, 2, 1, 1, 0, 0])
    random = np.random.default_rng(3)
    C, kernel, b = random.normal(size=(J, 3)), random.normal(size=(J, 5)), random.normal(size=J)
    rows = NewRows(C, kernel, b, np.array([0.05, 0.02, 0.01]))
    held_out = np.array([0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 3, 3, 4, 4, 4, 4, 4])  # min_count 4 less the count
    held_out = held_out / held_out.sum()
    np.testing.assert_allclose(grow(_model("held out", counts), rows).prob.q.numpy(), held_out, atol=1e-6)
    model = _model("nce", counts)
    grown = grow(model, rows).prob
    before, after = np.exp(model.prob.log_q.numpy()), np.exp(grown.log_q.numpy())
    np.testing.assert_allclose(after[V:], rows.frequencies, rtol=1e-4)
    np.testing.assert_allclose(after[4:V], before[4:] * 0.92, rtol=1e-3)
    uniform = (np.arange(100_000, dtype=np.float32) + 0.5) / 100_000
    for distribution, expected in ((grown.noise, after), (grown.held_out, held_out)):
        sampled = np.bincount(np.asarray(grown._sample(distribution, uniform)), minlength=V + J) / 100_000
        np.testing.assert_allclose(sampled, expected, atol=1e-4)
