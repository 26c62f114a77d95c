"""Study `rescoring`: choosing the correct version of a Brown sentence in an n-best list of wrong versions.

2,000 sentences of the test split, each in a list with up to nine versions that have one error: a swap of neighbours, a
homophone, a deleted or inserted function word, or a substituted letter. The first table has the share of lists in which
the correct sentence is first (10.3% by chance). Without a weight per word, shorter versions win. The weight is tuned on
1,000 lists of the validation split. The second table shows the gain of scoring each n-gram and each context once.
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_nplm.data.vocabulary import EOS_ID, SPECIALS
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.studies.corruptions import KINDS, Corruptions
from keras_nplm.experiments.studies.study import read_sentences
from keras_nplm.experiments.tables import join_tables
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.rescoring import NBestList, WordErrors, add_scores, tune
from keras_nplm.language_model.scoring import ScoringCounts, build_sentence_ngrams
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.mixture import Mixture
from keras_nplm.models.nplm import NPLM

_TRIGRAM = Row("trigram-sentence", "trigram", "ngram --method deleted-interpolation --order 3 --boundary sentence")
_KNESER_NEY = Row("kneser-ney-5-sentence", "Kneser-Ney", "ngram --method kneser-ney --order 5 --boundary sentence")
_NETWORK = Row("brown-nce-sentence", "network", "train --config brown-nce --boundary sentence --learning-rate 1.2")
_MIXTURE = Row(
    "network-kneser-ney-sentence",
    "network and Kneser-Ney, mixed",
    f"mix {{rows}}/{_NETWORK.name} {{rows}}/{_KNESER_NEY.name}",
)
ROWS = (_TRIGRAM, _KNESER_NEY, _NETWORK, _MIXTURE)
_SELF_NORMALISED, _TWO_FEATURES = "network, self-normalised", "network and Kneser-Ney, two features"
_SENTENCES = {"validation": 1000, "test": 2000}  # number of lists
_MIN_WORDS, _MAX_WORDS = 6, 40  # in a sentence
_PLAIN, _TUNED = "log-probability", "log-probability and number of words, tuned"
_UNSHARED = 1000  # hypotheses that are also scored without sharing n-grams
_BLOCK_SIZE = 512  # n-grams that a network computes at a time

Lists = dict[str, list[NBestList]]  # by split


def measure(rows: Path) -> dict:
    """Return how often each model ranks the correct sentence first, and the speed gained by sharing n-grams.

    Weights are tuned on the lists of validation, to rank the correct sentence first as often as possible. Times are CPU
    seconds of this process.
    """
    models = {row.title: LanguageModel.load(rows / row.name) for row in ROWS}
    models[_SELF_NORMALISED] = LanguageModel.load(rows / _NETWORK.name, self_normalised=True)
    lists, kinds = {}, {}
    for split, number in _SENTENCES.items():
        pairs = list(_build_lists(models[_NETWORK.title], split, number))
        lists[split] = [nbest for nbest, _ in pairs]
        kinds |= {nbest.name: np.array(versions) for nbest, versions in pairs}
    accuracy, speed, scored = {}, {}, {}
    for title, model in models.items():
        speed[title], scored[title] = _score_lists(model, lists)
        weights = {_PLAIN: {"nplm": 1.0}, _TUNED: _tune_weights(scored[title], kinds, ("nplm_words",))}
        accuracy[title] = {name: measure_accuracy(scored[title]["test"], w, kinds) for name, w in weights.items()}
    both = _add_feature(scored[_NETWORK.title], scored[_KNESER_NEY.title])
    weights = _tune_weights(both, kinds, ("other", "nplm_words"))
    accuracy[_TWO_FEATURES] = {_TUNED: measure_accuracy(both["test"], weights, kinds)}
    return {
        "sentences": _SENTENCES,
        "hypotheses": {split: sum(map(len, lists[split])) for split in lists},
        "lists_with": {kind: sum(kind in kinds[nbest.name] for nbest in lists["test"]) for kind in KINDS},
        "by_chance": float(np.mean([1 / len(nbest) for nbest in lists["test"]])),
        "accuracy": accuracy,
        "speed": speed,
    }


def _build_lists(model: LanguageModel, split: str, number: int) -> Iterator[tuple[NBestList, list[str]]]:
    """Yield n-best lists for random sentences of a split, with the kind of each version ("" for the correct one)."""
    sentences = [s for s in read_sentences(model, split) if _MIN_WORDS <= len(s) <= _MAX_WORDS]
    corruptions = Corruptions(model.vocabulary.words[len(SPECIALS) :])
    random = np.random.default_rng(0)
    for place in sorted(random.permutation(len(sentences))[:number]):
        versions = [("", sentences[place]), *corruptions.sample(sentences[place], random)]
        versions = [versions[i] for i in random.permutation(len(versions))]
        yield NBestList(f"{split} {place}", [" ".join(words) for _, words in versions]), [kind for kind, _ in versions]


def _tune_weights(lists: Lists, kinds: Mapping[str, np.ndarray], features: Sequence[str]) -> dict[str, float]:
    """Return weights of ln P and other features that rank the correct sentence first most often in validation."""
    start = {"nplm": 1.0, **dict.fromkeys(features, 0.0)}
    return tune(lists["validation"], lambda block: [(kinds[nbest.name] != "") * 1.0 for nbest in block], start)


def _add_feature(first: Lists, second: Lists) -> Lists:
    """Return the lists of a model with the log-probabilities of a second model as the feature `other`."""
    return {
        split: [
            a.with_features({"other": b.features["nplm"]}) for a, b in zip(first[split], second[split], strict=True)
        ]
        for split in first
    }


def measure_accuracy(lists: Sequence[NBestList], weights: Mapping[str, float], kinds: Mapping[str, np.ndarray]) -> dict:
    """Return the share of lists with the correct sentence first, overall and by kind of error.

    Args:
        lists: the lists with features.
        weights: the weight of each feature.
        kinds: for each list by name the kind of each version, "" for the correct one.

    Returns:
        `all`, and each kind: share of lists in which the correct sentence is ahead of all versions of the kind; also
        `weights`, and `word_error_rate` of the first hypotheses.
    """
    ahead: dict[str, list[bool]] = {kind: [] for kind in ("all", *KINDS)}
    references, first = {}, []
    for nbest in lists:
        totals = sum(weight * nbest.features[name] for name, weight in weights.items())
        versions = kinds[nbest.name]
        correct = int(np.flatnonzero(versions == "")[0])
        for kind in ahead:
            rivals = totals[versions == kind] if kind in KINDS else totals[versions != ""]
            ahead[kind] += [bool(totals[correct] > rivals.max())] if len(rivals) else []
        references[nbest.name] = nbest.texts[correct]
        first.append(NBestList(nbest.name, [nbest.texts[int(np.argmax(totals))]]))
    errors = WordErrors(references)
    wrong = sum(float(error[0]) for error in errors(first))
    shares = {kind: float(np.mean(results)) for kind, results in ahead.items() if results}
    return shares | {"weights": dict(weights), "word_error_rate": wrong / errors.denominator}


def _score_lists(model: LanguageModel, lists: Lists) -> tuple[dict, Lists]:
    """Return counts and hypotheses per CPU second, with shared n-grams and without, and the lists with features."""
    counts = ScoringCounts()
    scored = {"validation": list(add_scores(lists["validation"], model.score))}
    scored["test"] = list(add_scores(lists["test"], functools.partial(model.score, counts=counts)))
    texts = [text for nbest in lists["test"] for text in nbest.texts]
    shared = _time_hypotheses(lambda: list(model.score(texts)), len(texts))
    unshared_texts, compute = texts[:_UNSHARED], _build_unshared(model.model)
    compute(np.full((1, model.model.order), EOS_ID, np.int32))  # so that compilation is not timed

    def score_unshared() -> None:
        tokens = [model.tokenize(text) for text in unshared_texts]
        ngrams, _ = build_sentence_ngrams(tokens, model.vocabulary, model.model.order, model.boundary)
        compute(ngrams)

    figures = dataclasses.asdict(counts) | {"hypotheses_per_second": shared}
    figures["hypotheses_per_second_unshared"] = _time_hypotheses(score_unshared, len(unshared_texts))
    return figures, scored


def _time_hypotheses(work: Callable[[], object], number: int) -> int:
    began = time.process_time()
    work()
    return round(number / (time.process_time() - began))


def _build_unshared(model: NextWordModel) -> Callable[[np.ndarray], object]:
    """Return a function that computes ln P of every n-gram, repeated ones included."""
    if isinstance(model, Mixture):
        components = [_build_unshared(component) for component in model.models]
        return lambda ngrams: [compute(ngrams) for compute in components]
    if not isinstance(model, NPLM):
        return lambda ngrams: model.log_prob(ngrams[:, -model.order : -1], ngrams[:, -1])

    @tf.function(input_signature=[tf.TensorSpec([None, model.order], tf.int32)])
    def log_prob(ngrams: tf.Tensor) -> tf.Tensor:
        return model.prob.log_prob(model.features(ngrams[:, :-1]), ngrams[:, -1])

    def compute(ngrams: np.ndarray) -> None:
        for first in range(0, len(ngrams), _BLOCK_SIZE):
            log_prob(ngrams[first : first + _BLOCK_SIZE, -model.order :]).numpy()

    return compute


def format_report(report: dict) -> str:
    """Return the table of accuracy by model and kind of error, and the table of speed."""
    columns = ["all", *KINDS]
    accuracy = [
        [
            f"{title}, {name}",
            *(f"{100 * figures[column]:.1f}" for column in columns),
            f"{100 * figures['word_error_rate']:.2f}",
        ]
        for title, weighted in report["accuracy"].items()
        for name, figures in weighted.items()
    ]
    speed = [[title, *(f"{value:,}" for value in figures.values())] for title, figures in report["speed"].items()]
    header = ["model", "correct first (%)", *(f"{kind}s" for kind in KINDS), "word error rate (%)"]
    speed_header = ["model", "n-grams", "distinct n-grams", "contexts", "hypotheses per CPU second", "without sharing"]
    return join_tables(markdown_table(header, accuracy), markdown_table(speed_header, speed))
