"""Study `new-words`: adding out-of-vocabulary words to a trained network, from their first occurrences in a text.

`brown-nce` is trained with 300 of Brown's words as `<unk>` (10 to 200 occurrences in training). The words are then
added from their first occurrences in the validation text (`keras-nplm add-words`) and measured on the test text: mean
ln P, in nats, of known words up to four words after a new word, mean ln P of the new words, and perplexity. As `<unk>`,
a new word has P(`<unk>` | context) times its share of the unknown words, estimated from the same occurrences.

Rule `expectation` is the paper's: C(j) = the mean over j's contexts of sum_i C(i) P(i | context). Rule `likelihood`
starts from the weights of `<unk>` and takes one step up the likelihood of the text around the new word. Both choose b_j
so that P(j | context) averages to the frequency of j. The constants were chosen on validation.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import SPLITS, open_corpus
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.vocabulary import EOS_ID, UNK, UNK_ID, Vocabulary
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.studies.study import read_sentences
from keras_nplm.io.files import replace_file
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.new_words import PRIOR_TOKENS, RULES, add_words
from keras_nplm.models.growth import updated_log_prob

_TEXT = "new-words"
_FILES = " ".join(f"--{split} {{texts}}/{_TEXT}/{split}.txt" for split in SPLITS)
ROWS = (
    Row("brown-nce", "trained with the words", "train --config brown-nce"),
    Row(
        "brown-nce-without-words",
        "trained without them",
        f"train {_FILES} --tokenizer whitespace --config brown-nce",
    ),
)
_MIN_COUNT = 4  # of the vocabulary, over the whole corpus
_TRAIN_COUNTS, _MIN_VALIDATION_COUNT, _MIN_TEST_COUNT = (10, 200), 20, 5  # occurrences of the chosen words
_NUMBER, _SEED = 300, 0
_METHODS = {"unknown": "`<unk>`", "expectation": "added, expectation", "likelihood": "added, likelihood"}
_OCCURRENCES = (1, 2, 5, 10, None)  # None: all occurrences in the validation text


def write_texts(texts: Path, data_dir: str | None) -> None:
    """Write Brown with 300 words replaced by `<unk>`, unless the files exist.

    The words are chosen at random among words with 10 to 200 occurrences in train, 20 or more in validation and 5 or
    more in test. They are added to the network from validation and measured on test.
    """
    directory = texts / _TEXT
    if all((directory / f"{split}.txt").exists() for split in SPLITS):
        return
    corpus = open_corpus("brown", data_dir=data_dir)
    sentences = {split: list(corpus.sentences(split)) for split in SPLITS}
    vocabulary = Vocabulary.build((s for split in SPLITS for s in sentences[split]), min_count=_MIN_COUNT)
    counts = {}
    for split in SPLITS:
        tokens = [token for sentence in sentences[split] for token in sentence]
        counts[split] = np.bincount(vocabulary.encode(tokens), minlength=len(vocabulary))
    least, most = _TRAIN_COUNTS
    suitable = (counts["train"] >= least) & (counts["train"] <= most)
    suitable &= (counts["validation"] >= _MIN_VALIDATION_COUNT) & (counts["test"] >= _MIN_TEST_COUNT)
    suitable[: EOS_ID + 1] = False
    chosen = np.random.default_rng(_SEED).choice(np.flatnonzero(suitable), _NUMBER, replace=False)
    held_out = {vocabulary.words[i] for i in chosen}
    for split in SPLITS:
        lines = (" ".join(UNK if token in held_out else token for token in s) for s in sentences[split])
        with replace_file(directory / f"{split}.txt") as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def measure(rows: Path) -> dict:
    """Return the log-probabilities of the test text with added words, by update rule and number of occurrences.

    Three measures, in nats: `following`, the mean ln P of known words with a new word in their context; `themselves`,
    the mean ln P of the new words; `perplexity` of the whole text, in which a model must tell each new word from other
    out-of-vocabulary words. For the network without the words, P(word) is P(`<unk>`) times the share of the word among
    unknown words, which is estimated from the same occurrences.
    """
    trained, without = (LanguageModel.load(rows / row.name) for row in ROWS)
    known = set(without.vocabulary.words)
    words = [word for word in trained.vocabulary.words if word not in known]
    text, test = read_sentences(trained, "validation"), _TestText(read_sentences(trained, "test"), words, without)
    unknown = float(np.mean(without.vocabulary.encode([word for sentence in text for word in sentence]) == UNK_ID))
    figures = []
    for occurrences in _OCCURRENCES:
        lines, frequencies = limit_occurrences(text, words, occurrences)
        shares = {word: frequency / unknown for word, frequency in frequencies.items()}
        row = {"occurrences": occurrences, "unknown": test.measure_shares(shares)}
        for rule in RULES:
            row[rule] = test.measure_grown(add_words(without, lines, words, rule=rule, frequencies=frequencies))
        figures.append(row)
    return {
        "words": len(words),
        "test_occurrences": int(test.is_new.sum()),
        "test_following": int(test.follows.sum()),
        "prior_tokens": PRIOR_TOKENS,
        "introduced": figures,
        "trained": test.measure_trained(trained),
    }


def limit_occurrences(
    sentences: Sequence[list[str]], words: Sequence[str], occurrences: int | None
) -> tuple[list[str], dict[str, float]]:
    """Return a text in which only the first occurrences of some words remain, and the frequencies of these words.

    Args:
        sentences: the text.
        words: the words. Their later occurrences become `<unk>`.
        occurrences: number of occurrences of each word that remain. None: all.

    Returns:
        the lines, and for each word c / (T + prior): c occurrences in the T tokens up to the last of them.
    """
    limited, counts, last, position = set(words), dict.fromkeys(words, 0), {}, 0

    def replace_tokens(sentence: list[str]) -> Iterator[str]:
        nonlocal position
        for token in sentence:
            position += 1
            if token in limited:
                if occurrences is not None and counts[token] == occurrences:
                    token = UNK
                else:
                    counts[token] += 1
                    last[token] = position
            yield token

    lines = [" ".join(replace_tokens(sentence)) for sentence in sentences]
    tokens = last if occurrences is not None else dict.fromkeys(words, position)
    return lines, {word: counts[word] / (tokens[word] + PRIOR_TOKENS) for word in words}


class _TestText:
    """The test text, and the measures of each model on it."""

    def __init__(self, sentences: Sequence[list[str]], words: Sequence[str], without: LanguageModel):
        self.tokens, self.without = [token for sentence in sentences for token in sentence], without
        new, context_size = set(words), without.model.order - 1
        self.is_new = np.array([token in new for token in self.tokens])
        counts = np.concatenate([np.zeros(context_size + 1, int), np.cumsum(self.is_new)])
        ngrams = self._encode(without)
        is_unknown = ngrams[:, -1] == UNK_ID
        self.is_other = is_unknown & ~self.is_new  # out-of-vocabulary words that are not among the new words
        self.follows = (counts[context_size:-1] > counts[: -context_size - 1]) & ~is_unknown
        self.before = without.model.log_prob(ngrams[:, :-1], ngrams[:, -1])

    def _encode(self, language_model: LanguageModel) -> np.ndarray:
        """Return the n-grams in the ids of a model, int32 [T, n]."""
        ids = language_model.vocabulary.encode(self.tokens)
        return extract_ngrams(ids, language_model.model.order, language_model.boundary)

    def measure_shares(self, shares: dict[str, float]) -> dict[str, float]:
        """Measure the network without the words, P(`<unk>`) being divided among them and other unknown words."""
        log_prob = self.before.astype(np.float64)
        log_prob[self.is_new] += np.log([shares[token] for token in np.array(self.tokens, object)[self.is_new]])
        log_prob[self.is_other] += np.log1p(-sum(shares.values()))
        return self._measure(log_prob)

    def measure_grown(self, grown: LanguageModel) -> dict[str, float]:
        """Measure the network with added words."""
        ngrams, size = self._encode(grown), len(self.without.vocabulary)
        return self._measure(updated_log_prob(grown.model, size, ngrams[:, :-1], ngrams[:, -1], self.before))

    def measure_trained(self, trained: LanguageModel) -> dict[str, float]:
        """Measure a network that was trained with the words."""
        ngrams = self._encode(trained)
        return self._measure(trained.model.log_prob(ngrams[:, :-1], ngrams[:, -1]))

    def _measure(self, log_prob: np.ndarray) -> dict[str, float]:
        return {
            "following": float(log_prob[self.follows].mean(dtype=np.float64)),
            "themselves": float(log_prob[self.is_new].mean(dtype=np.float64)),
            "perplexity": float(np.exp(-log_prob.mean(dtype=np.float64))),
        }


def format_report(report: dict) -> str:
    """Return a table with a row for each number of occurrences and each method, and one for trained words."""
    rows = []
    for figures in report["introduced"]:
        occurrences = str(figures["occurrences"] or "all in validation")
        rows += [[occurrences, title, *_format_measures(figures[method])] for method, title in _METHODS.items()]
    rows.append(["in training", "trained with other words", *_format_measures(report["trained"])])
    header = ["occurrences", "new words are", "ln P of words after them", "ln P of new words", "perplexity"]
    return markdown_table(header, rows)


def _format_measures(measures: dict[str, float]) -> list[str]:
    return [f"{measures['following']:.3f}", f"{measures['themselves']:.3f}", f"{measures['perplexity']:.1f}"]
