"""Add out-of-vocabulary words to a network: new rows of weights, and renormalised probabilities."""

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import ConfiguredLayer, NewRows
from keras_nplm.models.networks.context_network import ContextNetwork


def check_growable(model: object) -> ContextNetwork:
    """Return a network that words can be added to; refuse others."""
    if not isinstance(model, ContextNetwork) or model.reads_log_q:
        raise InputError(
            "`model` must be a network alone to add words to it. Received: "
            f"{type(model).__name__}. "
            "Fix: train one by `keras-nplm train --network context --no-interpolated`."
        )
    model.prob.check_word_rows("to add words")
    model.prob.check_all_words("to add words")
    return model


def grow(model: ContextNetwork, rows: NewRows) -> ContextNetwork:
    """Return a network that `check_growable` accepts with more words, not compiled.

    Old words keep their ids and weights, new words follow them.
    """
    grown = type(model).from_config(_resize_config(model, model.vocabulary_size + len(rows.b)))
    for layer, old in zip(grown.list_layers(), model.list_layers(), strict=True):
        if isinstance(layer, ConfiguredLayer):
            layer.grow_from(old, rows)
        else:
            layer.set_weights(old.get_weights())
    for weight, old_weight in zip(
        grown.list_own_variables(), model.list_own_variables(), strict=True
    ):
        weight.assign(old_weight)
    for state, old_state in zip(grown.random_states(), model.random_states(), strict=True):
        state.assign(old_state)
    return grown


def _resize_config(model: ContextNetwork, size: int) -> dict:
    """Return the configuration of the same network for |V| = `size`."""
    config = model.get_config()
    if "vocabulary_size" in config:  # of an `NPLM`, whose layers follow from its sizes
        config["vocabulary_size"] = size
        return config
    for part, layer in model.list_parts().items():
        if isinstance(layer, ConfiguredLayer) and layer.words_option:
            config[part]["config"][layer.words_option] = size
    return config


def renormalise(
    log_prob: np.ndarray, log_z: np.ndarray, new_logits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return ln P of old words (shape of `log_prob`, [B] or [B, N]) and of new words with the
    logits y_j, [B, J].

        Z_new = Z + sum_j exp(y_j),    P_new(i) = P(i) Z / Z_new,    P_new(j) = exp(y_j) / Z_new

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 5, out-of-vocabulary words.
    """
    scores = new_logits - log_z[:, None]  # ln of exp(y_j) / Z
    greatest = scores.max(axis=1, initial=0.0)
    sums = np.exp(-greatest) + np.exp(scores - greatest[:, None]).sum(axis=1)
    growth = greatest + np.log(sums)  # ln(Z_new / Z)
    return log_prob - growth.reshape(-1, *[1] * (log_prob.ndim - 1)), scores - growth[:, None]
