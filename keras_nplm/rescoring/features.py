"""Features of a language model in N-best lists: log-probabilities, tokens, unknown words."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from keras_nplm.data.arguments import check_items
from keras_nplm.data.word_counts import batch_by_size
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.progress import open_progress
from keras_nplm.language_model.scoring import SentenceScore
from keras_nplm.rescoring.line_formats import DECODER_SCORE
from keras_nplm.rescoring.nbest import NBestList

FEATURE_NAME = "nplm"
_CHARACTERS = 1 << 20  # of hypotheses that are scored together

# of texts, such as `lists.score_hypotheses` with a language model
Score = Callable[[Sequence[str]], Iterable[SentenceScore]]


def name_features(name: str = FEATURE_NAME) -> tuple[str, str, str]:
    """Return the names of the features: ln P, the number of tokens, and that of unknown words."""
    wanted = f"a different name than {DECODER_SCORE}, the decoder's total"
    check_argument("name", name != DECODER_SCORE, wanted, name, "choose another, such as nplm.")
    return name, f"{name}_words", f"{name}_unk"


def add_scores(
    lists: Iterable[NBestList], score: Score, name: str = FEATURE_NAME
) -> Iterator[NBestList]:
    """Yield N-best lists, scored in batches, with the features of a language model; see
    `keras_nplm.rescore`.
    """
    names = name_features(name)
    progress = open_progress("Scoring")
    for batch in batch_lists(lists):
        scores = _score_batch(batch, score)
        progress.update(sum(one.tokens for one in scores))
        start = 0
        for nbest in batch:
            end = start + len(nbest)
            columns = _arrange_columns(scores[start:end])
            yield nbest.with_features(dict(zip(names, columns, strict=True)))
            start = end
    progress.close()


def _arrange_columns(scores: Sequence[SentenceScore]) -> list[np.ndarray]:
    """Return the values of the features of `name_features`, float64 [H] each."""
    log_probs = [score.log_prob for score in scores]
    tokens = [score.tokens for score in scores]
    unk_tokens = [score.unk_tokens for score in scores]
    return [np.array(column, np.float64) for column in (log_probs, tokens, unk_tokens)]


def batch_lists(lists: Iterable[NBestList]) -> Iterator[list[NBestList]]:
    """Yield batches of N-best lists with about a megabyte of text each."""
    items = check_items(lists, "lists", NBestList, "an iterable of N-best lists")
    return batch_by_size(items, _CHARACTERS, _count_characters)


def _count_characters(nbest: NBestList) -> int:
    line_ends = len(nbest)
    return sum(map(len, nbest.texts)) + line_ends


def _score_batch(batch: list[NBestList], score: Score) -> list[SentenceScore]:
    texts = [text for nbest in batch for text in nbest.texts]
    try:
        return list(score(texts))
    except InputError as error:
        if len(batch) == 1:
            raise InputError(f"List {batch[0].name}: {error}") from error
        # scored alone, the list with the invalid text is named in the error
        return [one for nbest in batch for one in _score_batch([nbest], score)]
