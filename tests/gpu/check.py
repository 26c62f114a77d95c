"""What a run on a GPU must prove, in one script: `python tests/gpu/check.py`, with `--only NAME …`
for some checks.

Each check trains small networks in a process of its own, and prints as JSON its figures and the
device. On a machine without a GPU it runs on the CPU. `mirrored` needs two devices, and divides a
single one. It also compares networks with and without XLA, by which Keras compiles those on a
single GPU. Exit status 1: a check failed.
"""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from keras_nplm import CONFIGURATIONS, ContextNetwork, LanguageModel, open_corpus, train
from keras_nplm.training.fit import Fitting

KIND = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
SMALL = dict(
    order=5,
    embedding_dim=32,
    hidden_units=64,
    context="concatenated",
    dropout=0,
    embedding_dropout=0,
    epochs=1,
)
OUTPUTS = {"likelihood": {}, "adaptive": {"head": "adaptive"}, "nce": {"objective": "nce"}}
SMALL |= dict(max_size=2000, batch_size=256, optimizer="adam", learning_rate=0.01)


def _train(
    directory: Path | None = None, strategy: str = "one-device", **options: object
) -> tuple[ContextNetwork, float]:
    """Train a small network on the embedded default corpus.

    Return it, and its validation perplexity. No check reads the report or the logs of the run.
    """
    changed = CONFIGURATIONS["small"].options.replace(**SMALL | options)
    with (
        tempfile.TemporaryDirectory() as temporary,
        mock.patch("keras_nplm.training.train.write_run_report"),
        mock.patch(
            "keras_nplm.training.fit.LanguageModelBoard", return_value=keras.callbacks.Callback()
        ),
    ):
        directory = directory or Path(temporary, "model")
        metrics = train(open_corpus(), directory, **changed._asdict(), strategy=strategy)
        model = LanguageModel.load(directory).model
    assert all(KIND in v.value.device for v in model.trainable_variables), (
        f"weights are not on a {KIND}"
    )
    return model, metrics["validation"]["perplexity"]


def check_log_probs() -> dict:
    """Log-probabilities on the device are those of the CPU, and sum to 1."""
    model, perplexity = _train()
    contexts = (
        np.random.default_rng(0)
        .integers(4, model.vocabulary_size, (512, model.order - 1))
        .astype(np.int32)
    )
    found = model.next_log_probs(contexts)
    with tf.device("CPU:0"):
        copy = type(model).from_config(model.get_config())
        copy.set_weights(model.get_weights())
        difference = float(np.abs(found - copy.next_log_probs(contexts)).max())
    # the GPU may multiply in TF32
    assert difference < 0.02, f"log-probabilities differ by {difference}"
    assert np.allclose(np.exp(found).sum(axis=1), 1, atol=1e-3), "probabilities do not sum to 1"
    return {"largest difference from the CPU": difference, "perplexity": perplexity}


def _compare(tolerance: float, **changed: object) -> dict:
    """Train output layers with and without changed options.

    Return the perplexities, which must agree.
    """
    figures = {}
    for output in OUTPUTS:
        expected, found = (_train(**OUTPUTS[output], **options)[1] for options in ({}, changed))
        assert abs(found / expected - 1) < tolerance, (
            f"{output}: perplexity {found} instead of {expected}"
        )
        figures[output] = [expected, found]
    return figures


def check_mirrored() -> dict:
    """Two replicas train as one device does."""
    first, *more = tf.config.list_physical_devices(KIND)
    if not more:
        half = tf.config.LogicalDeviceConfiguration(
            **({"memory_limit": 4096} if KIND == "GPU" else {})
        )
        tf.config.set_logical_device_configuration(first, [half, half])
    return _compare(0.01, strategy="mirrored")


def check_bfloat16() -> dict:
    """A network that computes in bfloat16 trains to nearly the same perplexity."""
    return _compare(0.03, dtype="mixed_bfloat16")


def check_resume() -> dict:
    """A run that is interrupted in its second epoch resumes to the same weights, bit for bit."""
    tf.config.experimental.enable_op_determinism()
    update = Fitting.on_train_batch_end
    options = dict(epochs=3, dropout=0.2)

    def interrupt(fitting: Fitting, batch: int, logs: dict[str, float]) -> None:
        if fitting.checkpoint.position > (1, 9):
            signal.raise_signal(signal.SIGINT)
        update(fitting, batch, logs)

    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary, "model")
        with (
            mock.patch.object(Fitting, "on_train_batch_end", interrupt),
            contextlib.suppress(KeyboardInterrupt),
        ):
            _train(directory, **options)
        assert (directory / "last.npz").exists(), "no checkpoint was written"
        weights = [
            model.get_weights() for model, _ in (_train(directory, **options), _train(**options))
        ]
    assert all(map(np.array_equal, *weights)), "weights differ"
    return {"equal weights": len(weights[0])}


CHECKS = {
    name.removeprefix("check_"): check
    for name, check in globals().items()
    if name.startswith("check_")
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", choices=CHECKS, nargs="+", default=[*CHECKS], help="checks (default: all)"
    )
    names = parser.parse_args().only
    if len(names) > 1:
        return max(
            subprocess.run([sys.executable, __file__, "--only", name]).returncode for name in names
        )
    with contextlib.redirect_stdout(sys.stderr):
        figures = CHECKS[names[0]]()
    details = tf.config.experimental.get_device_details(tf.config.list_physical_devices(KIND)[0])
    print(
        json.dumps({"name": names[0], "device": details.get("device_name", KIND)} | figures),
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
