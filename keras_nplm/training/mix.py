"""Mix language models (`keras-nplm mix`), without Keras or TensorFlow unless a model is a neural
network.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from keras_nplm.data.arguments import check_items
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import BOS_ID
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.repeated_sentences import measure_repeated
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.files import write_json
from keras_nplm.io.remote import display_url, fetch, open_output
from keras_nplm.io.stages import lock_new_directory, read_manifest
from keras_nplm.language_model.arpa_models import check_arpa_file, is_arpa_file, read_arpa_model
from keras_nplm.language_model.differences import TokenOptions, check_same_tokens
from keras_nplm.language_model.directory import read_metrics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.base import NETWORK_FILE, NextWordModel, find_networks
from keras_nplm.models.caches import (
    DECAY,
    FLATNESS,
    LENGTH,
    ContinuousCache,
    NgramCache,
    UnigramCache,
)
from keras_nplm.models.mixture import Mixture, Uniform, fit_mixture
from keras_nplm.models.ngrams import NGRAMS_FILE, FrequencyBins, count_ngrams
from keras_nplm.training.estimate import time_evaluation

_BIN_CONTEXT = 2  # context words whose frequency selects the mixture weights, as in the paper
# of a unigram or n-gram cache, of which validation chooses one
_DECAYS = (50.0, 100.0, 200.0, 300.0, 500.0, 1000.0)
_FLATNESSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # of a continuous cache, for features of length 1
# share of validation or test sentences; more than in the training text of the same corpus
_MAX_REPEATED = 0.05
_PROBE = 1000  # n-grams whose features give the mean square of their length


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
    """Interpolate language models linearly: a mixture with weights fitted on validation text; with
    caches if wanted.

    The output directory holds copies of all components: the input directories can be deleted
    afterwards.

    Args:
        directories: two or more model directories with equal vocabulary, tokenizer and boundary.
            One is enough with a cache or `uniform`. An ARPA file gets the vocabulary and the
            tokenizer of the first directory; see `read_arpa`.
        output: the model directory to write. It must not exist.
        weights: one weight per model, the uniform distribution's last. Default: fitted by EM on the
            validation split of the first directory that has one.
        by_frequency: fit separate weights for each frequency bin of the last two context words.
        unigram_cache: add a `UnigramCache` with this decay in words. True: the decay is chosen on
            the validation split.
        ngram_cache: the same with a `NgramCache`.
        continuous_cache: add a `ContinuousCache` of the first network, with this flatness, or True.
        cache_length: number of previous words that a cache holds.
        uniform: add the uniform distribution (zerogram), which gives words unseen in training a
            probability above 0.

    Returns:
        the content of `metrics.json`: `weights`, `components` and their `sources`, the values of
        caches, and exact `validation` and `test` figures if a directory has an encoded corpus.
        `warnings` names the models, if any, that were trained on its validation or test text.

    Raises:
        InputError: the models do not match, an option is invalid, or the output exists.
    """
    caches = {
        "unigram_cache": unigram_cache,
        "ngram_cache": ngram_cache,
        "continuous_cache": continuous_cache,
    }
    _check_values(weights, by_frequency, caches, cache_length)
    with open_output(output) as local, lock_new_directory(local):
        parts = _load_parts(directories)
        vocabulary = parts[0].vocabulary
        boundary = parts[0].boundary
        corpus = _find_corpus(parts)
        spelling = next((part.spelling for part in parts if part.spelling), None)
        if weights is None:
            _require_corpus(corpus)
        warnings = _find_warnings(directories, parts, corpus) if corpus else []
        for warning in [*_find_copies(directories), *warnings]:
            print(f"Warning: {warning}", file=sys.stderr)
        candidates = [[part.model] for part in parts]
        candidates += _list_caches(parts, corpus, cache_length, caches)
        if uniform:
            candidates.append([Uniform(len(vocabulary), boundary)])
        if weights is not None:
            mixture = Mixture([model for model, *_ in candidates], weights)
        else:
            mixture = _fit(
                candidates, _require_corpus(corpus), len(vocabulary), boundary, by_frequency
            )
        metrics = mixture.compute_figures()
        made = mixture.models[len(parts) :]
        metrics["sources"] = [*map(display_url, directories), *(model.kind for model in made)]
        if corpus:
            corpus.link(local / "corpus")
            metrics.update(time_evaluation(mixture, corpus, spelling))
        if warnings:
            metrics["warnings"] = warnings
        write_json(local / "metrics.json", metrics)
        scopes = [part.codec.vocabulary_scope for part in parts]
        scope = "corpus" if "corpus" in scopes else scopes[0]
        codec = parts[0].codec.replace(spelling=spelling, vocabulary_scope=scope)
        LanguageModel.of(mixture, codec).save(local)
    return metrics


def _check_values(
    weights: Sequence[float] | None,
    by_frequency: bool,
    caches: Mapping[str, float | bool],
    cache_length: int,
) -> None:
    """Refuse weights and values of caches that are out of range or exclude each other."""
    is_one = weights is None or not by_frequency
    fix = "give either --weights or --by-frequency."
    check_argument("weights", is_one, "None with `by_frequency`", weights, fix)
    LENGTH.check(cache_length)
    for name, value in caches.items():
        if not isinstance(value, bool):
            facts = FLATNESS if name == "continuous_cache" else DECAY
            facts.check(value, name)
        is_known = value is not True or weights is None
        check_argument(name, is_known, "a number with `weights`", value, "give a number.")


def _load_parts(
    directories: Sequence[str | os.PathLike],
) -> list[LanguageModel]:
    """Load models, which must have one vocabulary, tokenizer and boundary.

    ARPA files get the vocabulary and the tokenizer of the first directory, or of the first file.
    """
    wanted = "a list of model directories"
    checked = list(check_items(directories, "directories", str | os.PathLike, wanted))
    parts: dict[str | os.PathLike, LanguageModel] = {}
    # directories first, whose vocabulary the ARPA files get
    in_order = sorted(checked, key=is_arpa_file)
    for path in in_order:
        if not parts or not is_arpa_file(path):
            parts[path] = LanguageModel.load(path)
            continue
        first = parts[in_order[0]]
        check_arpa_file(path)
        parts[path] = LanguageModel.of(
            *read_arpa_model(
                path,
                vocabulary=first.vocabulary,
                spelling=first.spelling,
                tokenizer=first.tokenizer,
            )
        )
    described = [TokenOptions.of_model(path, part) for path, part in parts.items()]
    for options in described[1:]:
        check_same_tokens(described[0], options)
    return [parts[path] for path in checked]


def _fit(
    candidates: Sequence[Sequence[NextWordModel]],
    corpus: EncodedCorpus,
    vocabulary_size: int,
    boundary: str,
    by_frequency: bool,
) -> Mixture:
    """Fit weights on the validation split, and choose among the candidates of each component."""
    bins = None
    if by_frequency:
        counts = count_ngrams(corpus.ids("train"), vocabulary_size, _BIN_CONTEXT + 1, boundary)
        bins = FrequencyBins.from_counts(counts)
    return fit_mixture(candidates, corpus.ids("validation"), bins=bins)


def _find_corpus(parts: Sequence[LanguageModel]) -> EncodedCorpus | None:
    """Return the first corpus with validation text, or else the first corpus, if any."""
    corpora = [part.corpus for part in parts if part.corpus]
    with_validation = [corpus for corpus in corpora if "validation" in corpus.splits]
    return next(iter(with_validation or corpora), None)


def _find_copies(directories: Sequence[str | os.PathLike]) -> Iterator[str]:
    """Yield a sentence for each network or n-gram model that a directory before it has, too."""
    owners: dict[tuple, str | os.PathLike] = {}
    for directory in directories:
        manifest = read_manifest(fetch(directory))
        files = [file for stage in manifest.values() for file in stage.get("files", {}).items()]
        models = {tuple(kept) for name, kept in files if name.endswith((NGRAMS_FILE, NETWORK_FILE))}
        for model in models:
            if model in owners:
                yield (
                    f"{os.fspath(directory)} has a model of {os.fspath(owners[model])}: mixing it "
                    "twice gains nothing. Fix: mix each model once, such as a network trained with "
                    "--no-interpolated."
                )
        owners |= dict.fromkeys(models, directory)


def _find_warnings(
    directories: Sequence[str | os.PathLike],
    parts: Sequence[LanguageModel],
    corpus: EncodedCorpus,
) -> list[str]:
    """Return sentences on models that were trained on validation or test text of a corpus.

    A mixture with the same training text has such sentences in its `metrics.json`.
    """
    pairs = list(zip(directories, parts, strict=True))
    owner = next(directory for directory, part in pairs if part.corpus is corpus)
    shards = corpus.identify("train")
    usual: dict[str, float] | None = None
    warnings: list[str] = []
    for directory, part in pairs:
        if part.corpus is None:
            continue
        if part.corpus.identify("train") == shards:
            warnings += read_metrics(fetch(directory)).get("warnings", ())
            continue
        if usual is None:
            usual = measure_repeated(corpus, corpus)
        repeated = measure_repeated(corpus, part.corpus)
        shares = [
            f"{share:.0%} of the {split}"
            for split, share in repeated.items()
            if share > usual[split] + _MAX_REPEATED
        ]
        if shares:
            warnings.append(
                f"{os.fspath(directory)} was trained on {' and '.join(shares)} sentences of "
                f"{os.fspath(owner)}, so that perplexities of the mixture are too low there. Fix: "
                "train both with the same splits, for example with --corpus DIR of `prepare`."
            )
    return list(dict.fromkeys(warnings))


def _require_corpus(corpus: EncodedCorpus | None) -> EncodedCorpus:
    """Return the corpus on which weights and the values of caches are fitted."""
    if corpus is None or "validation" not in corpus.splits:
        raise InputError(
            "Fitting weights needs a directory with validation text in its corpus/. "
            "Received: none. Fix: give --weights."
        )
    return corpus


def _list_caches(
    parts: Sequence[LanguageModel],
    corpus: EncodedCorpus | None,
    length: int,
    wanted: Mapping[str, float | bool],
) -> list[list[NextWordModel]]:
    """Return for each wanted cache the candidates among which the validation split chooses."""
    candidates: list[list[NextWordModel]] = []
    size = len(parts[0].vocabulary)
    boundary = parts[0].boundary
    for name, build in (("unigram_cache", UnigramCache), ("ngram_cache", NgramCache)):
        if (value := wanted[name]) is not False:
            decays = _DECAYS if value is True else [value]
            candidates.append([build(size, boundary, decay, length) for decay in decays])
    if (flatness := wanted["continuous_cache"]) is not False:
        networks = [network for part in parts for network in find_networks(part.model)]
        fix = "add the directory of a network."
        refusal = "left out without a neural network among the models"
        check_argument("continuous_cache", bool(networks), refusal, flatness, fix)
        network = networks[0]
        wanted_width = "left out with a network without hidden units, whose features it compares"
        fix = "add the unigram cache, or mix another network."
        context = np.full((1, network.order - 1), BOS_ID, np.int32)
        has_features = network.compute_features(context).shape[1] > 0
        check_argument("continuous_cache", has_features, wanted_width, flatness, fix)
        flatnesses = [flatness]
        if flatness is True:
            ids = _require_corpus(corpus).ids("validation")[:_PROBE]
            contexts = extract_ngrams(ids, network.order, network.boundary)[:, :-1]
            features = network.compute_features(contexts)
            square = float(np.mean(np.sum(np.square(features, dtype=np.float64), axis=1)))
            flatnesses = [float(f"{share / square:.3g}") for share in _FLATNESSES]
        candidates.append([ContinuousCache(network, value, length) for value in flatnesses])
    return candidates
