"""Table 1 as `keras-nplm paper` makes it, with what notebook 02 shows beyond the rows."""

from typing import Any

import numpy as np

from keras_nplm import LanguageModel
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.experiments import paper
from keras_nplm.experiments.rows import Row
from keras_nplm.language_model.word_vectors import word_map
from keras_nplm.models.ngrams import count_ngrams
from tests.benchmarks.report import Report, Settings

_VECTORS = "brown-no-held-out"  # the network whose word vectors are reported
_QUERIES = (  # words whose nearest neighbours are reported
    "she him three Monday London father could said went green small because during years States"
).split()
_MAP_WORDS = 300
_MAX_ORDER = 6  # of the n-grams that are counted
_FREQUENCY_RANKS = 20  # words of so many ranks above and below are about as frequent


def _measure(settings: Settings) -> dict[str, Any]:
    report = paper.make_paper(settings.directory, settings.jobs, settings.data_dir)
    model = settings.directory / "rows" / _VECTORS
    language_model = LanguageModel.load(model)
    encoded = EncodedCorpus.load(model / "corpus")
    ids = encoded.ids("train")
    counts = count_ngrams(ids, encoded.vocabulary_size, _MAX_ORDER, "stream")
    return {
        **report,
        "nearest": {word: language_model.nearest(word, 6) for word in _QUERIES},
        "map": _map_words(language_model),
        "similar_words": measure_similar_words(language_model, encoded.ids("test"), _QUERIES),
        "seen_ngrams": {n: len(counts.keys[n - 1]) for n in range(2, _MAX_ORDER + 1)},
    }


def _map_words(language_model: LanguageModel) -> dict[str, list[float]]:
    """Return the two coordinates in [-1, 1] of the most frequent words of letters, by t-SNE."""
    words, vectors = language_model.word_vectors()
    rows = [row for row, word in enumerate(words) if word.isalpha()][:_MAP_WORDS]
    points = word_map(vectors[rows])
    points = (points / np.abs(points).max()).round(3)
    return {words[row]: point.tolist() for row, point in zip(rows, points, strict=True)}


def measure_similar_words(
    language_model: LanguageModel, ids: np.ndarray, queries: list[str]
) -> dict[str, float]:
    """Return the perplexity of the word after a query word: after the query word itself, after its
    nearest neighbour in its place, and after a word of about the same frequency.
    """
    vocabulary = language_model.vocabulary
    neighbours = [language_model.nearest(query, 1)[0][0] for query in queries]
    pairs = np.stack([vocabulary.encode(queries), vocabulary.encode(neighbours)], axis=1)
    nearest = dict(pairs.tolist())
    ngrams = extract_ngrams(ids, language_model.model.order, language_model.boundary)
    ngrams = ngrams[np.isin(ngrams[:, -2], [*nearest])]
    last_words = ngrams[:, -2]
    random = np.random.default_rng(1)
    # ids are by decreasing frequency
    steps = random.integers(1, _FREQUENCY_RANKS, len(ngrams)) * random.choice([-1, 1], len(ngrams))
    replacements = {
        "kept": last_words,
        "nearest": [nearest[word] for word in last_words.tolist()],
        "random": np.clip(last_words + steps, len(SPECIALS), len(vocabulary) - 1),
    }
    figures = {}
    for name, words in replacements.items():
        contexts = ngrams[:, :-1].copy()
        contexts[:, -1] = words
        log_probs = language_model.model.log_prob(contexts, ngrams[:, -1])
        figures[name] = float(np.exp(-log_probs.mean(dtype=np.float64)))
    return figures


def _list_rows(settings: Settings) -> list[Row]:
    return [*paper.ROWS]


class _Paper(Report):
    def format_table(self, report: Any) -> str:
        """Return the rows and the mixtures, as `keras-nplm paper` does."""
        return paper.format_report(report)


REPORT = _Paper(paper.__doc__ or "", (), _measure, _list_rows, on_one_core=False)
