"""Speed benchmarks: n-grams per CPU second, as a ratio to peers and as a share of the processor's peak.

Contenders run on one core and take turns, so that each round compares them under the same load. A rate is the median
over the rounds. A ratio is the median of the ratios within the rounds. Each peer runs in its own process. `quality`
compares perplexities at a budget of training time instead.

Each benchmark is the module of its name: training, scoring, windows, estimation, serving, cost, preparation, tfds,
workers, quality. contenders: timing in turns. commands: whole commands, in turns. sampled_text: the texts that they
read. networks: the networks that are timed. peers: PyTorch, KenLM, LiteRT and ONNX Runtime. torch_language_models: the
models of `quality`. peer_process: a peer in its own process. children: processes that end with their parent. TensorFlow
is imported when a benchmark runs.
"""

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_nplm.io.processor import read_processor_name

if TYPE_CHECKING:
    from keras_nplm.data.corpora import Corpus

DEFAULT_BENCHMARKS = ("training", "scoring", "windows", "estimation", "serving")
BENCHMARKS = (*DEFAULT_BENCHMARKS, "cost", "preparation", "tfds", "workers", "quality")
TOKENS = (1_000_000,)  # of the texts of `estimation`, `preparation` and `tfds`
AVERAGE_EVERY = (1, 64, 256)  # K of the workers of `workers`
SECONDS = (300,)  # CPU seconds of training of the models of `quality`
_PEERS = ("torch", "kenlm", "ai_edge_litert", "onnxruntime")


def run_benchmarks(
    names: Sequence[str],
    corpus: "Corpus",
    rounds: int = 5,
    tokens: Sequence[int] = TOKENS,
    *,
    seconds: Sequence[int] = SECONDS,
    average_every: Sequence[int] = AVERAGE_EVERY,
    directory: str | os.PathLike = "paper",
    data_dir: str | None = None,
) -> dict:
    """Run benchmarks and collect their rows.

    Every row has `benchmark`, `name`, `unit` and `rate`, the median over the rounds, with the extremes `low` and
    `high`. Rates are per CPU second, in `workers` per second of the clock. Some rows have more:

    - `share_of_peak`: share of the processor's floating-point peak, where the number of operations is known
    - `milliseconds`: latency of a single request, [p50, p99]
    - `ratio_to`: for each peer the ratio of the rates, [median, low, high]
    - `failure`: the signal or the error that ended a peer; such a row has no rates
    - `cpu_seconds` (of all workers) and `validation_perplexity`: in the rows of `workers`
    - `wall_rate` (per second of the clock), `cpu_seconds` and `peak_memory` (bytes): in the rows of `estimation`,
      `preparation` and `tfds`

    The rows of `quality` have perplexities in place of rates; see `keras_nplm.experiments.benchmark.quality.measure`.

    Args:
        names: names of `BENCHMARKS`.
        corpus: the text for n-gram models and for `workers`; `estimation`, `preparation` and `tfds` sample from it.
        rounds: number of measured rounds. The contenders of a benchmark take turns.
        tokens: sizes of the texts of `estimation`, `preparation` and `tfds`.
        seconds: budgets of training of `quality`, in CPU seconds.
        average_every: the values of K of `workers`.
        directory: the directory of the models of `quality`, as of `keras-nplm paper`. Finished models are kept there.
        data_dir: directory of Brown's archive for `quality`, to which it is downloaded if it is absent.

    Returns:
        `rows`, `rounds`, and of the machine `cpu`, `tensorflow` (version) and `peers` (installed ones).
    """
    import tensorflow as tf

    from keras_nplm.experiments.benchmark.peers import is_installed

    rows = []
    for name in names:
        module = importlib.import_module(f"{__name__}.{name}")
        arguments = {
            "estimation": (corpus, rounds, tokens),
            "preparation": (corpus, rounds, tokens),
            "tfds": (corpus, rounds, tokens),
            "workers": (corpus, rounds, average_every),
            "quality": (directory, seconds, data_dir),
        }
        measured = module.measure(*arguments.get(name, (corpus, rounds)))
        rows += [{"benchmark": name} | row for row in measured]
    installed = [name for name in _PEERS if is_installed(name)]
    return {
        "rows": rows,
        "cpu": read_processor_name(),
        "tensorflow": tf.__version__,
        "peers": installed,
        "rounds": rounds,
    }
