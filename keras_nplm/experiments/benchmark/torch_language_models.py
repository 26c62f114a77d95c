"""PyTorch language models of the benchmark `quality`: an LSTM and a Transformer, static and dynamic.

The LSTM has the AWD recipe: DropConnect on the recurrent weights, embedding dropout and locked dropout. The Transformer
is decoder-only, causal and pre-norm. Both have an adaptive softmax and train with AdamW. The learning rate falls to 0
at the end of a budget of CPU seconds, in place of averaged SGD. torch is imported by functions: it and TensorFlow crash
in one process. References: Merity, Keskar & Socher (2018), arXiv:1708.02182; Vaswani et al. (2017), arXiv:1706.03762;
Krause et al. (2018), arXiv:1709.07432, for dynamic evaluation.
"""

import dataclasses
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.vocabulary import SPECIALS, UNK_ID
from keras_nplm.experiments.benchmark.contenders import Contender
from keras_nplm.io.files import replace_file, write_json
from keras_nplm.io.processor import read_processor_name
from keras_nplm.io.progress import open_progress
from keras_nplm.models.dynamic.search import LARGEST_CHUNK, STILL, SettingsSearch
from keras_nplm.models.dynamic.search import TOKENS as TUNING_TOKENS
from keras_nplm.models.dynamic.settings import EPSILON, EPSILON_BIASES, DynamicSettings

if TYPE_CHECKING:
    import torch

_TRAINING_TOKENS = 60_000  # for the mean squares of the gradient
_STATIC_CHUNK = 512  # tokens that the LSTM predicts at once, without steps


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A PyTorch language model and its training.

    Args:
        kind: `"lstm"` or `"transformer"`.
        seconds: CPU seconds of training.
        width: size of embeddings and of hidden layers. A head of the Transformer has 64 of them.
        layers: number of layers.
        batch: B, texts that are read side by side.
        length: T, tokens of each text in a step. The Transformer sees at most T tokens.
        rate: learning rate of AdamW at the beginning.
        dropout: locked dropout of embeddings, between layers and before the output. The Transformer has ordinary
            dropout there.
        embedding_dropout: share of word types whose embedding is 0 in a step.
        weight_dropout: share of recurrent weights that are 0 in a step, of the LSTM.
        weight_decay: of AdamW.
        clip: largest norm of the gradient.
        cutoffs: ranks of words that separate the clusters of the adaptive softmax.
        steps: number of steps in place of `seconds`. Default: `seconds` count.
        seed: of weights and dropout.
    """

    kind: str
    seconds: float = 300.0
    width: int = 256
    layers: int = 2
    batch: int = 32
    length: int = 35
    rate: float = 2e-3
    dropout: float = 0.2
    embedding_dropout: float = 0.1
    weight_dropout: float = 0.2
    weight_decay: float = 0.01
    clip: float = 0.5
    cutoffs: tuple[int, ...] = (2000, 8000)
    steps: int | None = None
    seed: int = 1


class TorchModel:
    """A language model in PyTorch over ranks of words, the most frequent word first.

    Args:
        recipe: the model and its training.
        vocabulary_size: |V|, predicted types. An input of |V| stands before the text.
    """

    carries_state = False  # from one step of training to the next

    def __init__(self, recipe: Recipe, vocabulary_size: int):
        import torch

        torch.manual_seed(recipe.seed)
        nn, width = torch.nn, recipe.width
        self.recipe, self.vocabulary_size = recipe, vocabulary_size
        self.embed = nn.Embedding(vocabulary_size + 1, width)
        nn.init.normal_(self.embed.weight, std=0.1)
        cutoffs = [cutoff for cutoff in recipe.cutoffs if cutoff < vocabulary_size]
        self.output = nn.AdaptiveLogSoftmaxWithLoss(width, vocabulary_size, cutoffs, div_value=4.0, head_bias=True)
        self.body = nn.ModuleList(self._build_layers())
        self.parts = nn.ModuleList([self.embed, self.body, self.output])
        self.weights = list(self.parts.parameters())
        self.training = False

    def _build_layers(self) -> "Iterator[torch.nn.Module]":
        """Yield the layers between embedding and output."""
        raise NotImplementedError

    def read(self, ids: "torch.Tensor", state: Any) -> "tuple[torch.Tensor, Any]":
        """Return the features [B, T, width] after each of the ids [B, T], and the state after them.

        Args:
            ids: int64 [B, T].
            state: what the model knows of the text before. None: nothing.
        """
        raise NotImplementedError

    def compute_log_probs(self, ids: "torch.Tensor", targets: "torch.Tensor", state: Any) -> "tuple[torch.Tensor, Any]":
        """Return ln P of each target, [B, T], and the state after the ids."""
        features, state = self.read(ids, state)
        log_probs = self.output(features.flatten(0, 1), targets.flatten()).output
        return log_probs.view(targets.shape), state

    @property
    def longest_chunk(self) -> int:
        """The largest number of tokens that are predicted at once."""
        return _STATIC_CHUNK if self.carries_state else self.recipe.length // 2

    def _look_up(self, ids: "torch.Tensor") -> "torch.Tensor":
        """Return the embeddings [B, T, width], of some types 0 in training. Later gradients are sparse."""
        import torch
        from torch.nn import functional

        rows = functional.embedding(ids, self.embed.weight, sparse=not self.training)
        keep = 1 - self.recipe.embedding_dropout
        if self.training and keep < 1:
            mask = torch.bernoulli(torch.full((len(self.embed.weight), 1), keep)) / keep
            rows = rows * mask[ids]
        return rows


class TorchLSTM(TorchModel):
    """The LSTM with the AWD recipe. Its state is carried along the text."""

    carries_state = True

    def _build_layers(self) -> "Iterator[torch.nn.Module]":
        import torch

        for _ in range(self.recipe.layers):
            yield torch.nn.LSTM(self.recipe.width, self.recipe.width)

    def read(self, ids: "torch.Tensor", state: Any) -> "tuple[torch.Tensor, Any]":
        """Return features and the state; see `TorchModel.read`."""
        import torch
        from torch.nn import functional

        x = self._drop(self._look_up(ids).transpose(0, 1))
        after = []
        for number, layer in enumerate(self.body):
            zeros = x.new_zeros(1, x.shape[1], self.recipe.width)
            before = state[number] if state is not None else (zeros, zeros)
            inputs, recurrent, *biases = layer.parameters()
            recurrent = functional.dropout(recurrent, self.recipe.weight_dropout, self.training)
            weights = [inputs, recurrent, *biases]
            x, h, c = torch.lstm(x, before, weights, True, 1, 0.0, self.training, False, False)
            after.append((h.detach(), c.detach()))
            x = self._drop(x)
        return x.transpose(0, 1), after

    def _drop(self, x: "torch.Tensor") -> "torch.Tensor":
        """Apply locked dropout to x [T, B, width]: one mask for all times."""
        from torch.nn import functional

        mask = functional.dropout(x.new_ones(1, *x.shape[1:]), self.recipe.dropout, self.training)
        return x * mask if self.training else x


class TorchTransformer(TorchModel):
    """The Transformer. Its state is the last words: a prediction sees T/2 to T tokens, fewer where the text begins."""

    def _build_layers(self) -> "Iterator[torch.nn.Module]":
        import torch

        width, heads = self.recipe.width, max(1, self.recipe.width // 64)
        positions = torch.nn.Embedding(self.recipe.length, width)
        torch.nn.init.normal_(positions.weight, std=0.1)
        yield positions
        for _ in range(self.recipe.layers):
            yield torch.nn.TransformerEncoderLayer(
                width, heads, 4 * width, self.recipe.dropout, "gelu", batch_first=True, norm_first=True
            )
        yield torch.nn.LayerNorm(width)

    def read(self, ids: "torch.Tensor", state: Any) -> "tuple[torch.Tensor, Any]":
        """Return features and the state; see `TorchModel.read`."""
        import torch
        from torch.nn import functional

        seen = ids if state is None else torch.cat([state[:, -(self.recipe.length - ids.shape[1]) :], ids], dim=1)
        positions, *layers, norm = self.body
        x = self._look_up(seen) + positions.weight[: seen.shape[1]]
        x = functional.dropout(x, self.recipe.dropout, self.training)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(seen.shape[1])
        for layer in layers:
            x = layer(x, src_mask=mask, is_causal=True)
        x = functional.dropout(norm(x), self.recipe.dropout, self.training)
        return x[:, -ids.shape[1] :], seen


_MODELS = {"lstm": TorchLSTM, "transformer": TorchTransformer}


def rank_words(ids: dict[str, np.ndarray], vocabulary_size: int) -> dict[str, np.ndarray]:
    """Return the splits as ranks of words by frequency in training, the most frequent word first.

    Args:
        ids: for each split, with `train`, the ids of its words, int [T], without `<pad>`, `<s>` and `</s>`.
        vocabulary_size: |V|, with the four special tokens.

    Example:

    >>> rank_words({"train": np.array([5, 4, 5, 1, 5, 1]), "test": np.array([1, 5, 6])}, 7)["test"].tolist()
    [1, 0, 3]
    """
    types = np.array([UNK_ID, *range(len(SPECIALS), vocabulary_size)])
    counts = np.bincount(ids["train"], minlength=vocabulary_size)[types]
    ranks = np.full(vocabulary_size, -1, np.int64)
    ranks[types[np.argsort(-counts, kind="stable")]] = np.arange(len(types))
    return {split: ranks[part] for split, part in ids.items()}


def train(model: TorchModel, ids: np.ndarray) -> dict:
    """Train a model for its budget; the learning rate falls linearly to 0 at the end.

    Args:
        model: the model.
        ids: the training text, ranks of words, int64 [T].

    Returns:
        `cpu_seconds`, `steps`, `tokens`.
    """
    import torch

    recipe = model.recipe
    optimizer = torch.optim.AdamW(model.weights, recipe.rate, weight_decay=recipe.weight_decay, fused=True)
    random = np.random.default_rng(recipe.seed)
    model.training = True
    model.parts.train()
    began, steps, tokens, progress = time.process_time(), 0, 0, 0.0
    batches = _read_batches(model, ids, random)
    with open_progress(f"Training {recipe.kind}", total=round(recipe.steps or recipe.seconds), unit=" CPU s") as bar:
        state = None
        while progress < 1:
            inputs, targets, is_new = next(batches)
            state = None if is_new else state
            length_factor = inputs.shape[1] / recipe.length
            warm_up = min(1.0, (steps + 1) / 100) if recipe.kind == "transformer" and not recipe.steps else 1.0
            optimizer.param_groups[0]["lr"] = recipe.rate * (1 - progress) * warm_up * length_factor
            log_probs, after = model.compute_log_probs(inputs, targets, state)
            state = after if model.carries_state else None
            optimizer.zero_grad()
            (-log_probs.mean()).backward()
            torch.nn.utils.clip_grad_norm_(model.weights, recipe.clip)
            optimizer.step()
            steps, tokens = steps + 1, tokens + targets.numel()
            used = steps if recipe.steps else time.process_time() - began
            progress = used / (recipe.steps or recipe.seconds)
            bar.update(round(used) - bar.n)
    seconds = time.process_time() - began
    model.training = False
    model.parts.eval()
    return {"cpu_seconds": seconds, "steps": steps, "tokens": tokens}


def _read_batches(
    model: TorchModel, ids: np.ndarray, random: np.random.Generator
) -> "Iterator[tuple[torch.Tensor, torch.Tensor, bool]]":
    """Yield inputs and targets [B, T] along B parts of the text, and whether an epoch begins.

    An epoch begins at a random token. The LSTM's T varies by step, as in the AWD recipe.
    """
    import torch

    recipe = model.recipe
    while True:
        text = np.concatenate([[model.vocabulary_size], ids[random.integers(min(recipe.length, len(ids) // 2)) :]])
        columns = (len(text) - 1) // recipe.batch
        inputs = torch.from_numpy(text[: columns * recipe.batch].reshape(recipe.batch, columns))
        targets = torch.from_numpy(text[1 : columns * recipe.batch + 1].reshape(recipe.batch, columns))
        begin = 0
        while begin < columns:
            length = recipe.length
            if model.carries_state:
                length = max(5, round(random.normal(length if random.random() < 0.95 else length / 2, 5)))
            part = slice(begin, begin + length)
            yield inputs[:, part], targets[:, part], begin == 0
            begin += length


def read_text(
    model: TorchModel,
    ids: np.ndarray,
    settings: DynamicSettings = STILL,
    mean_squares: "Sequence[torch.Tensor] | None" = None,
) -> np.ndarray:
    """Return ln P of each token of a text, float64 [T], in nats; with a rate, copies learn from what they have read.

    Each chunk is predicted first. Then one step is taken on its mean loss, with the rules of `DynamicNPLM`. No token is
    predicted after a step on it.

    Args:
        model: the model; it stays as it is.
        ids: the text, ranks of words, int64 [T].
        settings: of dynamic evaluation, without decay.
        mean_squares: for the rule `"rms"`; see `measure_mean_squares`.
    """
    if not settings.rate:
        return _read_text(model, ids, model.longest_chunk)
    rates = [settings.rate / 2**k for k in range(settings.copies)]
    parts = []
    for rate in rates:
        copy = copy_model(model)
        steps = _Steps(copy, dataclasses.replace(settings, rate=rate), mean_squares)
        parts.append(_read_text(copy, ids, settings.chunk, steps))
    return np.logaddexp.reduce(parts) - math.log(len(parts))


def _read_text(model: TorchModel, ids: np.ndarray, chunk: int, steps: "_Steps | None" = None) -> np.ndarray:
    """Return ln P of each token; with `steps`, the weights of the model change after each chunk."""
    import torch

    tokens = torch.from_numpy(np.concatenate([[model.vocabulary_size], ids]))
    parts, state = [], None
    for begin in range(0, len(ids), chunk):
        part = tokens[None, begin : begin + chunk + 1]
        with torch.set_grad_enabled(steps is not None):
            log_probs, state = model.compute_log_probs(part[:, :-1], part[:, 1:], state)
        parts.append(log_probs[0].detach().double().numpy())
        if steps:
            steps.take(_compute_gradients(model, log_probs))
    return np.concatenate(parts)


class _Steps:
    """The steps of dynamic evaluation; the formula is that of `DynamicNPLM`."""

    def __init__(
        self, model: TorchModel, settings: DynamicSettings, mean_squares: "Sequence[torch.Tensor] | None"
    ) -> None:
        groups = group_weights(model)
        self._weights, self._scales = model.weights, [None] * len(model.weights)
        self._rates = [settings.rate * getattr(settings, group) for group in groups]
        if settings.rule == "rms":
            roots = [square.sqrt() for square in mean_squares]
            total, number = sum(root.sum() for root in roots), sum((root > 0).sum() for root in roots)
            mean = float(total / number) if number else 1.0
            epsilons = [EPSILON_BIASES if group == "biases" else EPSILON for group in groups]
            self._scales = [
                mean / root.clamp(min=epsilon * mean) for root, epsilon in zip(roots, epsilons, strict=True)
            ]

    def take(self, gradients: "Sequence[torch.Tensor | None]") -> None:
        """Take a step along the gradients."""
        import torch

        with torch.no_grad():
            for weight, rate, scale, gradient in zip(self._weights, self._rates, self._scales, gradients, strict=True):
                if gradient is None:  # a cluster without a word of the chunk
                    continue
                if gradient.is_sparse:
                    gradient = gradient.coalesce()
                    rows, values = gradient.indices()[0], gradient.values()
                    values = values if scale is None else values * scale[rows]
                    weight.index_add_(0, rows, values, alpha=-rate)
                else:
                    gradient = gradient if scale is None else gradient * scale
                    weight.add_(gradient, alpha=-rate)


def group_weights(model: TorchModel) -> list[str]:
    """Return the group of each of `model.weights`, one of `keras_nplm.models.dynamic.settings.GROUPS`."""
    places = {
        "output": model.output.parameters(),
        "biases": [model.output.head.bias],
        "embedding": [model.embed.weight],
    }
    groups = {id(weight): group for group, weights in places.items() for weight in weights}
    return [groups.get(id(weight), "hidden") for weight in model.weights]


def _compute_gradients(model: TorchModel, log_probs: "torch.Tensor") -> "tuple[torch.Tensor | None, ...]":
    import torch

    return torch.autograd.grad(-log_probs.mean(), model.weights, allow_unused=True)


def measure_mean_squares(model: TorchModel, ids: np.ndarray, chunk: int = 32) -> "list[torch.Tensor]":
    """Return the mean square of each component of the gradient over chunks of training text.

    Args:
        model: the model; it stays as it is.
        ids: the beginning of the training text, ranks of words, int64 [T].
        chunk: tokens of a chunk, at most `model.longest_chunk`.
    """
    import torch

    chunk = min(chunk, model.longest_chunk)
    sums, number, state = [torch.zeros_like(weight) for weight in model.weights], len(ids) // chunk, None
    tokens = torch.from_numpy(np.concatenate([[model.vocabulary_size], ids]))
    for begin in range(0, number * chunk, chunk):
        part = tokens[None, begin : begin + chunk + 1]
        log_probs, state = model.compute_log_probs(part[:, :-1], part[:, 1:], state)
        for total, gradient in zip(sums, _compute_gradients(model, log_probs), strict=True):
            if gradient is not None and gradient.is_sparse:
                gradient = gradient.coalesce()
                total.index_add_(0, gradient.indices()[0], gradient.values() ** 2)
            elif gradient is not None:
                total.addcmul_(gradient, gradient)
    return [total / max(number, 1) for total in sums]


def measure_perplexity(
    model: TorchModel,
    ids: np.ndarray,
    settings: DynamicSettings = STILL,
    mean_squares: "Sequence[torch.Tensor] | None" = None,
) -> float:
    """Return the perplexity of a text; see `read_text`. Default: static evaluation."""
    return float(np.exp(-read_text(model, ids, settings, mean_squares).mean()))


def copy_model(model: TorchModel) -> TorchModel:
    """Return a model with a copy of the weights."""
    copied = type(model)(model.recipe, model.vocabulary_size)
    copied.parts.load_state_dict(model.parts.state_dict())
    copied.parts.eval()
    return copied


def tune_dynamic(model: TorchModel, ids: np.ndarray, mean_squares: "Sequence[torch.Tensor]") -> DynamicSettings:
    """Return the settings of dynamic evaluation with the lowest perplexity, found as for our network.

    Args:
        model: the model; it stays as it is.
        ids: the tuning text, a prefix of validation.
        mean_squares: see `measure_mean_squares`.
    """
    with open_progress("Tuning dynamic evaluation", unit=" settings") as bar:

        def evaluate(settings: DynamicSettings, tokens: int) -> np.ndarray:
            return read_text(model, ids[:tokens], settings, mean_squares)

        largest_chunk = min(LARGEST_CHUNK, model.longest_chunk)
        return SettingsSearch(evaluate, len(ids), report=bar.update, largest_chunk=largest_chunk).find_best()


def build_trainer(recipe: dict, corpus: str, result: str) -> Contender:
    """Return the work of training and measuring a model; see `keras_nplm.experiments.benchmark.peer_process`.

    The weights are kept beside the result when training ends: an interrupted evaluation does not repeat the training.

    Args:
        recipe: the fields of `Recipe`.
        corpus: directory of the encoded corpus.
        result: JSON file that receives the recipe and the figures.
    """
    import torch

    torch.set_num_threads(1)
    recipe = Recipe(**recipe | {"cutoffs": tuple(recipe["cutoffs"])})
    encoded = EncodedCorpus.load(corpus)
    splits = ("train", "validation", "test")
    ids = {split: extract_ngrams(encoded.ids(split), 2, "stream")[:, 1] for split in splits}
    ids = rank_words(ids, encoded.vocabulary_size)
    model = _MODELS[recipe.kind](recipe, encoded.vocabulary_size - len(SPECIALS) + 1)
    return Contender(recipe.kind, lambda: train_and_measure(model, ids, Path(result)))


def train_and_measure(model: TorchModel, ids: dict[str, np.ndarray], result: Path) -> int:
    """Train a model, unless its weights were kept, tune dynamic evaluation and write all figures.

    Args:
        model: the new model.
        ids: `train`, `validation` and `test`, ranks of words, int64 [T].
        result: JSON file that receives the recipe and the figures; the weights lie beside it until then.

    Returns:
        number of test tokens.
    """
    import torch

    recipe, kept = dataclasses.asdict(model.recipe), result.with_suffix(".pt")
    content = torch.load(kept, weights_only=True) if kept.exists() else {}
    if content.get("recipe") == recipe:
        training = content["training"]
        model.parts.load_state_dict(content["weights"])
        model.parts.eval()
    else:
        training = train(model, ids["train"]) | {"processor": read_processor_name()}
        with replace_file(kept) as temporary:
            torch.save({"recipe": recipe, "training": training, "weights": model.parts.state_dict()}, temporary)
    held_out = ("validation", "test")
    figures = {split: measure_perplexity(model, ids[split]) for split in held_out}
    mean_squares = measure_mean_squares(model, ids["train"][:_TRAINING_TOKENS])
    settings = tune_dynamic(model, ids["validation"][:TUNING_TOKENS], mean_squares)
    dynamic = figures
    if settings.learns:
        dynamic = {split: measure_perplexity(model, ids[split], settings, mean_squares) for split in held_out}
    row = figures | {
        "parameters": sum(weight.numel() for weight in model.weights),
        "cpu_seconds": training["cpu_seconds"],
        "epochs": training["tokens"] / len(ids["train"]),
        "dynamic": dynamic,
        "dynamic_settings": str(settings),
        "processor": training.get("processor", ""),
    }
    write_json(result, {"recipe": recipe | {"cutoffs": list(recipe["cutoffs"])}, "row": row})
    os.unlink(kept)
    return len(ids["test"])
