"""Study `arpa`: networks as ARPA files (back-off models): test perplexity on Brown against the number of n-grams.

`keras-nplm export DIR FILE.arpa.gz` writes any model as a back-off model. Kneser-Ney is written as it is. Of a network,
P(w | h) = c(h w) / c(h), where c counts how often the network expects w after h, over the contexts h of a text. Listed
are the n-grams of the text, and all n-grams with an expected count above `--min-expected-count`. `--prune` drops
n-grams whose removal raises the perplexity least (Stolcke 1998); `--max-ngrams` prunes to a size. Last, the unigrams
are fitted to the mass that no bigram lists. Every context sums to 1.

The first table compares sets of n-grams. Listing what the network expects, beyond the text's n-grams, gains most. The
second table prunes the network, its mixture with Kneser-Ney, and Kneser-Ney to the same number of n-grams.
"""

import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_nplm.data.vocabulary import EOS_ID, Vocabulary
from keras_nplm.experiments.paper_rows import find_row
from keras_nplm.experiments.rows import Row
from keras_nplm.experiments.tables import join_tables
from keras_nplm.io.markdown import markdown_table
from keras_nplm.language_model.directory import read_metrics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.ngrams import BackoffModel, count_ngrams, prune, write_arpa
from keras_nplm.models.ngrams.approximation import ORDER, approximate, fit_unigrams
from keras_nplm.models.ngrams.tables import ContextTrie, find

_NETWORK, _KNESER_NEY, _MIXTURE = "brown-no-held-out", "kneser-ney-5", "brown-with-kneser-ney"
_MAX_ORDER = 4
_THRESHOLDS = (0.0, 1e-8, 1e-7, 1e-6)

ROWS = (
    find_row(_NETWORK),
    find_row(_KNESER_NEY),
    Row(_MIXTURE, "the network with Kneser-Ney", f"mix {{rows}}/{_NETWORK} {{rows}}/{_KNESER_NEY}"),
)


def measure(rows: Path) -> dict:
    """Return test perplexities and sizes of the network and its mixture as back-off models, beside Kneser-Ney."""
    models = {name: LanguageModel.load(rows / name) for name in (_NETWORK, _KNESER_NEY, _MIXTURE)}
    corpus = models[_NETWORK].corpus
    train, test = corpus.ids("train"), corpus.ids("test")
    highest = approximate(models[_NETWORK].model, train, _MAX_ORDER, "stream")
    orders = [lower_order(highest, n) for n in range(2, _MAX_ORDER + 1)]
    mixture = approximate(models[_MIXTURE].model, train, ORDER, "stream")
    kneser_ney, vocabulary = models[_KNESER_NEY].model, models[_NETWORK].vocabulary
    return {
        "itself": {name: read_metrics(rows / name)["test"]["perplexity"] for name in models},
        "ngrams": kneser_ney.num_ngrams,
        "lists": list(_compare_ngram_sets(orders, train, test)),
        "sizes": list(_compare_sizes(orders[ORDER - 2], mixture, kneser_ney, test, vocabulary)),
    }


def _compare_ngram_sets(orders: list[BackoffModel], train: np.ndarray, test: np.ndarray) -> Iterator[dict]:
    """Yield perplexities of the network by order and by the choice of n-grams that the file lists."""
    whole = orders[ORDER - 2]
    text_only = select_text_ngrams(whole, train)
    same_size = prune(whole, max_ngrams=sum(text_only.num_ngrams))
    models = [(f"order {model.order}", model) for model in orders]
    models += [
        (f"order {ORDER}, n-grams of the text only", text_only),
        (f"order {ORDER}, pruned to as many", same_size),
    ]
    for title, model in models:
        fitted = _measure_perplexity(fit_unigrams(model, whole.unigrams), test)
        marginals = _measure_perplexity(model, test)
        yield {"title": title, "ngrams": model.num_ngrams, "marginals": marginals, "fitted": fitted}


def select_text_ngrams(model: BackoffModel, ids: np.ndarray) -> BackoffModel:
    """Return the model without the n-grams that do not occur in a text."""
    counts = count_ngrams(ids, model.vocabulary_size, model.order, "stream")
    masks = [find(text_keys, keys) >= 0 for text_keys, keys in zip(counts.keys[1:], model.keys, strict=True)]
    keys = [table[mask] for table, mask in zip(model.keys, masks, strict=True)]
    log_probs = [table[mask] for table, mask in zip(model.log_probs, masks, strict=True)]
    return BackoffModel.normalised(model.contexts, model.unigrams, keys, log_probs)


def lower_order(model: BackoffModel, order: int) -> BackoffModel:
    """Return the model without the n-grams of more than `order` words."""
    trie = ContextTrie(model.vocabulary_size, model.contexts.keys[: order - 2])
    tables = model.keys[: order - 1], model.log_probs[: order - 1], model.backoffs[: order - 1]
    return BackoffModel(trie, model.unigrams, *tables)


def _compare_sizes(
    network: BackoffModel, mixture: BackoffModel, kneser_ney: BackoffModel, test: np.ndarray, vocabulary: Vocabulary
) -> Iterator[dict]:
    """Yield perplexities by pruning threshold; the mixture and Kneser-Ney are pruned to the size of the network."""
    for threshold in _THRESHOLDS:
        pruned = fit_unigrams(prune(network, threshold), network.unigrams)
        ngrams = sum(pruned.num_ngrams)
        pruned_mixture = fit_unigrams(prune(mixture, max_ngrams=ngrams), mixture.unigrams)
        sizes = {"threshold": threshold, "ngrams": ngrams, "by_order": pruned.num_ngrams}
        perplexities = {
            "network": _measure_perplexity(pruned, test),
            "mixture": _measure_perplexity(pruned_mixture, test),
            "kneser_ney": _measure_perplexity(prune(kneser_ney, max_ngrams=ngrams), test),
        }
        yield sizes | _measure_file(pruned, vocabulary, test) | perplexities


def _measure_perplexity(model: BackoffModel, ids: np.ndarray) -> float:
    return evaluate(model, ids, "stream")["perplexity"]


def _measure_file(model: BackoffModel, vocabulary: Vocabulary, ids: np.ndarray) -> dict:
    """Return the size of the gzipped ARPA file, and the perplexity that KenLM computes from it, if installed."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.arpa.gz")
        write_arpa(path, model, vocabulary)
        return {"bytes": os.path.getsize(path), "kenlm": _measure_with_kenlm(path, vocabulary, ids)}


def _measure_with_kenlm(path: str, vocabulary: Vocabulary, ids: np.ndarray) -> float | None:
    try:
        import kenlm
    except ImportError:
        return None
    quiet = kenlm.Config()
    quiet.show_progress = False
    words = np.array(vocabulary.words, dtype=object)[ids[ids != EOS_ID]]
    scores = [log10 for log10, *_ in kenlm.Model(path, quiet).full_scores(" ".join(words), bos=False, eos=False)]
    return math.exp(-math.log(10) * sum(scores) / len(scores))


def format_report(report: dict) -> str:
    """Return a summary, the table of n-gram sets and the table of sizes."""
    perplexities = report["itself"]
    summary = (
        f"Test perplexity: the network {perplexities[_NETWORK]:.1f}, its mixture with Kneser-Ney "
        f"{perplexities[_MIXTURE]:.1f}, Kneser-Ney of order {len(report['ngrams'])} {perplexities[_KNESER_NEY]:.1f} "
        f"({sum(report['ngrams']):,} n-grams)."
    )
    sets = [
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
    header = ["the network as a back-off model", "n-grams", "with its marginals as unigrams", "with fitted unigrams"]
    size_header = ["`--prune`", "n-grams", "MB (gzipped)", "network", "network, by KenLM", "mixture with Kneser-Ney"]
    return join_tables(
        summary, markdown_table(header, sets), markdown_table([*size_header, "Kneser-Ney, pruned"], sizes)
    )
