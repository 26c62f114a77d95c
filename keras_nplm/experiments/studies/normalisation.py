"""Study `normalisation`: lower case, a number symbol and lemmas on Brown: vocabulary size against perplexity.

Perplexities over different words are not comparable: fewer words are easier to predict. Comparable is the cost of the
original tokens: P(word) P(token | word). The second factor is counted in training, separately after `.`, `?` and `!`. A
token outside the vocabulary has the sum of the probabilities of all words that it can be. "Mixed" is the mixture with
the model of the original tokens, weights fitted on validation.
"""

import itertools
import math
from pathlib import Path

import numpy as np

from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.tokenizers import STEPS
from keras_nplm.data.vocabulary import EOS_ID, SPECIALS, UNK_ID
from keras_nplm.experiments.log_probs import SPLITS, Columns, compute_log_probs, compute_perplexities, measure_mixture
from keras_nplm.experiments.rows import Row
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel

_NORMALISATIONS = ((), ("lower",), ("lower", "numbers"), STEPS)
_MODELS = {"kneser-ney-5": "ngram --method kneser-ney --order 5", "brown-nce-quick": "train --config brown-nce-quick"}
_TITLES = {"kneser-ney-5": "Kneser-Ney, n=5", "brown-nce-quick": "network, brown-nce-quick"}
_SENTENCE_ENDS = (".", "?", "!")
_WEIGHTS = 10.0 ** np.arange(-2.5, 2.5, 0.5)  # candidates for the weights a and d, chosen on validation
_BLOCK_SIZE = 256  # distributions over all words that are computed at a time


def _name_row(model: str, steps: tuple[str, ...]) -> str:
    return "-".join([model, *steps])


def _build_row(model: str, steps: tuple[str, ...]) -> Row:
    command = " ".join([_MODELS[model], *(["--normalise", *steps] if steps else [])])
    return Row(_name_row(model, steps), ", ".join([_TITLES[model], *steps]), command)


ROWS = tuple(_build_row(model, steps) for model in _MODELS for steps in _NORMALISATIONS)


class OriginalTokens:
    """P(s | c): the probability of an original token s, as in the text, given its normalised word c.

    The counts are from the training text, separately for tokens at the start of a sentence (b = 1) and other tokens
    (b = 0). Two weights a and d are chosen on validation:

        P(s | c)    = (n(s, c) + a) / (n(c) + a |S(c)|)
        P(s | c, b) = (n(s, c, b) + d P(s | c)) / (n(c, b) + d)

    S(c) has the tokens whose normalised word is c, and `<unk>` for all tokens outside the vocabulary of original
    tokens. The sum over c of P(c | context) P(s | c, b) is a distribution over the vocabulary of original tokens. So
    its perplexity can be compared with the perplexity of a model without normalisation.

    Args:
        words: c of each id s of the vocabulary of original tokens, int [|V|]; its entry for `<unk>` is not used.
        size: number of normalised words.
        train: s, c and b of the training text, int [T] each.
        held_out: s, c and b of the validation text.
    """

    def __init__(self, words: np.ndarray, size: int, train: tuple, held_out: tuple):
        self._words = words
        s, c, b = train
        known = s != UNK_ID
        self._tokens = _count_by_start(b[known], s[known], len(words))  # n(s, b), [2, |V|]
        self._unknown = _count_by_start(b[~known], c[~known], size)  # n(<unk>, c, b), [2, size]
        self._totals = _count_by_start(b, c, size)  # n(c, b)
        self._kinds = 1 + np.bincount(words[len(SPECIALS) :], minlength=size)  # |S(c)|
        log_probs = {
            weights: self._set_weights(*weights).log_prob(*held_out).sum()
            for weights in itertools.product(_WEIGHTS, _WEIGHTS)
        }
        self.weights = max(log_probs, key=log_probs.get)
        self._set_weights(*self.weights)

    def _set_weights(self, a: float, d: float) -> "OriginalTokens":
        total = self._totals.sum(axis=0) + a * self._kinds
        tokens, unknown = (self._tokens.sum(axis=0) + a) / total[self._words], (self._unknown.sum(axis=0) + a) / total
        self.tokens = (self._tokens + d * tokens) / (self._totals[:, self._words] + d)  # P(s | c, b), [2, |V|]
        self.unknown = (self._unknown + d * unknown) / (self._totals + d)  # P(<unk> | c, b), [2, size]
        self.unknown[:, UNK_ID] = 1.0  # the original token of an out-of-vocabulary word is out-of-vocabulary, too
        return self

    def log_prob(self, s: np.ndarray, c: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return ln P(s | c, b), float64 [T], in nats."""
        return np.log(np.where(s == UNK_ID, self.unknown[b, c], self.tokens[b, s]))


def _count_by_start(b: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(b * size + ids, minlength=2 * size).reshape(2, size).astype(np.float64)


def compute_original_log_probs(
    model: NextWordModel, ids: np.ndarray, originals: OriginalTokens | None, s: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """Return ln P(s | context) of each original token of a text, under a model of normalised words.

    Args:
        model: the language model.
        ids: ids of the normalised words, each sentence closed by `</s>`; read as a stream.
        originals: P(s | c, b). None: the words are not normalised.
        s: ids of the original tokens, int [T].
        b: 1 for tokens at the start of a sentence, otherwise 0, int [T].

    Returns:
        float64 [T], nats.
    """
    ngrams = extract_ngrams(ids, model.order, "stream")
    result = compute_log_probs(model, ids).astype(np.float64)
    if originals is None:
        return result
    result += originals.log_prob(s, ngrams[:, -1], b)
    unknown = np.flatnonzero(s == UNK_ID)  # `<unk>` can have any normalised word: sum over all
    for block in np.split(unknown, range(_BLOCK_SIZE, len(unknown), _BLOCK_SIZE)):
        words = np.exp(model.next_log_probs(ngrams[block, :-1]).astype(np.float64))  # [B, size]
        result[block] = np.log((words * originals.unknown[b[block]]).sum(axis=1))
    return result


def measure(rows: Path) -> dict:
    """Return vocabulary sizes and perplexities by normalisation, of normalised words and of original tokens."""
    plain = LanguageModel.load(rows / _name_row("kneser-ney-5", ()))
    ends = plain.vocabulary.encode(_SENTENCE_ENDS)
    text = {}  # s and b of each split
    for split in ("train", *SPLITS):
        s = _read_stream(plain, split)
        text[split] = s, np.r_[True, np.isin(s[:-1], ends)].astype(np.int64)
    report, plain_columns = [], {}
    for steps in _NORMALISATIONS:
        figures, columns = _measure_steps(rows, steps, plain.vocabulary.words, text)
        for name, column in columns.items():
            model_figures = figures["models"][name]
            model_figures["original"] = compute_perplexities(column)
            if steps:
                model_figures["with_plain"] = _measure_with_plain(plain_columns[name], column)
        plain_columns = plain_columns or columns
        report.append(figures)
    return {"rows": report}


def _measure_steps(
    rows: Path, steps: tuple[str, ...], plain_words: list[str], text: dict
) -> tuple[dict, dict[str, Columns]]:
    """Return the figures of the models of a normalisation, and for each model ln P of the original tokens."""
    models = {name: LanguageModel.load(rows / _name_row(name, steps)) for name in _MODELS}
    normalised = models["kneser-ney-5"]
    size, test = len(normalised.vocabulary), normalised.corpus.splits["test"]
    figures = {"steps": list(steps), "words": size, "unk_share": test["unk_tokens"] / test["tokens"], "form_bits": 0.0}
    originals = None
    if steps:
        words = normalised.vocabulary.encode([normalised.tokenize(word)[0] for word in plain_words])
        train, validation, test = ((s, _read_stream(normalised, split), b) for split, (s, b) in text.items())
        originals = OriginalTokens(words, size, train, validation)
        figures["form_bits"] = float(-originals.log_prob(*test).mean() / math.log(2))
    figures["models"], columns = {}, {}
    for name, language_model in models.items():
        metrics = read_json(rows / _name_row(name, steps) / "metrics.json")
        figures["models"][name] = {split: metrics[split]["perplexity"] for split in SPLITS}
        figures["models"][name]["cpu_seconds"] = metrics["cpu_seconds"]
        model, corpus = language_model.model, language_model.corpus
        columns[name] = {
            split: compute_original_log_probs(model, corpus.ids(split), originals, *text[split]) for split in SPLITS
        }
    return figures, columns


def _measure_with_plain(plain: Columns, normalised: Columns) -> dict[str, float]:
    """Return the perplexities of a mixture of a plain and a normalised model, and the weight of the latter."""
    mixture = measure_mixture({"plain": plain, "normalised": normalised}, ["plain", "normalised"])
    return {split: mixture[split] for split in SPLITS} | {"weight": mixture["weights"][1]}


def _read_stream(language_model: LanguageModel, split: str) -> np.ndarray:
    """Return the ids of a split without `</s>`, int64 [T]."""
    ids = language_model.corpus.ids(split)
    return ids[ids != EOS_ID].astype(np.int64)


def format_report(report: dict) -> str:
    """Return a table with a row for each normalisation."""
    header = ["normalisation", "vocabulary", "out-of-vocabulary in test", "bits per token given its word"]
    for title in ("Kneser-Ney", "network"):
        header += [f"{title}: perplexity of normalised words", "of original tokens", "of original tokens, mixed"]
    rows = []
    for row in report["rows"]:
        cells = [" ".join(row["steps"]) or "none", f"{row['words']:,}", f"{row['unk_share']:.1%}"]
        cells.append(f"{row['form_bits']:.3f}")
        for figures in row["models"].values():
            mixture = figures.get("with_plain")
            cells += [f"{figures['test']:.1f}", f"{figures['original']['test']:.1f}"]
            cells.append(f"{mixture['test']:.1f}" if mixture else "")
        rows.append(cells)
    return markdown_table(header, rows)
