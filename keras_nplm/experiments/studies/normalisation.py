"""Lower case, one symbol for numbers, lemmas: how far they shrink Brown's vocabulary, and what they cost and bring."""

import itertools
import math
from pathlib import Path

import numpy as np

from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.tokenizers import STEPS
from keras_nplm.data.vocabulary import EOS_ID, SPECIALS, UNK_ID
from keras_nplm.experiments.paper import mixture_of
from keras_nplm.experiments.rows import Row
from keras_nplm.io.files import read_json
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.evaluation import log_probs

_TAKEN = ((), ("lower",), ("lower", "numbers"), STEPS)
_MODELS = {"kneser-ney-5": "ngram --method kneser-ney --order 5", "brown-nce-quick": "train --config brown-nce-quick"}
_TITLES = {"kneser-ney-5": "Kneser-Ney, n=5", "brown-nce-quick": "network, brown-nce-quick"}
_SPLITS = ("validation", "test")
_MARKS = (".", "?", "!")  # after which a sentence begins
_WEIGHTS = 10.0 ** np.arange(-2.5, 2.5, 0.5)  # that are tried on validation
_AT_A_TIME = 256  # distributions over all words


def _name(model: str, steps: tuple[str, ...]) -> str:
    return "-".join([model, *steps])


def _row(model: str, steps: tuple[str, ...]) -> Row:
    command = " ".join([_MODELS[model], *(["--normalise", *steps] if steps else [])])
    return Row(_name(model, steps), ", ".join([_TITLES[model], *steps]), command)


ROWS = tuple(_row(model, steps) for model in _MODELS for steps in _TAKEN)


class Originals:
    """P(token of the text | its word), for tokens that a plain vocabulary knows and words that are normalised.

    Counted in training, apart for tokens that begin a sentence and others, with two weights fitted on validation:

        P(s | c)    = (n(s, c) + a) / (n(c) + a |S(c)|)
        P(s | c, b) = (n(s, c, b) + d P(s | c)) / (n(c, b) + d)

    S(c) are the tokens whose word is c, and `<unk>` for all those that the plain vocabulary lacks. Summed over c,
    P(c | context) P(s | c, b) is a distribution over the plain vocabulary, so its perplexity may be compared with those
    of models of the plain vocabulary.

    Args:
        words: c of each id s of the plain vocabulary, int [|V|]; that of `<unk>` plays no part.
        size: how many words there are.
        train: s, c and b of the training text, int [T] each; b is 1 where a sentence begins.
        held_out: the same of the text on which a and d are chosen.
    """

    def __init__(self, words: np.ndarray, size: int, train: tuple, held_out: tuple):
        self._words = words
        s, c, b = train
        known = s != UNK_ID
        self._tokens = _counts(b[known], s[known], len(words))  # n(s, b), [2, |V|]
        self._unknown = _counts(b[~known], c[~known], size)  # n(<unk>, c, b), [2, size]
        self._totals = _counts(b, c, size)  # n(c, b)
        self._kinds = 1 + np.bincount(words[len(SPECIALS) :], minlength=size)  # |S(c)|
        tried = {
            weights: self._fitted(*weights).log_prob(*held_out).sum()
            for weights in itertools.product(_WEIGHTS, _WEIGHTS)
        }
        self.weights = max(tried, key=tried.get)
        self._fitted(*self.weights)

    def _fitted(self, a: float, d: float) -> "Originals":
        total = self._totals.sum(axis=0) + a * self._kinds
        tokens, unknown = (self._tokens.sum(axis=0) + a) / total[self._words], (self._unknown.sum(axis=0) + a) / total
        self.tokens = (self._tokens + d * tokens) / (self._totals[:, self._words] + d)  # P(s | c, b), [2, |V|]
        self.unknown = (self._unknown + d * unknown) / (self._totals + d)  # P(<unk> | c, b), [2, size]
        self.unknown[:, UNK_ID] = 1.0  # a word that is unknown when normalised is one before
        return self

    def log_prob(self, s: np.ndarray, c: np.ndarray, b: np.ndarray) -> np.ndarray:
        """ln P(s | c, b), float64 [T], nats."""
        return np.log(np.where(s == UNK_ID, self.unknown[b, c], self.tokens[b, s]))


def _counts(b: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(b * size + ids, minlength=2 * size).reshape(2, size).astype(np.float64)


def original_log_probs(
    model: NextWordModel, ids: np.ndarray, originals: Originals | None, s: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """ln P(s | context) of each token of a text under a model of normalised words, as `Originals` has it.

    Args:
        model: the language model.
        ids: of the normalised words, each sentence closed by `</s>`; a stream.
        originals: what becomes of words; None: they are the tokens.
        s: the ids of the tokens in the plain vocabulary, int [T].
        b: 1 for those that begin a sentence, int [T].

    Returns:
        float64 [T], nats.
    """
    ngrams = extract_ngrams(ids, model.order, "stream")
    result = np.concatenate([part for part, _ in log_probs(model, ids, "stream")]).astype(np.float64)
    if originals is None:
        return result
    result += originals.log_prob(s, ngrams[:, -1], b)
    unknown = np.flatnonzero(s == UNK_ID)  # of any word
    for part in np.split(unknown, range(_AT_A_TIME, len(unknown), _AT_A_TIME)):
        words = np.exp(model.next_log_probs(ngrams[part, :-1]).astype(np.float64))  # [B, size]
        result[part] = np.log((words * originals.unknown[b[part]]).sum(axis=1))
    return result


def run(rows: Path) -> dict:
    """What the study finds; see `keras_nplm.experiments.studies.study.Study`."""
    plain = LanguageModel.load(rows / _name("kneser-ney-5", ()))
    marks = plain.vocabulary.encode(_MARKS)
    text = {}  # s and b of each split
    for split in ("train", *_SPLITS):
        s = _stream(plain, split)
        text[split] = s, np.r_[True, np.isin(s[:-1], marks)].astype(np.int64)
    report, plain_columns = [], {}
    for steps in _TAKEN:
        figures, columns = _asked(rows, steps, plain.vocabulary.words, text)
        for name, column in columns.items():
            shown = figures["models"][name]
            shown["original"] = _perplexities(column)
            if steps:
                shown["with_plain"] = _mixed(plain_columns[name], column)
        plain_columns = plain_columns or columns
        report.append(figures)
    return {"rows": report}


def _asked(rows: Path, steps: tuple[str, ...], plain_words: list[str], text: dict) -> tuple[dict, dict]:
    """The figures of the models of a normalisation, and for each and each split ln P of the tokens of the text."""
    models = {name: LanguageModel.load(rows / _name(name, steps)) for name in _MODELS}
    normalised = models["kneser-ney-5"]
    size, held = len(normalised.vocabulary), normalised.corpus.splits["test"]
    figures = {"steps": list(steps), "words": size, "unk_share": held["unk_tokens"] / held["tokens"], "form_bits": 0.0}
    originals = None
    if steps:
        words = normalised.vocabulary.encode([normalised.tokenize(word)[0] for word in plain_words])
        train, validation, test = ((s, _stream(normalised, split), b) for split, (s, b) in text.items())
        originals = Originals(words, size, train, validation)
        figures["form_bits"] = float(-originals.log_prob(*test).mean() / math.log(2))
    figures["models"], columns = {}, {}
    for name, loaded in models.items():
        metrics = read_json(rows / _name(name, steps) / "metrics.json")
        figures["models"][name] = {split: metrics[split]["perplexity"] for split in _SPLITS}
        figures["models"][name]["cpu_seconds"] = metrics["cpu_seconds"]
        columns[name] = {
            split: original_log_probs(loaded.model, loaded.corpus.ids(split), originals, *text[split])
            for split in _SPLITS
        }
    return figures, columns


def _mixed(plain: dict[str, np.ndarray], normalised: dict[str, np.ndarray]) -> dict[str, float]:
    """The perplexities of a plain and a normalised model together, over the tokens of the text; weights fitted."""
    found = mixture_of({"plain": plain, "normalised": normalised}, ["plain", "normalised"])
    return {split: found[split] for split in _SPLITS} | {"weight": found["weights"][1]}


def _perplexities(columns: dict[str, np.ndarray]) -> dict[str, float]:
    return {split: float(np.exp(-column.mean())) for split, column in columns.items()}


def _stream(language_model: LanguageModel, split: str) -> np.ndarray:
    """The ids of a split without sentence ends, int64 [T]."""
    ids = language_model.corpus.ids(split)
    return ids[ids != EOS_ID].astype(np.int64)


def table(report: dict) -> str:
    """The same as Markdown; see `keras_nplm.experiments.studies.study.Study`."""
    header = ["normalised", "words", "`<unk>` in test", "bits of forms"]
    for title in ("Kneser-Ney", "network"):
        header += [f"{title}: its own words", "the text's", "mixed with the plain one"]
    rows = []
    for row in report["rows"]:
        cells = [" ".join(row["steps"]) or "not", f"{row['words']:,}", f"{row['unk_share']:.1%}"]
        cells.append(f"{row['form_bits']:.3f}")
        for figures in row["models"].values():
            mixed = figures.get("with_plain")
            cells += [f"{figures['test']:.1f}", f"{figures['original']['test']:.1f}"]
            cells.append(f"{mixed['test']:.1f}" if mixed else "")
        rows.append(cells)
    return markdown_table(header, rows)
