"""The PyTorch models of the benchmark `quality` against plain SGD and the formula of the cache.

torch runs in a process of its own: with TensorFlow in one process it can crash.
"""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.benchmarks import quality

V = 30
TOKENS = 24
SIZES = {
    "width": 16,
    "batch": 2,
    "length": 6,
    "cutoffs": [10, 20],
    "dropout": 0.0,
    "embedding_dropout": 0.0,
    "weight_dropout": 0.0,
    "rate": 0.03,
    "seconds": 200,  # a step takes one: see `itertools.count`
}
PROGRAM = """
import dataclasses
import itertools
import sys
import time
import numpy as np
import torch
from tests.benchmarks.torch_models import *

torch.set_num_threads(1)
text = np.random.default_rng(0).integers(0, V, TOKENS)
tokens = torch.tensor([[V, *text]])
result = {}


def learn(model, chunk, step):
    learner = copy.deepcopy(model)
    parts = []
    state = None
    for begin in range(0, TOKENS, chunk):
        part = tokens[:, begin:begin + chunk + 1]
        h, state = learner.encode(part[:, :-1], state)
        log_probs = learner.predict(h, part[:, 1:])
        parts.append(log_probs[0].detach().numpy())
        learner.zero_grad()
        (-log_probs.mean()).backward()
        step(learner)
    return np.concatenate(parts)


model = TorchLSTM(RECIPE, V)
expected = [torch.zeros_like(weight) for weight in model.parameters()]
number = TOKENS // 3

def add_squares(learner):
    for square, weight in zip(expected, learner.parameters()):
        if weight.grad is not None:
            square += weight.grad.to_dense() ** 2 / number

learn(model, 3, add_squares)
squares = measure_mean_squares(model, text, 3)
roots = [square.sqrt() for square in expected]
mean = torch.cat([root[root > 0] for root in roots]).mean()
biases = [name == "output.head.bias" for name, _ in model.named_parameters()]
scales = [mean / root.clamp(min=mean * (0.1 if bias else 1)) for root, bias in zip(roots, biases)]

@torch.no_grad()
def take_step(learner):
    for (name, weight), scale in zip(learner.named_parameters(), scales):
        if weight.grad is not None:
            rate = 0.2 if name == "output.head.bias" else 0.05
            weight -= rate * weight.grad.to_dense() * scale

result["expected"] = learn(model, 3, take_step)
settings = DynamicSettings(3, 0.05, biases=4.0)
result["dynamic"] = read_text(model, text, settings, squares)
result["static"] = read_static(model, text)[1]
result["shared"] = read_text(model, text, dataclasses.replace(settings, static_share=0.3), squares)
periodic = np.tile(np.arange(5), 60)
changed = np.tile(np.arange(4, -1, -1), 40)
time.process_time = itertools.count().__next__  # training asks it once for each step
training = train(model, periodic)
read = read_dynamic(model, {"train": periodic, "validation": changed, "test": changed})[0]
result["changed"] = [-read_static(model, changed)[1].mean(), -read["test"].mean()]
result["tokens"] = training["tokens"]
for kind in MODELS:
    other_length = {**RECIPE, "length": 2 * TOKENS, "rate": 0.01}
    model = MODELS[kind](other_length, V)
    with torch.no_grad():
        result[f"{kind} h"] = model.encode(tokens[:, :-1], None)[0][0].numpy()
    model.recipe.static_chunk = 5
    h, _ = read_static(model, text)
    result[f"{kind} read"] = h.numpy()
    result[f"{kind} cache"] = read_cache(h, text, 0.3, 8)
    train(model, periodic)
    result[f"{kind} learned"] = np.exp(-read_static(model, periodic)[1].mean())
np.savez(sys.argv[1], text=text, **result)
"""
pytestmark = pytest.mark.long  # one process with torch, for all


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    if not importlib.util.find_spec("torch"):
        pytest.skip("torch is not installed: it takes gigabytes (extra [benchmark])")
    path = tmp_path_factory.mktemp("torch") / "figures.npz"
    recipe = {**quality.GROUPS[1]["peers"][0], **SIZES}
    program = f"V = {V}\nTOKENS = {TOKENS}\nRECIPE = {recipe}\n{PROGRAM}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, env=environment)
    with np.load(path) as loaded:
        return dict(loaded)


def test_dynamic_evaluation_takes_steps_by_group(figures):
    assert figures["dynamic"] == pytest.approx(figures["expected"], abs=1e-3)
    expected = np.log(0.7 * np.exp(figures["dynamic"]) + 0.3 * np.exp(figures["static"]))
    assert figures["shared"] == pytest.approx(expected, abs=1e-6)


def test_training_takes_its_steps_and_tuning_finds_others(figures):
    static, dynamic = figures["changed"]
    assert dynamic < static - 0.1
    assert figures["tokens"] > SIZES["seconds"] * 2 * 4


@pytest.mark.parametrize("kind", ["LSTM", "Transformer"])
def test_peers_learn_and_their_cache_is_that_of_the_formula(figures, kind):
    text = figures["text"]
    found = figures[f"{kind} cache"]
    h = figures[f"{kind} h"]
    assert figures[f"{kind} read"] == pytest.approx(h, abs=1e-5)  # in chunks as at once
    for t in range(1, TOKENS):
        past = np.arange(max(0, t - 8), t)
        weights = np.exp(0.3 * h[past] @ h[t])
        expected = weights[text[past] == text[t]].sum() / weights.sum()
        assert np.exp(found[t]) == pytest.approx(expected, abs=1e-5)
    assert found[0] == -np.inf
    assert figures[f"{kind} learned"] < 3  # the frequencies of the five words alone give 5
