"""Add out-of-vocabulary words to a trained network, with weights estimated from a text, without
training.
"""

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Literal

import numpy as np

from keras_nplm.data.arguments import check_lines
from keras_nplm.data.ids import UNK_ID
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.vocabulary import check_reserved
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.options import NewWordOptions


def add_words(
    language_model: LanguageModel,
    sentences: Iterable[str],
    words: Iterable[str] | None = None,
    min_count: int = 1,
    *,
    rule: Literal["likelihood", "expectation"] = NewWordOptions.rule,
    prior_tokens: int = NewWordOptions.prior_tokens,
) -> LanguageModel:
    """Return a copy of a language model with out-of-vocabulary words of a text added to its
    vocabulary.

    The new words get the next ids, most frequent first. Probabilities are renormalised: known words
    keep their ratios in every context. In the contexts of one new word the other new words are
    `<unk>`.

    `rule="expectation"` is the paper's:

        C(j) = mean over the contexts of j of sum_i C(i) P(i | context)

    P excludes special tokens. The output row [U W]_j is the same mean of output rows. On Brown the
    rule predicts the words that follow worse than `<unk>` itself does.

    `rule="likelihood"` starts from the weights of `<unk>` and takes one step up the likelihood of
    the text:

        C(j) = C(<unk>) + (N F + 30 (n-1) σ² I)^-1 g,
        [U W]_j = [U W]_<unk> + 0.1 k/(k+2) (f̄_j - f̄_<unk>) / s²

    - g: the sum of the gradients of ln P(w_t | context) with respect to C(j), over the N n-grams
    with j in the context.
    - F: the mean of the outer products of these gradients, over all new words. σ²: the mean of its
    diagonal.
    - f̄_j: the mean of the output's features over the k contexts of j.
    - f̄_<unk>: their mean over the text, weighted by P(<unk> | context). s²: their variance.

    A tied output takes the sum of both steps. Under both rules the bias b_j makes the mean of P(j |
    context) over the text equal to the frequency of j.

    Args:
        language_model: an NPLM whose output layer has a row for each word. It is not changed.
        sentences: lines of text, tokenized as by the language model.
        words: the words to add. Default: all out-of-vocabulary words of the text.
        min_count: how often a word must occur in the text, 1 or more.
        rule: `"likelihood"` or `"expectation"`.
        prior_tokens: number of earlier tokens without the new words. A word with c occurrences in T
            tokens gets the frequency c / (T + prior_tokens).

    Returns:
        a language model with the larger vocabulary, without `corpus` and `dynamics`, which do not
        have the new words.

    Raises:
        InputError: the output layer has no row for each word, or a word is in the vocabulary, too
            rare or first.

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 5, out-of-vocabulary words.
    """
    from keras_nplm.language_model.new_word_weights import NewWordText, climb_rows, expect_rows
    from keras_nplm.models.networks.growth import check_growable, grow

    model = check_growable(language_model.model)
    tokenizer = language_model.tokenizer
    if tokenizer.uses_lemmas or not tokenizer.has_unknown:
        reason = (
            "Words cannot be added to a vocabulary of lemmas, of subwords or of bytes. "
            f"Received: tokenizer {tokenizer.name!r}."
        )
        raise InputError(f"{reason} Fix: train with a tokenizer of words.")
    NewWordOptions(min_count=min_count, rule=rule, prior_tokens=prior_tokens)
    sentences = list(check_lines(sentences, "sentences"))
    counts = count_new_words(language_model, sentences, words, min_count)
    vocabulary = language_model.vocabulary.with_words([*counts])
    ids = encode_lines(sentences, vocabulary, tokenizer, language_model.boundary)
    ngrams = extract_ngrams(ids, model.order, language_model.boundary)
    numbers = ngrams - model.vocabulary_size  # the ids of new words follow the known ones
    known = np.where(numbers < 0, ngrams, UNK_ID).astype(np.int32)
    text = NewWordText(known, numbers, [*counts])
    shares = np.array([*counts.values()]) / (len(ngrams) + prior_tokens)
    estimate_rows = expect_rows if rule == "expectation" else climb_rows
    rows = estimate_rows(model, text, shares)
    codec = language_model.codec.with_vocabulary(vocabulary)
    return LanguageModel.of(grow(model, rows), codec)


def count_new_words(
    language_model: LanguageModel,
    sentences: Iterable[str],
    words: Iterable[str] | None = None,
    min_count: int = 1,
) -> dict[str, int]:
    """Count the out-of-vocabulary words of a text that `add_words` would add, the most frequent
    first.
    """
    lines = check_lines(sentences, "sentences")
    counts = Counter(itertools.chain.from_iterable(map(language_model.tokenize, lines)))
    check_reserved(counts)
    known = set(language_model.vocabulary.words)
    if words is None:
        words = [word for word, count in counts.items() if count >= min_count and word not in known]
        wanted = f"a text with an out-of-vocabulary word that occurs {min_count} times or more"
        check_argument("sentences", bool(words), wanted, 0, "lower `min_count`, or add text.")
    words = [*map(clean_text, check_lines(words, "words"))]
    for word in words:
        if word in known:
            raise InputError(f"The word {word!r} is already in the vocabulary. Fix: leave it out.")
        wanted = f"{min_count} or more in the text"
        fix = "spell it as the text does, or give more text."
        check_argument(f"count of {word}", counts[word] >= min_count, wanted, counts[word], fix)
    return {
        word: counts[word] for word in sorted(set(words), key=lambda word: (-counts[word], word))
    }
