"""The logs of `LanguageModelBoard` against NumPy, and in a browser on the pages of TensorBoard."""

import asyncio
import dataclasses
import html
import json
import os
import re
import shutil
import subprocess
import sys
import time
import types
import urllib.request
from pathlib import Path

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
from tensorboard.util import tensor_util

from keras_nplm import NPLM, Configuration, DeepHidden, InputError, LanguageModel, Vocabulary
from keras_nplm.layers.outputs import AdaptiveSoftmax, FullSoftmax, NoiseContrastive
from keras_nplm.training.tensorboard import LanguageModelBoard

SIZE, ORDER = 40, 4
WORDS = [f"w{i}" for i in range(SIZE - 4)]


def _read(directory: Path) -> EventAccumulator:
    return EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()


def _values(directory: Path) -> dict[str, dict]:
    """The values of each tag by step, in the order of writing: the reader sorts files of one second by name."""
    events = _read(directory)
    tags = [tag for tag in events.Tags()["tensors"] if not tag.startswith("_hparams_")]
    return {
        tag: {
            event.step: tensor_util.make_ndarray(event.tensor_proto)[()]
            for event in sorted(events.Tensors(tag), key=lambda event: event.wall_time)
        }
        for tag in tags
    }


def _model(output="full", **options) -> NPLM:
    keras.utils.set_random_seed(3)
    options = dict(order=ORDER, embedding_dim=5, hidden_units=6, output=output) | options
    model = NPLM(SIZE, **options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    schedule = keras.optimizers.schedules.PolynomialDecay(0.5, 40, end_learning_rate=0.1)
    model.compile(optimizer=keras.optimizers.SGD(schedule))
    return model


def _ngrams(number: int) -> tuple[np.ndarray, np.ndarray]:
    """N-grams with `<pad>` in some contexts, and with repeated words."""
    ngrams = np.random.default_rng(1).integers(4, SIZE, (number, ORDER))
    ngrams[::5, 0] = 0
    ngrams[::3, 1] = ngrams[::3, 2]
    return ngrams[:, :-1], ngrams[:, -1]


def _board(model: NPLM, logs: Path, **options) -> LanguageModelBoard:
    return LanguageModelBoard(logs, LanguageModel(model, Vocabulary(WORDS), "whitespace", "sentence"), **options)


def _fit(model: NPLM, callbacks: list, **options) -> keras.callbacks.History:
    validation = tuple(part[:24] for part in _ngrams(100))
    options = dict(epochs=2, batch_size=8, shuffle=False, verbose=0, validation_data=validation) | options
    return model.fit(*_ngrams(96), callbacks=callbacks, **options)


def _gradients(model: NPLM, contexts: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """The gradient of the mean -ln P by the chain rule, for a linear output without a projection; and ln Z."""
    C, H, d, kernel, b = (
        np.array(weight, np.float64)
        for weight in (model.embed.C, model.hidden.H, model.hidden.d, model.prob.kernel, model.prob.b)
    )
    h, present = len(d), (contexts != 0)[..., None]
    x = (C[contexts] * present).reshape(len(contexts), -1)
    a = np.tanh(x @ H + d)
    features = np.concatenate([a, x], axis=1)[:, : kernel.shape[1]]
    y = features @ kernel.T + b
    log_z = np.log(np.exp(y).sum(axis=1))
    d_y = np.exp(y - log_z[:, None])
    d_y[np.arange(len(targets)), targets] -= 1
    d_y /= len(targets)
    d_kernel, d_features = d_y.T @ features, d_y @ kernel
    d_hidden = d_features[:, :h] * (1 - a**2)
    d_x = d_hidden @ H.T + (d_features[:, h:] if model.direct_connections else 0)
    d_C = np.zeros_like(C)
    np.add.at(d_C, contexts, d_x.reshape(*contexts.shape, -1) * present)
    gradients = {"C": d_C, "H": x.T @ d_hidden, "U": d_kernel[:, :h]}
    return gradients | ({"W": d_kernel[:, h:]} if model.direct_connections else {}) | {"ln_z": log_z}


@pytest.mark.parametrize(
    "output, direct_connections, near_zero",
    [
        pytest.param(FullSoftmax(SIZE), True, False, marks=pytest.mark.long),
        pytest.param(FullSoftmax(SIZE, held_out_mass=0.1, self_normalisation=0.3), False, True, marks=pytest.mark.long),
        (NoiseContrastive(SIZE, num_sampled=7, held_out_mass=0.1, seed=0), True, True),
    ],
)
def test_norms_and_log_z_agree_with_numpy(tmp_path, output, direct_connections, near_zero):
    model, probe = _model(output, direct_connections=direct_connections, dropout=0.3), _ngrams(50)
    model.prob.b.assign(model.prob.b - 4)  # so that ln Z is now above 0, now below
    _fit(model, [_board(model, tmp_path, probe=probe)])
    values = _values(tmp_path / "train")
    expected = _gradients(model, *probe)
    log_z = expected.pop("ln_z")
    h = model.hidden_units
    kernel = np.array(model.prob.kernel)
    weights = {"C": np.array(model.embed.C), "H": np.array(model.hidden.H), "U": kernel[:, :h], "W": kernel[:, h:]}
    norms = {name for name in values if name.startswith("weights/")}
    assert norms == {f"weights/{kind}_{name}" for kind in ("norm", "gradient_norm") for name in expected}
    for name, gradient in expected.items():
        np.testing.assert_allclose(values[f"weights/gradient_norm_{name}"][1], np.linalg.norm(gradient), rtol=1e-4)
        np.testing.assert_allclose(values[f"weights/norm_{name}"][1], np.linalg.norm(weights[name]), rtol=1e-5)
        assert values[f"weights/norm_{name}"][0] != values[f"weights/norm_{name}"][1]
    assert ("run/log_z_mean" in values) == near_zero
    if near_zero:
        assert log_z.min() < 0 < log_z.max()
        np.testing.assert_allclose(values["run/log_z_mean"][1], log_z.mean(), rtol=1e-4)
        np.testing.assert_allclose(values["run/log_z_mean_absolute"][1], np.abs(log_z).mean(), rtol=1e-4)


def test_epochs_are_recorded_with_any_update_frequency(tmp_path):
    model = _model()
    _fit(model, [_board(model, tmp_path, batch_size=8, update_freq=5)], epochs=3)
    train, validation = (_values(tmp_path / run) for run in ("train", "validation"))
    for tag in ("perplexity", "weights/norm_C", "run/ngrams_per_second", "continuations", "run/loss"):
        assert set(train[tag]) == {0, 1, 2}, tag
    assert set(validation) == {"perplexity", "run/loss"}
    assert set(validation["perplexity"]) == {0, 1, 2}
    assert "batch_loss" in train


_LONG = pytest.mark.long


@pytest.mark.parametrize(
    "options, matrices",
    [
        ({"hidden_units": 0, "direct_connections": True}, {"C": "C", "W": "UW"}),
        pytest.param(
            {"output": FullSoftmax(SIZE, rank=3)}, {name: name for name in ("C", "H", "P", "UW")}, marks=_LONG
        ),
        pytest.param({"output": FullSoftmax(SIZE, tied=True)}, {name: name for name in ("C", "H", "P")}, marks=_LONG),
        pytest.param(
            {"output": AdaptiveSoftmax(SIZE, cutoffs=(10, 20))},
            {name: name for name in ("C", "H", "root_U", "P1", "cluster1_U", "P2", "cluster2_U")},
            marks=_LONG,
        ),
    ],
)
def test_each_matrix_of_other_outputs_has_its_norms(tmp_path, options, matrices):
    """The gradient against a difference of exact likelihoods, taken by `log_prob`, along the gradient of each."""
    model, (contexts, targets) = _model(**options), _ngrams(50)
    _fit(model, [_board(model, tmp_path, probe=(contexts, targets))])
    values = _values(tmp_path / "train")
    assert {name for name in values if name.startswith("weights/")} == {
        f"weights/{kind}_{name}" for kind in ("norm", "gradient_norm") for name in matrices
    }
    rng = np.random.default_rng(2)
    for name, weight_name in matrices.items():
        (weight,) = [weight for weight in model.trainable_variables if weight.name == weight_name]
        value = weight.numpy()
        np.testing.assert_allclose(values[f"weights/norm_{name}"][1], np.linalg.norm(value), rtol=1e-5)
        squares = []
        for _ in range(60):  # the mean square of the slope along a random direction is |gradient|²
            direction = rng.normal(size=value.shape).astype(np.float32)
            slopes = []
            for step in (1e-2, -1e-2):
                weight.assign(value + step * direction)
                slopes.append(model.log_prob(contexts, targets).mean(dtype=np.float64))
            squares.append(((slopes[0] - slopes[1]) / 2e-2) ** 2)
        weight.assign(value)
        np.testing.assert_allclose(values[f"weights/gradient_norm_{name}"][1], np.sqrt(np.mean(squares)), rtol=0.35)


def test_matrices_of_residual_blocks_have_their_norms(tmp_path):
    model = _model(hidden=DeepHidden(6, residual_blocks=2, layer_norm=True), output=FullSoftmax(SIZE, tied=True))
    _fit(model, [_board(model, tmp_path)], epochs=1)
    values = _values(tmp_path / "train")
    names = {name for name in values if name.startswith("weights/")}
    assert names == {f"weights/norm_{name}" for name in ("C", "H", "H1", "H2", "P")}
    expected = np.linalg.norm(model.hidden.blocks[1].H)
    np.testing.assert_allclose(values["weights/norm_H2"][0], expected, rtol=1e-5)


def test_resumed_training_continues_the_curves_of_keras(tmp_path):
    model = _model()
    first = _fit(model, [_board(model, tmp_path, hparams={"order": 4})])
    rates = [0.5 - 0.4 * min(updates, 40) / 40 for updates in (12, 24, 36)]
    second = _fit(model, [_board(model, tmp_path, hparams={"order": 4})], initial_epoch=2, epochs=3)
    train, validation = _values(tmp_path / "train"), _values(tmp_path / "validation")
    for tag, name in (("run/loss", "loss"), ("perplexity", "perplexity")):
        for values, key in ((train, name), (validation, f"val_{name}")):
            expected = first.history[key] + second.history[key]
            assert list(values[tag]) == [0, 1, 2]
            np.testing.assert_allclose(list(values[tag].values()), expected, rtol=1e-6)
    np.testing.assert_allclose(list(train["run/learning_rate"].values()), rates, rtol=1e-6)
    assert list(train["weights/norm_C"]) == list(train["continuations"]) == [0, 1, 2]


class _Clock(keras.callbacks.Callback):
    """A clock with one second per training step, and a hundred for all other calls."""

    now = 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.now += 1

    def on_test_batch_end(self, batch, logs=None):
        self.now += 100

    def on_epoch_begin(self, epoch, logs=None):
        self.now += 100


@pytest.mark.parametrize(
    "steps_per_execution", [5, pytest.param(1, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long)]
)
def test_ngrams_per_second_are_without_validation(tmp_path, monkeypatch, steps_per_execution):
    """12 updates of 8 n-grams; where 5 do not divide 12 the last execution has 2."""
    clock, model = _Clock(), _model()
    model.steps_per_execution = steps_per_execution
    monkeypatch.setattr("keras_nplm.training.tensorboard.time", types.SimpleNamespace(perf_counter=lambda: clock.now))
    _fit(model, [clock, _board(model, tmp_path, batch_size=8)])
    executions = -(-12 // steps_per_execution)
    assert _values(tmp_path / "train")["run/ngrams_per_second"] == {
        0: pytest.approx(96 / executions), 1: pytest.approx(96 / executions)
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    "output",
    [
        NoiseContrastive(SIZE, num_sampled=7, held_out_mass=0.1, seed=0),
        FullSoftmax(SIZE, held_out_mass=0.1),
    ],
)
def test_training_is_the_same_to_the_last_bit(tmp_path, output):
    states = []
    for watched in (False, True):
        model = _model(type(output).from_config(output.get_config()), dropout=0.4, embedding_dropout=0.2)
        options = dict(probe=_ngrams(50), batch_size=8, hparams={"order": 4}, prompts=("", "w3 w5"))
        history = _fit(model, [_board(model, tmp_path, **options)] if watched else [], epochs=3).history
        variables = [*model.variables, *model.optimizer.variables, *model.random_states()]
        states.append((history, [variable.numpy() for variable in variables]))
    assert states[0][0] == states[1][0]
    for left, right in zip(states[0][1], states[1][1], strict=True):
        np.testing.assert_array_equal(left, right)


def test_probe_is_cut_to_fit_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_nplm.training.tensorboard._MAX_LOGITS", 10 * SIZE)
    model, probe = _model(), _ngrams(50)
    board = _board(model, tmp_path, probe=probe)
    assert len(board.probe[0]) == len(board.probe[1]) == 9  # 9 |V| < 10 |V|
    _fit(model, [board])
    expected = np.linalg.norm(_gradients(model, probe[0][:9], probe[1][:9])["C"])
    np.testing.assert_allclose(_values(tmp_path / "train")["weights/gradient_norm_C"][1], expected, rtol=1e-4)


def test_projector_has_the_most_frequent_words_first(tmp_path):
    counts = np.random.default_rng(4).integers(0, 9, SIZE)
    counts[:4] = 1000  # special tokens are left out all the same
    model = _model()
    _fit(model, [_board(model, tmp_path, word_counts=counts, projector_words=20)])
    vectors = np.loadtxt(tmp_path / "train" / "C.tsv", delimiter="\t")
    header, *lines = (tmp_path / "train" / "metadata.tsv").read_text().splitlines()
    assert header == "word\tcount" and len(lines) == len(vectors) == 20
    words = [line.split("\t")[0] for line in lines]
    shown = sorted(range(4, SIZE), key=lambda i: (-counts[i], i))[:20]
    assert words == [WORDS[i - 4] for i in shown]
    assert [int(line.split("\t")[1]) for line in lines] == counts[shown].tolist()
    np.testing.assert_allclose(vectors, np.array(model.embed.C)[shown], rtol=1e-5)
    config = (tmp_path / "train" / "projector_config.pbtxt").read_text()
    for setting in ('tensor_name: "C"', 'tensor_path: "C.tsv"', 'metadata_path: "metadata.tsv"'):
        assert setting in config
    assert not [path for path in (tmp_path / "train").iterdir() if path.name.startswith(".")]


def test_projector_without_counts_lists_words_by_id(tmp_path):
    model = _model()
    _fit(model, [_board(model, tmp_path / "all"), _board(model, tmp_path / "none", projector_words=0)])
    assert (tmp_path / "all" / "train" / "metadata.tsv").read_text().splitlines() == WORDS
    np.testing.assert_allclose(np.loadtxt(tmp_path / "all/train/C.tsv"), np.array(model.embed.C)[4:], rtol=1e-5)
    assert not list((tmp_path / "none" / "train").glob("*.tsv"))


@pytest.mark.filterwarnings("ignore:html5lib:DeprecationWarning")  # TensorBoard's own
def test_continuations_are_escaped_for_markdown(tmp_path):
    from tensorboard import plugin_util

    marks = ["*a*", "<b>", "_c_", "1.", "#", "=1", "`d`", "|", "[e](f)", "&amp;", "\\", "~~", "-", "+", ">", "</i>"]
    vocabulary = Vocabulary(marks)
    model = NPLM(len(vocabulary), order=3, embedding_dim=2, hidden_units=3)
    model.compile(optimizer="sgd")
    language_model = LanguageModel(model, vocabulary, "whitespace", "sentence")
    board = LanguageModelBoard(tmp_path, language_model, prompts=("", "*a* <b>"), num_words=90)
    contexts = np.random.default_rng(0).integers(4, len(vocabulary), (30, 2))
    model.fit(contexts, contexts[:, 0], epochs=2, callbacks=[board], verbose=0)
    assert "'=1" in (tmp_path / "train" / "metadata.tsv").read_text().splitlines()  # which a spreadsheet may open
    text = _values(tmp_path / "train")["continuations"][1].decode()
    page = plugin_util.markdown_to_safe_html(text)
    shown = html.unescape(re.sub("<[^>]*>", " ", page))
    drawn = [language_model.generate(prompt, 90) for prompt in ("", "*a* <b>")]
    assert set(marks) <= set(" ".join(drawn).split())  # each has its turn, some at the start of a line
    assert shown.split() == f"{drawn[0]} *a* <b> {drawn[1]}".split()
    assert "<strong>*a* <b></strong>" in html.unescape(page)


def test_nan_weights_do_not_stop_the_callback(tmp_path):
    model = _model()
    board = _board(model, tmp_path, probe=_ngrams(20))
    model.embed.C.assign(np.full(model.embed.C.shape, np.nan))
    _fit(model, [board])
    values = _values(tmp_path / "train")
    assert np.isnan(values["weights/norm_C"][1]) and "continuations" not in values


@pytest.mark.parametrize(
    "options, message",
    [
        ({"word_counts": np.ones(3)}, r"`word_counts` must have the shape \[40\]"),
        ({"projector_words": -1}, "`projector_words` must be 0 or more"),
        ({"prompts": "The value"}, "`prompts` must be a list of texts"),
        ({"batch_size": 0}, "`batch_size` must be 1 or more"),
        ({"probe": _ngrams(3)[0]}, "`probe` must be a pair"),
        ({"probe": (np.full((2, ORDER - 1), SIZE), np.array([4, 4]))}, "Ids must be 0 to 39"),
        ({"prompts": ["<s>"]}, "reserved token"),
        ({"num_words": 0}, "`num_words` must be 1 to"),
    ],
)
def test_invalid_options_are_refused_before_training(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        _board(_model(), tmp_path, **options)


def test_board_of_a_different_model_is_refused(tmp_path):
    board = _board(_model(), tmp_path)
    with pytest.raises(InputError, match="must hold the model that is fitted"):
        _fit(_model(), [board])


def test_train_writes_hyperparameters_and_curves(model_directory, small_configuration):
    values = _values(model_directory / "logs" / "train")
    history = json.loads((model_directory / "history.json").read_text())["epochs"]
    np.testing.assert_allclose(
        list(values["run/ngrams_per_second"].values()), [epoch["ngrams_per_second"] for epoch in history], rtol=0.05
    )
    assert {"perplexity", "weights/norm_U", "weights/gradient_norm_C", "run/learning_rate"} <= set(values)
    content = _read(model_directory / "logs" / "validation").SummaryMetadata(metadata.SESSION_START_INFO_TAG)
    started = metadata.parse_session_start_info_plugin_data(content.plugin_data.content)
    default = dataclasses.asdict(Configuration())
    different = {
        name: option
        for name, option in dataclasses.asdict(small_configuration).items()
        if option not in (None, default[name])
    }
    assert set(started.hparams) == set(different) and different
    for name, option in different.items():
        kind = {bool: "bool_value", str: "string_value"}.get(type(option), "number_value")
        assert getattr(started.hparams[name], kind) == option
    validation = _values(model_directory / "logs" / "validation")
    best = json.loads((model_directory / "metrics.json").read_text())
    for name in ("bits_per_character", "perplexity_per_word"):
        found = list(validation[f"text/{name}"].values())[best["best_epoch"] - 1]
        assert found == pytest.approx(best["validation"][name], rel=1e-3)
    texts = values["continuations"]
    prompts = [re.findall(r"\*\*(.*?)\*\*", text.decode()) for text in texts.values()]
    page = (model_directory / "report.html").read_text(encoding="utf-8")
    assert len(prompts[0]) == 4 and all(names == prompts[0] for names in prompts)
    assert re.findall("<h3><bdi>(.*?)</bdi>", page) == [html.escape(html.unescape(name)) for name in prompts[0]]
    lines = (model_directory / "logs" / "train" / "metadata.tsv").read_text().splitlines()
    vocabulary = (model_directory / "vocabulary.txt").read_text().split("\n")[4:-1]
    assert sorted(line.split("\t")[0] for line in lines[1:]) == sorted(vocabulary)


# The rest is for the browser.

_TEXT = """(() => {
  const texts = [];
  const walk = (node) => {
    for (const child of node.childNodes) {
      if (child.nodeType === Node.TEXT_NODE && child.data.trim()) texts.push(child.data.trim());
      if (child.nodeType !== Node.ELEMENT_NODE || ["STYLE", "SCRIPT"].includes(child.tagName)) continue;
      if (child.shadowRoot) walk(child.shadowRoot);
      if (child.tagName === "IFRAME" && child.contentDocument) walk(child.contentDocument);
      walk(child);
    }
  };
  walk(document);
  return texts.join("\\n");
})()"""
_SECONDS = 300  # at most for a page; each takes about two


class _Page:
    """A page of the browser, by the DevTools protocol."""

    def __init__(self, connection):
        self.connection = connection
        self.calls = 0

    async def call(self, method: str, **parameters) -> dict:
        self.calls += 1
        message = {"id": self.calls, "method": method, "params": parameters}
        await self.connection.write_message(json.dumps(message))
        while (answer := json.loads(await self.connection.read_message())).get("id") != self.calls:
            pass  # an event
        return answer["result"]

    async def texts(self, address: str, wanted: set[str]) -> set[str]:
        """All texts of the page at an address, with shadow roots, once the wanted texts are among them."""
        await self.call("Page.navigate", url="about:blank")
        await self.call("Page.navigate", url=address)
        shown, deadline = set(), time.monotonic() + _SECONDS
        while not wanted <= shown and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            answer = await self.call("Runtime.evaluate", expression=_TEXT, returnByValue=True)
            shown = set(answer["result"].get("value", "").split("\n"))
        return shown


def _wait_for(path: Path, pattern: str, process: subprocess.Popen) -> str:
    """Wait until a file that a process writes matches a pattern, and return the first group."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and (found := re.search(pattern, path.read_text())):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{process.args[0]} did not start: {path.read_text() if path.exists() else ''}")


@pytest.fixture
def address(tmp_path, model_directory):
    """The address of a TensorBoard server with the logs of a small training."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(model_directory / "logs"), "--port", "0"]
    with open(tmp_path / "tensorboard.log", "w") as log:
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        server = subprocess.Popen([*command, "--load_fast=false"], stdout=log, stderr=log, env=environment)
    try:
        yield _wait_for(tmp_path / "tensorboard.log", r"TensorBoard \S+ at (http\S+)", server)
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def browser(tmp_path):
    """The address of a page in Chromium, without network access."""
    if not (chromium := shutil.which("chromium")):
        pytest.skip("chromium is not installed: apt-get install chromium")
    options = ["--headless=new", "--no-sandbox", "--remote-debugging-port=0", "--window-size=1400,1000"]
    options += ["--enable-unsafe-swiftshader", f"--user-data-dir={tmp_path / 'profile'}"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"]
    with open(tmp_path / "chromium.log", "w") as log:
        process = subprocess.Popen([chromium, *options, "about:blank"], stdout=log, stderr=log)
    try:
        port = _wait_for(tmp_path / "profile" / "DevToolsActivePort", r"(\d+)\n", process)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            yield next(page for page in json.load(answer) if page["type"] == "page")["webSocketDebuggerUrl"]
    finally:
        process.terminate()
        process.wait()


@pytest.mark.long
def test_browser_shows_all_pages(address, browser, model_directory):
    websocket = pytest.importorskip("tornado.websocket", reason="tornado comes with ipykernel")
    logs = model_directory / "logs"
    continuation = html.unescape(_values(logs / "train")["continuations"][1].decode().split("\n")[0])
    _, prompt, text = map(str.strip, continuation.split("**"))
    words, components = np.loadtxt(logs / "train" / "C.tsv").shape
    pages = {
        "scalars": {"train", "validation", "perplexity", "run", "run/loss", "run/learning_rate", "weights"},
        "text": {"continuations", "step", "1", prompt, text},
        "hparams": {"hidden_units", "order", "perplexity", "run/loss"},
        "projector": {"C", f"{words}x{components}", "word", "count"},
    }

    async def look():
        connection = await websocket.websocket_connect(browser, max_message_size=1 << 28)
        page = _Page(connection)
        shown = {name: await page.texts(f"{address}#{name}", wanted) for name, wanted in pages.items()}
        connection.close()
        return shown

    shown = asyncio.run(look())
    assert {name: wanted - shown[name] for name, wanted in pages.items()} == {name: set() for name in pages}
    assert "." not in shown["scalars"]  # no run but the two
