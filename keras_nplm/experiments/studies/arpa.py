"""Networks as back-off models that KenLM and SRILM can query: perplexity on Brown's test split against size."""

import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_nplm.data.vocabulary import EOS_ID, Vocabulary
from keras_nplm.experiments.paper import row_named
from keras_nplm.experiments.rows import Row
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.directory import read_metrics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.ngrams import BackoffModel, count_ngrams, prune, write_arpa
from keras_nplm.models.ngrams.approximation import ORDER, approximate, fit_unigrams
from keras_nplm.models.ngrams.tables import ContextTrie, find

_NETWORK, _COUNTS, _MIXTURE = "brown-no-held-out", "kneser-ney-5", "brown-with-kneser-ney"
_HIGHEST = 4  # order
_THRESHOLDS = (0.0, 1e-8, 1e-7, 1e-6)

ROWS = (
    row_named(_NETWORK),
    row_named(_COUNTS),
    Row(_MIXTURE, "the network with Kneser-Ney", f"mix {{rows}}/{_NETWORK} {{rows}}/{_COUNTS}"),
)


def run(rows: Path) -> dict:
    """The network and its mixture with Kneser-Ney as back-off models, pruned to several sizes, beside Kneser-Ney."""
    models = {name: LanguageModel.load(rows / name) for name in (_NETWORK, _COUNTS, _MIXTURE)}
    corpus = models[_NETWORK].corpus
    train, test = corpus.ids("train"), corpus.ids("test")
    highest = approximate(models[_NETWORK].model, train, _HIGHEST, "stream")
    orders = [_of_order(highest, n) for n in range(2, _HIGHEST + 1)]
    mixture = approximate(models[_MIXTURE].model, train, ORDER, "stream")
    return {
        "itself": {name: read_metrics(rows / name)["test"]["perplexity"] for name in models},
        "ngrams": models[_COUNTS].model.num_ngrams,
        "lists": list(_lists(orders, train, test)),
        "sizes": list(_sizes(orders[ORDER - 2], mixture, models[_COUNTS].model, test, models[_NETWORK].vocabulary)),
    }


def _lists(orders: list[BackoffModel], train: np.ndarray, test: np.ndarray) -> Iterator[dict]:
    """The network of each order, and what it matters which n-grams are listed."""
    whole = orders[ORDER - 2]
    of_text = _of_text(whole, train)
    as_many = prune(whole, max_ngrams=sum(of_text.num_ngrams))
    listed = [(f"order {model.order}", model) for model in orders]
    listed += [(f"order {ORDER}, the text's n-grams alone", of_text), (f"order {ORDER}, as many of all", as_many)]
    for title, model in listed:
        fitted = _perplexity(_fitted(model, whole), test)
        yield {"title": title, "ngrams": model.num_ngrams, "marginals": _perplexity(model, test), "fitted": fitted}


def _of_text(model: BackoffModel, ids: np.ndarray) -> BackoffModel:
    """The n-grams of a text alone."""
    text = count_ngrams(ids, model.vocabulary_size, model.order, "stream")
    there = [find(of_text, keys) >= 0 for of_text, keys in zip(text.keys[1:], model.keys, strict=True)]
    tables = (
        [table[mask] for table, mask in zip(tables, there, strict=True)] for tables in (model.keys, model.log_probs)
    )
    return BackoffModel.normalised(model.contexts, model.unigrams, *tables)


def _sizes(
    network: BackoffModel, mixture: BackoffModel, counts: BackoffModel, test: np.ndarray, vocabulary: Vocabulary
) -> Iterator[dict]:
    """The three side by side, a threshold at a time: the mixture and Kneser-Ney pruned to the network's size."""
    for threshold in _THRESHOLDS:
        pruned = _fitted(prune(network, threshold), network)
        ngrams = sum(pruned.num_ngrams)
        sizes = {"threshold": threshold, "ngrams": ngrams, "by_order": pruned.num_ngrams}
        yield (
            sizes
            | _file(pruned, vocabulary, test)
            | {
                "network": _perplexity(pruned, test),
                "mixture": _perplexity(_fitted(prune(mixture, max_ngrams=ngrams), mixture), test),
                "kneser_ney": _perplexity(prune(counts, max_ngrams=ngrams), test),
            }
        )


def _of_order(model: BackoffModel, order: int) -> BackoffModel:
    """The lower orders of a model alone."""
    trie = ContextTrie(model.vocabulary_size, model.contexts.keys[: order - 2])
    tables = model.keys[: order - 1], model.log_probs[: order - 1], model.backoffs[: order - 1]
    return BackoffModel(trie, model.unigrams, *tables)


def _fitted(model: BackoffModel, whole: BackoffModel) -> BackoffModel:
    return fit_unigrams(model, whole.unigrams)


def _perplexity(model: BackoffModel, ids: np.ndarray) -> float:
    return evaluate(model, ids)["perplexity"]


def _file(model: BackoffModel, vocabulary: Vocabulary, ids: np.ndarray) -> dict:
    """The size of the gzipped ARPA file, and the perplexity that KenLM, if it is installed, finds with it."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.arpa.gz")
        write_arpa(path, model, vocabulary)
        return {"bytes": os.path.getsize(path), "kenlm": _kenlm_perplexity(path, vocabulary, ids)}


def _kenlm_perplexity(path: str, vocabulary: Vocabulary, ids: np.ndarray) -> float | None:
    try:
        import kenlm
    except ImportError:
        return None
    quiet = kenlm.Config()
    quiet.show_progress = False
    words = np.array(vocabulary.words, dtype=object)[ids[ids != EOS_ID]]
    scores = [log10 for log10, *_ in kenlm.Model(path, quiet).full_scores(" ".join(words), bos=False, eos=False)]
    return math.exp(-math.log(10) * sum(scores) / len(scores))


def table(report: dict) -> str:
    """The report as Markdown."""
    itself = report["itself"]
    summary = (
        f"Test perplexity: the network itself {itself[_NETWORK]:.1f}, with Kneser-Ney {itself[_MIXTURE]:.1f}; "
        f"Kneser-Ney of order {len(report['ngrams'])} {itself[_COUNTS]:.1f}, with {sum(report['ngrams']):,} n-grams."
    )
    lists = [
        [row["title"], f"{sum(row['ngrams']):,}", f"{row['marginals']:.1f}", f"{row['fitted']:.1f}"]
        for row in report["lists"]
    ]
    sizes = [
        [
            f"{row['threshold']:g}",
            f"{row['ngrams']:,}",
            f"{row['bytes'] / 1e6:.1f}",
            f"{row['network']:.1f}",
            "–" if row["kenlm"] is None else f"{row['kenlm']:.1f}",
            *(f"{row[name]:.1f}" for name in ("mixture", "kneser_ney")),
        ]
        for row in report["sizes"]
    ]
    head = ["the network as a back-off model", "n-grams", "unigrams its marginals", "unigrams fitted"]
    pruned = ["`--prune`", "n-grams", "MB, gzipped", "network", "KenLM on that file", "with Kneser-Ney"]
    tables = [markdown_table(head, lists), markdown_table([*pruned, "Kneser-Ney, pruned"], sizes)]
    return "\n\n".join([summary, *tables])
