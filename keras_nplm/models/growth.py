"""A network whose vocabulary grows: rows for new words, and probabilities renormalised by a pass for these alone."""

import dataclasses

import numpy as np

from keras_nplm.data.ngram_arrays import check_ngrams
from keras_nplm.data.vocabulary import UNK_ID
from keras_nplm.io.errors import InputError
from keras_nplm.layers.outputs import LinearOutput
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.self_normalised import SelfNormalised

_ROWS = 1024  # n-grams at a time


@dataclasses.dataclass(frozen=True)
class NewRows:
    """The weights of J words that join a network, and how often they are met.

    Args:
        C: their feature vectors, float [J, m].
        kernel: their rows of the output's kernel [U W], float [J, w]; where the output is tied, `C` again.
        b: their biases, float [J].
        frequencies: their shares of all tokens, float [J]: how often a sampled output is to draw them.
    """

    C: np.ndarray
    kernel: np.ndarray
    b: np.ndarray
    frequencies: np.ndarray


def check_growable(model: object) -> None:
    """Refuse what has no rows to add to.

    Raises:
        InputError: it is no network, its output has no row for each word, or it predicts a short-list alone.
    """
    if not isinstance(model, NPLM):
        raise InputError("The model is no network of all words: it has no weights for new ones. Train one.")
    if not isinstance(model.prob, LinearOutput):
        raise InputError(
            f"Words cannot join a network whose output is {type(model.prob).__name__}, which has no row for each: "
            "train one with --output-layer full, sampled or nce."
        )
    if model.shortlist_size is not None:
        raise InputError("The network predicts a short-list alone, which new words are not in: train one without it.")


def grow(model: NPLM, rows: NewRows) -> NPLM:
    """The same network with more words: the old ones keep their ids and weights, the new ones come after them.

    What training draws from grows, too: a sampled output's proposal gives new words their frequencies, and the
    distribution over words that training lacks (see `Output.set_unigram`) the greatest share that a word has there. So
    the grown network can be trained on.

    Args:
        model: a network whose output is linear; it stays as it is.
        rows: the new words' weights.

    Returns:
        a network of |V| + J words, not compiled.

    Raises:
        InputError: the model is no such network.

    Example:

    >>> model = NPLM(vocabulary_size=20, order=3, embedding_dim=2, hidden_units=4)
    >>> rows = NewRows(np.ones((1, 2)), np.ones((1, 4)), np.zeros(1), np.array([0.01]))
    >>> grown = grow(model, rows)
    >>> before, after = (network.next_log_probs([[4, 5]])[0] for network in (model, grown))
    >>> len(after), bool(np.allclose(after[4:20] - after[4], before[4:] - before[4], atol=1e-5))
    (21, True)
    """
    check_growable(model)
    config = model.get_config()
    config["vocabulary_size"] += len(rows.b)
    if isinstance(config["output_layer"], dict):
        config["output_layer"]["config"]["vocabulary_size"] = config["vocabulary_size"]
    grown = type(model).from_config(config)
    for old, new in ((model.hidden, grown.hidden), (model.project, grown.project)):
        if old is not None:
            new.set_weights(old.get_weights())
    grown.embed.C.assign(np.concatenate([model.embed.C.numpy(), rows.C]))
    grown.prob.grow_from(model.prob, rows.kernel, rows.b, rows.frequencies)
    states = grown.random_states()
    for name, state in model.random_states().items():
        states[name].assign(state)
    return grown


def renormalise(log_prob: np.ndarray, log_z: np.ndarray, new_logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities after words have joined the vocabulary, from those before and the new words' logits alone.

        Z_new = Z + sum_j exp(y_j),    P_new(i) = P(i) Z / Z_new,    P_new(j) = exp(y_j) / Z_new

    Args:
        log_prob: ln P(i | context) before, of one word i a context, float [B]; or of several, [B, N].
        log_z: ln Z before, float [B].
        new_logits: y_j, float [B, J].

    Returns:
        ln P_new(i | context), shaped as `log_prob`, and ln P_new(j | context), [B, J], in nats.

    Example:

    >>> old, new = renormalise(np.log([0.5]), np.log([2.0]), np.log([[2.0]]))  # Z = 2 becomes 4
    >>> np.exp(old).round(6).tolist(), np.exp(new).round(6).tolist()
    ([0.25], [[0.5]])

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 5, out-of-vocabulary words.
    """
    scores = new_logits - log_z[:, None]  # ln of exp(y_j) / Z
    greatest = scores.max(axis=1, initial=0.0)
    sums = np.exp(-greatest) + np.exp(scores - greatest[:, None]).sum(axis=1)
    growth = greatest + np.log(sums)  # ln(Z_new / Z)
    return log_prob - growth.reshape(-1, *[1] * (log_prob.ndim - 1)), scores - growth[:, None]


def updated_log_prob(
    grown: NPLM, vocabulary_size: int, context_ids: np.ndarray, target_ids: np.ndarray, log_prob: np.ndarray
) -> np.ndarray:
    """ln P of a text's n-grams by a network that has grown, where that by the network before is known.

    An n-gram whose context has no new word costs one look-up of the context's features and J + 1 rows of the output,
    not |V| of them: ln Z = y_i - ln P(i | context) for the word i whose log-probability is known; see `renormalise`.
    The others are computed anew.

    Args:
        grown: the network with its new words.
        vocabulary_size: |V| before: the ids from it on are new.
        context_ids: int [B, n-1], oldest first.
        target_ids: int [B].
        log_prob: ln P(target | context) before, float [B], nats; that of `<unk>` for a new word. Where the context has
            a new word it plays no part.

    Returns:
        float32 [B], nats.

    Raises:
        InputError: ids out of range, or shapes that do not fit.
    """
    context_ids, target_ids = check_ngrams(context_ids, target_ids, grown.order, grown.vocabulary_size)
    log_prob = np.asarray(log_prob)
    if log_prob.shape != target_ids.shape:
        raise InputError(f"`log_prob` must be [{len(target_ids)}]. Received: {list(log_prob.shape)}.")
    changed = (context_ids >= vocabulary_size).any(axis=1)
    result = np.empty(len(target_ids), np.float32)
    result[changed] = grown.log_prob(context_ids[changed], target_ids[changed])
    scores, same = SelfNormalised(grown), np.flatnonzero(~changed)
    for first in range(0, len(same), _ROWS):
        part = same[first : first + _ROWS]
        targets, features = target_ids[part], scores.features(context_ids[part])
        is_new = targets >= vocabulary_size
        known = np.where(is_new, UNK_ID, targets)
        log_z = np.einsum("ij,ij->i", features, scores.kernel[known]) + scores.b[known] - log_prob[part]
        new_logits = features @ scores.kernel[vocabulary_size:].T + scores.b[vocabulary_size:]
        old, new = renormalise(log_prob[part], log_z, new_logits)
        of_target = new[np.arange(len(part)), np.where(is_new, targets - vocabulary_size, 0)]
        result[part] = np.where(is_new, of_target, old)
    return result
