"""Add the features of a language model to N-best lists: log-probability, number of tokens, number of unknown words."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from keras_nplm.data.arguments import check_items
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress
from keras_nplm.language_model.rescoring.nbest import NBestList
from keras_nplm.language_model.scoring import SentenceScore, batch_by_size

FEATURE_NAME = "nplm"
MIN_LOG_PROB = -99 * math.log(10)  # ln P of an impossible n-gram, as in ARPA files: keeps all features finite
_CHARACTERS = 1 << 20  # of hypotheses that are scored together

Score = Callable[[Sequence[str]], Iterable[SentenceScore]]  # of texts, such as `LanguageModel.score`


def name_features(name: str = FEATURE_NAME) -> tuple[str, str, str]:
    """Return the names of the features of a language model: `name`, `name_words` and `name_unk`."""
    return name, f"{name}_words", f"{name}_unk"


def add_scores(lists: Iterable[NBestList], score: Score, name: str = FEATURE_NAME) -> Iterator[NBestList]:
    """Yield N-best lists with the features of a language model.

    The features are `name`, ln P(hypothesis) in nats; `name_words`, the number of predicted tokens; `name_unk`, the
    number of out-of-vocabulary words. Lists are scored in batches of about a megabyte, so memory is bounded. `score`
    returns the scores of texts, as `LanguageModel.score` does.
    """
    progress = open_progress("Scoring")
    for batch in batch_lists(lists):
        scores = _score_batch(batch, score)
        progress.update(sum(one.tokens for one in scores))
        columns = np.array([[one.log_prob, one.tokens, one.unk_tokens] for one in scores]).reshape(-1, 3).T
        ends = np.cumsum([len(nbest) for nbest in batch])
        for nbest, values in zip(batch, np.split(columns, ends[:-1], axis=1), strict=True):
            yield nbest.with_features(dict(zip(name_features(name), values, strict=True)))
    progress.close()


def batch_lists(lists: Iterable[NBestList]) -> Iterator[list[NBestList]]:
    """Yield batches of N-best lists with about a megabyte of text each."""
    items = check_items(lists, "lists", NBestList, "an iterable of N-best lists")
    return batch_by_size(items, lambda nbest: sum(map(len, nbest.texts)) + len(nbest), _CHARACTERS)


def _score_batch(batch: list[NBestList], score: Score) -> list[SentenceScore]:
    try:
        return list(score([text for nbest in batch for text in nbest.texts]))
    except InputError:
        for nbest in batch:  # find the list, to name it in the error
            try:
                list(score(nbest.texts))
            except InputError as error:
                raise InputError(f"List {nbest.name}: {error}") from error
        raise
