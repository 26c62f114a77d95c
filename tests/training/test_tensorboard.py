"""The logs of `LanguageModelBoard`: scalars, text, hyperparameters and the projector's files."""

import html
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from tensorboard.plugins.hparams import metadata

from keras_nplm import (
    NPLM,
    DeepHidden,
    LanguageModel,
    LinearHead,
    Options,
    Vocabulary,
)
from keras_nplm.io.files import read_json
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.training.tensorboard import LanguageModelBoard, write_final_figures
from tests.networks import compose
from tests.training.logs import read_events, read_scalars

SIZE = 40
ORDER = 4
WORDS = [f"w{i}" for i in range(SIZE - 4)]


def _model(run_eagerly: bool = False, **options) -> ContextNetwork:
    keras.utils.set_random_seed(3)
    model = compose(SIZE, ORDER, 5, 6, **options)
    rate = keras.optimizers.schedules.PolynomialDecay(0.5, 40, end_learning_rate=0.1)
    model.compile(keras.optimizers.SGD(rate), run_eagerly=run_eagerly)
    return model


def _board(model: ContextNetwork, logs: Path, **options) -> LanguageModelBoard:
    return LanguageModelBoard(
        logs, LanguageModel(model, Vocabulary(WORDS), "whitespace", "sentence"), **options
    )


def _fit(model: ContextNetwork, callbacks: list, **options) -> keras.callbacks.History:
    ngrams = np.random.default_rng(1).integers(4, SIZE, (96, ORDER))
    data = ngrams[:, :-1], ngrams[:, -1]
    validation = tuple(part[:24] for part in data)
    options = (
        dict(epochs=2, batch_size=8, shuffle=False, verbose=0, validation_data=validation) | options
    )
    return model.fit(*data, callbacks=callbacks, **options)


@pytest.mark.long
def test_resumed_training_continues_the_curves_of_keras(tmp_path):
    counts = np.random.default_rng(4).integers(0, 9, SIZE)
    counts[:4] = 1000  # special tokens are left out of the projector all the same
    model = _model(
        hidden=DeepHidden(6, residual_blocks=1, name="hidden"),
        head=LinearHead(SIZE, tied=True, name="prob"),
    )
    options = dict(batch_size=8, update_freq=5, hparams={"order": 4}, word_counts=counts)
    first = _fit(model, [_board(model, tmp_path, **options)], epochs=1)
    second = _fit(model, [_board(model, tmp_path, **options)], initial_epoch=1)
    train = read_scalars(tmp_path / "train")
    validation = read_scalars(tmp_path / "validation")
    for name, tag in (("loss", "run/loss"), ("perplexity", "perplexity")):
        for values, key in ((train, name), (validation, f"val_{name}")):
            expected = dict(enumerate(first.history[key] + second.history[key], start=1))
            assert values[tag] == pytest.approx(expected, rel=1e-6)
    rates = {1: 0.5 - 0.4 * 12 / 40, 2: 0.5 - 0.4 * 24 / 40}
    assert train["run/learning_rate"] == pytest.approx(rates, rel=1e-6)
    assert list(train["run/ngrams_per_second"]) == list(train["continuations"]) == [1, 2]
    assert set(validation) == {"perplexity", "run/loss"} and "batch_loss" in train
    norm = np.linalg.norm(model.hidden.blocks[0].H)
    np.testing.assert_allclose(train["weights/norm_H1"][2], norm, rtol=1e-5)
    assert {"weights/norm_C", "weights/norm_H"} < set(train)
    vectors = np.loadtxt(tmp_path / "train" / "C.tsv", delimiter="\t")
    # the most frequent words first
    shown = sorted(range(4, SIZE), key=lambda i: (-counts[i], i))
    lines = ["word\tcount", *(f"{WORDS[i - 4]}\t{counts[i]}" for i in shown)]
    assert (tmp_path / "train" / "metadata.tsv").read_text().splitlines() == lines
    np.testing.assert_allclose(vectors, np.array(model.embed.C)[shown], rtol=1e-5)
    config = (tmp_path / "train" / "projector_config.pbtxt").read_text()
    assert 'tensor_path: "C.tsv"' in config and 'metadata_path: "metadata.tsv"' in config


@pytest.mark.filterwarnings("ignore:html5lib:DeprecationWarning")  # TensorBoard's own
def test_continuations_are_escaped_for_markdown(tmp_path):
    from tensorboard import plugin_util

    marks = "*a* <b> _c_ 1. # =1 `d` | [e](f) &amp; \\ ~~ - + > </i>".split()
    model = NPLM(len(vocabulary := Vocabulary(marks)), order=3, embedding_dim=2, hidden_units=3)
    model.compile("sgd", run_eagerly=True)
    language_model = LanguageModel(model, vocabulary, "whitespace", "sentence")
    prompts = ["", "*a* <b>", *marks]
    board = LanguageModelBoard(tmp_path, language_model, prompts=prompts)
    model.fit(np.full((30, 2), 4), np.full(30, 5), callbacks=[board], verbose=0)
    # which a spreadsheet may open
    assert "'=1" in (tmp_path / "train" / "metadata.tsv").read_text().splitlines()
    page = plugin_util.markdown_to_safe_html(
        read_scalars(tmp_path / "train")["continuations"][1].decode()
    )
    shown = html.unescape(re.sub("<[^>]*>", " ", page))
    drawn = [f"{prompt} {language_model.generate(prompt, 12)}" for prompt in prompts]
    # each has its turn, some at the start of a line
    assert set(marks) <= set(" ".join(drawn).split())
    assert shown.split() == " ".join(drawn).split()
    assert "<strong>*a* <b></strong>" in html.unescape(page)


def test_misuse_is_refused_before_training(tmp_path, messages):
    messages.refuse(lambda: _fit(_model(), [_board(_model(), tmp_path)]))


def test_logs_have_the_curves_options_and_final_figures_of_a_run(model_directory, small_options):
    metrics = read_json(model_directory / "metrics.json")
    logs = model_directory / "logs"
    curve = {epoch["epoch"]: epoch["validation_perplexity"] for epoch in metrics["history"]}
    assert min(curve) == 1
    assert read_scalars(logs / "validation")["perplexity"] == pytest.approx(curve, rel=1e-6)
    for split in ("validation", "test"):
        values = read_scalars(logs / split)
        for name in ("perplexity", "bits_per_character"):
            final = {metrics["best_epoch"]: metrics[split][name]}
            assert values[f"final/{name}"] == pytest.approx(final, rel=1e-6)
    train = read_scalars(logs / "train")
    session = read_events(logs / "validation").SummaryMetadata(metadata.SESSION_START_INFO_TAG)
    hparams = metadata.parse_session_start_info_plugin_data(session.plugin_data.content).hparams
    found = {name: getattr(value, value.WhichOneof("kind")) for name, value in hparams.items()}
    changed = dict(small_options.flatten().items() - Options().flatten().items())
    assert found == changed
    prompts = [
        re.findall(r"\*\*(.*?)\*\*", text.decode()) for text in train["continuations"].values()
    ]
    assert len(prompts[0]) == 4 and all(names == prompts[0] for names in prompts)


def test_final_figures_that_are_unknown_are_left_out(tmp_path):
    unknown = {"perplexity": 9.0, "bits_per_character": None}
    write_final_figures(tmp_path, {"best_epoch": 3, "test": unknown})  # without validation text
    assert [path.name for path in tmp_path.iterdir()] == ["test"]
    assert read_scalars(tmp_path / "test") == {"final/perplexity": {3: 9.0}}


def test_training_is_the_same_to_the_last_bit(tmp_path):
    models = []
    for _ in range(2):
        keras.utils.set_random_seed(3)  # the dropout of a layer takes its seed when it is made
        models.append(_model(hidden=DeepHidden(6, dropout=0.4, name="hidden")))
    plain, logged = models
    _fit(plain, [])
    _fit(logged, [_board(logged, tmp_path)])
    for one, other in zip(plain.get_weights(), logged.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
