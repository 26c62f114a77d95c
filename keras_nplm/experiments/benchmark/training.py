"""N-grams per CPU second of `fit`, by output layer, beside PyTorch.

The network has the paper's sizes and the vocabulary of Brown, and trains on batches of 512. PyTorch
trains the same network with the full softmax. The share of the peak, the rate of a large matrix
product, counts the products of a step: of the hidden layer, and of all words, or with a sampled
output of the target and the k negative samples.
"""

from collections.abc import Iterator

from keras_nplm.experiments.benchmark import Settings, declare_speed
from keras_nplm.experiments.benchmark.contenders import Contender
from keras_nplm.experiments.benchmark.networks import NCE, PAPER, run_torch, train_network


def build_groups(settings: Settings) -> Iterator[list[Contender]]:
    for title, direct in (("full softmax", False), ("full softmax, direct connections", True)):
        full = PAPER.replace(direct_connections=direct)
        bfloat16 = full.replace(dtype="mixed_bfloat16")
        yield [
            train_network(title, full, 24),
            train_network(f"{title}, mixed_bfloat16", bfloat16, 24),
            run_torch(full, "training"),
        ]
    sampled = PAPER.replace(objective="sampled")
    adaptive = PAPER.replace(head="adaptive")
    for size in (17_905, 100_000):
        yield [
            train_network(f"NCE, k={NCE.network.num_sampled}, V={size:,}", NCE, 320, size),
            train_network(
                f"sampled softmax, k={sampled.network.num_sampled}, V={size:,}", sampled, 320, size
            ),
            train_network(f"adaptive softmax, V={size:,}", adaptive, 40, size),
        ]


STUDY = declare_speed(__doc__, build_groups)
