"""Perplexity, bits per character and bits per byte of a text, token ids or a split."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from keras_nplm.data.arguments import check_lines
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import UNK_ID, convert_ids
from keras_nplm.data.shards import count_ids, encode_text, sum_counts
from keras_nplm.data.text_counts import TextCounter
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.collectors import Collector, Perplexity
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.text_figures import TextSize, compute_text_figures

Text = str | Iterable[str] | np.ndarray  # a split, lines or ids
Ids = np.ndarray | Iterator[np.ndarray]


def evaluate_text(
    model: NextWordModel,
    codec: TextCodec,
    text: Text,
    corpus: EncodedCorpus | None,
    collectors: Sequence[Collector] = (),
) -> dict:
    """Return the figures of a text: its perplexity, comparable figures, and those of collectors.

    See `LanguageModel.evaluate`. `corpus` has the splits that `text` may name.
    """
    ids, measure_size = _encode(model, codec, text, corpus)
    if not model.is_normalised:
        fix = "load the model without `self_normalised`."
        raise InputError(f"Self-normalised log-probabilities have no exact perplexity. Fix: {fix}")
    figures = evaluate(model, ids, [Perplexity(), *collectors], codec.boundary)
    size = measure_size()
    figures.update(compute_text_figures(figures["log_prob"], size))
    if "dynamic" in figures:
        dynamic = figures["dynamic"]
        dynamic.update(compute_text_figures(dynamic["log_prob"], size))
    return figures


def _encode(
    model: NextWordModel, codec: TextCodec, text: Text, corpus: EncodedCorpus | None
) -> tuple[Ids, Callable[[], TextSize]]:
    """Return the ids of a text, and a function that returns its size after the ids were read."""
    if isinstance(text, str):
        wanted = f"lines of text, token ids or one of {', '.join(SPLITS)}"
        check_argument("text", text in SPLITS, wanted, f"{text!r:.80}", "put one line into a list.")
        if corpus is None:
            raise InputError(
                f"`text` must be lines of text (`--text FILE`), as the model has no corpus/. "
                f"Received: the split {text!r}. Fix: evaluate lines of text."
            )
        if text not in corpus.splits:
            splits = ", ".join(corpus.splits)
            raise InputError(
                f"The text of the model must have the split {text!r}. Received: {splits}. "
                "Fix: name one of these (`--split`), or evaluate lines of text (`--text FILE`)."
            )
        size = functools.partial(TextSize.of_split, corpus, text, codec.boundary, codec.spelling)
        return corpus.ids(text), size
    if _holds_ids(text):
        missing = "Token ids do not say how their text is spelled. Fix: evaluate its lines."
        return convert_ids(text), lambda: TextSize(missing=missing)
    return _encode_lines(model, codec, check_lines(text, "text"))


def _holds_ids(text: object) -> bool:
    """Return whether an argument that takes lines or ids holds ids."""
    if isinstance(text, np.ndarray):
        return text.dtype.kind in "iu"
    if not isinstance(text, Sequence) or isinstance(text, bytes | bytearray):
        return False
    return len(text) > 0 and isinstance(text[0], int | np.integer)


def _encode_lines(
    model: NextWordModel, codec: TextCodec, lines: Iterable[str]
) -> tuple[Ids, Callable[[], TextSize]]:
    """Encode lines in bounded memory: unknown words are spelled chunk by chunk."""
    counter = TextCounter()
    counts = sum_counts([])
    spelled = 0.0
    spelling = codec.spelling

    def encode() -> Iterator[np.ndarray]:
        nonlocal counts, spelled
        chunks = encode_text(lines, codec.vocabulary, codec.tokenizer, codec.boundary, counter)
        for ids in chunks:
            if counter.unknown and not counts["unk_tokens"]:
                _refuse_closed_vocabulary(model, codec, next(iter(counter.unknown)))
            if counter.unknown and spelling is not None:
                spelled += spelling.sum_log_prob(counter.unknown)
            counter.unknown.clear()
            counts = sum_counts([counts, count_ids(ids)])
            yield ids

    def measure() -> TextSize:
        sizes = counter.totals | counts
        log_prob = None if spelling is None else spelled
        return TextSize.of_text(sizes, codec.boundary, codec.tokenizer, log_prob)

    return encode(), measure


def _refuse_closed_vocabulary(model: NextWordModel, codec: TextCodec, word: str) -> None:
    """Refuse an out-of-vocabulary word if its probability is 0."""
    first_context = codec.first_context(model.order)
    if np.isneginf(model.log_prob(first_context[None], np.array([UNK_ID]))[0]):
        reason = (
            "The vocabulary of the model is closed: out-of-vocabulary words have probability 0."
        )
        fix = (
            "mix the model with the uniform distribution (`mix --uniform --weights 0.99 0.01`), or "
            "remove the word."
        )
        raise InputError(f"{reason} Received: {word!r}. Fix: {fix}")
