"""What the paper claims of its networks, and what the measured rows say of each claim.

A claim is judged by test perplexities of the same rows as in the paper. A row that was not made
leaves its claims out. A claim is open where a training has ended before its early stop.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.experiments import paper_optimiser
from keras_nplm.experiments.tables import Column, Table
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.training.configurations import CONFIGURATIONS
from keras_nplm.training.parts import count_network

Rows = Mapping[str, Any]  # of a report, by name; mixtures by title
# the evidence, and whether it is for the claim, None if that is open; no verdict: a row is missing
Verdict = tuple[str, bool | None] | None


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement of the paper with its evidence there, and how a report is asked about it."""

    statement: str
    paper: str
    judge: Callable[[Rows], Verdict]


_NETWORKS = {"mlp1": "MLP2", "mlp3": "MLP4", "mlp5": "MLP6", "mlp7": "MLP8", "mlp9": "MLP10"}
# Sizes of the paper's example of section 3.1: the network for AP News
_VOCABULARY_SIZE = 17_964
_ORDER = 6
_EMBEDDING_DIM = 100
_HIDDEN_UNITS = 60
SIZE_COMMAND = (
    f"keras-nplm size --vocabulary-size {_VOCABULARY_SIZE} --config mlp1 --order {_ORDER} "
    f"--embedding-dim {_EMBEDDING_DIM} --hidden-units {_HIDDEN_UNITS}"
)
_EXAMPLE = dataclasses.replace(
    CONFIGURATIONS["mlp1"].options.network,
    order=_ORDER,
    embedding_dim=_EMBEDDING_DIM,
    hidden_units=_HIDDEN_UNITS,
)
_FREQUENCY_RANKS = 20  # words of so many ranks above and below are about as frequent


def _compare(better: str, worse: str) -> Callable[[Rows], Verdict]:
    """Return a judge of "the first row has the lower test perplexity"."""

    def judge(rows: Rows) -> Verdict:
        if better not in rows or worse not in rows:
            return None
        low = rows[better]["test"]
        high = rows[worse]["test"]
        return f"{low:.0f} against {high:.0f} ({low / high - 1:+.0%})", low < high

    return judge


def _judge_mixing(rows: Rows) -> Verdict:
    """Compare each network with its mixture, of which the trigram has half."""
    changes = []
    for name, mixed in _NETWORKS.items():
        mixture = rows.get(f"{mixed}, 0.5")
        if mixture is not None and name in rows:
            changes.append(mixture["test"] / rows[name]["test"] - 1)
    if not changes:
        return None
    helped = sum(change < 0 for change in changes)
    evidence = f"{min(changes):+.0%} to {max(changes):+.0%}; {helped} of {len(changes)} networks"
    return evidence, helped == len(changes)


def _judge_best_ngrams(rows: Rows) -> Verdict:
    """Compare MLP10 with the n-gram model that is best on validation."""
    network = rows.get("MLP10, 0.5")
    ngrams = [row for name, row in rows.items() if name.startswith(("kneser-ney", "class-"))]
    if network is None or not ngrams:
        return None
    best = min(ngrams, key=lambda row: row["validation"])
    low = network["test"]
    high = best["test"]
    return f"{high / low - 1:.0%}: {low:.0f} against {high:.0f} ({best['title']})", low < high


def _judge_direct_connections(rows: Rows) -> Verdict:
    """Compare the epochs to the same validation perplexity, and the best one, with and without
    direct connections, by the paper's own optimiser.
    """
    curves = rows["curves"]
    if not {paper_optimiser.PAPER, paper_optimiser.NO_DIRECT} <= curves.keys():
        return None
    direct = curves[paper_optimiser.PAPER]
    without = curves[paper_optimiser.NO_DIRECT]
    reached = max(min(direct), min(without))
    epochs = _count_epochs(direct, reached)
    epochs_without = _count_epochs(without, reached)
    evidence = (
        f"validation {reached:.0f} after {epochs} epochs against {epochs_without}; "
        f"best {min(direct):.0f} against {min(without):.0f}"
    )
    # the last epoch is the best one
    still_falls = direct[-1] == min(direct) or without[-1] == min(without)
    if still_falls:
        return f"{evidence}, still falling", None
    return evidence, epochs < epochs_without and min(without) <= min(direct)


def _count_epochs(curve: Sequence[float], perplexity: float) -> int:
    """Return the first epoch, from 1, with a perplexity or a lower one."""
    return next(epoch for epoch, value in enumerate(curve, start=1) if value <= perplexity)


def _judge_cost(rows: Rows) -> Verdict:
    """Count the operations of the output layer by the formula of section 3.1, and those that `size`
    counts.

    The formula has n m inputs, and counts additions of biases; `size` has (n-1) m inputs, and
    counts the products of matrices.
    """
    inputs = _ORDER * _EMBEDDING_DIM
    output = _VOCABULARY_SIZE * (1 + inputs + _HIDDEN_UNITS)
    share = output / (output + _HIDDEN_UNITS * (1 + inputs) + inputs)
    counted = count_network(_EXAMPLE, _VOCABULARY_SIZE).scoring
    hidden = (_ORDER - 1) * _EMBEDDING_DIM * _HIDDEN_UNITS
    evidence = f"{share:.1%} by its formula, {1 - hidden / counted:.1%} by `{SIZE_COMMAND}`"
    return evidence, share > 0.99


def _judge_similar_words(rows: Rows) -> Verdict:
    """Compare the next word's perplexity where the last word of a context is replaced."""
    if "similar words" not in rows:
        return None
    replaced = rows["similar words"]
    evidence = (
        f"the last word replaced by its nearest neighbour {replaced['nearest']:.0f}, by a word of "
        f"the same frequency {replaced['random']:.0f}; as it is {replaced['kept']:.0f}"
    )
    return evidence, replaced["nearest"] < replaced["random"]


CLAIMS = (
    Claim("a hidden layer helps (MLP1, MLP3)", "268 against 310 (-14%)", _compare("mlp1", "mlp3")),
    Claim(
        "more hidden units help (h=100, MLP9; h=50 with direct connections, MLP5)",
        "276 against 279 (-1%)",
        _compare("mlp9", "mlp5"),
    ),
    Claim(
        "more context helps (n=5, MLP5; n=3, MLP7)",
        "279 against 293 (-5%)",
        _compare("mlp5", "mlp7"),
    ),
    Claim("mixing with the trigram always helps", "-12% to -4%; 5 of 5 networks", _judge_mixing),
    Claim(
        "the network beats the best n-gram model",
        "24%: 252 against 312 (class-based, 500 classes, n=3)",
        _judge_best_ngrams,
    ),
    Claim(
        "learned features are better than fixed random ones",
        "no figure",
        _compare("brown-no-held-out", "brown-random-features"),
    ),
    Claim(
        "direct connections: fewer epochs, no better perplexity",
        "10 epochs against 20",
        _judge_direct_connections,
    ),
    Claim(
        "words in similar contexts share what is learned (cat and dog)",
        "no figure",
        _judge_similar_words,
    ),
    Claim(
        f"the output layer is nearly all of the cost, at {_VOCABULARY_SIZE:,} words",
        "99.7% of the operations",
        _judge_cost,
    ),
)
_ANSWERS = {True: "yes", False: "no", None: "open"}
_COLUMNS: list[Column] = [
    ("claim of the paper", "statement", ""),
    ("paper", "paper", ""),
    ("ours", "evidence", ""),
    ("holds", "holds", ""),
]
TABLE = Table("claims", _COLUMNS, "Claims of the paper, and our evidence (test perplexity)")


def measure_similar_words(
    language_model: LanguageModel, ids: np.ndarray, queries: Sequence[str]
) -> dict[str, float]:
    """Return the perplexity of the word after a query word: after the query word itself, after its
    nearest neighbour in its place, and after a word of about the same frequency.
    """
    vocabulary = language_model.vocabulary
    nearest = {}
    for query in queries:
        if query in vocabulary.words:
            [(neighbour, _)] = language_model.nearest(query, 1)
            query_id, neighbour_id = vocabulary.encode([query, neighbour])
            nearest[int(query_id)] = int(neighbour_id)
    ngrams = extract_ngrams(ids, language_model.model.order, language_model.boundary)
    ngrams = ngrams[np.isin(ngrams[:, -2], [*nearest])]
    last_words = ngrams[:, -2]
    random = np.random.default_rng(1)
    # ids are by decreasing frequency
    steps = random.integers(1, _FREQUENCY_RANKS, len(ngrams)) * random.choice([-1, 1], len(ngrams))
    replacements = {
        "kept": last_words,
        "nearest": np.array([nearest[word] for word in last_words.tolist()], np.int32),
        "random": np.clip(last_words + steps, len(SPECIALS), len(vocabulary) - 1).astype(np.int32),
    }
    figures = {}
    for name, words in replacements.items():
        contexts = ngrams[:, :-1].copy()
        contexts[:, -1] = words
        log_probs = language_model.model.log_prob(contexts, ngrams[:, -1])
        figures[name] = float(np.exp(-log_probs.mean(dtype=np.float64)))
    return figures


def judge_claims(report: Mapping[str, Any]) -> list[dict]:
    """Return a row for each claim that the rows, mixtures and curves of a report can judge."""
    rows: dict[str, Any] = {row["name"]: row for row in report["rows"]}
    rows.update({row["title"]: row for row in report.get("mixtures", ())})
    rows["curves"] = _read_curves(report)
    if "similar_words" in report:
        rows["similar words"] = report["similar_words"]
    judged = []
    for claim in CLAIMS:
        verdict = claim.judge(rows)
        if verdict is not None:
            evidence, holds = verdict
            facts = {"statement": claim.statement, "paper": claim.paper}
            judged.append({**facts, "evidence": evidence, "holds": _ANSWERS[holds]})
    return judged


def _read_curves(report: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the validation perplexities of each row that has a curve, by epoch."""
    curves: dict[str, list[float]] = {}
    for epoch in report.get("curves", ()):
        for name, perplexity in epoch.items():
            if name != "epoch":
                curves.setdefault(name, []).append(perplexity)
    return curves
