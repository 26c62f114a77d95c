"""Generate text: sample words from P(w | context), with temperature and top-k."""

import functools
from collections.abc import Callable

import numpy as np

from keras_nplm.data.boundary import crosses_sentences
from keras_nplm.data.ids import EOS_ID
from keras_nplm.data.prefixes import WordIndex
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.io.errors import InputError, check_least
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.language_model.scorer import convert_to_arrays
from keras_nplm.language_model.word_pieces import AFTER_SPACE, NO_SPACE, WordPieces
from keras_nplm.models.base import NextWordModel

_MOST_TOKENS = 64  # of a word, on average: a model of subwords may never begin the next word


def generate_text(
    model: NextWordModel,
    codec: TextCodec,
    prompt: str,
    num_words: int,
    *,
    seed: int,
    temperature: float,
    top_k: int | None,
) -> str:
    """Continue a prompt with sampled words; see `LanguageModel.generate`."""
    prompt = clean_text(prompt)
    check_least("temperature", temperature, 0)
    tokenizer = codec.tokenizer
    before = prompt.rstrip(tokenizer.blanks) if tokenizer.searches_words else prompt
    context = codec.encode_beginning(before, model.order)
    first_ids = _list_first_ids(codec, prompt, before)
    sample = functools.partial(
        _sample, random=np.random.default_rng(seed), temperature=temperature, top_k=top_k
    )
    # one word at a time is faster in NumPy
    arrays = convert_to_arrays(model)
    ids = _sample_sentences(arrays, codec, context, first_ids, num_words, sample)
    lines = [codec.vocabulary.decode(np.array(sentence)) for sentence in ids]
    joined = [*map(tokenizer.join, lines)]
    if before and before == prompt:
        joined[0] = tokenizer.join_rest(lines[0])
    return "\n".join(joined)


def _list_first_ids(codec: TextCodec, prompt: str, before: str) -> np.ndarray:
    """List the ids that may follow a prompt: after white space at its end, those that begin a word.

    `before` is the prompt as it is encoded. A `▁` of characters is encoded, and one of subwords is
    still to come. So is the space of bytes.
    """
    proposed = codec.proposed_ids
    is_encoded = prompt == before
    begins_word = not is_encoded or codec.tokenizer.ends_with_space(prompt)
    if not begins_word or not codec.tokenizer.split(before):
        return proposed
    pieces = codec.word_index
    if not isinstance(pieces, WordPieces):
        return proposed
    return proposed[pieces.begins[NO_SPACE if is_encoded else AFTER_SPACE, proposed]]


def _sample_sentences(
    model: NextWordModel,
    codec: TextCodec,
    context: np.ndarray,
    first_ids: np.ndarray,
    num_words: int,
    sample: Callable[[np.ndarray], int],
) -> list[list[int]]:
    """Sample the ids of words after a context, one list per sentence.

    The first is one of `first_ids`.
    """
    candidates = first_ids
    pieces = codec.word_index if codec.tokenizer.searches_words else None
    assert not isinstance(pieces, WordIndex)  # words are not searched by their pieces
    sentences: list[list[int]] = [[]]
    number = 0
    tokens = 0
    most = _MOST_TOKENS * num_words
    # the former ends a series of empty sentences
    while len(sentences) - number <= num_words and tokens < most:
        if number == num_words and pieces is None:
            break
        log_probs = model.next_log_probs(context[None])[0, candidates].astype(np.float64)
        token = int(candidates[sample(log_probs)])
        candidates = codec.proposed_ids
        is_new = (
            token == EOS_ID
            or pieces is None
            or bool(pieces.begins[pieces.last[context[-1]], token])
        )
        if number == num_words and is_new:
            break
        context = np.append(context, token)[1:].astype(np.int32)
        if token == EOS_ID:
            if not crosses_sentences(codec.boundary):
                context = codec.first_context(model.order)
            sentences.append([])
            continue
        sentences[-1].append(token)
        number += is_new
        tokens += 1
    return sentences


def _sample(
    log_probs: np.ndarray, random: np.random.Generator, temperature: float, top_k: int | None
) -> int:
    """Sample an index from a distribution, given as unnormalised log-probabilities [N]."""
    if np.isneginf(log_probs).all():
        fix = "mix the model with the uniform distribution (`keras-nplm mix --uniform`)."
        raise InputError(f"Every word has probability 0 after this context. Fix: {fix}")
    if temperature == 0:
        return int(np.argmax(log_probs))
    indices = np.arange(len(log_probs))
    if top_k is not None and top_k < len(indices):
        indices = np.argpartition(-log_probs, top_k - 1)[:top_k]
    with np.errstate(over="ignore"):  # near temperature 0 all weights but the greatest become 0
        weights = np.exp((log_probs[indices] - log_probs[indices].max()) / temperature)
    return int(random.choice(indices, p=weights / weights.sum()))


def join_prompt(prompt: str, text: str, tokenizer: Tokenizer) -> str:
    """Return a prompt as it was given, and the text after it, without white space at its end."""
    text = text.rstrip()
    if not prompt or not text or text[0].isspace() or tokenizer.ends_with_space(prompt):
        return prompt + text
    return prompt + tokenizer.separator + text
