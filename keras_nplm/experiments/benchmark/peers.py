"""Peers of the benchmarks, as far as they are installed: PyTorch, KenLM, LiteRT, ONNX Runtime.

Each `run_…` function names the contender for the table. Its process calls the `build_…` function; see `peer_process`.
"""

import functools
import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_nplm.experiments.benchmark.contenders import Contender, time_requests
from keras_nplm.experiments.benchmark.peer_process import PeerProcess


def is_installed(module: str) -> bool:
    """Return whether a Python package is installed. It is not imported: this may fail, or crash."""
    return importlib.util.find_spec(module) is not None


def run_torch(sizes: dict[str, int], ngrams: np.ndarray, task: str, flops: float) -> PeerProcess:
    """Return PyTorch as a peer.

    Args:
        sizes: `vocabulary_size`, `order`, `embedding_dim`, `hidden_units` and `direct` of the network.
        ngrams: the batch, int [B, n].
        task: `"train"` or `"score"`.
        flops: floating-point operations of one n-gram.
    """
    arguments = sizes | {"ngrams": ngrams.tolist(), "task": task}
    return PeerProcess("PyTorch", f"{__name__}:build_torch", arguments, flops, peer=True)


def build_torch(
    vocabulary_size: int,
    order: int,
    embedding_dim: int,
    hidden_units: int,
    direct: bool,
    ngrams: Sequence[Sequence[int]],
    task: str,
    steps: int | None = None,
) -> Contender:
    """Return training or scoring of the paper's network in PyTorch, in the way that its users write it.

    Args:
        vocabulary_size: |V|.
        order: n.
        embedding_dim: m.
        hidden_units: h.
        direct: whether there are direct connections, W.
        ngrams: the batch, [B, n].
        task: `"train"`: steps of plain SGD on the batch. `"score"`: ln P of the n-grams of the batch.
        steps: number of times that the batch is worked on. Default: 6 in training, 12 in scoring.
    """
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    torch.manual_seed(0)
    x_size = (order - 1) * embedding_dim
    embed = torch.nn.Embedding(vocabulary_size, embedding_dim)
    hidden = torch.nn.Linear(x_size, hidden_units)
    output = torch.nn.Linear(hidden_units + direct * x_size, vocabulary_size)
    weights = [*embed.parameters(), *hidden.parameters(), *output.parameters()]
    optimizer = torch.optim.SGD(weights, 0.1)
    batch = torch.tensor(ngrams, dtype=torch.int64)
    contexts, targets = batch[:, :-1].contiguous(), batch[:, -1].contiguous()
    steps = steps or {"train": 6, "score": 12}[task]

    def compute_logits() -> torch.Tensor:
        x = embed(contexts).flatten(1)
        a = torch.tanh(hidden(x))
        return output(torch.cat([a, x], dim=1) if direct else a)

    def train() -> int:
        for _ in range(steps):
            optimizer.zero_grad()
            functional.cross_entropy(compute_logits(), targets).backward()
            optimizer.step()
        return steps * len(batch)

    def score() -> int:
        with torch.no_grad():
            for _ in range(steps):
                torch.log_softmax(compute_logits(), dim=1).gather(1, targets[:, None]).numpy()
        return steps * len(batch)

    return Contender("PyTorch", {"train": train, "score": score}[task])


def run_kenlm(arpa: Path, sentences: list[str]) -> PeerProcess:
    """Return KenLM as a peer; it scores sentences by `full_scores` of its Python module."""
    arguments = {"arpa": str(arpa), "sentences": sentences}
    return PeerProcess("KenLM, full_scores", f"{__name__}:build_kenlm", arguments, peer=True)


def build_kenlm(arpa: str, sentences: list[str]) -> Contender:
    """Return the contender of `run_kenlm`."""
    model = importlib.import_module("kenlm").Model(arpa)
    return Contender("KenLM", lambda: sum(1 for sentence in sentences for _ in model.full_scores(sentence)))


def run_litert(name: str, path: Path, context_ids: np.ndarray) -> PeerProcess:
    """Return requests to a LiteRT file on one core, for the log-probabilities after contexts, int [B, n-1]."""
    return PeerProcess(name, f"{__name__}:build_litert", {"path": str(path), "context_ids": context_ids.tolist()})


def build_litert(path: str, context_ids: list[list[int]]) -> Contender:
    """Return the contender of `run_litert`."""
    interpreter = importlib.import_module("ai_edge_litert.interpreter").Interpreter(path, num_threads=1)
    run = functools.partial(interpreter.get_signature_runner(), context_ids=np.array(context_ids, np.int32))
    return time_requests("LiteRT", run, len(context_ids))


def run_onnx(name: str, path: Path, context_ids: np.ndarray) -> PeerProcess:
    """Return requests to an ONNX file on one core, for the log-probabilities after contexts, int [B, n-1]."""
    return PeerProcess(name, f"{__name__}:build_onnx", {"path": str(path), "context_ids": context_ids.tolist()})


def build_onnx(path: str, context_ids: list[list[int]]) -> Contender:
    """Return the contender of `run_onnx`."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(path, options)
    run = functools.partial(session.run, None, {"context_ids": np.array(context_ids, np.int32)})
    return time_requests("ONNX Runtime", run, len(context_ids))
