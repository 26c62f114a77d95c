"""Exact perplexity and bits per character of a text under any model with `log_prob(context_ids, target_ids)`."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_nplm.data.arguments import convert_ids
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ngram_arrays import ngram_blocks
from keras_nplm.data.tokenizers import parse_tokenizer
from keras_nplm.data.vocabulary import UNK_ID
from keras_nplm.io.errors import RunError
from keras_nplm.models.base import NextWordModel, resolve_boundary, row_blocks
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel

_BLOCK_SIZE = 1 << 16  # n-grams in a call of `log_prob`
_BLOCK_IDS = 1 << 22  # ids of these n-grams: a cache has hundreds of words of context
_PART_SIZE = 1 << 20  # ids of an array that are arranged as n-grams at a time


def log_probs(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the log-probability of every n-gram of a text, in the order of the text, in blocks."""
    for ngrams in iterate_ngrams(model, ids, boundary):
        yield model.log_prob(ngrams[:, :-1], ngrams[:, -1]), ngrams[:, -1]


def iterate_ngrams(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None
) -> Iterator[np.ndarray]:
    """Iterate over the n-grams of a text, in blocks."""
    if not isinstance(ids, Iterator):
        whole = convert_ids(ids)
        ids = (whole[part] for part in row_blocks(len(whole), _PART_SIZE))
    size = min(_BLOCK_SIZE, max(1, _BLOCK_IDS // model.order))
    return ngram_blocks(ids, model.order, resolve_boundary([model], boundary) or "sentence", size)


def evaluate(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None
) -> dict[str, float | int | None]:
    """Return the perplexity of a text, summed in float64.

        perplexity = exp(-1/T sum_t ln P(w_t | context))

    Args:
        model: any language model; `order` and `log_prob` suffice.
        ids: int32 [T], each sentence closed by `</s>`; or an iterator over parts of them, for a text larger than
            memory. The figures do not depend on where the text is cut.
        boundary: `"sentence"`: contexts end at the sentence's start, and words and `</s>` are predicted. `"stream"`:
            contexts cross sentence ends, and only words are predicted. Perplexities of different boundaries are not
            comparable. Default: `model.boundary`, or `"sentence"` for a model without one.

    Returns:
        dict: `perplexity` over all predicted tokens, out-of-vocabulary tokens counted as the word `<unk>`;
        `perplexity_without_unk` over the predicted tokens other than `<unk>`; `tokens` and `unk_tokens`, their numbers;
        `log_prob`, the sum in nats; `bits_per_word`, bits per token. A perplexity over 0 tokens is None.

    Raises:
        InputError: the text has no word to predict, or `boundary` differs from the model's.
        RunError: a word of the text has probability 0, or a log-probability is NaN.

    Example:

    >>> class UniformOverEight:
    ...     order = 2
    ...     def log_prob(self, context_ids, target_ids):
    ...         return np.full(len(target_ids), -np.log(8))
    >>> result = evaluate(UniformOverEight(), np.array([4, 1, 5, 3]))
    >>> round(result["perplexity"], 6), result["tokens"], result["unk_tokens"], round(result["bits_per_word"], 6)
    (8.0, 4, 1, 3.0)
    """
    return evaluate_each([model], ids, boundary)[0]


def evaluate_each(
    models: Sequence[NextWordModel], ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None
) -> list[dict]:
    """Return the figures of `evaluate` for each model, in one pass: a model, and its copy that learns as it reads."""
    sums = [LogProbSums(type(model).__name__) for model in models]
    for ngrams in iterate_ngrams(models[0], ids, boundary):
        for model, each in zip(models, sums, strict=True):
            each.add(model.log_prob(ngrams[:, :-1], ngrams[:, -1]), ngrams[:, -1])
    return [each.compute_figures() for each in sums]


class LogProbSums:
    """Sums of log-probabilities, in float64, and the figures of `evaluate` from them."""

    def __init__(self, name: str):
        self._name = name
        self._total = self._unk = 0.0
        self._tokens = self._unk_tokens = 0

    def add(self, log_prob: np.ndarray, target_ids: np.ndarray) -> None:
        is_unk = target_ids == UNK_ID
        self._total += log_prob.sum(dtype=np.float64)
        self._unk += log_prob[is_unk].sum(dtype=np.float64)
        self._tokens += len(log_prob)
        self._unk_tokens += int(is_unk.sum())

    def compute_figures(self) -> dict[str, float | int | None]:
        total, known = self._total, self._tokens - self._unk_tokens
        if total == -math.inf:
            words, fix = "a word of the text", "evaluate it with the boundary of its training."
            if self._unk == -math.inf:
                words, fix = "words outside its vocabulary", "leave such words out of the text."
            mix = "mix the model with the uniform distribution (`mix --uniform`)"
            raise RunError(f"{self._name} gives {words} probability 0. Fix: {mix}, or {fix}")
        if not math.isfinite(total):
            fix = "use a smaller rate of training or of dynamic evaluation (delete `dynamic.json` to tune it again)."
            message = f"The log-probability of the text under {self._name} must be finite. Received: {total}."
            raise RunError(f"{message} Fix: {fix}")
        return {
            "perplexity": _exp(-total / self._tokens),
            "perplexity_without_unk": _exp((self._unk - total) / known) if known else None,
            "tokens": self._tokens,
            "unk_tokens": self._unk_tokens,
            "log_prob": float(total),
            "bits_per_word": float(-total / self._tokens / math.log(2)),
        }


@dataclasses.dataclass(frozen=True)
class TextSize:
    """The size of a text in characters and words, and the cost of spelling its out-of-vocabulary words."""

    characters: int | None = None
    words: int | None = None
    spelling_log_prob: float | None = None
    missing: str | None = None
    normalised: tuple[str, ...] = ()

    @classmethod
    def of_text(
        cls, counts: dict[str, int], boundary: str, tokenizer: str, spelling_log_prob: float | None
    ) -> "TextSize":
        """Return the size of a text."""
        ends = counts["sentences"] if boundary == "sentence" else 0
        size, missing = (counts["characters"] + ends, counts["words"] + ends), None
        if not counts["unk_tokens"]:
            spelling_log_prob = 0.0
        elif spelling_log_prob is None:
            missing = (
                f"The model has no spelling model ({SPELLING_FILE}) for {counts['unk_tokens']:,} <unk>. Fix: train it "
                "with this version."
            )
        return cls(*size, spelling_log_prob, missing, parse_tokenizer(tokenizer)[1])

    @classmethod
    def of_split(cls, encoded: EncodedCorpus, split: str, boundary: str, spelling: SpellingModel | None) -> "TextSize":
        """Return the size of a split. Without a spelling model only a text without `<unk>` has figures."""
        counts = encoded.splits[split]
        if "characters" not in counts or "words" not in counts:
            return cls(missing="The corpus was encoded without its characters. Fix: train again with this version.")
        log_prob = None
        if spelling is not None and counts["unk_tokens"]:
            log_prob = sum(map(spelling.sum_log_prob, encoded.unknown_words(split)))
        return cls.of_text(counts, boundary, encoded.tokenizer, log_prob)


def compute_text_figures(log_prob: float, size: TextSize) -> dict[str, float | int | str | list | None]:
    """Return bits per character and perplexity per word: figures that are comparable between tokenizers.

        bits per character  = -(ln P(tokens) + ln P(spellings)) / (ln 2 · characters)
        perplexity per word = exp(-(ln P(tokens) + ln P(spellings)) / words)

    ln P(spellings) is the sum over the `<unk>` tokens of ln P(spelling | <unk>): a word model pays for all of its text.
    Two costs are not included: a tokenizer of words loses the spacing of its text, and normalisation the difference
    between the text and the normalised text.

    Reference: Gao et al., Language Model Evaluation Harness (https://github.com/EleutherAI/lm-evaluation-harness).
    """
    figures: dict[str, Any] = {"bits_per_character": None, "perplexity_per_word": None}
    if size.missing is None and size.characters and size.words and size.spelling_log_prob is not None:
        total = -(log_prob + size.spelling_log_prob)
        figures["bits_per_character"] = total / math.log(2) / size.characters
        figures["perplexity_per_word"] = _exp(total / size.words)
    else:
        figures["bits_per_character_missing"] = size.missing
    figures |= {name: getattr(size, name) for name in ("characters", "words", "spelling_log_prob")}
    return figures | ({"normalised": list(size.normalised)} if size.normalised else {})


def evaluate_split(
    model: NextWordModel,
    encoded: EncodedCorpus,
    split: str,
    boundary: str | None = None,
    spelling: SpellingModel | None = None,
    measure: Callable[..., dict] = evaluate,
) -> dict:
    """Return all figures of a split: those of `measure`, and those of `compute_text_figures`."""
    figures = measure(model, encoded.ids(split), boundary)
    size = TextSize.of_split(encoded, split, resolve_boundary([model], boundary) or "sentence", spelling)
    return figures | compute_text_figures(figures["log_prob"], size)


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def format_perplexity(perplexity: float | None, digits: int = 2) -> str:
    """Format a perplexity for a table: two decimals, a dash where it is None."""
    return "–" if perplexity is None else f"{perplexity:.{digits}f}"
