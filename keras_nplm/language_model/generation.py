"""Generate text: sample words from P(w | context), with temperature and top-k."""

from collections.abc import Callable

import numpy as np

from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.io.errors import InputError
from keras_nplm.models.base import NextWordModel

_MAX_WORDS = 1_000_000
_MOST_TOKENS = 64  # of a word, on average: a model of subwords may never begin the next word


def generate_sentences(
    model: NextWordModel,
    first_context: np.ndarray,
    prompt_ids: np.ndarray,
    candidate_ids: np.ndarray,
    num_words: int,
    *,
    seed: int = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    begins: Callable[[int, int], bool] | None = None,
) -> list[list[int]]:
    """Sample word ids from P(w | context), a new sentence after each `</s>`.

    Args:
        model: a language model of order n.
        first_context: the context of the first word of a sentence, int32 [n-1].
        prompt_ids: ids that precede the first sampled word; the last n-1 count.
        candidate_ids: ids that may be sampled, ascending.
        num_words: number of words, 1 to 1,000,000. `</s>` does not count.
        seed: random seed, 0 or more.
        temperature: 0 or more. P is raised to the power 1/temperature and normalised; 0 takes the most probable word.
        top_k: sample from this many most probable words. Default: all.
        begins: whether a token begins a word after the token before it, for words of several tokens. Default: each
            token is a word.

    Returns:
        the ids of the words, one list per sentence.

    Raises:
        InputError: an option is out of range, or all candidates have probability 0.
    """
    if not 1 <= num_words <= _MAX_WORDS:
        raise InputError(f"`num_words` must be 1 to {_MAX_WORDS:,}. Received: {num_words}.")
    if not 0 <= temperature < np.inf:
        raise InputError(f"`temperature` must be 0 or more. Received: {temperature}.")
    if top_k is not None and top_k < 1:
        raise InputError(f"`top_k` must be 1 or more. Received: {top_k}.")
    if seed < 0:
        raise InputError(f"`seed` must be 0 or more. Received: {seed}.")
    random = np.random.default_rng(seed)
    context = np.concatenate([first_context, prompt_ids])[-len(first_context) :].astype(np.int32)
    sentences, number, tokens = [[]], 0, 0
    most = _MOST_TOKENS * num_words
    while len(sentences) - number <= num_words and tokens < most:  # the former ends a series of empty sentences
        if number == num_words and begins is None:
            break
        log_probs = model.next_log_probs(context[None])[0, candidate_ids].astype(np.float64)
        token = int(candidate_ids[_sample(log_probs, random, temperature, top_k)])
        is_new = token == EOS_ID or begins is None or begins(int(context[-1]), token)
        if number == num_words and is_new:
            break
        if token == EOS_ID:
            context = first_context
            sentences.append([])
            continue
        context = np.append(context[1:], token).astype(np.int32)
        sentences[-1].append(token)
        number += is_new
        tokens += 1
    return sentences


def _sample(log_probs: np.ndarray, random: np.random.Generator, temperature: float, top_k: int | None) -> int:
    """Sample an index from a distribution, given as unnormalised log-probabilities [N]."""
    if np.isneginf(log_probs).all():
        raise InputError(
            "Every word has probability 0 after this context. Fix: mix the model with the uniform distribution "
            "(`keras-nplm mix --uniform`)."
        )
    if temperature == 0:
        return int(np.argmax(log_probs))
    indices = np.arange(len(log_probs))
    if top_k is not None and top_k < len(indices):
        indices = np.argpartition(-log_probs, top_k - 1)[:top_k]
    with np.errstate(over="ignore"):  # near temperature 0 all weights but the greatest become 0
        weights = np.exp((log_probs[indices] - log_probs[indices].max()) / temperature)
    return int(random.choice(indices, p=weights / weights.sum()))
