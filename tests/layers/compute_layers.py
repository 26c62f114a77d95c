"""Write what layers compute to a file, on the backend that KERAS_BACKEND names.

A script of `test_backends`.
"""

import itertools
import sys

import keras
import numpy as np

from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.heads.adaptive import AdaptiveHead
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.heads.linear import LinearHead
from keras_nplm.layers.objectives.likelihood import Likelihood
from keras_nplm.layers.pointer import Pointer
from keras_nplm.layers.scores import Scores
from keras_nplm.layers.segments import Context

V = 30  # words
RNG = np.random.default_rng(0)
CONTEXTS = RNG.integers(0, V, (6, 8)).astype("int32")
SEGMENTS = RNG.integers(0, V, (2, 10)).astype("int32")  # of 3 targets each
TARGETS = RNG.integers(1, V, 6).astype("int32")


def randomise(layer: keras.layers.Layer) -> None:
    rng = np.random.default_rng(1)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))


def make_heads(embed: ContextEmbedding) -> dict[str, Head]:
    heads = {
        "linear": LinearHead(V),
        "low rank": LinearHead(V, rank=2),
        "tied": LinearHead(V, tied=True),
        "adaptive": AdaptiveHead(V),
        "energy": EnergyHead(V, hidden_units=5),
    }
    for head in heads.values():
        head.tie(embed.C)
        head.build((None, 5))
        randomise(head)
    return heads


def list_results(scores: Scores) -> dict[str, np.ndarray]:
    objective = Likelihood(held_out_mass=0.1, self_normalisation=0.2)
    objective.build((None, V))
    results = {
        "logits": scores.logits(),
        "few": scores.logits_of(TARGETS),
        "log P": scores.logit(TARGETS) - scores.log_z(),
        "losses": objective.losses(scores, TARGETS).loss,
    }
    return {name: keras.ops.convert_to_numpy(value) for name, value in results.items()}


def read(embed: ContextEmbedding) -> list[Context]:
    embed.build((None, 8))
    randomise(embed)
    return [embed.read(CONTEXTS), embed.read_segments(SEGMENTS, "sentence")]


def main() -> None:
    results = {}
    embeds = [ContextEmbedding(V, 3), AveragedContext(V, 3, averages_after=(2, 4))]
    hidden_options = dict(activation="gelu", residual_blocks=1, layer_norm=True)
    for embed in embeds:
        contexts = read(embed)
        heads = make_heads(embed)
        hidden = DeepHidden(5, **hidden_options)
        hidden.build(contexts[0].x.shape)
        randomise(hidden)
        pointer = Pointer()
        pointer.build((None, 5), (None, 8, 3))
        randomise(pointer)
        for context, name in itertools.product(contexts, heads):
            features = hidden(context.x)
            head = heads[name]
            kinds = {"": head.scores(features)}
            if head.has_word_rows:
                kinds["pointer, "] = pointer.add_copies(kinds[""], features, context, head)
            for kind, scores in kinds.items():
                for what, value in list_results(scores).items():
                    key = f"{type(embed).__name__}, {context.ids.shape}, {kind}{name}: {what}"
                    results[key] = value
    np.savez(sys.argv[1], **results)


if __name__ == "__main__":
    main()
