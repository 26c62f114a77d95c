"""Complete words of subwords or characters: a beam search over pieces for the most probable next words."""

import unicodedata

import numpy as np

from keras_nplm.data.prefixes import PrefixIndex
from keras_nplm.data.tokenizers import spell_piece
from keras_nplm.data.unusual_text import NO_SPACES
from keras_nplm.data.vocabulary import EOS, EOS_ID, SPECIALS, Vocabulary
from keras_nplm.models.base import NextWordModel

BEAM = 16  # partial words that the search keeps
MOST_PIECES = 24  # of a word
LONGEST_PREFIX = 64  # characters of an unfinished word that the search completes
_OPEN, _LETTER, _OTHER, _SPACE = range(4)  # what a text ends with: nothing, a letter, a different character, a space


class WordPieces:
    """The pieces of a vocabulary as parts of words: which piece begins a new word, and after which piece.

    A word begins after a space, at `</s>`, before and after a punctuation mark, and at each piece of a script without
    spaces, such as Chinese or Thai. Letters, digits, marks above letters and apostrophes continue a word.

    Args:
        vocabulary: a vocabulary of subwords or of characters, with `▁` for a space.

    Attributes:
        texts: the UTF-8 text of each piece without the space before it.
        has_space: whether a space comes before each piece, bool [|V|].
        last: what the text of each piece ends with, int [|V|].
        index: the pieces by the prefixes of their texts.
        begins: whether a piece begins a word after a text with a certain end, bool [4, |V|].
    """

    def __init__(self, vocabulary: Vocabulary):
        size, first = len(vocabulary), len(SPECIALS)
        self.texts, starts = [b""] * first, np.full(size, _OTHER)
        self.last, self.has_space = np.full(size, _OPEN), np.zeros(size, bool)
        continues = np.zeros(size, bool)  # the second or a later byte of a character
        for place, name in enumerate(vocabulary.words[first:], start=first):
            data = spell_piece(name)
            self.has_space[place] = data.startswith(b" ")
            text = data.removeprefix(b" ")
            self.texts.append(text)
            continues[place] = b"\x80" <= text[:1] < b"\xc0"
            starts[place] = _classify(text, 0) if text else _SPACE
            self.last[place] = _classify(text, -1) if text else _SPACE
        self.begins = np.stack([
            ~continues,
            (starts != _LETTER) | self.has_space,
            ~continues,
            self.has_space.copy(),
        ])  # fmt: skip
        self.begins[:, :EOS_ID], self.begins[:, EOS_ID] = False, True
        self.index = PrefixIndex(self.texts, first)

    def find_compatible(self, prefix: bytes) -> np.ndarray:
        """Return which pieces may come next if a text must begin with `prefix`: bool [|V|].

        The text of such a piece begins with the prefix, or is itself the beginning of the prefix.
        """
        found = np.zeros(len(self.texts), bool)
        found[self.index.find(prefix)] = True
        for length in range(len(prefix)):
            found[self.index.find_equal(prefix[:length])] = True
        return found


def _classify(text: bytes, place: int) -> int:
    """Return what the first (0) or last (-1) character of a piece is."""
    try:
        character = text.decode("utf-8")[place]
    except UnicodeDecodeError:  # a byte of a rare character
        return _LETTER
    return _LETTER if is_letter(character) else _OTHER


def is_letter(character: str) -> bool:
    """Return whether a character continues a word: a letter, digit, mark or apostrophe of a script with spaces."""
    belongs = character in "'’_" or unicodedata.category(character)[0] in "LMN"
    return belongs and not NO_SPACES.match(character)


def split_unfinished(text: str) -> tuple[str, str]:
    """Split a text into its complete words and its last, unfinished word, which consists of letters.

    Example:

    >>> split_unfinished("The val"), split_unfinished("The (val"), split_unfinished("The "), split_unfinished("我们")
    (('The ', 'val'), ('The (', 'val'), ('The ', ''), ('我们', ''))
    """
    start = len(text)
    while start and is_letter(text[start - 1]):
        start -= 1
    return text[:start], text[start:]


def complete_words(
    model: NextWordModel,
    context_ids: np.ndarray,
    pieces: WordPieces,
    *,
    prefix: str = "",
    after_space: bool | None = None,
    with_end: bool = True,
    top_k: int = 10,
    beam: int = BEAM,
) -> list[tuple[str, float]]:
    """Return the most probable next words of a model of subwords: a beam search over pieces, up to the next word.

        P(w | context) = sum over the spellings x_1 … x_m of w of
                         P(x_1 | context, a word begins) prod_i P(x_i | context, x_1 … x_{i-1}) P(a word begins next)

    Args:
        model: a language model of order n.
        context_ids: int32 [n-1], the context. Its last piece ends a word.
        pieces: the pieces of the model's vocabulary.
        prefix: text that the words must begin with, at most 64 characters. The probabilities stay those without a
            prefix.
        after_space: whether a space comes between the context and the word. Default: both are possible.
        with_end: whether `</s>` counts as a word.
        top_k: number of words.
        beam: number of partial words that the search keeps.

    Returns:
        up to `top_k` words with their probabilities, the most probable first.
    """
    begins = pieces.begins if with_end else _without_end(pieces.begins)
    if len(prefix) > LONGEST_PREFIX:
        return []
    wanted = prefix.encode("utf-8", "replace")
    log_probs = model.next_log_probs(context_ids[None])[0].astype(np.float64)  # [|V|]
    allowed = begins[pieces.last[context_ids[-1]]]
    if after_space is not None:
        allowed = allowed & (pieces.has_space == after_space)
        allowed[EOS_ID] = after_space and begins[0, EOS_ID]  # text may end with a space, but not within a word
    scores = np.where(allowed, log_probs, -np.inf) - _log_sum_exp(log_probs[allowed])
    ended: list[tuple[bytes, float]] = []
    if with_end and allowed[EOS_ID] and not prefix:
        ended.append((EOS.encode(), float(np.exp(scores[EOS_ID]))))
    scores[EOS_ID] = -np.inf
    texts, contexts, scores = [b""], context_ids[None], scores[None]
    for _ in range(MOST_PIECES):
        for row, text in enumerate(texts):
            if len(text) < len(wanted):
                scores[row, ~pieces.find_compatible(wanted[len(text) :])] = -np.inf
        flat = scores.ravel()
        best = np.argpartition(-flat, min(beam, flat.size - 1))[:beam]
        best = best[np.isfinite(flat[best])]
        if not len(best):
            break
        rows, ids = np.divmod(best, scores.shape[1])
        texts = [texts[row] + pieces.texts[i] for row, i in zip(rows.tolist(), ids.tolist(), strict=True)]
        contexts = np.concatenate([contexts[rows, 1:], ids[:, None].astype(np.int32)], axis=1)
        log_probs = flat[best, None] + model.next_log_probs(contexts)  # [K, |V|]
        ends = begins[pieces.last[ids]]  # [K, |V|]
        for text, row, end in zip(texts, log_probs, ends, strict=True):
            if len(text) >= max(1, len(wanted)):
                ended.append((text, float(np.exp(_log_sum_exp(row[end])))))
        scores = np.where(ends, -np.inf, log_probs)
        scores[:, : EOS_ID + 1] = -np.inf
        if len(ended) >= top_k and sorted(probability for _, probability in ended)[-top_k] >= np.exp(scores.max()):
            break
    words: dict[bytes, float] = {}
    for text, probability in ended:
        words[text] = words.get(text, 0.0) + probability
    ranked = sorted(((-probability, text) for text, probability in words.items() if _is_text(text)))[:top_k]
    return [(text.decode("utf-8"), -negative) for negative, text in ranked]


def _without_end(begins: np.ndarray) -> np.ndarray:
    begins = begins.copy()
    begins[:, EOS_ID] = False
    return begins


def _is_text(text: bytes) -> bool:
    """Return whether bytes are a word: valid UTF-8, not cut within a character."""
    try:
        return bool(text.decode("utf-8").strip())
    except UnicodeDecodeError:
        return False


def _log_sum_exp(values: np.ndarray) -> float:
    if not len(values) or np.isneginf(largest := values.max()):
        return -np.inf
    return float(largest + np.log(np.exp(values - largest).sum()))
