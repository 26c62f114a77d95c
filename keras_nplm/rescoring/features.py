"""Features of a language model in N-best lists: log-probabilities, tokens, unknown words."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from keras_nplm.data.arguments import check_items
from keras_nplm.data.word_counts import batch_by_size
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress
from keras_nplm.language_model.scoring import SentenceScore
from keras_nplm.rescoring.nbest import NBestList

FEATURE_NAME = "nplm"
_CHARACTERS = 1 << 20  # of hypotheses that are scored together

# of texts, such as `lists.score_hypotheses` with a language model
Score = Callable[[Sequence[str]], Iterable[SentenceScore]]


def name_features(name: str = FEATURE_NAME) -> tuple[str, str, str]:
    return name, f"{name}_words", f"{name}_unk"


def add_scores(
    lists: Iterable[NBestList], score: Score, name: str = FEATURE_NAME
) -> Iterator[NBestList]:
    """Yield N-best lists, scored in batches, with the features of a language model; see
    `keras_nplm.rescore`.
    """
    progress = open_progress("Scoring")
    for batch in batch_lists(lists):
        scores = _score_batch(batch, score)
        progress.update(sum(one.tokens for one in scores))
        columns = (
            np.array([[one.log_prob, one.tokens, one.unk_tokens] for one in scores])
            .reshape(-1, 3)
            .T
        )
        ends = np.cumsum([len(nbest) for nbest in batch])
        for nbest, values in zip(batch, np.split(columns, ends[:-1], axis=1), strict=True):
            yield nbest.with_features(dict(zip(name_features(name), values, strict=True)))
    progress.close()


def batch_lists(lists: Iterable[NBestList]) -> Iterator[list[NBestList]]:
    """Yield batches of N-best lists with about a megabyte of text each."""
    items = check_items(lists, "lists", NBestList, "an iterable of N-best lists")
    return batch_by_size(items, _CHARACTERS, lambda nbest: sum(map(len, nbest.texts)) + len(nbest))


def _score_batch(batch: list[NBestList], score: Score) -> list[SentenceScore]:
    try:
        return list(score([text for nbest in batch for text in nbest.texts]))
    except InputError as error:
        if len(batch) == 1:
            raise InputError(f"List {batch[0].name}: {error}") from error
        # one of them is named in the error
        return [one for nbest in batch for one in _score_batch([nbest], score)]
