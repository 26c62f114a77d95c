"""A short text and small options, on which a run takes one or two seconds; local SGD computed by turns."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.training.fit as fit
from keras_nplm import Configuration, Corpus, EncodedCorpus, ngram_dataset, open_corpus
from keras_nplm.training.fit import TrainingTargets


@pytest.fixture(scope="session")
def short_corpus(tmp_path_factory) -> Corpus:
    """400 lines of 3 to 11 words, about 30 word types by Zipf's law."""
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in rng.zipf(1.5, rng.integers(3, 12)) % 30) for _ in range(400)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return open_corpus(train=[str(path)])


@pytest.fixture(scope="session")
def short_configuration(small_configuration) -> Configuration:
    return dataclasses.replace(small_configuration, batch_size=64, min_count=2)


@pytest.fixture(scope="session")
def leave_out_report():
    """A function that makes training runs write no report.html and no logs of TensorBoard: most of a short run."""

    def leave_out(context: pytest.MonkeyPatch) -> None:
        context.setattr("keras_nplm.training.train.write_run_report", lambda *_: None)
        context.setattr("keras_nplm.training.fit.LanguageModelBoard", lambda *_, **__: keras.callbacks.Callback())

    return leave_out


@pytest.fixture
def no_report(monkeypatch, leave_out_report):
    leave_out_report(monkeypatch)


@pytest.fixture
def train_by_turns():
    """A function that trains as several workers with local SGD, one after the other in this process."""

    def train(
        configuration: Configuration, encoded: EncodedCorpus, workers: int
    ) -> tuple[list[np.ndarray], list[list[list[np.ndarray]]]]:
        """Return the weights after one epoch and the variables of each worker before each average."""
        targets, one = TrainingTargets.of(configuration, encoded), tf.distribute.get_strategy()
        _, steps, _, every = fit._divide_epoch(configuration, targets, one)
        keras.utils.set_random_seed(configuration.seed)
        synchronous = dataclasses.replace(configuration, average_every=1)
        model = fit._build(synchronous, targets, steps, one)
        ids, options = encoded.ids("train"), dict(seed=configuration.seed, boundary=configuration.boundary)
        size = configuration.batch_size
        batches = ngram_dataset(ids, configuration.order, size, first_epoch=0, drop_remainder=True, **options)
        weights = [*model.trainable_weights, *(part for part in model.optimizer.variables if len(part.shape))]
        held, train_step = [[variable.numpy() for variable in weights]] * workers, tf.function(model.train_step)
        before = []
        for update, (contexts, words) in enumerate(batches.take(steps).as_numpy_iterator(), 1):
            held = list(held)
            for worker, values in enumerate(held):
                for variable, value in zip(weights, values, strict=True):
                    variable.assign(value)
                model.optimizer.iterations.assign(update - 1)
                train_step((np.split(contexts, workers)[worker], np.split(words, workers)[worker]))
                held[worker] = [variable.numpy() for variable in weights]
            if update % every == 0 or update == steps:
                before.append(held)
                held = [[np.mean(parts, axis=0) for parts in zip(*held, strict=True)]] * workers
        return held[0][: len(model.trainable_weights)], before

    return train
