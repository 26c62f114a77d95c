"""Words outside the vocabulary: weights for them from the places where a text has them."""

import copy
import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.tokenizers import uses_lemmas
from keras_nplm.data.vocabulary import PAD_ID, SPECIALS, UNK_ID, check_reserved
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.growth import NewRows, check_growable, grow, renormalise
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.self_normalised import SelfNormalised

RULES = ("likelihood", "expectation")
PRIOR_TOKENS = 10_000
_LOGITS = 1 << 23  # numbers of [B, |V|] at a time
_CONTEXTS = 4096  # of the text, evenly spaced, over which a new word's probability is to have its mean
_LEAST_CONTEXTS, _MOST_SCORES = 256, 1 << 24
_PRIOR_C = 30  # occurrences that <unk>'s feature vector weighs as much as, under the rule "likelihood"
_PRIOR_U, _STEP_U = 2, 0.1  # the same for its row of the output, and the step's length
_ITERATIONS = 100


def add_words(
    language_model: LanguageModel,
    sentences: Sequence[str],
    words: Sequence[str] | None = None,
    min_count: int = 1,
    *,
    rule: str = "likelihood",
    prior_tokens: int = PRIOR_TOKENS,
    frequencies: Mapping[str, float] | None = None,
) -> LanguageModel:
    """The same language model with words of a text that its vocabulary lacks, each met there in one context or more.

    The words join V with the ids that follow, most frequent first, and probabilities are renormalised: those of the
    others keep their ratios in every context (see `keras_nplm.models.growth`). All words join at once: in the
    contexts of each
    the others are `<unk>`, so that their order plays no part; call this again for words to be met beside them.

    `rule="expectation"` is the paper's:

        C(j) = mean over the contexts of j of sum_i C(i) P(i | context)

    P without `<unk>` and the other special tokens; j's row of the output [U W] is the same mean of their rows. But most
    of P is on frequent words, which a new word is unlike: on Brown `<unk>` itself serves the words that follow better.
    `rule="likelihood"` starts from the weights of `<unk>`, and goes one step up the likelihood of the text from there,
    for which what follows j counts, too:

        C(j) = C(<unk>) + (N F + 30 (n-1) σ² I)^-1 g,    [U W]_j = [U W]_<unk> + 0.1 k/(k+2) (f̄_j - f̄_<unk>) / s²

    g sums the gradients of ln P(w_t | context) with respect to C(j) over the N n-grams whose context has j, F is the
    mean of their outer products, over all new words, and σ² the mean of its diagonal; f̄_j is the mean of the
    output's features over the k contexts of j, f̄_<unk> their mean over the text weighted by P(<unk> | context), and s²
    their variance there. Where the output is tied both steps are taken together. The numbers were chosen on Brown.

    Under either rule b_j is such that the mean of P(j | context) over contexts of the text is j's frequency: that of
    the greatest likelihood, given the row.

    Args:
        language_model: a network with a linear output; it stays as it is.
        sentences: the text, one sentence a line, split as the model's tokenizer does.
        words: the words that are to join. Default: all that the vocabulary lacks.
        min_count: how often the text must have them.
        rule: `"likelihood"` or `"expectation"`.
        prior_tokens: how many tokens count as read before without the words: a word met c times in T tokens has the
            frequency c / (T + prior_tokens).
        frequencies: the words' shares of all tokens, where they are known otherwise.

    Returns:
        a language model of the larger vocabulary. It has no `corpus`: that is encoded without the words.

    Raises:
        InputError: the model has no such output, or a vocabulary of lemmas; no word is to be added; one is in the
            vocabulary already, occurs too seldom, or never has a word before it; or an option is out of range.

    Example:

    >>> from keras_nplm import Vocabulary
    >>> language_model = LanguageModel(NPLM(6, order=3), Vocabulary(["the", "cat"]), "words", "sentence")
    >>> grown = add_words(language_model, ["the dog", "the cat", "the cat sees the dog"], min_count=2)
    >>> grown.vocabulary.words[4:], sorted(word for word, _ in grown.next_words("the dog"))
    (['the', 'cat', 'dog'], ['</s>', 'cat', 'dog', 'the'])

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 5, out-of-vocabulary words.
    """
    model = language_model.model
    check_growable(model)
    if uses_lemmas(language_model.tokenizer_name):
        raise InputError("A vocabulary of lemmas takes no new words: the forms of each were found when it was made.")
    if rule not in RULES:
        raise InputError(f"`rule` must be one of {', '.join(RULES)}. Received: {rule!r}.")
    if prior_tokens < 1:
        raise InputError(f"`prior_tokens` must be 1 or more. Received: {prior_tokens}.")
    counts = count_new_words(language_model, sentences, words, min_count)
    grown = copy.copy(language_model)
    grown.vocabulary = language_model.vocabulary.with_words(list(counts))
    grown.corpus = None
    ids = encode_sentences(filter(None, map(language_model.tokenize, sentences)), grown.vocabulary)
    text = _Text(extract_ngrams(ids, model.order, language_model.boundary), model.vocabulary_size, list(counts))
    shares = np.array(list(counts.values())) / (len(text.ngrams) + prior_tokens)
    if frequencies is not None:
        shares = _given(frequencies, text.words)
    scores = SelfNormalised(model)
    contexts, log_z = _reference(model, scores, text)
    features = _projected(model, scores, contexts)
    if rule == "expectation":
        C, kernel = _expected(model, text)
    else:
        C = model.embed.C.numpy()[UNK_ID] + _step_of_features(model, scores, text)
        step = _step_of_row(model, scores, text, features, log_z)
        kernel = model.prob.kernel.numpy()[UNK_ID] + step
        C = C + step if model.prob.tied else C
    kernel = C if model.prob.tied else kernel
    b = _biases(features @ kernel.T, log_z, shares)
    grown.model = grow(model, NewRows(C, kernel, b, shares))
    return grown


def count_new_words(
    language_model: LanguageModel, sentences: Sequence[str], words: Sequence[str] | None = None, min_count: int = 1
) -> dict[str, int]:
    """How often a text has the words that are to join a vocabulary, the most frequent first; see `add_words`.

    Raises:
        InputError: there is none, or one that is named is in the vocabulary already or occurs too seldom.

    Example:

    >>> from keras_nplm import Vocabulary
    >>> language_model = LanguageModel(NPLM(6, order=3), Vocabulary(["the", "cat"]), "words", "sentence")
    >>> count_new_words(language_model, ["the dog", "a cat", "the cat sees the dog"])
    {'dog': 2, 'a': 1, 'sees': 1}
    """
    if min_count < 1:
        raise InputError(f"`min_count` must be 1 or more. Received: {min_count}.")
    counts = Counter(token for sentence in sentences for token in language_model.tokenize(sentence))
    check_reserved(counts)
    if not counts:
        raise InputError("The text holds no word: give lines of text that have the new words.")
    known = set(language_model.vocabulary.words)
    if words is None:
        words = [word for word, count in counts.items() if count >= min_count and word not in known]
        if not words:
            raise InputError(
                f"The text has no word {min_count} times or more that the vocabulary lacks: there is nothing to add."
            )
    for word in words:
        if word in known:
            raise InputError(f"The vocabulary has the word {word!r} already: leave it out.")
        if counts[word] < min_count:
            raise InputError(
                f"The text has the word {word!r} {counts[word]} times, not {min_count} or more: write it as the text "
                "does, or give text that has it."
            )
    if not words:
        raise InputError("No word is named: name some, or none at all for those that the vocabulary lacks.")
    return {word: counts[word] for word in sorted(set(words), key=lambda word: (-counts[word], word))}


@dataclasses.dataclass(frozen=True)
class _Text:
    """The n-grams of a text, int32 [T, n], in ids of the grown vocabulary; those from `size` on are new `words`."""

    ngrams: np.ndarray
    size: int
    words: list[str]

    @property
    def known(self) -> np.ndarray:
        """The n-grams as the network knows them."""
        return np.where(self.ngrams < self.size, self.ngrams, UNK_ID).astype(np.int32)

    def met(self) -> tuple[np.ndarray, np.ndarray]:
        """The contexts in which new words are met, int32 [K, n-1], and the number of each one's word, [K].

        Raises:
            InputError: a word is never met after another one.
        """
        met = (self.ngrams[:, -1] >= self.size) & (self.ngrams[:, :-1] != PAD_ID).any(axis=1)
        which = self.ngrams[met, -1] - self.size
        counts = np.bincount(which, minlength=len(self.words))
        if not counts.all():
            word = self.words[int(np.argmin(counts))]
            raise InputError(f"The text has no word before {word!r}, which has no context then: give more text.")
        return self.known[met, :-1], which


def _given(frequencies: Mapping[str, float], words: list[str]) -> np.ndarray:
    if absent := [word for word in words if word not in frequencies]:
        raise InputError(f"`frequencies` lacks {absent[0]!r}, which is to be added.")
    shares = np.array([frequencies[word] for word in words], np.float64)
    if not ((shares > 0).all() and shares.sum() < 1):
        raise InputError("`frequencies` must be above 0 and sum to less than 1.")
    return shares


def _parts(number: int, vocabulary_size: int) -> list[slice]:
    """So many contexts at a time that all their words' probabilities take little memory."""
    size = max(1, min(512, _LOGITS // vocabulary_size))
    return [slice(first, first + size) for first in range(0, number, size)]


def _reference(model: NPLM, scores: SelfNormalised, text: _Text) -> tuple[np.ndarray, np.ndarray]:
    """Contexts of the text, int32 [R, n-1], evenly spaced, and ln Z in each, float [R]."""
    most = max(_LEAST_CONTEXTS, min(_CONTEXTS, _MOST_SCORES // len(text.words)))
    places = np.linspace(0, len(text.ngrams) - 1, min(len(text.ngrams), most)).astype(int)
    ngrams = np.where(text.ngrams[places] < text.size, text.ngrams[places], UNK_ID).astype(np.int32)
    contexts, targets = ngrams[:, :-1], ngrams[:, -1]
    return contexts, scores.log_prob(contexts, targets).astype(np.float64) - model.log_prob(contexts, targets)


def _projected(model: NPLM, scores: SelfNormalised, contexts: np.ndarray) -> np.ndarray:
    """The features that the output sees, float32 [B, w]."""
    features = scores.features(contexts)
    return np.asarray(model.prob.project(features))


def _means(sums: np.ndarray, which: np.ndarray) -> np.ndarray:
    return sums / np.bincount(which, minlength=len(sums))[:, None]


def _expected(model: NPLM, text: _Text) -> tuple[np.ndarray, np.ndarray]:
    """The expected rows of C and of the output over the contexts of each word: [J, m] and [J, w]."""
    contexts, which = text.met()
    table = np.concatenate([model.embed.C.numpy(), model.prob.kernel.numpy()], axis=1)
    sums = np.zeros((len(text.words), table.shape[1]))
    for part in _parts(len(contexts), text.size):
        probabilities = np.exp(model.next_log_probs(contexts[part]))
        probabilities[:, : len(SPECIALS)] = 0
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        np.add.at(sums, which[part], probabilities @ table)
    means = _means(sums, which)
    return means[:, : model.embedding_dim], means[:, model.embedding_dim :]


def _step_of_features(model: NPLM, scores: SelfNormalised, text: _Text) -> np.ndarray:
    """(N F + 30 (n-1) σ² I)^-1 g of each word, [J, m]."""
    m, following = model.embedding_dim, (text.ngrams[:, :-1] >= text.size).any(axis=1)
    contexts, ngrams = text.ngrams[following, :-1], text.known[following]
    gradients, fisher = np.zeros((len(text.words), m)), np.zeros((m, m))
    for part in _parts(len(ngrams), text.size):
        is_new = contexts[part] >= text.size  # [B, n-1]
        rows = context_gradients(model, scores, ngrams[part, :-1], ngrams[part, -1])[is_new]
        np.add.at(gradients, contexts[part][is_new] - text.size, rows)
        fisher += rows.T @ rows
    new = contexts[contexts >= text.size] - text.size
    if not fisher.any():  # nothing follows
        return gradients
    numbers = np.bincount(new, minlength=len(gradients))
    curvatures, axes = np.linalg.eigh(fisher / len(new))
    prior = _PRIOR_C * (model.order - 1) * np.trace(fisher) / len(new) / m
    return (gradients @ axes / (numbers[:, None] * curvatures + prior)) @ axes.T


def context_gradients(
    model: NPLM, scores: SelfNormalised, context_ids: np.ndarray, target_ids: np.ndarray
) -> np.ndarray:
    """The gradient of ln P(target | context) with respect to the feature vector of each word of the context.

        ∂ ln P(t | context) / ∂f = [U W]_t - sum_i P(i | context) [U W]_i,    f = [a; x]

    and from f to x by the network's own derivative.

    Args:
        model: a network with a linear output.
        scores: the same as tables.
        context_ids: int [B, n-1], oldest first.
        target_ids: int [B].

    Returns:
        float32 [B, n-1, m].
    """
    of_features = scores.kernel[target_ids] - np.exp(model.next_log_probs(context_ids)) @ scores.kernel
    x = tf.convert_to_tensor(model.embed(context_ids))
    with tf.GradientTape() as tape:
        tape.watch(x)
        body = model.body(x)
    of_x = tape.gradient(body, x, tf.cast(of_features, body.dtype)).numpy().astype(np.float32)
    block, scale = model.embed.word_blocks(model.order - 1)
    return of_x.reshape(len(of_x), -1, model.embedding_dim)[:, block] * scale[:, None]


def _step_of_row(
    model: NPLM, scores: SelfNormalised, text: _Text, features: np.ndarray, log_z: np.ndarray
) -> np.ndarray:
    """0.1 k/(k+2) (f̄_j - f̄_<unk>) / s² of each word, [J, w]; the features and ln Z are of contexts of the text."""
    contexts, which = text.met()
    sums = np.zeros((len(text.words), features.shape[1]))
    for part in _parts(len(contexts), features.shape[1]):
        np.add.at(sums, which[part], _projected(model, scores, contexts[part]))
    weights = np.exp(features @ model.prob.kernel.numpy()[UNK_ID] + model.prob.b.numpy()[UNK_ID] - log_z)
    weights /= weights.sum()
    mean = weights @ features
    variance = (weights @ (features - mean) ** 2).mean()
    if not variance:  # the text has one context
        return np.zeros_like(sums)
    k = np.bincount(which, minlength=len(sums))[:, None]
    return _STEP_U * k / (k + _PRIOR_U) * (sums / k - mean) / variance


def _biases(logits: np.ndarray, log_z: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """b_j such that the mean of P(j | context) is the frequency of each word, all words together, [J].

    Args:
        logits: y_j - b_j, float [R, J].
        log_z: ln Z before, float [R].
        frequencies: float [J], their sum below 1.
    """
    b, nothing = np.zeros(len(frequencies)), np.zeros(len(log_z))
    for _ in range(_ITERATIONS):
        _, new = renormalise(nothing, log_z, logits + b)
        step = np.log(frequencies) - _log_mean_exp(new)
        b += step
        if np.abs(step).max() < 1e-6:
            break
    return b


def _log_mean_exp(values: np.ndarray) -> np.ndarray:
    greatest = values.max(axis=0)
    return greatest + np.log(np.exp(values - greatest).mean(axis=0))
