"""The base class of language models over ids: P(w | context)."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from keras_nplm.data.ids import BOS_ID, PAD_ID, check_contexts, check_ngrams, find_distinct_rows
from keras_nplm.io.errors import InputError

NGRAM_ROWS = 1 << 18  # n-grams in a block: sorted look-ups in tables are faster in large blocks
# contexts in a block whose distributions, float [rows, |V|], are computed together, at most, and
# words in these distributions
DISTRIBUTION_ROWS = 512
_DISTRIBUTION_WORDS = 1 << 24
NETWORK_FILE = "model.keras"
SCORER_FILE = "scorer.npz"  # a network in NumPy


class NextWordModel:
    """Base class of language models: P(w | context) for a context of n-1 word ids.

    A subclass sets the attributes and implements `_log_prob` and `_next_log_probs`, which receive
    checked int32 ids, a block of rows at a time. Evaluation, mixing, scoring and rescoring use
    `log_prob` and `next_log_probs` only.

    A model that is saved in a model directory has the decorator `saved_as`, and says which files it
    writes and how they are read: `list_files` and `read_files`. A model that combines others names
    them in `parts`, and makes itself of other parts with `with_parts`; see `CombinedModel`. Saving,
    the search for networks, digests, adaptation, caches and serving walk the parts to any depth.

    Attributes:
        order: int, n. A context has n-1 words.
        vocabulary_size: int, |V|, special tokens included.
        boundary: `"sentence"`, `"text"` or `"stream"`, how the training text was cut into n-grams.
            None: not known.
        parts: the models that it combines. None of most models.
        kind: the name of this kind of model in `config.json`. None: it cannot be saved in a model
            directory.
        description: what it is, as the beginning of a sentence of the model card.
        is_normalised: whether the probabilities of a context sum to 1.
    """

    order: int
    vocabulary_size: int
    boundary: str | None = None
    parts: Sequence["NextWordModel"] = ()
    kind: str | None = None
    description: str = "A language model"
    is_normalised: bool = True

    def __repr__(self) -> str:
        facts = f"order={self.order}, |V|={self.vocabulary_size}, boundary={self.boundary!r}"
        if parts := self._describe_parts():
            facts += f", {parts}"
        return f"{type(self).__name__}({facts})"

    def _describe_parts(self) -> str:
        return ""

    @property
    def learning_parts(self) -> Sequence["NextWordModel"]:
        """The parts that may learn as they read, in dynamic evaluation."""
        return self.parts

    def with_parts(self, parts: Sequence["NextWordModel"]) -> "NextWordModel":
        """Return a model that combines other parts in the same way."""
        raise NotImplementedError

    def list_saved_models(self) -> Sequence["NextWordModel"]:
        """Return the models that are saved beside it: its parts, in their order."""
        return self.parts

    def list_files(self) -> Mapping[str, Callable[[Path], object]]:
        """Return the names of its files in a model directory, each with a function that writes it.

        The function receives a temporary path, which is renamed afterwards. The files of
        `list_saved_models` are not among them.
        """
        return {}

    @classmethod
    def read_files(cls, folder: "ModelFolder") -> "NextWordModel":
        """Return the model whose files are in a folder."""
        raise NotImplementedError

    def list_changing_arrays(self) -> Iterator[np.ndarray]:
        """Iterate over the weights that adaptation and dynamic evaluation change, to any depth."""
        for part in self.parts:
            yield from part.list_changing_arrays()

    def compute_figures(self) -> dict[str, Any]:
        """Return what `metrics.json` says about the model beside its perplexity."""
        return {}

    def list_chosen_values(self) -> dict[str, float]:
        """Return the values of it that were chosen on validation text, by their names in
        `metrics.json`.
        """
        return {}

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Return ln P(target | context) in nats, float [B], for int [B, n-1], oldest word first,
        and int [B].
        """
        context_ids, target_ids = check_ngrams(
            context_ids, target_ids, self.order, self.vocabulary_size
        )
        blocks = row_blocks(max(len(target_ids), 1), NGRAM_ROWS)
        parts = [self._log_prob(context_ids[block], target_ids[block]) for block in blocks]
        return np.concatenate(parts)

    @property
    def looks_up_ngrams(self) -> bool:
        """Whether it, or one of its parts, finds n-grams of several orders, as a back-off model."""
        return any(part.looks_up_ngrams for part in self.parts)

    def find_orders(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Return the order of the n-gram that each probability is of, int [B].

        Default: of the longest that a part finds. Without such a part all words of the context
        count.
        """
        parts = [part for part in self.parts if part.looks_up_ngrams]
        if parts:
            found = [
                part.find_orders(cut_contexts(part, context_ids), target_ids) for part in parts
            ]
            return np.max(found, axis=0)
        counts = context_ids != PAD_ID
        counts[:, :-1] &= context_ids[:, 1:] != BOS_ID
        return 1 + np.count_nonzero(counts, axis=1)

    @property
    def uses_whole_contexts(self) -> bool:
        """Whether every word of a context counts, as in a network.

        If not, `find_used_lengths` tells which.
        """
        return True

    def find_used_lengths(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the number of last words of each context that count, int [B], for checked int32
        [B, n-1].

        Contexts that end in the same such words have the same probabilities, now and after any
        further words.
        """
        return np.full(len(context_ids), self.order - 1)

    def log_prob_and_lengths(
        self, context_ids: np.ndarray, target_ids: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ln P(target | context), float [B], and `find_used_lengths` of the contexts after
        the targets.

        Ids are checked, as those of `_log_prob`. A model that finds both in one search overrides
        this method.
        """
        after = np.concatenate([context_ids, target_ids[:, None]], axis=1)[:, 1:]
        return self._log_prob(context_ids, target_ids), self.find_used_lengths(after)

    def log_prob_of_one(self, ngram: np.ndarray) -> float:
        """Return ln P of the last word of an n-gram after the others, for checked int32 [n].

        A model that has a shorter way than that for arrays of n-grams overrides this method.
        """
        [log_prob] = self._log_prob(ngram[None, :-1], ngram[-1:])
        return float(log_prob)

    def learn_rest(self) -> None:
        """Learn from the last predicted words, which fill no chunk: the parts of the model do so.

        A model that does not learn does nothing.
        """
        for part in self.parts:
            part.learn_rest()

    def reset(self) -> None:
        """Go back to the trained weights, and to the start of a text: the parts of the model do so.

        A model that does not learn does nothing.
        """
        for part in self.parts:
            part.reset()

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(w | context) of every word w in nats, float [B, |V|]; exp of a row sums
        to 1.
        """
        context_ids = check_contexts(context_ids, self.order, self.vocabulary_size)
        size = count_distribution_rows(self.vocabulary_size)
        if len(context_ids) <= size:
            return self._next_log_probs(context_ids)
        first, *others = row_blocks(len(context_ids), size)
        rows = self._next_log_probs(context_ids[first])
        # filled block by block: concatenating would need twice the memory
        result = np.empty((len(context_ids), rows.shape[1]), rows.dtype)
        result[first] = rows
        for block in others:
            result[block] = self._next_log_probs(context_ids[block])
        return result

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Return ln P(target | context), float [B], for checked int32 [B, n-1] and [B].

        Default: from distributions.
        """
        result = np.empty(len(target_ids))
        for block in row_blocks(len(target_ids), count_distribution_rows(self.vocabulary_size)):
            contexts, which = find_distinct_rows(context_ids[block])
            result[block] = self._next_log_probs(contexts)[which, target_ids[block]]
        return result

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(w | context), float [B, |V|], for checked int32 [B, n-1]."""
        name = type(self).__name__
        fix = "ask a model that does not learn as it reads for distributions."
        raise InputError(
            f"{name} must be asked for the words of the text, with `log_prob`. Fix: {fix}"
        )


class CombinedModel(NextWordModel):
    """Base class of models of several parts over one vocabulary, each of which predicts each word.

    A part of a lower order gets the last words of a context.
    """

    def __init__(self, parts: Sequence[NextWordModel]):
        self.parts = parts
        self.order = max(part.order for part in parts)
        self.vocabulary_size = resolve_vocabulary_size(parts)
        self.boundary = resolve_boundary(parts)

    @property
    def uses_whole_contexts(self) -> bool:
        return any(part.order == self.order and part.uses_whole_contexts for part in self.parts)

    def find_used_lengths(self, context_ids: np.ndarray) -> np.ndarray:
        lengths = [part.find_used_lengths(cut_contexts(part, context_ids)) for part in self.parts]
        return np.max(lengths, axis=0)


Saved = TypeVar("Saved", bound=type[NextWordModel])
READERS: dict[str, Callable[["ModelFolder"], NextWordModel]] = {}  # of saved models, by kind


def saved_as(kind: str) -> Callable[[Saved], Saved]:
    """Return a decorator that gives a class of models its name in `config.json`.

    Model directories that name the kind are read by its `read_files`.
    """

    def register(cls: Saved) -> Saved:
        cls.kind = kind
        READERS[kind] = cls.read_files
        return cls

    return register


class Network(NextWordModel):
    """Base class of neural networks: a class to ask for that imports no Keras."""

    kind = "nplm"  # `model_files` reads it
    boundary: str
    trainable_weights: list[Any]
    compute_dtype: str
    reads_log_q: bool
    hidden: Any
    save: Callable[[Path], None]
    compute_features: Callable[[np.ndarray], np.ndarray]

    description = "A neural probabilistic language model (Bengio, Ducharme, Vincent & Jauvin 2003)"

    def list_changing_arrays(self) -> Iterator[np.ndarray]:
        for weight in self.trainable_weights:
            yield weight.numpy()


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """A directory from which a model, or a part of a model, is read.

    Attributes:
        path: the directory.
        boundary: the boundary of the whole model.
        vocabulary_size: |V| of the whole model.
        load_part: function from the number of a model of `list_saved_models`, counted from 0, to
            this model; with `as_arrays=True` it is asked for probabilities alone.
        as_arrays: whether the model is asked for probabilities alone: a network may be an
            `ArrayNetwork`, which needs no Keras.
    """

    path: Path
    boundary: str
    vocabulary_size: int
    load_part: Callable[..., NextWordModel]
    as_arrays: bool = False


def find_networks(model: NextWordModel) -> list[Any]:
    """Return the networks in a model, to any depth, in the order of its parts."""
    if isinstance(model, Network):
        return [model]
    return [network for part in model.parts for network in find_networks(part)]


def find_network(model: NextWordModel) -> Any:
    """Return the network, or the only network in a model; None for other models."""
    networks = find_networks(model)
    return networks[0] if len(networks) == 1 else None


def require_network(model: NextWordModel, purpose: str) -> Any:
    """Return the only network in a model; refuse other models, which lack what `purpose` needs."""
    network = find_network(model)
    if network is None:
        raise InputError(
            f"`model` must be a network, or hold one network, {purpose}. "
            f"Received: {type(model).__name__}, {model.description[0].lower()}"
            f"{model.description[1:]}. Fix: train one with `keras-nplm train`."
        )
    return network


def replace_part(model: NextWordModel, old: NextWordModel, new: NextWordModel) -> NextWordModel:
    """Return a model with a part, at any depth, replaced. Other parts are shared."""
    if model is old:
        return new
    parts = [replace_part(part, old, new) for part in model.parts]
    if all(part is before for part, before in zip(parts, model.parts, strict=True)):
        return model
    return model.with_parts(parts)


def row_blocks(num_rows: int, block_size: int) -> Iterator[slice]:
    """Yield slices of at most `block_size` rows that cover `num_rows` rows."""
    return (slice(start, start + block_size) for start in range(0, num_rows, block_size))


def count_distribution_rows(vocabulary_size: int) -> int:
    """Return the number of contexts whose distributions, float [rows, |V|], are computed
    together.
    """
    return max(1, min(DISTRIBUTION_ROWS, _DISTRIBUTION_WORDS // vocabulary_size))


def cut_contexts(model: NextWordModel, context_ids: np.ndarray) -> np.ndarray:
    """Return the last n-1 words of each context, for a model of a lower order than the contexts."""
    return context_ids[:, context_ids.shape[1] - (model.order - 1) :]


def resolve_vocabulary_size(parts: Iterable[Any]) -> int:
    """Return |V| of models, of their tables or of layers, which must be one."""
    sizes = [part.vocabulary_size for part in parts]
    if len({*sizes}) > 1:
        raise InputError(
            "Parts of a model must be of one vocabulary. Received: vocabularies of "
            f"{sizes} words. Fix: make all of them for one vocabulary."
        )
    return sizes[0]


def check_vocabulary_size(model: NextWordModel, number: int, name: str = "`vocabulary`") -> None:
    """Refuse a vocabulary whose words are others than those of a model."""
    if number != model.vocabulary_size:
        raise InputError(
            f"{name} must have {model.vocabulary_size} words, as the model. Received: {number}. "
            "Fix: use the files of one model, or its `vocabulary`."
        )


def resolve_boundary(models: Sequence[Any], boundary: str | None = None) -> str | None:
    """Return the boundary of models, which must be one, and equal to `boundary` where given; None
    if none is known.
    """
    # `evaluate` takes any object with `order` and `log_prob`
    boundaries = [getattr(model, "boundary", None) for model in models]
    known = [*dict.fromkeys(name for name in (*boundaries, boundary) if name is not None)]
    if len(known) > 1:
        raise InputError(
            "`boundary` must be that of the training of all models. "
            f"Received: {', '.join(known)}. Fix: leave it out, or train models with one boundary."
        )
    return known[0] if known else None


def choose_boundary(model: Any, boundary: str | None = None) -> str:
    """Return the boundary of a model and of a text, which must be one; `"sentence"` if none is
    known.
    """
    return resolve_boundary([model], boundary) or "sentence"
