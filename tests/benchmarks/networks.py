"""The networks that the benchmarks time: the paper's sizes on Brown, training and scoring as
work.
"""

import numpy as np

from keras_nplm.data.epochs import Epochs
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.source import NgramSource
from keras_nplm.models.base import NextWordModel
from keras_nplm.training.build import build_model
from keras_nplm.training.configurations import CONFIGURATIONS
from keras_nplm.training.optimizers import LazySGD
from keras_nplm.training.options import Options
from keras_nplm.training.sizes import compute_sizes
from tests.benchmarks.contenders import Contender, Process, Work, count_steps

VOCABULARY_SIZE = 17_905  # of the paper's words of Brown
PAPER = CONFIGURATIONS["brown"].options.replace(
    held_out_mass=0.0, dropout=0.0, boundary="sentence", batch_size=512
)
NCE = PAPER.replace(objective="nce", num_sampled=256, self_normalisation=1.0)


def train_network(
    name: str, options: Options, steps: int, vocabulary_size: int = VOCABULARY_SIZE
) -> Contender:
    """Return the work of training a network on random n-grams; a GPU takes more steps."""
    steps = count_steps(steps)
    model = build_model(options, vocabulary_size)
    batch_size = options.training.batch_size
    ids = _sample_zipf_ids(vocabulary_size, batch_size * 400)
    model.set_unigram(np.bincount(ids, minlength=vocabulary_size))
    model.compile(optimizer=LazySGD(0.1), steps_per_execution=20 if steps >= 100 else 1)
    source = NgramSource(ids, model.order, boundary="stream")
    dataset = source.windows(batch_size, Epochs(drop_remainder=True, first_epoch=0))

    def work() -> int:
        model.fit(dataset, steps_per_epoch=steps, shuffle=False, verbose=0)
        return steps * batch_size

    flops = 0.0
    if options.network.dtype == "float32":  # as the matrix product of the peak
        flops = compute_sizes(options.network, vocabulary_size)["flops_training"]
    return Contender(name, work, flops)


def score_ngrams(model: NextWordModel, ngrams: np.ndarray) -> Work:

    def work() -> int:
        return len(model.log_prob(ngrams[:, :-1], ngrams[:, -1]))

    return work


def run_torch(options: Options, task: str) -> Process:
    """Return the same network in PyTorch as a peer; `task`: `"training"` or `"scoring"`."""
    ngrams = sample_ngrams(options.network.order, options.training.batch_size)
    arguments = dict(options=options, vocabulary_size=VOCABULARY_SIZE, ngrams=ngrams, task=task)
    flops = compute_sizes(options.network, VOCABULARY_SIZE)[f"flops_{task}"]
    build = f"{__package__}.torch_models:build_nplm"
    return Process("PyTorch", build, arguments, flops, peer=True)


def sample_ngrams(order: int, number: int, vocabulary_size: int = VOCABULARY_SIZE) -> np.ndarray:
    return extract_ngrams(_sample_zipf_ids(vocabulary_size, number), order, "stream")


def _sample_zipf_ids(vocabulary_size: int, length: int) -> np.ndarray:
    """Return random word ids, int32 [length], with frequencies proportional to 1/rank as in text
    (Zipf's law).
    """
    probability = 1 / np.arange(1, vocabulary_size - 3)
    probability /= probability.sum()
    words = np.arange(4, vocabulary_size)
    return np.random.default_rng(0).choice(words, length, p=probability).astype(np.int32)
