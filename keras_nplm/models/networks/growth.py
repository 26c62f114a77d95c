"""Add out-of-vocabulary words to a network: new rows of weights, and renormalised probabilities."""

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import NewRows
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork

# the layers with a row for each word, and their option that says how many
_WORD_OPTIONS = {"embed": "vocabulary_size", "direct": "units", "head": "vocabulary_size"}


def check_growable(model: object) -> None:
    """Refuse a model that words cannot be added to."""
    if not isinstance(model, ContextNetwork) or isinstance(model, HybridNetwork):
        raise InputError(
            f"`model` must be a network alone to add words to it. Received: {type(model).__name__}. "
            "Fix: train one with `train`."
        )
    if not model.prob.has_word_rows:
        raise InputError(
            f"`head` must have a row for each word to add words. Received: {type(model.prob).__name__}. "
            "Fix: train with --head linear."
        )
    if model.prob.num_outputs < model.vocabulary_size:
        raise InputError(
            f"`num_outputs` must be |V|, {model.vocabulary_size}, to add words. Received: {model.prob.num_outputs}. "
            "Fix: train a network without a short-list, which new words are not in."
        )


def grow(model: ContextNetwork, rows: NewRows) -> ContextNetwork:
    """Return the network with more words, not compiled. Old words keep their ids and weights, new words follow them."""
    check_growable(model)
    config = _resize(model.get_config(), model.vocabulary_size + len(rows.b))
    grown = type(model).from_config(config)
    grown.grow_from(model, rows)
    return grown


def _resize(config: dict, size: int) -> dict:
    """Return the configuration of a network for |V| = `size`."""
    resized = dict(config)
    if "vocabulary_size" in config:  # of an `NPLM`, whose layers follow from its sizes
        resized["vocabulary_size"] = size
    for part, option in _WORD_OPTIONS.items():
        layer = config.get(part)
        if layer is not None:
            resized[part] = {**layer, "config": {**layer["config"], option: size}}
    return resized


def renormalise(log_prob: np.ndarray, log_z: np.ndarray, new_logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ln P of old words (shape of `log_prob`, [B] or [B, N]) and of new words with the logits y_j, [B, J].

        Z_new = Z + sum_j exp(y_j),    P_new(i) = P(i) Z / Z_new,    P_new(j) = exp(y_j) / Z_new

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 5, out-of-vocabulary words.
    """
    scores = new_logits - log_z[:, None]  # ln of exp(y_j) / Z
    greatest = scores.max(axis=1, initial=0.0)
    sums = np.exp(-greatest) + np.exp(scores - greatest[:, None]).sum(axis=1)
    growth = greatest + np.log(sums)  # ln(Z_new / Z)
    return log_prob - growth.reshape(-1, *[1] * (log_prob.ndim - 1)), scores - growth[:, None]
