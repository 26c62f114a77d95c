"""Peers of the benchmarks, as far as they are installed: PyTorch, KenLM, LiteRT, ONNX Runtime."""

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keras_nplm.experiments.benchmark.contenders import Work


def is_installed(module: str) -> bool:
    """Return whether a Python package is installed."""
    return importlib.util.find_spec(module) is not None


def build_torch_network(
    vocabulary_size: int, order: int, embedding_dim: int, hidden_units: int, direct: bool, ngrams: np.ndarray
) -> dict[str, Work]:
    """Return training and scoring of the paper's network in PyTorch, in the way that its users write it.

    Args:
        vocabulary_size: |V|.
        order: n.
        embedding_dim: m.
        hidden_units: h.
        direct: whether there are direct connections, W.
        ngrams: the batch, int [B, n].

    Returns:
        `"train"`: steps of plain SGD on the batch. `"score"`: ln P of the n-grams of the batch.
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
    contexts = torch.from_numpy(ngrams[:, :-1].astype(np.int64))
    targets = torch.from_numpy(ngrams[:, -1].astype(np.int64))

    def compute_logits():
        x = embed(contexts).flatten(1)
        a = torch.tanh(hidden(x))
        return output(torch.cat([a, x], dim=1) if direct else a)

    def train(steps: int = 6) -> int:
        for _ in range(steps):
            optimizer.zero_grad()
            functional.cross_entropy(compute_logits(), targets).backward()
            optimizer.step()
        return steps * len(ngrams)

    def score(steps: int = 12) -> int:
        with torch.no_grad():
            for _ in range(steps):
                torch.log_softmax(compute_logits(), dim=1).gather(1, targets[:, None]).numpy()
        return steps * len(ngrams)

    return {"train": train, "score": score}


def score_with_kenlm(arpa: Path, sentences: list[str]) -> Work:
    """Return the work of scoring sentences by `full_scores` of KenLM's Python module."""
    import kenlm

    model = kenlm.Model(str(arpa))
    return lambda: sum(1 for sentence in sentences for _ in model.full_scores(sentence))


def open_litert(path: Path) -> Callable:
    """Return the function of a LiteRT file, on one core."""
    interpreter = importlib.import_module("ai_edge_litert.interpreter").Interpreter(str(path), num_threads=1)
    return interpreter.get_signature_runner()


def open_onnx(path: Path):
    """Return a session of ONNX Runtime, on one core."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(str(path), options)
