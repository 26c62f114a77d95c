"""Mixture of language models (linear interpolation), and the uniform distribution over the
vocabulary.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.data.boundary import check_boundary_name, predicted_ids
from keras_nplm.io.errors import InputError, check_argument, check_integer
from keras_nplm.io.files import read_arrays, write_arrays
from keras_nplm.models.base import (
    CombinedModel,
    ModelFolder,
    NextWordModel,
    choose_boundary,
    cut_contexts,
    resolve_vocabulary_size,
    row_blocks,
    saved_as,
)
from keras_nplm.models.evaluation import iterate_ngrams, log_probs
from keras_nplm.models.ngrams.interpolation import (
    FrequencyBins,
    combine,
    fit_weights,
    sum_log_probs,
)

WEIGHTS_FILE = "mixture.npz"
_BLOCK_WORDS = 1 << 16  # words of distributions that are combined together


@saved_as("uniform")
class Uniform(NextWordModel):
    """Uniform distribution over the words that can be predicted (a zerogram): P(w | h) = 1/|V'|.

    V' is `<unk>` and the words, and unless the boundary is `"stream"` also `</s>`.
    """

    order = 2
    description = "The uniform distribution"
    uses_whole_contexts = False

    def __init__(self, vocabulary_size: int, boundary: str = "sentence"):
        check_boundary_name(boundary)
        check_integer("vocabulary_size", vocabulary_size, 2)
        predicted = predicted_ids(vocabulary_size, boundary)
        self.vocabulary_size = vocabulary_size
        self.boundary = boundary
        self._log_probs = np.full(vocabulary_size, -np.inf)
        self._log_probs[predicted] = -np.log(len(predicted))

    @classmethod
    def read_files(cls, folder: ModelFolder) -> "Uniform":
        return cls(folder.vocabulary_size, folder.boundary)

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        return self._log_probs[target_ids]

    def find_used_lengths(self, context_ids: np.ndarray) -> np.ndarray:
        return np.zeros(len(context_ids), np.int64)

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        return np.tile(self._log_probs, (len(context_ids), 1))


@saved_as("mixture")
class Mixture(CombinedModel):
    """Linear interpolation of language models over one vocabulary.

        P(w | h) = sum_k α_k(l(h)) P_k(w | h)

    The weights α are the same in every context, or depend on the training frequency of the context
    through its bin l (see `FrequencyBins`).

    Args:
        models: two or more, of one vocabulary and one boundary. A model of a lower order gets the
            last words of a context.
        weights: α, float [K], or [bins, K] with `bins`; not negative, each row sums to 1.
        bins: which row of `weights` a context has. Default: there is one row.

    Reference: Bengio et al. (2003), section 4.1; Jelinek & Mercer (1980).
    """

    description = "A mixture of language models"

    def __init__(
        self,
        models: Sequence[NextWordModel],
        weights: Sequence[float] | np.ndarray,
        bins: FrequencyBins | None = None,
    ):
        check_argument("models", len(models) > 1, "two models or more", len(models), "add a model.")
        if bins:
            resolve_vocabulary_size([*models, bins.contexts])
        super().__init__(list(models))
        shape = (bins.number if bins else 1, len(models))
        weights = np.atleast_2d(np.asarray(weights, np.float64))
        are_shares = (weights >= 0).all() and np.allclose(weights.sum(axis=1), 1, atol=1e-6)
        if weights.shape != shape or not are_shares:
            raise InputError(
                f"`weights` must be numbers {[*shape]} of 0 or more that sum to 1. "
                f"Received: {weights.tolist()!r:.80}. Fix: give one for each model."
            )
        self.models = self.parts
        self.weights: np.ndarray = weights
        self.bins = bins

    def with_parts(self, parts: Sequence[NextWordModel]) -> "Mixture":
        return Mixture(parts, self.weights, self.bins)

    def list_files(self) -> Mapping[str, Callable[[Path], object]]:
        return {WEIGHTS_FILE: self._write_weights}

    def _write_weights(self, path: Path) -> None:
        arrays: dict[str, Any] = {"weights": self.weights}
        if self.bins is not None:
            arrays.update(self.bins.arrays())
        write_arrays(path, arrays)

    @classmethod
    def read_files(cls, folder: ModelFolder) -> "Mixture":
        path = folder.path / WEIGHTS_FILE
        weights = read_arrays(path, ["weights"])["weights"]
        parts = [
            folder.load_part(number, as_arrays=folder.as_arrays)
            for number in range(weights.shape[1])
        ]
        bins = FrequencyBins.load(path) if len(weights) > 1 else None
        return cls(parts, weights, bins)

    def list_changing_arrays(self) -> Iterator[np.ndarray]:
        yield self.weights
        yield from super().list_changing_arrays()

    def compute_figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = {
            "weights": self.weights.round(6).tolist(),
            "components": [model.kind for model in self.models],
        }
        for model in self.models:
            figures.update(model.list_chosen_values())
        return figures

    def _describe_parts(self) -> str:
        parts = ", ".join(
            f"{weight:.3f} {type(model).__name__}"
            for weight, model in zip(self.weights.mean(axis=0), self.models, strict=True)
        )
        by_frequency = " by frequency of the context" if self.bins else ""
        return f"weights=[{parts}]{by_frequency}"

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        log_probs = self.part_log_probs(context_ids, target_ids)
        return combine(log_probs, self.weights[self.find_bins(context_ids)])

    def part_log_probs(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Return ln P_k(target | context), float64 [B, K]."""
        parts = [
            model.log_prob(cut_contexts(model, context_ids), target_ids) for model in self.models
        ]
        return np.stack(parts, axis=1).astype(np.float64, copy=False)

    def find_used_lengths(self, context_ids: np.ndarray) -> np.ndarray:
        lengths = super().find_used_lengths(context_ids)
        if not self.bins:
            return lengths
        return np.maximum(lengths, self.bins.find_used_lengths(context_ids))

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        parts = [model.next_log_probs(cut_contexts(model, context_ids)) for model in self.models]
        weights = self.weights[self.find_bins(context_ids)]
        result = np.empty((len(context_ids), self.vocabulary_size))
        # a few rows at a time: `combine` needs several times their memory
        for rows in row_blocks(len(result), max(1, _BLOCK_WORDS // self.vocabulary_size)):
            of_rows = np.stack([part[rows] for part in parts], axis=2)
            result[rows] = combine(of_rows, weights[rows, None])
        return result

    def find_bins(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the row of the weights of each context, int64 [B]."""
        if not self.bins:
            return np.zeros(len(context_ids), np.int64)
        return self.bins.find_bins(context_ids)


def fit_mixture(
    models: Sequence[NextWordModel | Sequence[NextWordModel]],
    held_out_ids: np.ndarray,
    boundary: str | None = None,
    bins: FrequencyBins | None = None,
) -> Mixture:
    """Fit the interpolation weights of a mixture on held-out text by expectation-maximisation.

    Args:
        models: two or more. A list in place of a model holds candidates, such as caches of several
            decays: the one with the best held-out likelihood is chosen, one list after another.
        held_out_ids: the validation text, int32 [T], each sentence closed by `</s>`.
        boundary: `"sentence"`, `"text"` or `"stream"`. Default: `boundary` of the models; see
            `evaluate`.
        bins: fit a row of weights for each bin of the training frequency of the context. Default:
            one row.

    Raises:
        InputError: the text is empty, or a word of the text has probability 0 in every model.
    """
    candidates = [[m] if isinstance(m, NextWordModel) else list(m) for m in models]
    num_bins = bins.number if bins else 1
    equal = np.full((num_bins, len(candidates)), 1 / len(candidates))
    # refuses models that do not fit together, before they read the text
    mixture = Mixture([first for first, *_ in candidates], equal, bins)
    boundary = choose_boundary(mixture, boundary)
    chosen, columns = _choose_candidates(candidates, held_out_ids, boundary)
    held_out_bins = None
    if bins:
        blocks = iterate_ngrams(mixture, held_out_ids, boundary)
        of_blocks = [bins.find_bins(block[:, :-1]).astype(np.int32) for block in blocks]
        held_out_bins = np.concatenate(of_blocks)
    weights = fit_weights(columns, held_out_bins, num_bins)
    return Mixture(chosen, weights, bins)


def _choose_candidates(
    candidates: Sequence[Sequence[NextWordModel]], ids: np.ndarray, boundary: str
) -> tuple[list[NextWordModel], list[np.ndarray]]:
    """Choose a model of each list by its likelihood, mixed with the models chosen before.

    Return the models, and for each its ln P of every token.
    """
    chosen: dict[int, NextWordModel] = {}
    columns: dict[int, np.ndarray] = {}
    read = [[_read_column(model, ids, boundary) for model in listed] for listed in candidates]

    def order_of_choice(place: int) -> tuple[bool, bool]:
        # False comes first: lists of one model, which are part of every comparison; then those that
        # give every token a probability, as caches do not
        return len(candidates[place]) > 1, bool(np.isneginf(read[place][0]).any())

    for place in sorted(range(len(candidates)), key=order_of_choice):
        best = 0
        if len(candidates[place]) > 1:
            mixtures = [[*columns.values(), column] for column in read[place]]
            likelihoods = [sum_log_probs(mixed, fit_weights(mixed)[0]) for mixed in mixtures]
            best = int(np.argmax(likelihoods))
        chosen[place] = candidates[place][best]
        columns[place] = read[place][best]
    places = range(len(candidates))
    return [chosen[place] for place in places], [columns[place] for place in places]


def _read_column(model: NextWordModel, ids: np.ndarray, boundary: str) -> np.ndarray:
    """Return ln P of every token of a text, float32 [T]: a text may have a billion tokens."""
    parts = log_probs(model, ids, boundary)
    return np.concatenate([part.astype(np.float32, copy=False) for part, _ in parts])
