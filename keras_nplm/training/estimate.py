"""Estimate n-gram models (`keras-nplm ngram`), import ARPA files, and mix models (`keras-nplm mix`).

Nothing here imports Keras or TensorFlow, unless `mix` loads a neural network.
"""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.arguments import check_items
from keras_nplm.data.corpora import Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.text_counts import name_text_counts
from keras_nplm.data.tokenizers import add_steps, split_words
from keras_nplm.data.vocabulary import EOS_ID, SPECIALS, Vocabulary
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import NUMBER, check_fields, replace_file, write_json
from keras_nplm.io.options import check_option
from keras_nplm.io.remote import fetch, name_source, open_output, upload
from keras_nplm.language_model.directory import (
    lock_new_directory,
    lock_run,
    read_metrics,
    remove_config_if_refused,
)
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.model_files import NGRAMS_FILE, get_kind, save_model
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.caches import DECAY, FLATNESS, LENGTH, ContinuousCache, NgramCache, UnigramCache
from keras_nplm.models.evaluation import evaluate_split
from keras_nplm.models.mixture import Mixture, Uniform, fit_mixture
from keras_nplm.models.ngrams import (
    BackoffModel,
    ContextFrequencies,
    FrequencyBins,
    class_based,
    count_ngrams,
    deleted_interpolation,
    exchange_classes,
    kneser_ney_on_disk,
    load_classes,
    read_arpa,
    save_classes,
)
from keras_nplm.models.spelling import SpellingModel, load_spelling
from keras_nplm.training.prepare import prepare_directory

METHODS = {
    "kneser-ney": "back-off",
    "deleted-interpolation": "deleted-interpolation",
    "class-based": "class-based",
}  # the `kind` of the estimated model in config.json
NUM_CLASSES = 500
_BIN_CONTEXT = 2  # context words whose frequency selects the mixture weights, as in the paper
_DECAYS = (50.0, 100.0, 200.0, 300.0, 500.0, 1000.0)  # of a unigram or n-gram cache, of which validation chooses one
_FLATNESSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # of a continuous cache, for features of length 1
_PROBE = 1000  # n-grams whose features give the mean square of their length
_CHOSEN = {  # for each kind of a cache: its name in the metrics, and the attribute
    "unigram-cache": ("decay", "decay"),
    "ngram-cache": ("ngram_decay", "decay"),
    "continuous-cache": ("flatness", "flatness"),
}
_CLASSES_FILE = "word_classes.tsv"


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
    """Estimate an n-gram language model (Kneser-Ney, deleted interpolation or class-based) and evaluate it.

    Kneser-Ney is estimated in bounded memory, whatever the size of the text: see `kneser_ney_on_disk`. The counts of
    the other methods must fit into memory.

    The model directory has the files of `train`, with `ngrams.npz` in place of `model.keras`. A class-based model adds
    `word_classes.tsv`. This file is written after each sweep of the exchange algorithm: an interrupted run resumes
    from it. `seconds` then counts from the resumption.

    Args:
        method: `"kneser-ney"`, `"deleted-interpolation"` or `"class-based"`.
        corpus: the text.
        directory: the model directory. It must be absent, or hold a run with the same options.
        order: n, 2 or more.
        boundary: `"stream"` or `"sentence"`: whether n-grams cross sentence ends. See `ngram_positions`.
        vocabulary_scope: the splits in which words are counted: `"train"` or `"corpus"` (all splits).
        min_count: rarer words become `<unk>`.
        max_size: size limit of the vocabulary.
        num_classes: number of word classes of a class-based model, unless `word_classes` is given.
        word_classes: a file of word classes, as `save_classes` or `mkcls` writes it. Default: find them.
        paper_bins: deleted interpolation chooses its weights by the frequency bin of the whole context alone.

    Returns:
        the content of `metrics.json`: exact `validation` and `test` figures (see `evaluate`); `ngrams`, the number of
        n-grams of each order; `seconds` and `cpu_seconds` of the estimation; `peak_memory` of the process in bytes;
        `scored_per_second`, n-grams per CPU second in the evaluation.

    Raises:
        InputError: an option or the text is invalid, or the directory holds a run with other options.
        RunError: a file cannot be written, or a different process writes the directory.
    """
    word_classes = fetch(word_classes) if word_classes else None
    text = {"vocabulary_scope": vocabulary_scope, "min_count": min_count, "max_size": max_size}
    options = {"kind": METHODS.get(method), "method": method, "order": order, "boundary": boundary} | text
    options |= _check_method(method, num_classes, word_classes, paper_bins)
    for name in ("order", "boundary", *text):
        check_option(name, options[name])
    with open_output(directory, resume=True) as local, lock_run(local):
        return _estimate_and_evaluate(local, corpus, options, text)


def _estimate_and_evaluate(directory: Path, corpus: Corpus, options: dict, text: dict) -> dict:
    """Prepare, estimate, evaluate and write; or read the metrics of a finished run."""
    encoded, vocabulary = prepare_directory(directory, corpus, options, **text)
    if (directory / "metrics.json").exists():
        print(f"The run in {name_source(directory)} is finished: reading its metrics.json.", file=sys.stderr)
        metrics = read_metrics(directory)
        check_fields(directory / "metrics.json", metrics, {"ngrams": list, "seconds": NUMBER, "cpu_seconds": NUMBER})
        return metrics
    began = time.perf_counter(), time.process_time()
    with remove_config_if_refused(directory, unless=directory / _CLASSES_FILE):
        model = _estimate_and_save(directory, options, encoded, vocabulary)
    spent = {"seconds": time.perf_counter() - began[0], "cpu_seconds": time.process_time() - began[1]}
    metrics = _evaluate_splits(model, encoded, load_spelling(directory))
    metrics |= {"ngrams": model.num_ngrams, "peak_memory": _read_peak_memory()}
    metrics |= {name: round(seconds, 2) for name, seconds in spent.items()}
    write_json(directory / "metrics.json", metrics)
    return metrics


def _check_method(method: str, num_classes: int, word_classes: str | os.PathLike | None, paper_bins: bool) -> dict:
    """Check the options of a single method. Return the options that `config.json` records.

    Raises:
        InputError: an option is invalid, or belongs to a different method.
    """
    if method not in METHODS:
        raise InputError(f"`method` must be one of {', '.join(METHODS)}. Received: {method!r}.")
    if word_classes and not Path(word_classes).is_file():
        raise InputError(f"`word_classes` must be an existing file. Received: {str(word_classes)!r}.")
    if method != "class-based" and (word_classes or num_classes != NUM_CLASSES):
        raise InputError(
            f"Word classes require `method` class-based. Received: {method!r}. Fix: add --method class-based."
        )
    if method != "deleted-interpolation" and paper_bins:
        raise InputError(
            f"`paper_bins` requires `method` deleted-interpolation. Received: {method!r}. "
            "Fix: add --method deleted-interpolation."
        )
    if method == "class-based":
        return {"word_classes": name_source(word_classes)} if word_classes else {"num_classes": num_classes}
    return {"paper_bins": paper_bins} if method == "deleted-interpolation" else {}


def _estimate_and_save(directory: Path, options: dict, encoded: EncodedCorpus, vocabulary: Vocabulary) -> NextWordModel:
    """Estimate the n-gram model that `options`, the content of config.json, describe, and write its files."""
    order, boundary = options["order"], options["boundary"]
    if options["method"] == "kneser-ney":
        path, tokens = directory / NGRAMS_FILE, len(encoded.shards("train"))
        kneser_ney_on_disk(path, lambda: encoded.parts("train"), tokens, len(vocabulary), order, boundary)
        return BackoffModel.load(path, boundary)
    ids, held_out_ids = encoded.ids("train"), encoded.ids("validation")
    model: NextWordModel
    if options["method"] == "deleted-interpolation":
        back_off = not options["paper_bins"]
        model = deleted_interpolation(ids, held_out_ids, len(vocabulary), order, boundary, back_off=back_off)
    else:
        if "word_classes" in options:
            classes = load_classes(fetch(options["word_classes"]), vocabulary)
            save_classes(directory / _CLASSES_FILE, classes, vocabulary)
        else:
            classes = _find_classes(directory / _CLASSES_FILE, ids, vocabulary, boundary, options["num_classes"])
        model = class_based(ids, held_out_ids, classes, order, boundary)
    save_model(directory, model)
    return model


def _find_classes(path: Path, ids: np.ndarray, vocabulary: Vocabulary, boundary: str, num_classes: int) -> np.ndarray:
    """Run the exchange algorithm from the start or from the classes saved at `path`, and save its result there."""
    start = load_classes(path, vocabulary) if path.exists() else None

    def save_sweep(classes: np.ndarray, moved: int) -> None:
        save_classes(path, classes, vocabulary)
        upload(path.parent)
        print(f"{num_classes} classes: {moved:,} words moved", file=sys.stderr)

    classes = exchange_classes(ids, len(vocabulary), num_classes, boundary, start=start, after_sweep=save_sweep)
    save_classes(path, classes, vocabulary)
    return classes


def _read_peak_memory() -> int | None:
    """The peak memory of this process in bytes, or None on systems without the `resource` module."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def import_arpa(
    path: str | os.PathLike,
    directory: str | os.PathLike,
    *,
    vocabulary: str | os.PathLike | None = None,
    tokenizer: str | None = None,
    normalise: Sequence[str] = (),
    boundary: str = "sentence",
) -> dict:
    """Import an ARPA file as a model directory.

    The directory has no encoded corpus: `keras-nplm evaluate` needs `--text` for it.

    Args:
        path: the ARPA file. See `read_arpa`.
        directory: the model directory to write. It must not exist.
        vocabulary: a `vocabulary.txt` whose word ids to use. Models with the same vocabulary can be mixed.
        tokenizer: name of the tokenizer that the model's text had. Default: `"words"` if it keeps all words of the
            model whole, else `"whitespace"`.
        normalise: normalisation steps that the model's text had.
        boundary: `"sentence"`, or `"stream"` if the model was estimated from running text without sentence ends.

    Returns:
        `ngrams`, the number of n-grams of each order, and `words`, the size of the vocabulary.

    Raises:
        InputError: the ARPA file or an option is invalid, or the directory exists.
        RunError: a file cannot be written, or a different process writes the directory.
    """
    path, vocabulary = fetch(path), fetch(vocabulary) if vocabulary else None
    with open_output(directory) as local, lock_new_directory(local):
        model, words = read_arpa(path, Vocabulary.load(vocabulary) if vocabulary else None, boundary)
        if boundary == "sentence" and np.isneginf(model.unigrams[EOS_ID]):
            raise InputError(
                f"With boundary sentence, </s> must have a probability above 0 in {path}. Received: probability 0. "
                "Fix: add --boundary stream."
            )
        tokenizer = add_steps(tokenizer or _choose_tokenizer(words), normalise)
        imported = LanguageModel(model, words, tokenizer, boundary)
        imported.spelling = load_spelling(Path(vocabulary).parent) if vocabulary else _spell_rare_words(model, words)
        imported.save(local)
    return {"ngrams": model.num_ngrams, "words": len(words)}


def _choose_tokenizer(vocabulary: Vocabulary) -> str:
    """Return the tokenizer under which the words of an ARPA file survive."""
    for word in vocabulary.words[len(SPECIALS) :]:
        if split_words(word) != [word]:
            print(f"The tokenizer is whitespace, since words would split {word!r} of the model.", file=sys.stderr)
            return "whitespace"
    return "words"


def _spell_rare_words(model: BackoffModel, vocabulary: Vocabulary) -> SpellingModel:
    """Return a spelling model of the words of an ARPA file, which holds no out-of-vocabulary words."""
    ids = np.arange(len(SPECIALS), len(vocabulary))
    by_frequency = ids[np.argsort(-model.unigrams[ids], kind="stable")]
    return SpellingModel.from_vocabulary(Vocabulary(vocabulary.decode(by_frequency)))


def mix(
    directories: Sequence[str | os.PathLike],
    output: str | os.PathLike,
    *,
    weights: Sequence[float] | None = None,
    by_frequency: bool = False,
    unigram_cache: float | bool = False,
    ngram_cache: float | bool = False,
    continuous_cache: float | bool = False,
    cache_length: int = LENGTH.default,
    uniform: bool = False,
) -> dict:
    """Interpolate language models linearly: a mixture with weights fitted on validation text; with caches if wanted.

    The output directory holds copies of all components: the input directories can be deleted afterwards.

    Args:
        directories: two or more model directories with equal vocabulary, tokenizer and boundary. One is enough with
            a cache or `uniform`.
        output: the model directory to write. It must not exist.
        weights: one weight per model, the uniform distribution's last. Default: fitted by EM on the validation split
            of the first directory that has an encoded corpus.
        by_frequency: fit separate weights for each frequency bin of the last two context words.
        unigram_cache: add a `UnigramCache` with this decay in words. True: the decay is chosen on the validation split.
        ngram_cache: the same with a `NgramCache`.
        continuous_cache: add a `ContinuousCache` of the first network, with this flatness. True: the flatness is
            chosen on the validation split.
        cache_length: number of previous words that a cache holds.
        uniform: add the uniform distribution (zerogram), which gives words unseen in training a probability above 0.

    Returns:
        the content of `metrics.json`: `weights`, `components`, `decay`, `ngram_decay` and `flatness` of caches, and
            exact `validation` and `test` figures if a directory has an encoded corpus.

    Raises:
        InputError: the models do not match, the weights or the options of a cache are invalid, a continuous cache
            finds no network, or the output exists.
        RunError: a file cannot be written, or a different process writes the directory.
    """
    if weights is not None and by_frequency:
        raise InputError("`weights` must be None with `by_frequency`. Fix: give either --weights or --by-frequency.")
    LENGTH.check(cache_length)
    for option, argument, value in (
        (DECAY, "unigram_cache", unigram_cache),
        (DECAY, "ngram_cache", ngram_cache),
        (FLATNESS, "continuous_cache", continuous_cache),
    ):
        if not isinstance(value, bool):
            option.check(value, argument)
        check_argument(
            argument, not (value is True and weights is not None), "a number with `weights`", value, "give a number."
        )
    caches = unigram_cache, ngram_cache, continuous_cache, cache_length
    with open_output(output) as local, lock_new_directory(local):
        return _mix(directories, local, weights, by_frequency, caches, uniform)


def _mix(
    directories: Sequence[str | os.PathLike],
    output: Path,
    weights: Sequence[float] | None,
    by_frequency: bool,
    caches: tuple[float | bool, float | bool, float | bool, int],
    uniform: bool,
) -> dict:
    """Load, mix, evaluate and write."""
    directories = list(check_items(directories, "directories", str | os.PathLike, "a list of model directories"))
    parts = [LanguageModel.load(directory) for directory in directories]
    _check_match(directories, parts)
    vocabulary, boundary = parts[0].vocabulary, parts[0].boundary
    corpus = next((part.corpus for part in parts if part.corpus), None)
    spelling = next((part.spelling for part in parts if part.spelling), None)
    if weights is None and corpus is None:
        raise InputError("Fitting weights needs a directory with a corpus/. Received: none. Fix: give --weights.")
    candidates = [[part.model] for part in parts] + _list_caches(parts, corpus, *caches)
    candidates += [[Uniform(len(vocabulary), boundary)]] if uniform else []
    if weights is not None:
        mixture = Mixture([model for model, *_ in candidates], weights)
    else:
        bins = _count_bins(corpus, len(vocabulary), boundary) if by_frequency else None
        mixture = fit_mixture(candidates, corpus.ids("validation"), bins=bins)
    models = mixture.models
    metrics = {"weights": mixture.weights.round(6).tolist(), "components": [get_kind(model) for model in models]}
    chosen = [(*_CHOSEN[model.kind], model) for model in models if model.kind in _CHOSEN]
    metrics |= {name: getattr(model, attribute) for name, attribute, model in chosen}
    if corpus:
        _copy_corpus(corpus, output / "corpus")
        metrics |= _evaluate_splits(mixture, corpus, spelling)
    write_json(output / "metrics.json", metrics)
    mixed = LanguageModel(mixture, vocabulary, parts[0].tokenizer_name, boundary)
    mixed.spelling = spelling
    mixed.save(output)  # writes config.json last
    return metrics


def _list_caches(
    parts: Sequence[LanguageModel],
    corpus: EncodedCorpus | None,
    unigram_cache: float | bool,
    ngram_cache: float | bool,
    continuous_cache: float | bool,
    length: int,
) -> list[list[NextWordModel]]:
    """Return for each wanted cache the candidates among which the validation split chooses."""
    candidates: list[list[NextWordModel]] = []
    size, boundary = len(parts[0].vocabulary), parts[0].boundary
    for build, wanted in ((UnigramCache, unigram_cache), (NgramCache, ngram_cache)):
        if wanted is not False:
            decays = _DECAYS if wanted is True else [wanted]
            candidates.append([build(size, boundary, decay, length) for decay in decays])
    if continuous_cache is not False:
        network = _find_network([part.model for part in parts])
        if network is None:
            raise InputError(
                "`continuous_cache` needs a neural network among the models. Received: n-gram models. "
                "Fix: add the directory of a trained network."
            )
        flatnesses = [continuous_cache]
        if continuous_cache is True:
            probe = extract_ngrams(corpus.ids("validation")[:_PROBE], network.order, network.boundary)[:, :-1]
            square = float(np.mean(np.sum(np.square(network.compute_features(probe), dtype=np.float64), axis=1)))
            flatnesses = [float(f"{share / square:.3g}") for share in _FLATNESSES]
        candidates.append([ContinuousCache(network, flatness, length) for flatness in flatnesses])
    return candidates


def _find_network(models: Sequence[NextWordModel]) -> NextWordModel | None:
    """Return the first NPLM among models and the components of mixtures and short-lists."""
    for model in models:
        parts = [*getattr(model, "models", []), *filter(None, [getattr(model, "network", None)])]
        network = model if model.kind == "nplm" else _find_network(parts)
        if network is not None:
            return network
    return None


def _check_match(directories: Sequence[str | os.PathLike], parts: Sequence[LanguageModel]) -> None:
    """Refuse to mix models of different vocabularies, tokenizers or boundaries."""
    for directory, part in zip(directories[1:], parts[1:], strict=True):
        for attribute in ("vocabulary", "tokenizer_name", "boundary"):
            if getattr(part, attribute) != getattr(parts[0], attribute):
                name = attribute.removesuffix("_name")
                raise InputError(
                    f"Models to mix must have the same {name}. The {name} of {directory} differs from that in "
                    f"{directories[0]}. Fix: train both with the same {name}."
                )


def _count_bins(corpus: EncodedCorpus, vocabulary_size: int, boundary: str) -> FrequencyBins:
    counts = count_ngrams(corpus.ids("train"), vocabulary_size, _BIN_CONTEXT + 1, boundary)
    return FrequencyBins(ContextFrequencies.from_counts(counts))


def _copy_corpus(corpus: EncodedCorpus, directory: Path) -> None:
    """Copy the shards that `corpus.json` names, with the counts of their text, then `corpus.json` itself."""
    shards = [shard for split in corpus.splits.values() for shard in split["shards"]]
    counts = [name for name in map(name_text_counts, shards) if (corpus.directory / name).is_file()]
    for name in [*shards, *counts, "corpus.json"]:
        with replace_file(directory / name) as temporary:
            shutil.copyfile(corpus.directory / name, temporary)


def _evaluate_splits(model: NextWordModel, corpus: EncodedCorpus, spelling: SpellingModel | None) -> dict:
    """Evaluate on validation and test, and measure the n-grams scored per CPU second."""
    began = time.process_time()
    metrics = {split: evaluate_split(model, corpus, split, None, spelling) for split in ("validation", "test")}
    scored = metrics["validation"]["tokens"] + metrics["test"]["tokens"]
    return metrics | {"scored_per_second": round(scored / (time.process_time() - began))}
