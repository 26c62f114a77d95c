"""Tune the weights of features on a development set of N-best lists (minimum error rate training, MERT)."""

from collections.abc import Iterable, Mapping

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.language_model.rescoring.features import (
    FEATURE_NAME,
    WeightedFeatures,
    default_weights,
    name_features,
)
from keras_nplm.language_model.rescoring.losses import Losses, add_losses
from keras_nplm.language_model.rescoring.minimum_error_rate import Candidates, minimise_error
from keras_nplm.language_model.rescoring.nbest import NBestList

RESTARTS = 8


def tune(
    lists: Iterable[NBestList],
    losses: Losses,
    weights: Mapping[str, float] | None = None,
    *,
    name: str = FEATURE_NAME,
    restarts: int = RESTARTS,
    seed: int = 0,
) -> dict[str, float]:
    """Tune weights: minimise the total loss of the first-ranked hypotheses; see `minimise_error`.

    The loss is never greater than with the initial weights, and never greater than with the decoder's features alone.

    Args:
        lists: development set of N-best lists, with the language model's features.
        losses: returns the loss of each hypothesis, float [H] per list: `WordErrors`, or any such function.
        weights: initial weight of each feature that is tuned. Default: `default_weights`, and 0 for the numbers of
            tokens and of unknown words.
        name: name of the language model's feature.
        restarts: number of additional random starts, 0 or more.
        seed: random seed of these starts.

    Returns:
        weight of each feature; the absolute values sum to 1.

    Raises:
        InputError: `lists` is empty, or a weight has no feature in the lists.

    Example:

    >>> from keras_nplm.language_model.rescoring import rank_lists
    >>> lists = [NBestList("0", ["a", "the"], {"score": np.array([-1.0, -2.0]), "nplm": np.array([-9.0, -4.0])})]
    >>> weights = tune(lists, lambda lists: [np.array([1.0, 0.0])], {"score": 1, "nplm": 0})
    >>> [nbest.texts[0] for nbest in rank_lists(lists, weights)]
    ['the']
    """
    return tune_pairs(add_losses(lists, losses), weights, name=name, restarts=restarts, seed=seed)


def tune_pairs(
    pairs: Iterable[tuple[NBestList, np.ndarray]],
    weights: Mapping[str, float] | None,
    *,
    name: str,
    restarts: int,
    seed: int,
) -> dict[str, float]:
    """Tune weights on N-best lists with the losses of their hypotheses; see `tune`."""
    initial, weighted = dict(weights or {}), WeightedFeatures(weights, name)
    own = name_features(name)
    features, losses = [], []
    for nbest, loss in pairs:
        initial = initial or default_weights(nbest.features, name) | dict.fromkeys(own[1:], 0.0)
        weighted.register(nbest)
        zeros = np.zeros(len(nbest))
        features.append(np.stack([nbest.features.get(feature, zeros) for feature in initial], axis=1))
        losses.append(np.asarray(loss, np.float64))
    weighted.check()
    if not losses:
        raise InputError("The development set must have 1 N-best list or more. Received: 0.")
    starts = np.cumsum([0, *map(len, losses[:-1])])
    candidates = Candidates(np.concatenate(features), starts, np.concatenate(losses))
    weights_of_all = np.array([*initial.values()])
    without = np.where([feature in own for feature in initial], 0.0, weights_of_all)
    tuned, _ = minimise_error(candidates, [without, weights_of_all], restarts=restarts, seed=seed)
    return dict(zip(initial, tuned.tolist(), strict=True))
