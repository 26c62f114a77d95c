"""Add out-of-vocabulary words to a network: new rows of weights, and renormalised probabilities."""

import dataclasses

import numpy as np

from keras_nplm.io.errors import check_argument
from keras_nplm.models.nplm import NPLM


@dataclasses.dataclass(frozen=True)
class NewRows:
    """Weights of J new words, C [J, m], kernel [J, w] (C if tied) and b [J], and their shares of all tokens [J]."""

    C: np.ndarray
    kernel: np.ndarray
    b: np.ndarray
    frequencies: np.ndarray


def check_growable(model: object) -> None:
    """Refuse a model that words cannot be added to."""
    kind = type(model).__name__
    check_argument("model", isinstance(model, NPLM), "an NPLM to add words to it", kind, "train one with `train`.")
    has_rows, kind = model.prob.has_output_vectors, type(model.prob).__name__
    fix = "train with --output-layer full, sampled or nce."
    check_argument("output", has_rows, "a layer with a row for each word to add words", kind, fix)
    listed, fix = model.prob.shortlist_size, "train a network without a short-list, which new words are not in."
    check_argument("shortlist_size", listed is None, "None to add words", listed, fix)


def grow(model: NPLM, rows: NewRows) -> NPLM:
    """Return the network with more words, not compiled. Old words keep their ids and weights, new words follow them."""
    check_growable(model)
    config = model.get_config()
    sized = [config, *(config[part]["config"] for part in ("context", "output") if isinstance(config[part], dict))]
    for part in sized:
        part["vocabulary_size"] = model.vocabulary_size + len(rows.b)
    grown = type(model).from_config(config)
    if model.hidden is not None:
        grown.hidden.set_weights(model.hidden.get_weights())
    if model.pointer is not None:
        grown.pointer.set_weights(model.pointer.get_weights())
    grown.embed.C.assign(np.concatenate([model.embed.C.numpy(), rows.C]))
    grown.prob.grow_from(model.prob, rows.kernel, rows.b, rows.frequencies)
    for new, old in zip(grown.random_states(), model.random_states(), strict=True):
        new.assign(old)
    return grown


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
