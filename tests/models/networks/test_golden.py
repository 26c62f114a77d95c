"""What the networks of an earlier commit computed, in `../shared/golden`: the redesign keeps it."""

import functools
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.heads.adaptive import AdaptiveHead
from keras_nplm.layers.heads.linear import LinearHead
from keras_nplm.layers.objectives.likelihood import Likelihood
from keras_nplm.layers.objectives.sampled import NoiseContrastive, SampledSoftmax
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.networks.nplm import NPLM
from keras_nplm.models.networks.pointer_network import PointerNetwork
from tests.networks import compose, compose_energy

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
V = 60
M = 6
H = 8
pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="needs ../shared/golden")


build_paper = functools.partial(NPLM, V, 5, M, H, boundary="stream")
build_short = functools.partial(compose, V, 5, M, H, boundary="stream")


def build_long(kind=ContextNetwork, objective=None, boundary="stream"):
    hidden = DeepHidden(H, activation="gelu", residual_blocks=1, layer_norm=True, name="hidden")
    return compose(
        V,
        9,
        kind=kind,
        embed=AveragedContext(V, M, averages_after=(3, 5), name="embed"),
        hidden=hidden,
        objective=objective,
        boundary=boundary,
    )


BUILDERS = {
    "paper": build_paper,
    "paper_direct": lambda: build_paper(direct_connections=True),
    "paper_no_hidden": lambda: NPLM(V, 5, M, 0, direct_connections=True, boundary="stream"),
    "paper_weight_decay": lambda: build_paper(direct_connections=True, weight_decay=0.01),
    "averaged_deep": lambda: build_long(boundary="sentence"),
    "averaged_deep_text": lambda: build_long(boundary="text"),
    "held_out_self_normalised": lambda: build_short(objective=Likelihood(0.1, 0.3)),
    "low_rank": lambda: build_short(head=LinearHead(V, rank=4, name="prob")),
    "tied": lambda: build_short(head=LinearHead(V, tied=True, name="prob")),
    "shortlist": lambda: build_short(head=LinearHead(V, num_outputs=24, name="prob")),
    "nce": lambda: build_short(objective=NoiseContrastive()),
    "sampled": lambda: build_short(objective=SampledSoftmax()),
    "adaptive": lambda: build_short(head=AdaptiveHead(V, cutoffs=(20, 40), name="prob")),
    "energy": lambda: compose_energy(V, 5, M, H),
    "pointer": lambda: build_long(PointerNetwork),
    "pointer_sentence": lambda: build_long(PointerNetwork, boundary="sentence"),
    "pointer_nce": lambda: build_long(PointerNetwork, NoiseContrastive()),
    "hybrid": lambda: build_short(kind=HybridNetwork),
}


# what other letters and other paths the weights of that commit had
ALIASES = {"prob/UW": ["prob/U", "direct/W"], "prob/g": ["g"], "prob/v": ["prob/v", "v"]}


def pair_weights(network, names):
    """Return for each stored weight the variables that hold its columns, side by side."""
    weights = {weight.path.partition("/")[2]: weight for weight in network.trainable_weights}
    return [
        [weights[part] for part in ALIASES.get(name, [name]) if part in weights] for name in names
    ]


def load(name):
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as archive:
        stored = dict(archive)
    network = BUILDERS[name]()
    names = [str(each) for each in stored["weight_names"]]
    variables = pair_weights(network, names)
    for number, parts in enumerate(variables):
        columns = np.cumsum([part.shape[-1] for part in parts])[:-1]
        arrays = np.split(stored[f"weight_{number}"], columns, axis=-1)
        for part, array in zip(parts, arrays, strict=True):
            part.assign(array)
    if "held_out_q" in stored:
        network.objective.q.assign(stored["held_out_q"])
    inputs = stored["contexts"]
    if "log_q" in stored:
        inputs = {"contexts": inputs, "log_q": stored["log_q"]}
    return network, stored, inputs, variables


@pytest.mark.parametrize("name", BUILDERS)
def test_figures_and_gradients_are_those_of_the_golden_network(name):
    network, stored, inputs, variables = load(name)
    probabilities = network(inputs).numpy()
    np.testing.assert_allclose(probabilities, stored["probabilities"], rtol=1e-5, atol=1e-9)
    # the scores, from which ln P is computed, not `call`
    scores = network.scores(inputs)
    inside = stored["targets"] < network.prob.num_outputs
    places = np.flatnonzero(inside).astype(np.int32)
    log_prob = scores.take(places).logit(stored["targets"][inside]) - tf.gather(
        scores.log_z(), places
    )
    np.testing.assert_allclose(log_prob, stored["log_prob"][inside], rtol=1e-5, atol=1e-6)
    if "segments" in stored:
        rows = (
            network({"segments": stored["segments"]}).numpy().reshape(-1, network.prob.num_outputs)
        )
        np.testing.assert_allclose(rows, stored["segment_probabilities"], rtol=1e-5, atol=1e-9)

    if "losses" not in stored:
        return  # this objective draws its own words
    flat = [variable for parts in variables for variable in parts]
    with tf.GradientTape() as tape:
        losses = network.objective.losses(network.scores(inputs), stored["targets"]).loss
        loss = keras.ops.mean(losses) + sum(network.losses)
    np.testing.assert_allclose(losses, stored["losses"], rtol=1e-5)
    np.testing.assert_allclose(loss, stored["loss"], rtol=1e-5)
    gradients = iter(tape.gradient(loss, [variable.value for variable in flat]))
    for number, parts in enumerate(variables):
        dense = [tf.convert_to_tensor(next(gradients)).numpy() for _ in parts]
        gradient = np.concatenate(dense, axis=-1)
        np.testing.assert_allclose(gradient, stored[f"gradient_{number}"], rtol=1e-4, atol=1e-6)
