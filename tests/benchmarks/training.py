"""N-grams per CPU second of `fit`, by output layer, beside PyTorch.

The network has the paper's sizes and the vocabulary of Brown, and trains on batches of 512. PyTorch
trains the same network. The share of the peak, the rate of a large matrix product, counts the
products of a step: of the hidden layer, and of all words or with NCE of the target and k samples.
"""

from collections.abc import Iterator

from keras_nplm.training.options import Options
from tests.benchmarks.contenders import Contender, declare_speed
from tests.benchmarks.networks import NCE, PAPER, run_torch, train_network
from tests.benchmarks.report import Settings


def build_groups(settings: Settings) -> Iterator[list[Contender]]:
    yield _build_full_group("full softmax", PAPER.replace(direct_connections=False))
    direct = PAPER.replace(direct_connections=True)
    yield _build_full_group("full softmax, direct connections", direct)
    adaptive = PAPER.replace(head="adaptive")
    k = NCE.flatten()["num_sampled"]
    for size in (17_905, 100_000):
        yield [
            train_network(f"NCE, k={k}, V={size:,}", NCE, 320, size),
            train_network(f"adaptive softmax, V={size:,}", adaptive, 40, size),
        ]


def _build_full_group(title: str, options: Options) -> list[Contender]:
    bfloat16 = options.replace(dtype="mixed_bfloat16")
    return [
        train_network(title, options, 24),
        train_network(f"{title}, mixed_bfloat16", bfloat16, 24),
        run_torch(options, "training"),
    ]


REPORT = declare_speed(__doc__, build_groups)
