"""Count-based n-gram language models, for comparison with the network and for mixtures with it; no
Keras.

From counts to perplexity. A text becomes ids; 0 to 3 are `<pad>`, `<unk>`, `<s>` and `</s>`:

>>> import numpy as np
>>> from keras_nplm import Vocabulary, count_ngrams, encode_sentences, evaluate, kneser_ney
>>> train = ["the cat sat on the mat", "a dog sat on the mat", "the cat ate"]
>>> vocabulary = Vocabulary.build(train, tokenizer="whitespace")
>>> ids = encode_sentences(map(str.split, train), vocabulary)
>>> vocabulary.decode(ids[:7])
['the', 'cat', 'sat', 'on', 'the', 'mat', '</s>']

Bigrams are counted. The first word of a sentence follows `<s>`:

>>> counts = count_ngrams(ids, len(vocabulary), order=2)
>>> before, after = np.divmod(counts.keys[1], len(vocabulary))
>>> pairs = zip(vocabulary.decode(before), vocabulary.decode(after))
>>> count = dict(zip(pairs, counts.counts[1].tolist()))
>>> count["<s>", "the"], count["the", "cat"], count["the", "mat"], ("the", "dog") in count
(2, 2, 2, False)

"the" occurs four times, so the relative frequency of "cat" after "the" is 2/4, and that of "dog"
is 0. Smoothing subtracts a discount from each count. All words share what is left:

>>> bigram = kneser_ney(ids, len(vocabulary), order=2)
>>> the, cat, dog = (vocabulary.words.index(word) for word in ("the", "cat", "dog"))
>>> p = np.exp(bigram.next_log_probs([[the]])[0])  # P(w | the) of all words w
>>> print(f"cat {p[cat]:.2f}, dog {p[dog]:.2f}, sum {p.sum():.2f}")
cat 0.30, dog 0.05, sum 1.00

The perplexity of a text is exp(-mean ln P(w | context)) over its words and `</s>`. It is lower on
the training text than on a new one:

>>> test = encode_sentences([["the", "dog", "ate"]], vocabulary)
>>> for text in (ids, test):
...     print(f"{evaluate(bigram, text)['perplexity']:.1f}")
2.4
6.8

`order=3` makes a model of trigrams. The command is `keras-nplm ngram --train FILE --order 3
--output DIR`.

Modules, from a text to P(w | context): runs: n-grams sorted by context. counts: counts of all
orders. kneser_ney: smoothing. backoff: the back-off model. columns: numbers on disk, for texts
whose counts are larger than memory. tables: look-up in sorted tables. count_file: counts from a
file.

deleted_interpolation, class_based: further models; `keras_nplm.training.methods` calls all by
method. interpolation: EM weights and frequency bins. word_classes: the exchange algorithm. arpa,
arpa_lines: ARPA files. merging: words that become `<unk>`. pruning: entropy pruning. approximation:
any model as a back-off model. mass: the probability of a set of words.
"""
# ruff: noqa: F401

from keras_nplm.models.ngrams.arpa import read_arpa, write_arpa
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.base import NGRAMS_FILE, NgramModel
from keras_nplm.models.ngrams.class_based import ClassBased, class_based
from keras_nplm.models.ngrams.count_file import CountFile
from keras_nplm.models.ngrams.counts import count_ngrams
from keras_nplm.models.ngrams.deleted_interpolation import (
    DeletedInterpolation,
    deleted_interpolation,
)
from keras_nplm.models.ngrams.interpolation import FrequencyBins
from keras_nplm.models.ngrams.kneser_ney import kneser_ney, kneser_ney_on_disk
from keras_nplm.models.ngrams.pruning import prune
from keras_nplm.models.ngrams.word_classes import (
    MAX_SWEEPS,
    exchange_classes,
    load_classes,
    save_classes,
)
