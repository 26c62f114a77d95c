"""What a run on a GPU must prove, in one script: `python tests/gpu/check.py`, with `--only NAME …` for some checks.

Each check runs in a process of its own. On a machine without a GPU it runs on the CPU; `mirrored` then uses two logical
CPUs, and on a machine with one GPU two logical GPUs. The script prints as JSON what ran on which device. Exit status
1: a check failed.
"""

import argparse
import contextlib
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_nplm import CONFIGURATIONS, NPLM, Configuration, LanguageModel, open_corpus
from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.encoding import count_vocabulary, encode_sentences
from keras_nplm.models.self_normalised import evaluate_with_ln_z
from keras_nplm.training.checkpoint import Checkpoint
from keras_nplm.training.distribution import open_strategy
from keras_nplm.training.train import train

ORDER, BATCH = 5, 256
OUTPUTS = ("full", "nce", "adaptive")
MEMORY = 4096  # MB of a logical GPU


class Text:
    """The embedded default corpus as ids: the first `tokens` of its training split."""

    def __init__(self, tokens: int | None = 1 << 14):
        corpus = open_corpus()
        vocabulary = count_vocabulary(corpus, min_count=3)
        self.size = len(vocabulary)
        self.train = encode_sentences(corpus.sentences("train"), vocabulary)[:tokens]
        self.validation = encode_sentences(corpus.sentences("validation"), vocabulary)

    def batches(self, ids: np.ndarray, shuffle: bool = True) -> tf.data.Dataset:
        return ngram_dataset(ids, ORDER, BATCH, boundary="sentence", shuffle=shuffle, drop_remainder=shuffle)


def _fit(
    text: Text, output: str = "full", strategy: tf.distribute.Strategy | None = None, epochs: int = 1, **options: object
) -> tuple[NPLM, float]:
    """Fit a small network. Return it, and its validation perplexity."""
    compiled = {"jit_compile": options.pop("jit_compile")} if "jit_compile" in options else {}
    with strategy.scope() if strategy else contextlib.nullcontext():
        keras.utils.set_random_seed(1)
        model = NPLM(text.size, ORDER, 32, 64, output=output, boundary="sentence", **options)
        model.prob.set_unigram(np.bincount(text.train, minlength=text.size))
        model.compile(keras.optimizers.Adam(1e-2), **compiled)
    held_out = text.batches(text.validation, shuffle=False)
    history = model.fit(text.batches(text.train), validation_data=held_out, epochs=epochs, shuffle=False, verbose=0)
    return model, history.history["val_perplexity"][-1]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SystemExit(f"FAILED {message}")


def _check_device(model: NPLM) -> str:
    """Return the device of the weights; with a GPU they must lie there."""
    devices = {variable.value.device.rpartition("device:")[2] for variable in model.trainable_variables}
    _require(len(devices) == 1 and (not _list_gpus() or "GPU" in str(devices)), f"weights are on {sorted(devices)}")
    return devices.pop()


def _list_gpus() -> list:
    return tf.config.list_physical_devices("GPU")


def check_log_probs() -> dict:
    """Log-probabilities on the device are those of the CPU, and sum to 1."""
    text = Text()
    model, perplexity = _fit(text)
    contexts = np.lib.stride_tricks.sliding_window_view(text.validation, ORDER - 1)[:512].astype(np.int32)
    device = _check_device(model)
    found = model.next_log_probs(contexts)
    with tf.device("CPU:0"):
        copy = NPLM.from_config(model.get_config())
        copy.set_weights(model.get_weights())
        difference = float(np.abs(found - copy.next_log_probs(contexts)).max())
    _require(difference < 0.02, f"log-probabilities differ by {difference}")  # the GPU may multiply in TF32
    _require(np.allclose(np.exp(found).sum(axis=1), 1, atol=1e-3), "probabilities do not sum to 1")
    return {"device": device, "largest difference from the CPU": difference, "perplexity": perplexity}


def check_mirrored() -> dict:
    """Two replicas train as one device does."""
    kind = "GPU" if _list_gpus() else "CPU"
    physical = tf.config.list_physical_devices(kind)
    if len(physical) == 1:
        logical = tf.config.LogicalDeviceConfiguration(**({"memory_limit": MEMORY} if kind == "GPU" else {}))
        tf.config.set_logical_device_configuration(physical[0], [logical, logical])
    strategy, text, figures = open_strategy("mirrored"), Text(), {}
    figures["device"] = f"{strategy.num_replicas_in_sync} x {kind}, {len(physical)} physical"
    for output in OUTPUTS:
        _, alone = _fit(text, output)
        _, together = _fit(text, output, strategy)
        tolerance = 0.05 if output == "nce" else 0.01  # each replica draws its own negative samples
        _require(abs(together / alone - 1) < tolerance, f"{output}: perplexity {together} instead of {alone}")
        figures[output] = [alone, together]
    return figures


def _compare(outputs: Sequence[str], plain: dict, changed: dict, tolerance: float) -> dict:
    """Fit with plain and with changed options; check that the perplexities agree and that weights are float32."""
    text, figures = Text(), {}
    for output in outputs:
        _, expected = _fit(text, output, **plain)
        model, found = _fit(text, output, **changed)
        _require(model.jit_compile is True or "jit_compile" not in changed, f"{output}: not compiled")
        _require(all(variable.dtype == "float32" for variable in model.trainable_variables), "weights are not float32")
        _require(abs(found / expected - 1) < tolerance, f"{output}: perplexity {found} instead of {expected}")
        figures |= {"device": _check_device(model), output: [expected, found]}
    return figures


def check_xla() -> dict:
    """A network compiled by XLA trains to the same perplexity. Sampled outputs such as NCE are never compiled."""
    return _compare(("full", "adaptive"), {"jit_compile": False}, {"jit_compile": True}, 0.02)


def check_bfloat16() -> dict:
    """A network that computes in bfloat16 trains to nearly the same perplexity."""
    return _compare(OUTPUTS, {}, {"dtype": "mixed_bfloat16"}, 0.03)


def check_nce() -> dict:
    """Noise-contrastive estimation learns, and keeps log Z close to 0."""
    text = Text(tokens=None)
    model, _ = _fit(text, "nce", epochs=3)
    figures = evaluate_with_ln_z(model, text.validation, "sentence")
    unigrams = np.bincount(text.train, minlength=text.size) + 1.0
    baseline = float(np.exp(-np.log(unigrams / unigrams.sum())[text.validation].mean()))
    _require(figures["perplexity"] < 0.5 * baseline, f"perplexity {figures['perplexity']}, unigrams {baseline}")
    _require(figures["ln_z"]["mean_absolute"] < 0.5, f"log Z {figures['ln_z']}")
    return {"device": _check_device(model), "unigrams": baseline} | figures


def check_resume() -> dict:
    """A run that is interrupted in its second epoch resumes to the same weights, bit for bit."""
    tf.config.experimental.enable_op_determinism()
    small = dict(order=ORDER, embedding_dim=16, hidden_units=32, epochs=3, batch_size=BATCH, output_layer="full")
    configuration = dataclasses.replace(CONFIGURATIONS["small"], **small, dropout=0.2)
    with tempfile.TemporaryDirectory() as directory:
        whole = _train(configuration, Path(directory, "whole"))
        saved = Checkpoint.on_train_batch_end

        def interrupt(self: Checkpoint, batch: int, logs: dict | None = None) -> None:
            saved(self, batch, logs)
            if self.position == (1, self.steps // 2 // self.model.steps_per_execution * self.model.steps_per_execution):
                raise KeyboardInterrupt

        Checkpoint.on_train_batch_end = interrupt
        with contextlib.suppress(KeyboardInterrupt):
            _train(configuration, Path(directory, "resumed"))
        Checkpoint.on_train_batch_end = saved
        _require(Path(directory, "resumed", "last.npz").exists(), "no checkpoint was written")
        resumed = _train(configuration, Path(directory, "resumed"))
    pairs = list(zip(whole.get_weights(), resumed.get_weights(), strict=True))
    difference = max(float(np.abs(a - b).max()) for a, b in pairs)
    _require(all(np.array_equal(a, b) for a, b in pairs), f"weights differ by {difference}")
    return {"device": _check_device(resumed), "equal weights": sum(a.size for a, _ in pairs)}


def _train(configuration: Configuration, directory: Path) -> NPLM:
    train(configuration, open_corpus(), directory, strategy="one-device")
    return LanguageModel.load(directory).model


CHECKS: dict[str, Callable[[], dict]] = {
    name.removeprefix("check_"): function for name, function in globals().items() if name.startswith("check_")
}


def run_checks(names: Sequence[str]) -> list[dict]:
    """Run each check in a process of its own. Return its name, whether it passed, the seconds and its figures."""
    results = []
    for name in names:
        print(f"{name}: {CHECKS[name].__doc__}", file=sys.stderr, flush=True)
        began = time.perf_counter()
        run = subprocess.run([sys.executable, __file__, "--child", name], capture_output=True, text=True)
        passed = run.returncode == 0
        error = {"error": " ".join(run.stderr.splitlines()[-2:])}
        figures = json.loads(run.stdout.splitlines()[-1]) if passed else error
        results.append({"name": name, "passed": passed, "seconds": round(time.perf_counter() - began, 1)} | figures)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=tuple(CHECKS), nargs="+", default=tuple(CHECKS), help="checks (default: all)")
    parser.add_argument("--child", choices=tuple(CHECKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        with contextlib.redirect_stdout(sys.stderr):
            figures = CHECKS[options.child]()
        print(json.dumps(figures))
        return 0
    details = [tf.config.experimental.get_device_details(gpu) for gpu in _list_gpus()]
    names = ", ".join(detail.get("device_name", "unnamed GPU") for detail in details)
    results = run_checks(options.only)
    print(json.dumps({"gpus": names, "tensorflow": tf.__version__, "checks": results}, indent=2))
    return 0 if all(result["passed"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
