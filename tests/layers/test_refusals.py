"""What layers refuse: calls by their ids, in the order of their messages in `messages.json`."""

import numpy as np

from keras_nplm import (
    AdaptiveHead,
    AveragedContext,
    ContextEmbedding,
    DeepHidden,
    LinearHead,
    NoiseContrastive,
    SpelledContext,
)

V = 30
M = 3


def build_spelled(near_characters: int = 1, separator: int = 4, context_size: int = 5):
    options = dict(spelled_words=1, spelling_bits=4, separator=separator)
    embed = SpelledContext(V, M, near_characters=near_characters, **options)
    embed.build((None, context_size))
    return embed


def name_weights_alike():
    layer = ContextEmbedding(V, M)
    for size in (2, 3):
        layer.add_weight(name="K", shape=(size,))


CALLS = {
    "averages that fall": lambda: AveragedContext(V, M, averages_after=(-1,)),
    "no averages": lambda: AveragedContext(V, M, averages_after=()),
    "averages beyond": lambda: AveragedContext(V, M, averages_after=(1, 4)).build((None, 4)),
    "two weights of one name": name_weights_alike,
    "residual blocks": lambda: DeepHidden(5, residual_blocks=-1),
    "activation": lambda: DeepHidden(5, activation="sigmoid"),
    "spelled segments": lambda: build_spelled().read_segments(np.zeros((2, 8), np.int32)),
    "near characters": lambda: build_spelled(near_characters=6),
    "separator": lambda: build_spelled(separator=V),
    "rank, tied": lambda: LinearHead(V, rank=3, tied=True),
    "no words": lambda: LinearHead(V, num_outputs=4),
    "cut-offs beyond": lambda: AdaptiveHead(V, cutoffs=(7, V)),
    "cut-offs that fall": lambda: AdaptiveHead(V, cutoffs=(9, 7)),
    "proposal": lambda: NoiseContrastive(proposal="bigram"),
    "held-out mass": lambda: NoiseContrastive(held_out_mass=1.0),
    "negative weight decay": lambda: LinearHead(V, weight_decay=-0.1).build((None, 3)),
    "weight decay": lambda: NoiseContrastive().check_head(LinearHead(V, weight_decay=0.1)),
}


def test_layers_refuse(messages):
    for call in CALLS.values():
        messages.refuse(call)
