"""What the benchmark compares with, as far as it is installed: PyTorch, KenLM, the ISI toolkit."""

import contextlib
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

Work = Callable[[], int]  # does a piece of work and says how many n-grams it was


def installed(module: str) -> bool:
    """Whether a Python package is there to be compared with."""
    return importlib.util.find_spec(module) is not None


def torch_network(vocabulary_size, order, embedding_dim, hidden_units, direct, ngrams: np.ndarray) -> dict[str, Work]:
    """The paper's network in PyTorch, as its users write it, on a batch of n-grams: a step of plain SGD, and ln P.

    Args:
        vocabulary_size, order, embedding_dim, hidden_units, direct: |V|, n, m, h, whether there is W.
        ngrams: int [B, n].
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

    def logits():
        x = embed(contexts).flatten(1)
        a = torch.tanh(hidden(x))
        return output(torch.cat([a, x], dim=1) if direct else a)

    def train(steps: int = 6) -> int:
        for _ in range(steps):
            optimizer.zero_grad()
            functional.cross_entropy(logits(), targets).backward()
            optimizer.step()
        return steps * len(ngrams)

    def score(steps: int = 12) -> int:
        with torch.no_grad():
            for _ in range(steps):
                torch.log_softmax(logits(), dim=1).gather(1, targets[:, None]).numpy()
        return steps * len(ngrams)

    return {"train": train, "score": score}


def kenlm_scores(arpa: Path, sentences: list[str]) -> Work:
    """`full_scores` of KenLM's Python module over sentences."""
    import kenlm

    model = kenlm.Model(str(arpa))

    def score() -> int:
        return sum(1 for sentence in sentences for _ in model.full_scores(sentence))

    return score


def lmplz(text: Path, order: int, words: int) -> Work | None:
    """KenLM's estimation of modified Kneser-Ney, where its program is on PATH."""
    if not (program := shutil.which("lmplz")):
        return None

    def estimate() -> int:
        command = [program, "-o", str(order), "--text", str(text), "--arpa", "/dev/null", "--discount_fallback"]
        subprocess.run(command, check=True, capture_output=True)
        return words

    return estimate


@contextlib.contextmanager
def isi_nplm(vocabulary_size: int, order: int, m: int, h: int, ngrams: np.ndarray, k: int) -> Iterator[Work | None]:
    """One epoch of noise-contrastive estimation by the ISI toolkit's `trainNeuralNetwork`, where it is on PATH."""
    program = shutil.which("trainNeuralNetwork")
    if not program:
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        np.savetxt(directory / "train.ngrams", ngrams, fmt="%d")
        words = "".join(f"w{word}\n" for word in range(vocabulary_size))
        (directory / "words").write_text(words, encoding="utf-8")
        options = {
            "train_file": directory / "train.ngrams",
            "words_file": directory / "words",
            "model_prefix": directory / "model",
            "ngram_size": order,
            "input_embedding_dimension": m,
            "num_hidden": 0,
            "output_embedding_dimension": h,
            "num_noise_samples": k,
            "minibatch_size": 512,
            "num_epochs": 1,
            "num_threads": 1,
        }
        command = [program, *(str(word) for option, value in options.items() for word in (f"--{option}", value))]

        def train() -> int:
            subprocess.run(command, check=True, capture_output=True)
            return len(ngrams)

        yield train


def litert_runner(path: Path) -> Callable:
    """The function of a LiteRT file, on one core."""
    interpreter = importlib.import_module("ai_edge_litert.interpreter").Interpreter(str(path), num_threads=1)
    return interpreter.get_signature_runner()


def onnx_session(path: Path):
    """A session of ONNX Runtime, on one core."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(str(path), options)
