"""Count-based models and mixtures as model directories: what `keras-nplm ngram` and `keras-nplm mix` do."""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import Corpus
from keras_nplm.data.encoding import EncodedCorpus
from keras_nplm.data.vocabulary import EOS_ID, Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import NUMBER, check_fields, replacing, write_json
from keras_nplm.language_model.directory import (
    freed_if_refused,
    kind_of,
    read_metrics,
    refuse_foreign,
    save_model,
)
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.evaluation import LogProb, evaluate
from keras_nplm.models.mixture import Mixture, Uniform, fit_mixture
from keras_nplm.models.ngrams import (
    ContextFrequencies,
    FrequencyBins,
    class_based,
    count_ngrams,
    deleted_interpolation,
    exchange_classes,
    kneser_ney,
    load_classes,
    read_arpa,
    save_classes,
)
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.prepare import prepare_directory

METHODS = {
    "kneser-ney": "back-off",
    "deleted-interpolation": "deleted-interpolation",
    "class-based": "class-based",
}  # and the kinds of their models
NUM_CLASSES = 500
_BIN_CONTEXT = 2  # words of context whose frequency chooses the weights, as in the paper


def estimate(
    method: str,
    corpus: Corpus,
    directory: str | os.PathLike,
    *,
    order: int = 5,
    boundary: str = "sentence",
    vocabulary_scope: str = "train",
    min_count: int = 2,
    max_size: int | None = None,
    num_classes: int = NUM_CLASSES,
    word_classes: str | os.PathLike | None = None,
    paper_bins: bool = False,
) -> dict:
    """Estimate a count-based model from a corpus, and evaluate it.

    The model directory is like that of `train`, with `ngrams.npz` for `model.keras`, and for class-based models
    `word_classes.tsv`, which is written after every sweep: a run that was interrupted goes on from it, sweeping afresh
    (`seconds` are those since then).

    Args:
        method: `"kneser-ney"`, `"deleted-interpolation"` or `"class-based"`.
        corpus: the text.
        directory: the model directory: absent, or of a run with the same options.
        order: n, 2 or more.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.
        vocabulary_scope: where words are counted: `"train"` or `"corpus"`.
        min_count: words seen less often become `<unk>`.
        max_size: keep this many words at most.
        num_classes: of class-based models, where they are not given.
        word_classes: a file of word classes to use instead of finding them, as `save_classes` or `mkcls` write it.
        paper_bins: of deleted interpolation: weights by the bin of the whole context's frequency alone.

    Returns:
        what `metrics.json` holds: exact `validation` and `test` figures (see `evaluate`), `ngrams` (how many of each
        order), `seconds` and `cpu_seconds` of the estimation, `peak_memory` of the process in bytes, and
        `scored_per_second`, n-grams a CPU second in the evaluation.

    Raises:
        InputError: an option or the text cannot be used, or the directory holds another run.
        RunError: a file cannot be written.
    """
    if method not in METHODS:
        raise InputError(f"`method` must be one of {', '.join(METHODS)}. Received: {method!r}.")
    text = {"vocabulary_scope": vocabulary_scope, "min_count": min_count, "max_size": max_size}
    Configuration(order=order, boundary=boundary, **text)  # which checks them
    if word_classes and not Path(word_classes).is_file():
        raise InputError(f"There is no file of word classes {word_classes}.")
    directory = Path(directory)
    options = {"kind": METHODS[method], "method": method, "order": order, "boundary": boundary} | text
    if method == "class-based":
        options |= {"word_classes": str(word_classes)} if word_classes else {"num_classes": num_classes}
    elif word_classes or num_classes != NUM_CLASSES:
        raise InputError(f"Word classes are for class-based models. Received: the method {method}.")
    if method == "deleted-interpolation":
        options |= {"paper_bins": paper_bins}
    elif paper_bins:
        raise InputError(f"The paper's bins are for deleted interpolation. Received: the method {method}.")
    encoded, vocabulary = prepare_directory(directory, corpus, options, **text)
    if (directory / "metrics.json").exists():
        print(f"The model in {directory} is finished; these are its figures.", file=sys.stderr)
        metrics = read_metrics(directory)
        check_fields(directory / "metrics.json", metrics, {"ngrams": list, "seconds": NUMBER, "cpu_seconds": NUMBER})
        return metrics
    ids, held_out_ids = encoded.ids("train"), encoded.ids("validation")
    began = time.perf_counter(), time.process_time()
    with freed_if_refused(directory, unless=directory / "word_classes.tsv"):
        if method == "kneser-ney":
            model = kneser_ney(ids, len(vocabulary), order, boundary)
        elif method == "deleted-interpolation":
            model = deleted_interpolation(ids, held_out_ids, len(vocabulary), order, boundary, back_off=not paper_bins)
        else:
            classes = _classes(ids, vocabulary, boundary, num_classes, word_classes, directory / "word_classes.tsv")
            model = class_based(ids, held_out_ids, classes, order, boundary)
    spent = {"seconds": time.perf_counter() - began[0], "cpu_seconds": time.process_time() - began[1]}
    save_model(directory, model)
    metrics = _evaluated(model, encoded, boundary) | {"ngrams": model.num_ngrams, "peak_memory": _peak_memory()}
    metrics |= {name: round(seconds, 2) for name, seconds in spent.items()}
    write_json(directory / "metrics.json", metrics)
    return metrics


def _peak_memory() -> int | None:
    """The most memory that this process has held, in bytes; None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _classes(ids, vocabulary: Vocabulary, boundary: str, num_classes: int, given, path: Path) -> np.ndarray:
    """The word classes of a class-based model: read, gone on with, or found; saved at `path`."""
    if given:
        classes = load_classes(given, vocabulary)
        save_classes(path, classes, vocabulary)
        return classes
    start = load_classes(path, vocabulary) if path.exists() else None

    def after_sweep(classes: np.ndarray, moved: int) -> None:
        save_classes(path, classes, vocabulary)
        print(f"{num_classes} classes: {moved:,} words moved", file=sys.stderr)

    classes = exchange_classes(ids, len(vocabulary), num_classes, boundary, start=start, after_sweep=after_sweep)
    save_classes(path, classes, vocabulary)
    return classes


def import_arpa(
    path: str | os.PathLike,
    directory: str | os.PathLike,
    *,
    vocabulary: str | os.PathLike | None = None,
    tokenizer: str = "whitespace",
    boundary: str = "sentence",
) -> dict:
    """Make a model directory of an ARPA file; it has no text to be evaluated on but what `--text` names.

    Args:
        path: the ARPA file; see `read_arpa`.
        directory: the model directory, which must not exist.
        vocabulary: a `vocabulary.txt` whose ids the words are to have, so that the model can be mixed with its owner.
        tokenizer: how text for the model is split and normalised; with lemmas, the vocabulary brings its forms or is
            given those that are known.
        boundary: `"sentence"`, or `"stream"` if the model was estimated from one running text.

    Returns:
        `ngrams`, how many of each order, and `words`.
    """
    directory = Path(directory)
    refuse_foreign(directory)
    model, words = read_arpa(path, Vocabulary.load(vocabulary) if vocabulary else None)
    if boundary == "sentence" and np.isneginf(model.unigrams[EOS_ID]):
        raise InputError(f"{path} gives </s> no probability, so it is the model of a stream: add --boundary stream.")
    LanguageModel(model, words, tokenizer, boundary).save(directory)
    return {"ngrams": model.num_ngrams, "words": len(words)}


def mix(
    directories: Sequence[str | os.PathLike],
    output: str | os.PathLike,
    *,
    weights: Sequence[float] | None = None,
    by_frequency: bool = False,
    uniform: bool = False,
) -> dict:
    """Combine the models of some directories into one, which lacks for nothing when they are gone.

    Args:
        directories: two or more (one with `uniform`), of one vocabulary, tokenizer and boundary.
        output: the model directory to write, which must not exist.
        weights: one a model; the uniform distribution's last. Default: fitted on the validation split of the first
            directory that has a text.
        by_frequency: fit weights for each bin of the frequency of the context's last two words.
        uniform: add the uniform distribution, the zerogram, which gives words never seen in training a share.

    Returns:
        what `metrics.json` holds: `weights`, and exact `validation` and `test` figures where there is a text.

    Raises:
        InputError: the directories do not fit together, the weights are none, or the output exists.
        RunError: a file cannot be written.
    """
    output = Path(output)
    refuse_foreign(output)
    if weights is not None and by_frequency:
        raise InputError("Weights by frequency are fitted: give --weights or --by-frequency.")
    parts = [LanguageModel.load(directory) for directory in directories]
    for directory, part in zip(directories[1:], parts[1:], strict=True):
        for what in ("vocabulary", "tokenizer_name", "boundary"):
            if getattr(part, what) != getattr(parts[0], what):
                name = what.removesuffix("_name")
                raise InputError(
                    f"{directory} has another {name} than {directories[0]}: models of one only can be mixed."
                )
    vocabulary, boundary = parts[0].vocabulary, parts[0].boundary
    models = [part.model for part in parts] + ([Uniform(len(vocabulary), boundary)] if uniform else [])
    corpus = next((part.corpus for part in parts if part.corpus), None)
    if weights is not None:
        mixture = Mixture(models, weights)
    elif corpus is None:
        raise InputError("No directory has a corpus/ to fit weights on: give --weights.")
    else:
        bins = None
        if by_frequency:
            counted = count_ngrams(corpus.ids("train"), len(vocabulary), _BIN_CONTEXT + 1, boundary)
            bins = FrequencyBins(ContextFrequencies.of(counted))
        mixture = fit_mixture(models, corpus.ids("validation"), boundary, bins)
    described = {"weights": mixture.weights.round(6).tolist(), "components": [kind_of(model) for model in models]}
    if corpus:
        _copy_corpus(corpus, output / "corpus")
        described |= _evaluated(mixture, corpus, boundary)
    write_json(output / "metrics.json", described)
    LanguageModel(mixture, vocabulary, parts[0].tokenizer_name, boundary).save(output)  # last, its config.json
    return described


def _copy_corpus(corpus: EncodedCorpus, directory: Path) -> None:
    """Copy `corpus.json`, last, and the shards that it names, and nothing else that may lie there."""
    for name in [shard for split in corpus.splits.values() for shard in split["shards"]] + ["corpus.json"]:
        with replacing(directory / name) as temporary:
            shutil.copyfile(corpus.directory / name, temporary)


def _evaluated(model: LogProb, corpus: EncodedCorpus, boundary: str) -> dict:
    """The figures of the splits, and how fast they came."""
    began = time.process_time()
    metrics = {split: evaluate(model, corpus.ids(split), boundary) for split in ("validation", "test")}
    scored = metrics["validation"]["tokens"] + metrics["test"]["tokens"]
    return metrics | {"scored_per_second": round(scored / (time.process_time() - began))}
