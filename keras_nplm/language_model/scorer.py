"""Incremental scoring: log-probabilities a few words at a time, with hashable states, as decoders
need them.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence

import numpy as np

from keras_nplm.data.ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_nplm.data.ngram_arrays import gather_ngrams
from keras_nplm.data.subwords import WordCache
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.models.base import Network, NextWordModel
from keras_nplm.models.mixture import Mixture

# the last n-1 token ids, int32 each: unlike tuples joined to an array without a loop over the ids
State = bytes
ID_BYTES = 4  # of an id in a state
UNK, EOS = (np.int32(i).tobytes() for i in (UNK_ID, EOS_ID))
# the last id of a state at the beginning of a text
_STARTS = tuple(np.int32(i).tobytes() for i in (PAD_ID, BOS_ID))


class IdScorer:
    """Score token ids after states: the part of `Scorer` that knows no text.

    Args:
        model: the model.
        begin: the state at the beginning of a text.
        keeps_last: whether a state keeps its last token, even if no n-gram continues it.
    """

    def __init__(self, model: NextWordModel, begin: State, keeps_last: bool = False):
        self.model = model
        self._begin = begin
        self._keeps_last = keeps_last
        # from the word after a context to each of its words
        self._distances = np.arange(model.order - 1, 0, -1)

    @functools.cached_property
    def _shortens(self) -> bool:
        return not self.model.uses_whole_contexts

    def begin(self) -> State:
        """Return the state at the beginning of a text."""
        return self._begin

    def score_encoded(
        self, states: Sequence[State], ids: Sequence[bytes]
    ) -> tuple[np.ndarray, list[State]]:
        """Return ln P of the tokens of one word after each state, float64 [B], and the states after
        them: for decoders that encode each word once.
        """
        lengths = [*map(len, ids)]
        order = self.model.order
        are_tokens = lengths.count(ID_BYTES) == len(lengths) == len(states)
        if are_tokens:
            contexts = np.frombuffer(b"".join(states), np.int32).reshape(len(states), order - 1)
            targets = np.frombuffer(b"".join(ids), np.int32)
        else:
            paths = [state + word for state, word in zip(states, ids, strict=True)]
            tokens, positions, owners = arrange_paths(paths, ids, order)
            ngrams = gather_ngrams(tokens, positions, order)
            contexts = ngrams[:, :-1]
            targets = ngrams[:, -1]
        if self._shortens:
            log_probs, used = self.model.log_prob_and_lengths(contexts, targets)
        else:  # the ids of states need no check
            log_probs = self.model._log_prob(contexts, targets)
            used = None
        after = self._pack_next_states(contexts, targets, used)
        if are_tokens:
            return log_probs.astype(np.float64), after
        last_of_each = np.cumsum(lengths) // ID_BYTES - 1
        ends = zip(states, lengths, last_of_each.tolist(), strict=True)
        sums = np.bincount(owners, log_probs, len(paths))
        return sums, [after[last] if size else state for state, size, last in ends]

    def _pack_next_states(
        self, contexts: np.ndarray, targets: np.ndarray, used: np.ndarray | None
    ) -> list[State]:
        """Return the state after each n-gram; `used`, if given, are the numbers of its last words
        that count.
        """
        after = np.empty(contexts.shape, np.int32)
        after[:, :-1] = contexts[:, 1:]
        after[:, -1:] = targets[:, None]
        if used is not None:
            if self._keeps_last:
                used = np.maximum(used, 1)
            after *= self._distances <= used[:, None]  # the rest is <pad>, 0
        packed = after.tobytes()
        size = len(self._begin)
        return [packed[start : start + size] for start in range(0, len(packed), size or 1)] or [
            b""
        ] * len(targets)

    def next_log_probs(self, states: Sequence[State]) -> np.ndarray:
        """Return ln P(token | state) of every token of the vocabulary, float [B, |V|]:
        `vocabulary.words` by id.
        """
        array = np.frombuffer(b"".join(states), np.int32)
        return self.model.next_log_probs(array.reshape(len(states), self.model.order - 1))


class Scorer(IdScorer):
    """Score a text a few words at a time, for beam search and other decoders; see
    `LanguageModel.scorer`.

        ln P(text) = sum_t ln P(words_t | state_{t-1}) + ln P(</s> | state_T),    state_0 = begin()

    A state holds the last n-1 token ids as bytes: hashable, comparable and picklable. Hypotheses
    with equal states have equal continuations: a decoder may recombine them. The states of n-gram
    models are minimal, as in KenLM: `<pad>` stands for the words that no listed n-gram continues,
    so that after an unknown word all histories are one.

    However a text is cut into calls at single spaces, its score is that of `LanguageModel.score`,
    up to rounding; the space may be given with the word before it or after it. Characters have a
    token for it, so that after `"of "` the next word begins. A word of several tokens, such as
    subwords, has the sum of their log-probabilities. An out-of-vocabulary word has
    ln P(<unk> | state). As in KenLM,
    `word in scorer` tells whether it is in the vocabulary. `<s>`, `</s>` and `<pad>` are
    out-of-vocabulary words.

    A scorer can be pickled, also in `pool.map(scorer.score, …)`. It runs in NumPy. Adaptive,
    short-list and hybrid outputs run in TensorFlow, which needs processes made by spawn, not by
    fork.

    Example:

    >>> from keras_nplm import LanguageModel
    >>> language_model = LanguageModel.from_preset("starter")
    >>> scorer = language_model.scorer()
    >>> first, state = scorer.score(scorer.begin(), "The value")
    >>> second, state = scorer.score(state, "is")
    >>> [whole] = language_model.score(["The value is"])
    >>> bool(np.isclose(first + second + scorer.end(state), whole.log_prob, atol=1e-3))
    True
    >>> "value" in scorer, "valuable" in scorer
    (True, False)
    """

    def __init__(self, model: NextWordModel, codec: TextCodec):
        # of parts of words the last token tells `encode` that the text has begun
        keeps_last = not codec.tokenizer.tokens_are_words
        super().__init__(model, codec.first_context(model.order).tobytes(), keeps_last)
        self.vocabulary = codec.vocabulary
        self.tokenizer = codec.tokenizer
        self.end_ids = EOS if codec.predicts_end else b""
        space = self.tokenizer.space
        self._between = self.vocabulary.encode([space] if space else []).tobytes()
        self._is_space_known = self._between not in (b"", UNK)

    def __getstate__(self) -> dict:
        """Return the attributes without the cache of words."""
        return {name: value for name, value in self.__dict__.items() if name != "_encode"}

    @functools.cached_property
    def _encode(self) -> Callable[[str], bytes]:
        return WordCache(lambda word: self.encode_tokens(self.tokenizer.split(word))).__getitem__

    def score(self, state: State, word: str) -> tuple[float, State]:
        """Return ln P(word | state) and the state after the word; a text of several words is one
        call, too.
        """
        if self.tokenizer.tokens_are_words and not self._shortens:
            ids = self._encode(word)
            if len(ids) == ID_BYTES:
                # a search by one hypothesis waits for each word: this is a third of a batch of one
                path = state + ids
                ngram = np.frombuffer(path, np.int32)
                return self.model.log_prob_of_one(ngram), path[ID_BYTES:]
        log_probs, states = self.score_batch([state], [word])
        return float(log_probs[0]), states[0]

    def score_batch(
        self, states: Sequence[State], words: Sequence[str]
    ) -> tuple[np.ndarray, list[State]]:
        """Return ln P of one word after each state, float64 [B], and the B states after these
        words.
        """
        if self.tokenizer.tokens_are_words:
            return self.score_encoded(states, [*map(self._encode, words)])
        return self.score_encoded(states, [*map(self.encode, states, words)])

    def end(self, state: State) -> float:
        """Return ln P(</s> | state), of the end of a text; 0 with the boundary `"stream"`, which
        has no ends.
        """
        return float(self.score_encoded([state], [self.end_ids])[0][0])

    def encode(self, state: State, word: str) -> bytes:
        """Return the token ids of a word after a state, int32 each: of characters with the space
        between two words.

        White space at an end of the word is the space to its neighbour, and not given twice.
        """
        word = clean_text(word)
        last = state[-ID_BYTES:]
        if not self._between:
            # the first token of a word has the space before it, as the `▁` of subwords: neither
            # that to the word before is given, nor that to the next one
            if not self.tokenizer.tokens_are_words:
                word = word.rstrip(self.tokenizer.blanks)
                if last not in _STARTS:
                    word = word.removeprefix(" ")
            return self._encode(word)
        ids = self._encode(word)
        has_space = last in _STARTS or (self._is_space_known and last == self._between)
        if not ids:
            return self._between if word and self._is_space_known and not has_space else b""
        before = b"" if has_space else self._between
        after = self._between if self._is_space_known and word[-1].isspace() else b""
        return before + ids + after

    def encode_tokens(self, tokens: list[str]) -> bytes:
        """Return the ids of tokens, int32 each.

        `<s>`, `</s>` and `<pad>` are out-of-vocabulary words.
        """
        return self.vocabulary.encode_text(tokens).tobytes()

    def __contains__(self, word: str) -> bool:
        ids = self._encode(word)
        return bool(ids) and UNK_ID not in np.frombuffer(ids, np.int32)


def arrange_paths(
    paths: Sequence[bytes], ids: Sequence[bytes], order: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (tokens, positions, owners): the n-grams of `ngram_positions` for ids after states,
    and the path of each.

    Each path is a state and the ids after it. All states have n-1 ids.
    """
    owners = np.repeat(
        np.arange(len(ids)), np.fromiter(map(len, ids), np.int64, len(ids)) // ID_BYTES
    )
    return (
        np.frombuffer(b"".join(paths), np.int32),
        np.arange(len(owners)) + (order - 1) * (owners + 1),
        owners,
    )


def self_normalise(model: NextWordModel) -> NextWordModel:
    """Return a network whose logits are log-probabilities; see `SelfNormalised`."""
    if not model.is_normalised:
        return model
    from keras_nplm.models.networks.self_normalised import SelfNormalised

    return SelfNormalised(model)


def convert_to_arrays(model: NextWordModel) -> NextWordModel:
    """Return the model with its networks in NumPy, where they are of float32 and have logits of all
    words.
    """
    if isinstance(model, Mixture):
        return model.with_parts([*map(convert_to_arrays, model.parts)])
    if isinstance(model, Network) and model.compute_dtype == "float32":
        from keras_nplm.models.networks.self_normalised import ArrayNetwork

        with contextlib.suppress(InputError):
            return ArrayNetwork(model)
    return model
