"""The most probable next words of a text, and completions of its last word: for pieces of words by
a beam search.
"""

import numpy as np

from keras_nplm.data.ids import EOS, EOS_ID
from keras_nplm.data.prefixes import split_unfinished_word, use_case
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.normalisation import lower
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.word_pieces import (
    AFTER_SPACE,
    NO_SPACE,
    WordPieces,
    split_unfinished,
)
from keras_nplm.models.base import NextWordModel

Words = list[tuple[str, float]]  # with their probabilities, the most probable first

LEAST_WORDS = 16  # that the search looks for: with fewer, the answers would depend on `top_k`
NEGLIGIBLE = -9.0  # ln of the share of the k-th best word below which a partial word is dropped
MOST_PIECES = 64  # of a word, after its prefix
LONGEST_PREFIX = 64  # characters of an unfinished word that the search completes
# with few pieces, such as characters, more partial words cost little
_SMALL_BEAM = 256
_SMALL_NUMBERS = 1 << 17
_MOST_NUMBERS = 1 << 25  # of the beam [K, |V|]: 256 MiB
_LEAST = -1e30  # stands for -inf where -inf would give NaN
# log-probabilities are multiples of its inverse, so that equal ones are equal in every program
SCALE = 1 << 20


def find_next_words(model: NextWordModel, codec: TextCodec, context: str, top_k: int) -> Words:
    """Return the most probable next words; see `LanguageModel.next_words`."""
    if codec.tokenizer.searches_words:
        return search_words(model, codec, context, "", top_k, with_end=codec.predicts_end)
    return _rank(model, codec, context, codec.proposed_ids, top_k)


def complete_prefix(model: NextWordModel, codec: TextCodec, text: str, top_k: int) -> Words:
    """Return the most probable words that begin with the last word; see
    `LanguageModel.complete_prefix`.
    """
    index = codec.word_index
    context, typed = split_prompt(codec, text)
    if isinstance(index, WordPieces):
        prefixes = [lower(typed)] if codec.tokenizer.lowers else [typed, lower(typed)]
        for prefix in dict.fromkeys(prefixes):
            if words := search_words(model, codec, context, prefix, top_k, with_end=False):
                return words if prefix == typed else _use_case(typed, words)
        return []
    if ids := sorted(index.find(typed)):
        return _rank(model, codec, context, np.array(ids), top_k)
    others = np.array(index.find_other_case(typed), np.int32)
    return _use_case(typed, _rank(model, codec, context, others, len(others)))[:top_k]


def split_prompt(codec: TextCodec, text: str) -> tuple[str, str]:
    """Split a text, as `clean_text`, into its complete words and its last, unfinished word."""
    index = codec.word_index
    if isinstance(index, WordPieces):
        return split_unfinished(text)
    return split_unfinished_word(text, codec.tokenizer, index.longest)


def _use_case(typed: str, words: Words) -> Words:
    """Return words in the case of a prefix; of words that become equal the most probable one."""
    proposed: dict[str, float] = {}
    for word, probability in words:
        proposed.setdefault(use_case(typed, clean_text(word)), probability)
    return [*proposed.items()]


def _rank(
    model: NextWordModel, codec: TextCodec, context: str, ids: np.ndarray, top_k: int
) -> Words:
    """Return the most probable of the words `ids`, ascending; equally probable words in the order
    of their ids.
    """
    context_ids = codec.encode_beginning(context, model.order)
    log_probs = model.next_log_probs(context_ids[None])[0, ids]
    best = np.argsort(-log_probs, kind="stable")[:top_k]
    return [(codec.vocabulary.words[ids[i]], float(np.exp(log_probs[i]))) for i in best]


def search_words(
    model: NextWordModel, codec: TextCodec, text: str, prefix: str, top_k: int, with_end: bool
) -> Words:
    """Return the most probable next words of a model of pieces after a text: a beam search, up to
    the next word or `</s>`.

        P(w | context) = sum over the spellings x_1 … x_m of w of
                         P(x_1 | context, a word begins)
                         prod_i P(x_i | context, x_1 … x_{i-1})
                         P(a word begins next)

    The words begin with `prefix`, at most 64 characters; their probabilities stay those without a
    prefix. `with_end`: `</s>` is one of the words.
    """
    if len(prefix) > LONGEST_PREFIX:
        return []
    pieces = codec.word_index
    assert isinstance(pieces, WordPieces)
    text = clean_text(text)
    before = text.rstrip(pieces.blanks)
    contexts = codec.encode_beginning(before, model.order)[None]
    begin = pieces.last[contexts[0, -1]]
    if before and (prefix or before != text):
        begin = NO_SPACE if before == text else AFTER_SPACE
    wanted = prefix.encode("utf-8", "replace")
    fits = pieces.find_fitting(wanted)
    number, beam = choose_beam(top_k, len(pieces.texts))
    # [1, |V|]
    scores = np.where(pieces.begins[begin], model.next_log_probs(contexts), -np.inf)
    scores = _round(scores - np.maximum(_log_sum_exp(scores), _LEAST)[:, None])
    words = {EOS.encode(): scores[0, EOS_ID]} if with_end else {}
    texts = [b""]
    for _ in range(len(wanted) + MOST_PIECES):
        read = np.minimum([*map(len, texts)], len(wanted))
        scores[~fits[read]] = -np.inf
        best = _find_best(scores.ravel(), beam)
        if not len(best):
            break
        rows, ids = np.divmod(best, len(pieces.texts))
        texts = [
            texts[row] + pieces.texts[i] for row, i in zip(rows.tolist(), ids.tolist(), strict=True)
        ]
        contexts = np.concatenate([contexts[rows], ids[:, None].astype(np.int32)], axis=1)[:, 1:]
        scores = scores.ravel()[best, None] + _round(model.next_log_probs(contexts))  # [K, |V|]
        ends = pieces.begins[pieces.last[ids]]  # [K, |V|]
        ended = _round(_log_sum_exp(np.where(ends, scores, -np.inf))).tolist()
        found = [
            pair
            for pair in zip(texts, ended, strict=True)
            if len(pair[0]) >= len(wanted) and _is_text(pair[0])
        ]
        words = _merge_words([*words.items(), *found], beam)
        least = [*words.values()][number - 1] + NEGLIGIBLE if len(words) >= number else -np.inf
        scores[ends | (scores < least)] = -np.inf
    return [
        (text.decode("utf-8"), float(np.exp(score))) for text, score in [*words.items()][:top_k]
    ]


def choose_beam(top_k: int, vocabulary_size: int) -> tuple[int, int]:
    """Return how many words the search looks for, and how many partial words it keeps at most."""
    number = max(top_k, LEAST_WORDS)
    beam = max(4 * number, min(_SMALL_BEAM, _SMALL_NUMBERS // vocabulary_size))
    return number, max(LEAST_WORDS, min(beam, _MOST_NUMBERS // vocabulary_size))


def _find_best(scores: np.ndarray, number: int) -> np.ndarray:
    """Return the places of the greatest finite scores in descending order, the first of equal
    ones.
    """
    places = np.flatnonzero(scores > -np.inf)
    if len(places) > number:
        # the place of `partition` alone is certain: those before it are in no order
        least = -np.partition(-scores[places], number - 1)[number - 1]
        places = places[scores[places] >= least]
    return places[np.argsort(-scores[places], kind="stable")][:number]


def _merge_words(pairs: list[tuple[bytes, float]], number: int) -> dict[bytes, float]:
    """Merge the spellings of words, and return the most probable words, the first found of equal
    ones, in order.
    """
    spellings: dict[bytes, list[float]] = {}
    for text, score in pairs:
        spellings.setdefault(text, []).append(score)
    merged: dict[bytes, float] = {}
    for text, scores in spellings.items():
        is_spelled_once = len(scores) == 1
        merged[text] = scores[0] if is_spelled_once else float(_round(_log_sum_exp([scores]))[0])
    ranked = sorted(
        (text for text in merged if merged[text] > -np.inf), key=lambda text: -merged[text]
    )
    return {text: merged[text] for text in ranked[:number]}


def _is_text(text: bytes) -> bool:
    decoded = text.decode("utf-8", "ignore")
    return bool(decoded.strip()) and decoded.encode("utf-8") == text


def _round(log_probs: np.ndarray) -> np.ndarray:
    return np.round(np.asarray(log_probs, np.float64) * SCALE) / SCALE


def _log_sum_exp(rows: np.ndarray | list[list[float]]) -> np.ndarray:
    """Return ln of the sum of each row, [B]; -inf if all are."""
    scores = np.asarray(rows)
    largest = np.maximum(scores.max(axis=1), _LEAST)
    sums = np.exp(scores - largest[:, None]).sum(axis=1)
    return np.where(
        sums > 0, np.log(np.maximum(sums, np.finfo(np.float64).tiny)) + largest, -np.inf
    )
