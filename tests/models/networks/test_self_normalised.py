"""Self-normalised scores from tables are the logits of the network."""

import keras
import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    AveragedContext,
    ContextEmbedding,
    ContextNetwork,
    DeepHidden,
    DirectConnection,
    EnergyHead,
    InputError,
    Likelihood,
    LinearHead,
    NoiseContrastive,
    PointerNetwork,
    SampledSoftmax,
    TanhHidden,
    evaluate,
)
from keras_nplm.layers.hidden import NoHidden
from keras_nplm.models.collectors import Perplexity
from keras_nplm.models.networks.log_z import LogZ
from keras_nplm.models.networks.self_normalised import SelfNormalised
from tests.formulas import log_softmax

V = 40


def randomise(model):
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def build_network(kind=ContextNetwork, **options):
    keras.utils.set_random_seed(1)
    layers = dict(
        order=4,
        embed=ContextEmbedding(V, 3, name="embed"),
        hidden=TanhHidden(5, name="hidden"),
        head=LinearHead(V, name="prob"),
        objective=Likelihood(),
    )
    layers.update(options)
    return randomise(kind(**layers))


def build_paper():
    return randomise(NPLM(V, 4, 3, 5, direct_connections=True))


def build_bigram():
    return build_network(order=2, objective=NoiseContrastive())


def build_no_hidden_layer():
    return randomise(NPLM(V, 3, 4, 0, direct_connections=True))


def build_head_of_x():
    return build_network(hidden=None)


def build_head_of_x_and_direct():
    return build_network(hidden=None, direct=DirectConnection(V, name="direct"))


def build_tied_no_hidden_layer():
    return build_network(
        order=3,
        hidden=NoHidden(name="hidden"),
        head=LinearHead(V, tied=True, name="prob"),
        direct=DirectConnection(V, name="direct"),
    )


def build_low_rank():
    embed = AveragedContext(V, 3, averages_after=(1, 3), name="embed")
    return build_network(order=8, embed=embed, head=LinearHead(V, rank=2, name="prob"))


def build_tanh_block():
    return build_network(hidden=DeepHidden(5, activation="tanh", residual_blocks=1))


def build_relu_block():
    return build_network(hidden=DeepHidden(5, activation="relu", residual_blocks=1))


def build_gelu_block():
    return build_network(hidden=DeepHidden(5, activation="gelu", residual_blocks=1))


def build_deep():
    hidden = DeepHidden(5, activation="silu", residual_blocks=2, layer_norm=True)
    return build_network(hidden=hidden)


def build_pointer():
    direct = DirectConnection(V, name="direct")
    return build_network(PointerNetwork, order=8, direct=direct)


def build_energy():
    return build_network(
        order=8,
        embed=AveragedContext(V, 3, averages_after=(0, 4), name="embed"),
        hidden=None,
        head=EnergyHead(V, hidden_units=5, name="prob"),
        objective=SampledSoftmax(),
    )


BUILDERS = [
    build_paper,
    build_bigram,
    build_no_hidden_layer,
    build_head_of_x,
    build_head_of_x_and_direct,
    build_tied_no_hidden_layer,
    build_low_rank,
    build_tanh_block,
    build_relu_block,
    build_gelu_block,
    build_deep,
    build_pointer,
    pytest.param(build_energy, marks=pytest.mark.long),
]


@pytest.mark.parametrize("build", BUILDERS)
def test_scores_are_the_logits(build):
    model = build()
    rng = np.random.default_rng(2)
    # <pad> is among the words
    number = 60 if build is build_energy else 600  # an energy of each word takes long
    contexts = rng.integers(0, V, (number, model.order - 1))
    targets = rng.integers(0, V, number)
    logits = np.asarray(model.scores(contexts).logits())
    wanted = logits[np.arange(number), targets]
    scores = SelfNormalised(model)
    few = contexts[:50]
    np.testing.assert_allclose(scores.next_log_probs(few), log_softmax(logits[:50]), atol=3e-5)
    np.testing.assert_allclose(scores.log_prob(contexts, targets), wanted, atol=3e-5)
    # a few contexts are gathered in another way
    of_three = scores.log_prob(contexts[:3], targets[:3])
    np.testing.assert_allclose(of_three, wanted[:3], atol=3e-5)
    # as is one n-gram
    of_one = scores.log_prob(contexts[:1], targets[:1])
    ngram = np.append(contexts[0], targets[0]).astype(np.int32)
    assert scores.log_prob_of_one(ngram) == pytest.approx(of_one[0], abs=1e-6)


def test_figures_of_log_z(monkeypatch):
    monkeypatch.setattr("keras_nplm.models.evaluation.BLOCK_SIZE", 7)
    model = build_network(boundary="stream")
    ids = np.random.default_rng(3).integers(4, V, 50).astype(np.int32)
    padded = np.concatenate([np.zeros(3, int), ids])
    contexts = np.stack([padded[i : i + 3] for i in range(50)])
    logits = np.asarray(model.scores(contexts).logits())
    log_z = np.log(np.exp(logits).sum(axis=1))
    figures = evaluate(model, ids, [Perplexity(), LogZ()])
    ln_z = figures.pop("ln_z")
    np.testing.assert_allclose(ln_z["mean"], log_z.mean(), rtol=1e-4)
    np.testing.assert_allclose(ln_z["standard_deviation"], log_z.std(), rtol=1e-4)
    np.testing.assert_allclose(ln_z["mean_absolute"], np.abs(log_z).mean(), rtol=1e-4)
    assert figures == evaluate(model, ids)


def test_a_hidden_layer_of_the_user_is_refused():
    model = build_network(hidden=keras.layers.Dense(5))
    with pytest.raises(InputError, match="must be a network alone.*Received: Dense"):
        SelfNormalised(model)
