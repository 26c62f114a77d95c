"""PyTorch models of the benchmarks: the paper's network, and the LSTM and the Transformer of
`quality`.

The LSTM has the AWD recipe: DropConnect on the recurrent weights, embedding dropout and locked
dropout. The Transformer is a decoder with normalisation first. Both have an adaptive softmax and
train with AdamW. The learning rate falls to 0 at the end of a budget of CPU seconds. Import this
module where TensorFlow is not: the two crash in one process. References: Merity, Keskar & Socher
(2018), arXiv:1708.02182; Krause et al. (2018), arXiv:1709.07432, for dynamic evaluation; Grave,
Joulin & Usunier (2017), arXiv:1612.04426, for the cache.
"""

import copy
import functools
import math
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.models.dynamic.settings import EPSILON, EPSILON_BIASES, DynamicSettings, add_static
from keras_nplm.models.dynamic.tuning import TOKENS as TUNING_TOKENS
from keras_nplm.models.dynamic.tuning import find_settings
from keras_nplm.training.options import Options
from tests.benchmarks.contenders import Contender, Figures, count_steps, has_gpu

_TRAINING_TOKENS = 20_000  # of the mean squares of the gradient
_CACHED_CHUNK = 512  # tokens whose caches are read at once


def build_nplm(options: Options, vocabulary_size: int, ngrams: np.ndarray, task: str) -> Contender:
    """Return training or scoring of the paper's network on a batch, as users of PyTorch write
    it.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    m = options.network.embedding_dim
    h = options.flatten()["hidden_units"]
    direct = options.network.head.direct_connections
    x_size = (options.network.order - 1) * m
    embed = nn.Embedding(vocabulary_size, m)
    hidden = nn.Linear(x_size, h)
    output = nn.Linear(h + direct * x_size, vocabulary_size)
    device = "cuda" if has_gpu() else "cpu"
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU, as TensorFlow; no change on a CPU
    layers = nn.ModuleList([embed, hidden, output]).to(device)
    optimizer = torch.optim.SGD(layers.parameters(), 0.1)
    batch = torch.from_numpy(ngrams).long().to(device)
    contexts = batch[:, :-1].contiguous()
    targets = batch[:, -1].contiguous()

    def compute_logits() -> Tensor:
        x = embed(contexts).flatten(1)
        a = torch.tanh(hidden(x))
        return output(torch.cat([a, x], dim=1) if direct else a)

    def train_steps() -> int:
        steps = count_steps(6)
        for _ in range(steps):
            optimizer.zero_grad()
            loss = functional.cross_entropy(compute_logits(), targets)
            loss.backward()
            optimizer.step()
        loss.item()  # waits for the device
        return steps * len(batch)

    @torch.no_grad()
    def score_ngrams() -> int:
        for _ in range(12):
            log_probs = torch.log_softmax(compute_logits(), dim=1)
            log_probs.gather(1, targets[:, None]).cpu().numpy()
        return 12 * len(batch)

    return Contender("PyTorch", train_steps if task == "training" else score_ngrams)


class TorchModel(nn.Module):
    """A language model over words by frequency, by a recipe of `quality.json`.

    An input of |V| stands before the text.
    """

    def __init__(self, recipe: dict, vocabulary_size: int):
        super().__init__()
        self.recipe = SimpleNamespace(**recipe)
        self.vocabulary_size = vocabulary_size
        torch.manual_seed(self.recipe.seed)
        width = self.recipe.width
        self.embed = nn.Embedding(vocabulary_size + 1, width)
        nn.init.normal_(self.embed.weight, std=0.1)
        cutoffs = [cutoff for cutoff in self.recipe.cutoffs if cutoff < vocabulary_size]
        self.output = nn.AdaptiveLogSoftmaxWithLoss(
            width, vocabulary_size, cutoffs, div_value=4.0, head_bias=True
        )
        self.body = nn.ModuleList([self.build_layer(width) for _ in range(self.recipe.layers)])
        self.eval()

    def predict(self, h: Tensor, targets: Tensor) -> Tensor:
        """Return ln P of targets [B, T] after the features h [B, T, width]."""
        return self.output(h.flatten(0, 1), targets.flatten()).output.view(targets.shape)

    def look_up(self, ids: Tensor) -> Tensor:
        """Return the embeddings [B, T, width], of some types 0 in training.

        Later gradients are sparse.
        """
        if not self.training:
            return functional.embedding(ids, self.embed.weight, sparse=True)
        kept = functional.dropout(
            torch.ones(len(self.embed.weight), 1), self.recipe.embedding_dropout
        )
        return self.embed(ids) * kept[ids]


class TorchLSTM(TorchModel):
    """The LSTM of `quality`. Its state is that of its layers after the last id."""

    def build_layer(self, width: int) -> nn.Module:
        return nn.LSTM(width, width)

    def encode(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the features h [B, T, width] after each id, and the state after them."""
        x = self._drop(self.look_up(ids).transpose(0, 1))
        after = []
        for layer, before in zip(self.body, state or [None] * len(self.body), strict=True):
            dropped = functional.dropout(
                layer.weight_hh_l0, self.recipe.weight_dropout, self.training
            )
            x, (h, c) = torch.func.functional_call(layer, {"weight_hh_l0": dropped}, (x, before))
            after.append((h.detach(), c.detach()))
            x = self._drop(x)
        return x.transpose(0, 1), after

    def _drop(self, x: Tensor) -> Tensor:
        """Apply locked dropout to x [T, B, width]: one mask for all times."""
        mask = functional.dropout(x.new_ones(1, *x.shape[1:]), self.recipe.dropout, self.training)
        return x * mask


class TorchTransformer(TorchModel):
    """The Transformer of `quality`.

    Its state is the half segment of ids before, which it reads again; in training it has none.
    """

    def __init__(self, recipe: dict, vocabulary_size: int):
        super().__init__(recipe, vocabulary_size)
        self.positions = nn.Parameter(torch.zeros(2 * self.recipe.length, self.recipe.width))
        self.norm = nn.LayerNorm(self.recipe.width)

    def build_layer(self, width: int) -> nn.Module:
        return nn.TransformerEncoderLayer(
            width,
            nhead=max(1, width // 64),
            dim_feedforward=4 * width,
            dropout=self.recipe.dropout,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )

    def encode(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the features h [B, T, width] after each id, and the state after them."""
        read = ids if state is None else torch.cat([state, ids], dim=1)
        mask = nn.Transformer.generate_square_subsequent_mask(read.shape[1])
        x = self.look_up(read) + self.positions[: read.shape[1]]
        x = functional.dropout(x, self.recipe.dropout, self.training)
        for layer in self.body:
            x = layer(x, mask, is_causal=True)
        after = None if self.training else read[:, -(self.recipe.length // 2) :]
        return self.norm(x)[:, -ids.shape[1] :], after


MODELS = {"LSTM": TorchLSTM, "Transformer": TorchTransformer}


def train(model: TorchModel, ids: np.ndarray) -> dict:
    """Train a model on a text, ids [T], for its budget. Return `cpu_seconds` and `tokens`."""
    recipe = model.recipe
    optimizer = torch.optim.AdamW(
        model.parameters(), recipe.rate, weight_decay=recipe.weight_decay, fused=True
    )
    model.train()
    began = time.process_time()
    tokens = 0
    progress = 0.0
    state = None
    batches = _read_batches(model, ids)
    while progress < 1:
        inputs, targets, is_new = next(batches)
        warm = min(1, progress / recipe.warm_up) if recipe.warm_up else 1
        # longer parts of the text have a higher rate, as in the AWD recipe
        rate = warm * recipe.rate * (1 - progress) * inputs.shape[1] / recipe.length
        optimizer.param_groups[0]["lr"] = rate
        if is_new:
            state = None
        h, state = model.encode(inputs, state)
        optimizer.zero_grad()
        (-model.predict(h, targets).mean()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        tokens += targets.numel()
        progress = (time.process_time() - began) / recipe.seconds
    model.zero_grad()
    model.eval()
    return {"cpu_seconds": time.process_time() - began, "tokens": tokens}


def _read_batches(model: TorchModel, ids: np.ndarray) -> Iterator[tuple[Tensor, Tensor, bool]]:
    """Yield inputs and targets [B, T] along B parts of the text, and whether an epoch begins, at a
    random token.
    """
    recipe = model.recipe
    random = np.random.default_rng(recipe.seed)
    while True:
        first = random.integers(min(recipe.length, len(ids) // 2))
        text = np.concatenate([[model.vocabulary_size], ids[first:]])
        columns = (len(text) - 1) // recipe.batch
        size = columns * recipe.batch
        inputs = torch.from_numpy(text[:size].reshape(recipe.batch, columns))
        targets = torch.from_numpy(text[1 : size + 1].reshape(recipe.batch, columns))
        begin = 0
        while begin < columns:
            # T varies, as in the AWD recipe
            length = recipe.length if random.random() < 0.95 else recipe.length / 2
            length = min(2 * recipe.length, max(5, round(random.normal(length, 5))))
            part = slice(begin, begin + length)
            yield inputs[:, part], targets[:, part], begin == 0
            begin += length


@torch.no_grad()
def read_static(model: TorchModel, ids: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """Return the features h [T, width] before each token of a text, and ln P of each, float64
    [T].
    """
    features, log_probs = zip(*_read_chunks(model, ids, model.recipe.static_chunk), strict=True)
    return torch.cat(features), torch.cat(log_probs).double().numpy()


def read_text(
    model: TorchModel, ids: np.ndarray, settings: DynamicSettings, mean_squares: Sequence[Tensor]
) -> np.ndarray:
    """Return ln P of each token of a text, float64 [T]; with a rate, a copy takes a step on each
    predicted chunk.
    """
    if not settings.rate:
        return read_static(model, ids)[1]
    learner = copy.deepcopy(model)
    rates = _choose_rates(learner, settings, mean_squares)
    parts = []
    for _, chunk in _read_chunks(learner, ids, settings.chunk):
        parts.append(chunk.detach().double().numpy())
        (-chunk.mean()).backward()
        _take_step(rates)
    log_probs = np.concatenate(parts)
    if not settings.static_share:
        return log_probs
    return add_static(log_probs, read_static(model, ids)[1], settings.static_share)


@torch.no_grad()
def read_cache(h: Tensor, ids: np.ndarray, flatness: float, length: int = 2000) -> np.ndarray:
    """Return ln P of each token under the continuous cache of the last words, float64 [T].

    P(w_t) = sum_i exp(θ h_t · h_i) [w_i = w_t] / sum_i exp(θ h_t · h_i),    i = t-L … t-1
    """
    words = torch.from_numpy(ids)
    parts = []
    for first in range(0, len(ids), _CACHED_CHUNK):
        last = min(first + _CACHED_CHUNK, len(ids))
        begin = max(0, first - length)
        distance = torch.arange(first, last)[:, None] - torch.arange(begin, last)
        scores = flatness * h[first:last] @ h[begin:last].T
        scores = scores.masked_fill((distance < 1) | (distance > length), -math.inf)
        same = words[first:last, None] == words[begin:last]
        cached = scores.masked_fill(~same, -math.inf).logsumexp(1) - scores.logsumexp(1)
        parts.append(cached.nan_to_num(-math.inf, neginf=-math.inf))  # NaN: the cache is empty
    return torch.cat(parts).double().numpy()


def _read_chunks(model: TorchModel, ids: np.ndarray, chunk: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the features h [T, width] and ln P [T] of the tokens of one chunk after the other; the
    weights may change between them.
    """
    tokens = torch.from_numpy(np.concatenate([[model.vocabulary_size], ids]))
    state = None
    for begin in range(0, len(ids), chunk):
        part = tokens[None, begin : begin + chunk + 1]
        h, state = model.encode(part[:, :-1], state)
        yield h[0], model.predict(h, part[:, 1:])[0]


def _choose_rates(
    model: TorchModel, settings: DynamicSettings, mean_squares: Sequence[Tensor]
) -> dict[Tensor, Tensor]:
    """Return the rate of each component of each weight: small where its gradient was large in
    training.
    """
    roots = [square.sqrt() for square in mean_squares]
    mean = float(torch.cat([root[root > 0] for root in roots]).mean())
    rates = {}
    for weight, root in zip(model.parameters(), roots, strict=True):
        factor = 1.0
        epsilon = EPSILON
        if weight is model.output.head.bias:
            factor = settings.biases
            epsilon = EPSILON_BIASES
        rates[weight] = settings.rate * factor * mean / root.clamp(min=mean * epsilon)
    return rates


@torch.no_grad()
def _take_step(rates: dict[Tensor, Tensor]) -> None:
    """Take a step of dynamic evaluation along the gradients, and forget them."""
    for weight, rate in rates.items():
        gradient = weight.grad
        weight.grad = None
        if gradient is None:  # of a cluster without a word of the chunk
            continue
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            rows = gradient.indices()[0]
            weight[rows] -= rate[rows] * gradient.values()
        else:
            weight -= rate * gradient


def measure_mean_squares(model: TorchModel, ids: np.ndarray, chunk: int = 32) -> list[Tensor]:
    """Return the mean square of each component of the gradient over chunks of training text, ids
    [T].
    """
    number = len(ids) // chunk
    weights = list(model.parameters())
    sums = [torch.zeros_like(weight) for weight in weights]
    for _, log_probs in _read_chunks(model, ids[: number * chunk], chunk):
        gradients = torch.autograd.grad(-log_probs.mean(), weights, allow_unused=True)
        for total, gradient in zip(sums, gradients, strict=True):
            if gradient is not None:
                total += gradient.to_dense() ** 2
    return [total / max(number, 1) for total in sums]


def read_dynamic(
    model: TorchModel, ids: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], DynamicSettings]:
    """Return ln P of each held-out token with dynamic evaluation, and its settings, which are tuned
    on the beginning of validation.
    """
    mean_squares = measure_mean_squares(model, ids["train"][:_TRAINING_TOKENS])
    read = functools.partial(read_text, model, mean_squares=mean_squares)
    beginning = ids["validation"][:TUNING_TOKENS]
    settings, _ = find_settings(lambda settings: read(beginning, settings))
    return {split: read(ids[split], settings) for split in HELD_OUT}, settings


def build_trainer(recipe: dict, corpus: str, flatness: Sequence[float]) -> Contender:
    """Return the work of training a model on an encoded corpus: ln P of each held-out token,
    `static`, `dynamic`, and in `caches` for each flatness, and other figures as `row`.
    """
    torch.set_num_threads(1)
    encoded = EncodedCorpus.load(corpus)
    ids = {}  # by frequency, as an adaptive softmax needs them
    for split in ("train", *HELD_OUT):
        ids[split] = extract_ngrams(encoded.ids(split), 2, "stream")[:, 1].astype(np.int64)
    model = MODELS[recipe["model"]](recipe, encoded.vocabulary_size)

    def work() -> Figures:
        training = train(model, ids["train"])
        static = {}
        caches: list[dict[str, np.ndarray]] = [{} for _ in flatness]
        for split in HELD_OUT:
            h, static[split] = read_static(model, ids[split])
            for cache, theta in zip(caches, flatness, strict=True):
                cache[split] = read_cache(h, ids[split], theta)
        began = time.process_time()
        dynamic, settings = read_dynamic(model, ids)
        row = {
            "dynamic_cpu_seconds": round(time.process_time() - began),
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "cpu_seconds": training["cpu_seconds"],
            "epochs": training["tokens"] / len(ids["train"]),
            "dynamic_settings": str(settings),
        }
        return {"static": static, "caches": caches, "dynamic": dynamic, "row": row}

    return Contender(recipe["model"], work)
