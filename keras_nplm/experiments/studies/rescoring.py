"""Which of several versions of a sentence was written: Brown's sentences among wrong versions, told by each model."""

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
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.rescoring import NBestList, WordErrors, add_scores, tune
from keras_nplm.language_model.scoring import ScoringCounts, build_sentence_ngrams
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.mixture import Mixture
from keras_nplm.models.nplm import NPLM

_TRIGRAM = Row("trigram-sentence", "trigram", "ngram --method deleted-interpolation --order 3 --boundary sentence")
_COUNTS = Row("kneser-ney-5-sentence", "Kneser-Ney", "ngram --method kneser-ney --order 5 --boundary sentence")
_NETWORK = Row("brown-nce-sentence", "network", "train --config brown-nce --boundary sentence --learning-rate 1.2")
_MIXTURE = Row(
    "network-kneser-ney-sentence",
    "network and Kneser-Ney, mixed",
    f"mix {{rows}}/{_NETWORK.name} {{rows}}/{_COUNTS.name}",
)
ROWS = (_TRIGRAM, _COUNTS, _NETWORK, _MIXTURE)
_SELF_NORMALISED, _TWO = "network, self-normalised", "network and Kneser-Ney, two features"
_SIZES = {"validation": 1000, "test": 2000}  # sentences that lists are made for
_WORDS = (6, 40)  # in a sentence
_PLAIN, _TUNED = "as it is", "words weighted"
_TIMED = 1000  # hypotheses that are scored once more with nothing shared
_CONTEXTS = 512  # in a pass of the network

Scored = dict[str, list[NBestList]]  # by split


def run(rows: Path) -> dict:
    """How often each model puts the sentence itself before its wrong versions, and what sharing n-grams saves.

    Weights are tuned on lists of validation, for the fewest in which a wrong version comes first. Times are CPU seconds
    of this process.
    """
    models = {row.title: LanguageModel.load(rows / row.name) for row in ROWS}
    models[_SELF_NORMALISED] = LanguageModel.load(rows / _NETWORK.name, self_normalised=True)
    lists, kinds = {}, {}
    for split, number in _SIZES.items():
        made = list(_lists(models[_NETWORK.title], split, number))
        lists[split] = [nbest for nbest, _ in made]
        kinds |= {nbest.name: np.array(of) for nbest, of in made}
    accuracy, speed, scored = {}, {}, {}
    for title, model in models.items():
        speed[title], scored[title] = _timed(model, lists)
        weights = {_PLAIN: {"nplm": 1.0}, _TUNED: _tuned(scored[title], kinds, ("nplm_words",))}
        accuracy[title] = {name: _accuracy(scored[title]["test"], w, kinds) for name, w in weights.items()}
    both = _joined(scored[_NETWORK.title], scored[_COUNTS.title])
    accuracy[_TWO] = {_TUNED: _accuracy(both["test"], _tuned(both, kinds, ("other", "nplm_words")), kinds)}
    return {
        "sentences": _SIZES,
        "hypotheses": {split: sum(map(len, lists[split])) for split in lists},
        "lists_with": {kind: sum(kind in kinds[nbest.name] for nbest in lists["test"]) for kind in KINDS},
        "by_chance": float(np.mean([1 / len(nbest) for nbest in lists["test"]])),
        "accuracy": accuracy,
        "speed": speed,
    }


def _lists(model: LanguageModel, split: str, number: int) -> Iterator[tuple[NBestList, list[str]]]:
    """Lists for drawn sentences of a split: their versions shuffled, with the kind of each, "" of what was written.

    Words outside the vocabulary are `<unk>`, in all versions alike.
    """
    ids = model.corpus.ids(split)
    sentences = [model.vocabulary.decode(part[:-1]) for part in np.split(ids, np.flatnonzero(ids == EOS_ID) + 1)[:-1]]
    sentences = [sentence for sentence in sentences if _WORDS[0] <= len(sentence) <= _WORDS[1]]
    corruptions = Corruptions(model.vocabulary.words[len(SPECIALS) :])
    random = np.random.default_rng(0)
    for place in sorted(random.permutation(len(sentences))[:number]):
        versions = [("", sentences[place]), *corruptions.of(sentences[place], random)]
        versions = [versions[i] for i in random.permutation(len(versions))]
        yield NBestList(f"{split} {place}", [" ".join(words) for _, words in versions]), [kind for kind, _ in versions]


def _tuned(scored: Scored, kinds: Mapping[str, np.ndarray], others: Sequence[str]) -> dict[str, float]:
    begin = {"nplm": 1.0, **dict.fromkeys(others, 0.0)}
    return tune(scored["validation"], lambda lists: [(kinds[nbest.name] != "") * 1.0 for nbest in lists], begin)


def _joined(first: Scored, second: Scored) -> Scored:
    """The lists of one model with the log-probabilities of another as a feature `other`."""
    return {
        split: [
            a.with_features({"other": b.features["nplm"]}) for a, b in zip(first[split], second[split], strict=True)
        ]
        for split in first
    }


def _accuracy(lists: Sequence[NBestList], weights: Mapping[str, float], kinds: Mapping[str, np.ndarray]) -> dict:
    """The share of lists in which the sentence itself is ahead of all versions, and of those of each kind.

    With it `weights`, and the word error rate of what is first.
    """
    ahead: dict[str, list[bool]] = {kind: [] for kind in ("all", *KINDS)}
    references, first = {}, []
    for nbest in lists:
        totals = sum(weight * nbest.features[name] for name, weight in weights.items())
        of = kinds[nbest.name]
        written = int(np.flatnonzero(of == "")[0])
        for kind in ahead:
            rivals = totals[of == kind] if kind in KINDS else totals[of != ""]
            ahead[kind] += [bool(totals[written] > rivals.max())] if len(rivals) else []
        references[nbest.name] = nbest.texts[written]
        first.append(NBestList(nbest.name, [nbest.texts[int(np.argmax(totals))]]))
    errors = WordErrors(references)
    wrong = sum(float(error[0]) for error in errors(first))
    shares = {kind: float(np.mean(found)) for kind, found in ahead.items() if found}
    return shares | {"weights": dict(weights), "word_error_rate": wrong / errors.denominator}


def _timed(model: LanguageModel, lists: Scored) -> tuple[dict, Scored]:
    """What was asked of a model and the hypotheses a CPU second, with n-grams shared and without; the lists scored."""
    counts = ScoringCounts()
    scored = {"validation": list(add_scores(lists["validation"], model.score))}
    scored["test"] = list(add_scores(lists["test"], functools.partial(model.score, counts=counts)))
    texts = [text for nbest in lists["test"] for text in nbest.texts]
    hypotheses = len(texts)
    began = time.process_time()
    list(model.score(texts))
    shared = time.process_time() - began
    texts, ask = texts[:_TIMED], _one_by_one(model.model)
    ask(np.full((1, model.model.order), EOS_ID, np.int32))  # which compiles it
    began = time.process_time()
    tokens = [model.tokenize(text) for text in texts]
    ngrams, _ = build_sentence_ngrams(tokens, model.vocabulary, model.model.order, model.boundary)
    ask(ngrams)
    alone = time.process_time() - began
    figures = dataclasses.asdict(counts)
    figures["hypotheses_per_second"] = round(hypotheses / shared)
    figures["hypotheses_per_second_unshared"] = round(len(texts) / alone)
    return figures, scored


def _one_by_one(model: NextWordModel) -> Callable[[np.ndarray], None]:
    """Asks for each n-gram whether it was asked before or not; a network passes each context anew."""
    if isinstance(model, Mixture):
        parts = [_one_by_one(part) for part in model.models]
        return lambda ngrams: [ask(ngrams) for ask in parts]
    if not isinstance(model, NPLM):
        return lambda ngrams: model.log_prob(ngrams[:, -model.order : -1], ngrams[:, -1])

    @tf.function(input_signature=[tf.TensorSpec([None, model.order], tf.int32)])
    def log_prob(ngrams):
        return model.prob.log_prob(model.features(ngrams[:, :-1]), ngrams[:, -1])

    def ask(ngrams):
        for first in range(0, len(ngrams), _CONTEXTS):
            log_prob(ngrams[first : first + _CONTEXTS, -model.order :]).numpy()

    return ask


def table(report: dict) -> str:
    """Accuracy by model and kind of error, and below it what sharing saves."""
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
    heads = ["model", "all versions", *(f"{kind}s" for kind in KINDS), "word error rate"]
    shared = ["model", "n-grams", "different ones", "contexts", "hypotheses a CPU second", "with nothing shared"]
    return f"{markdown_table(heads, accuracy)}\n\n{markdown_table(shared, speed)}"
