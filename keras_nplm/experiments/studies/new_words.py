"""Words that training never showed, introduced to a network from the first places where a later text has them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import SPLITS, open_corpus
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.vocabulary import EOS_ID, UNK, UNK_ID, Vocabulary
from keras_nplm.experiments.rows import Row
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
_IN_TRAIN, _IN_VALIDATION, _IN_TEST = (10, 200), 20, 5  # how often a word must be there to be chosen
_NUMBER, _SEED = 300, 0
_METHODS = {"unknown": "`<unk>`", "expectation": "added, expectation", "likelihood": "added, likelihood"}
_OCCURRENCES = (1, 2, 5, 10, None)  # None: all of the validation text


def prepare(texts: Path, data_dir: str | None) -> None:
    """Write Brown with 300 words as `<unk>`: drawn of those with 10 to 200 occurrences in train, 20 or more in
    validation, from which they are introduced, and 5 or more in test, where that is measured."""
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
    least, most = _IN_TRAIN
    fit = (counts["train"] >= least) & (counts["train"] <= most)
    fit &= (counts["validation"] >= _IN_VALIDATION) & (counts["test"] >= _IN_TEST)
    fit[: EOS_ID + 1] = False
    chosen = np.random.default_rng(_SEED).choice(np.flatnonzero(fit), _NUMBER, replace=False)
    held_out = {vocabulary.words[i] for i in chosen}
    for split in SPLITS:
        lines = (" ".join(UNK if token in held_out else token for token in s) for s in sentences[split])
        with replace_file(directory / f"{split}.txt") as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run(rows: Path) -> dict:
    """What the words bring by rule and number of occurrences, on the test text.

    Three measures, in nats: the mean ln P of the known words that follow new ones, within n-1 words; that of the new
    words themselves; and the perplexity of the whole text, in which each new word is to be told from the other words
    that the vocabulary lacks. Where none is introduced, a word's probability is that of `<unk>` times its share of
    unknown words, from the same occurrences as its frequency elsewhere.
    """
    trained, without = (LanguageModel.load(rows / row.name) for row in ROWS)
    known = set(without.vocabulary.words)
    words = [word for word in trained.vocabulary.words if word not in known]
    read, test = _sentences(trained, "validation"), _Test(_sentences(trained, "test"), words, without)
    unknown = float(np.mean(without.vocabulary.encode([word for sentence in read for word in sentence]) == UNK_ID))
    figures = []
    for occurrences in _OCCURRENCES:
        lines, frequencies = introduced(read, words, occurrences)
        shares = {word: frequency / unknown for word, frequency in frequencies.items()}
        found = {"occurrences": occurrences, "unknown": test.by_shares(shares)}
        for rule in RULES:
            grown = add_words(without, lines, words, rule=rule, frequencies=frequencies)
            found[rule] = test.by_grown(grown)
        figures.append(found)
    return {
        "words": len(words),
        "test_occurrences": int(test.is_new.sum()),
        "test_following": int(test.follows.sum()),
        "prior_tokens": PRIOR_TOKENS,
        "introduced": figures,
        "trained": test.by_trained(trained),
    }


def _sentences(language_model: LanguageModel, split: str) -> list[list[str]]:
    """The sentences of a split, as far as the vocabulary knows their words."""
    ids = language_model.corpus.ids(split)
    ends = np.flatnonzero(ids == EOS_ID)
    return [language_model.vocabulary.decode(sentence[sentence != EOS_ID]) for sentence in np.split(ids, ends + 1)[:-1]]


def introduced(
    sentences: Sequence[list[str]], words: Sequence[str], occurrences: int | None
) -> tuple[list[str], dict[str, float]]:
    """The text with each word's first occurrences alone, others as `<unk>`, and how frequent the words seem by then:
    c / (T + prior), T tokens having been read with the last of these."""
    wanted, met, last, read = set(words), dict.fromkeys(words, 0), {}, 0

    def shown(sentence: list[str]) -> Iterator[str]:
        nonlocal read
        for token in sentence:
            read += 1
            if token in wanted:
                if occurrences is not None and met[token] == occurrences:
                    token = UNK
                else:
                    met[token] += 1
                    last[token] = read
            yield token

    lines = [" ".join(shown(sentence)) for sentence in sentences]
    tokens = last if occurrences is not None else dict.fromkeys(words, read)
    return lines, {word: met[word] / (tokens[word] + PRIOR_TOKENS) for word in words}


class _Test:
    """A text, a running stream, and what each model says of it."""

    def __init__(self, sentences: Sequence[list[str]], words: Sequence[str], without: LanguageModel):
        self.tokens, self.without = [token for sentence in sentences for token in sentence], without
        wanted, context = set(words), without.model.order - 1
        self.is_new = np.array([token in wanted for token in self.tokens])
        met = np.concatenate([np.zeros(context + 1, int), np.cumsum(self.is_new)])
        ngrams = self.ngrams(without)
        is_unknown = ngrams[:, -1] == UNK_ID
        self.others = is_unknown & ~self.is_new
        self.follows = (met[context:-1] > met[: -context - 1]) & ~is_unknown  # known words after new ones
        self.before = without.model.log_prob(ngrams[:, :-1], ngrams[:, -1])

    def ngrams(self, language_model: LanguageModel) -> np.ndarray:
        """The n-grams, int32 [T, n], in a model's ids."""
        ids = language_model.vocabulary.encode(self.tokens)
        return extract_ngrams(ids, language_model.model.order, language_model.boundary)

    def by_shares(self, shares: dict[str, float]) -> dict[str, float]:
        """Of the network without the words, `<unk>` divided among them and the others."""
        log_prob = self.before.astype(np.float64)
        log_prob[self.is_new] += np.log([shares[token] for token in np.array(self.tokens, object)[self.is_new]])
        log_prob[self.others] += np.log1p(-sum(shares.values()))
        return self._measures(log_prob)

    def by_grown(self, grown: LanguageModel) -> dict[str, float]:
        """Of that network with the words, which is asked anew only where a context has one."""
        ngrams, size = self.ngrams(grown), len(self.without.vocabulary)
        return self._measures(updated_log_prob(grown.model, size, ngrams[:, :-1], ngrams[:, -1], self.before))

    def by_trained(self, trained: LanguageModel) -> dict[str, float]:
        """Of a network that was trained with the words."""
        ngrams = self.ngrams(trained)
        return self._measures(trained.model.log_prob(ngrams[:, :-1], ngrams[:, -1]))

    def _measures(self, log_prob: np.ndarray) -> dict[str, float]:
        return {
            "following": float(log_prob[self.follows].mean(dtype=np.float64)),
            "themselves": float(log_prob[self.is_new].mean(dtype=np.float64)),
            "perplexity": float(np.exp(-log_prob.mean(dtype=np.float64))),
        }


def table(report: dict) -> str:
    """A row for each number of occurrences and each way of taking the words, and one where training had them."""
    rows = []
    for found in report["introduced"]:
        met = str(found["occurrences"] or "all of validation")
        rows += [[met, title, *_figures(found[method])] for method, title in _METHODS.items()]
    rows.append(["those of training", "trained with the others", *_figures(report["trained"])])
    return markdown_table(
        ["occurrences met", "the words are", "words that follow", "words themselves", "perplexity"], rows
    )


def _figures(measures: dict[str, float]) -> list[str]:
    return [f"{measures['following']:.3f}", f"{measures['themselves']:.3f}", f"{measures['perplexity']:.1f}"]
