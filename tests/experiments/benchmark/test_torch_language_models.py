"""PyTorch models of the benchmark `quality` against NumPy; none learns from a token before it is predicted.

torch runs in a process of its own: with TensorFlow in one process it can crash.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_nplm.experiments.benchmark import torch_language_models
from keras_nplm.experiments.benchmark.peers import is_installed

V, WIDTH, TOKENS = 30, 16, 23
PROGRAM = """
import sys
import numpy as np
import torch
from keras_nplm.experiments.benchmark.torch_language_models import *

torch.set_num_threads(1)
random = np.random.default_rng(0)
text = random.integers(0, V, TOKENS)
other = np.concatenate([text[:10], (text[10:] + 1) % V])
result = {"text": text}


def read_and_learn(learner, optimizer):
    tokens, parts, state = torch.tensor([[V, *text]]), [], None
    for begin in range(0, TOKENS, 3):
        part = tokens[:, begin:begin + 4]
        log_probs, state = learner.compute_log_probs(part[:, :-1], part[:, 1:], state)
        parts.append(log_probs[0].detach().numpy())
        optimizer.zero_grad()
        (-log_probs.mean()).backward()
        optimizer.step()
    return np.concatenate(parts)


for build in (TorchLSTM, TorchTransformer):
    kind = {TorchLSTM: "lstm", TorchTransformer: "transformer"}[build]
    sizes = dict(width=WIDTH, batch=2, length=6, cutoffs=(10, 20), dropout=0.0, rate=0.03)
    model = build(Recipe(kind, steps=200, **sizes), V)
    model.parts.eval()
    result |= {f"{kind} {name}": value.detach().numpy().copy() for name, value in model.parts.named_parameters()}
    nowhere = dict.fromkeys(("embedding", "hidden", "output", "biases"), 0.0)  # steps of nothing
    for chunk in (1, 3, TOKENS if kind == "lstm" else 2):
        result[f"{kind} static {chunk}"] = read_text(model, text, DynamicSettings(chunk, 1.0, **nowhere))
    result[f"{kind} static"] = read_text(model, text)
    result[f"{kind} other"] = read_text(model, other, DynamicSettings(3, 1.0, **nowhere))
    sgd, rms = DynamicSettings(3, 0.5), DynamicSettings(1, 0.05, "rms")
    squares = measure_mean_squares(model, text, 3)
    for name, settings in (("dynamic", sgd), ("rms", rms)):
        result[f"{kind} {name}"] = read_text(model, text, settings, squares)
        result[f"{kind} {name} other"] = read_text(model, other, settings, squares)
    learner, parts, state = copy_model(model), [], None
    tokens = torch.tensor([[V, *text]])
    expected, number = [torch.zeros_like(weight) for weight in learner.weights], TOKENS // 3
    for begin in range(0, number * 3, 3):
        part = tokens[:, begin:begin + 4]
        log_probs, state = learner.compute_log_probs(part[:, :-1], part[:, 1:], state)
        learner.parts.zero_grad()
        (-log_probs.mean()).backward()
        for square, weight in zip(expected, learner.weights):
            square += 0 if weight.grad is None else weight.grad.to_dense() ** 2 / number
    result[f"{kind} squares differ"] = max(float((a - b).abs().max()) for a, b in zip(squares, expected))
    roots = [square.sqrt() for square in expected]
    mean = torch.cat([root[root > 0] for root in roots]).mean()
    parts, state = [], None
    for t in range(TOKENS):
        log_probs, state = learner.compute_log_probs(tokens[:, t:t + 1], tokens[:, t + 1:t + 2], state)
        parts.append(log_probs[0].detach().numpy())
        learner.parts.zero_grad()
        (-log_probs.mean()).backward()
        with torch.no_grad():
            for weight, root in zip(learner.weights, roots):
                least = 0.1 * mean if weight is learner.output.head.bias else mean
                if weight.grad is not None:
                    weight -= 0.05 * weight.grad.to_dense() * mean / torch.maximum(root, least)
    result[f"{kind} rms expected"] = np.concatenate(parts)
    learner = copy_model(model)
    optimizer = torch.optim.SGD(learner.weights, 0.5)
    result[f"{kind} dynamic expected"] = read_and_learn(learner, optimizer)
    for output, rate in ((1.0, 0.5), (1.0, 0.25), (0.0, 0.5)):  # two copies; an output that stays
        learner = copy_model(model)
        factors = {"embedding": 2.0, "hidden": 0.5, "output": output, "biases": 4.0}
        places = {"embedding": [learner.embed], "hidden": [learner.body], "output": [learner.output]}
        groups = {g: [w for m in ms for w in m.parameters()] for g, ms in places.items()}
        groups["biases"] = [learner.output.head.bias]
        groups["output"] = [w for w in groups["output"] if w is not learner.output.head.bias]
        optimizer = torch.optim.SGD([{"params": w, "lr": rate * factors[g]} for g, w in groups.items()])
        result[f"{kind} groups expected {output} {rate}"] = read_and_learn(learner, optimizer)
    factors = {"embedding": 2.0, "hidden": 0.5, "biases": 4.0}
    result[f"{kind} groups"] = read_text(model, text, DynamicSettings(3, 0.5, output=0.0, **factors))
    result[f"{kind} copies"] = read_text(model, text, DynamicSettings(3, 0.5, copies=2, **factors))
    result[f"{kind} kept"] = read_text(model, text)
    result[f"{kind} normalised"] = model.output.log_prob(torch.randn(4, WIDTH)).exp().sum(1).detach().numpy()
    periodic = np.tile(np.arange(5), 60)
    before = measure_perplexity(model, periodic)
    training = train(model, periodic)
    result[f"{kind} perplexities"] = [before, measure_perplexity(model, periodic)]
    result[f"{kind} counts"] = [training["steps"], training["tokens"]]
    changed = np.tile(np.arange(4, -1, -1), 40)
    squares = measure_mean_squares(model, periodic)
    best = tune_dynamic(model, changed, squares)
    static, dynamic = measure_perplexity(model, changed), measure_perplexity(model, changed, best, squares)
    result[f"{kind} tuned"] = [best.chunk, best.rate, static, dynamic]
np.savez(sys.argv[1], **result)
"""
KINDS = ("lstm", "transformer")
pytestmark = pytest.mark.long  # one process with torch, for all


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    if not is_installed("torch"):
        pytest.skip("torch is not installed (extra [benchmark])")
    path = tmp_path_factory.mktemp("torch") / "figures.npz"
    program = f"V, WIDTH, TOKENS = {V}, {WIDTH}, {TOKENS}\n{PROGRAM}"
    root = Path(torch_language_models.__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, env=environment)
    with np.load(path) as loaded:
        return dict(loaded)


def log_softmax(x):
    return x - np.log(np.exp(x).sum())


def read_with_numpy(figures):
    """Return ln P of each token: two layers of an LSTM, adaptive softmax with cut-offs 10 and 20."""
    weights = {name.removeprefix("lstm "): value for name, value in figures.items()}
    states = [(np.zeros(WIDTH), np.zeros(WIDTH)) for _ in range(2)]
    result, previous = [], V
    for target in figures["text"]:
        x = weights["0.weight"][previous]
        for layer, (h, c) in enumerate(states):
            w = [weights[f"1.{layer}.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            i, f, g, o = np.split(w[0] @ x + w[1] @ h + w[2] + w[3], 4)
            c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            x = h = np.tanh(c) / (1 + np.exp(-o))
            states[layer] = (h, c)
        log_prob = log_softmax(weights["2.head.weight"] @ x + weights["2.head.bias"])
        if target < 10:
            result.append(log_prob[target])
        else:
            cluster = target // 10 - 1
            tail = weights[f"2.tail.{cluster}.1.weight"] @ (weights[f"2.tail.{cluster}.0.weight"] @ x)
            result.append(log_prob[10 + cluster] + log_softmax(tail)[target % 10])
        previous = target
    return np.array(result)


def test_the_lstm_computes_what_numpy_computes(figures):
    assert figures["lstm static 3"] == pytest.approx(read_with_numpy(figures), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_is_predicted_once_and_chunks_do_not_matter(figures, kind):
    for name in (key for key in figures if key.startswith(f"{kind} static")):
        assert figures[name].shape == (TOKENS,)
    assert figures["lstm static 1"] == pytest.approx(figures[f"lstm static {TOKENS}"], abs=1e-5)
    assert figures[f"{kind} normalised"] == pytest.approx(np.ones(4), abs=1e-5)


def test_the_transformer_sees_at_most_its_length(figures):
    first, second = figures["transformer static 3"], figures["transformer static 2"]
    assert first[:6] == pytest.approx(second[:6], abs=1e-5)
    assert not np.allclose(first[6:], second[6:], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_future_text_changes_no_figure(figures, kind):
    for static, other in (("static 3", "other"), ("dynamic", "dynamic other"), ("rms", "rms other")):
        assert figures[f"{kind} {static}"][:10] == pytest.approx(figures[f"{kind} {other}"][:10], abs=1e-6)
        assert not np.allclose(figures[f"{kind} {static}"][10:], figures[f"{kind} {other}"][10:])


@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_evaluation_takes_a_step_after_each_chunk(figures, kind):
    dynamic, static = figures[f"{kind} dynamic"], figures[f"{kind} static 3"]
    assert dynamic == pytest.approx(figures[f"{kind} dynamic expected"], abs=1e-4)
    assert dynamic[:3] == pytest.approx(static[:3], abs=1e-6) and not np.allclose(dynamic[3:], static[3:], atol=1e-3)
    assert figures[f"{kind} squares differ"] < 1e-6
    assert figures[f"{kind} rms"] == pytest.approx(figures[f"{kind} rms expected"], abs=1e-3)
    assert not np.allclose(figures[f"{kind} rms"], figures[f"{kind} static 1"], atol=1e-3)
    assert figures[f"{kind} kept"] == pytest.approx(figures[f"{kind} static"])  # copies learned
    assert figures[f"{kind} static"] == pytest.approx(static, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_of_weights_have_rates_and_copies_are_averaged(figures, kind):
    assert figures[f"{kind} groups"] == pytest.approx(figures[f"{kind} groups expected 0.0 0.5"], abs=1e-4)
    copies = [figures[f"{kind} groups expected 1.0 {rate}"] for rate in (0.5, 0.25)]
    assert figures[f"{kind} copies"] == pytest.approx(np.log(np.exp(copies).mean(axis=0)), abs=1e-4)
    assert not np.allclose(copies[0], copies[1], atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_training_learns_for_its_budget(figures, kind):
    before, after = figures[f"{kind} perplexities"]
    assert before > 8 and after < 1.5
    steps, tokens = figures[f"{kind} counts"]
    assert steps == 200 and tokens > 200 * 2 * 4


@pytest.mark.parametrize("kind", KINDS)
def test_tuning_finds_steps_for_a_changed_text(figures, kind):
    chunk, rate, static, dynamic = figures[f"{kind} tuned"]
    assert chunk in (3, 16, 32, 64, 128) and rate > 0 and dynamic < 0.9 * static
