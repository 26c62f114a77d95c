"""Estimate n-gram models and import ARPA files (`keras-nplm ngram`), without Keras or
TensorFlow.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.corpus import Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.ids import EOS_ID, SPECIALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import add_steps
from keras_nplm.data.tokenizers.words import split_words
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, check_argument, drop_fix
from keras_nplm.io.fields import describe_fields
from keras_nplm.io.files import NUMBER, check_fields, write_json
from keras_nplm.io.remote import display_url, fetch, open_output, upload
from keras_nplm.language_model.codec import check_order
from keras_nplm.language_model.directory import (
    explain_damage,
    lock_new_directory,
    lock_run,
    read_metrics,
    remove_config_if_refused,
)
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models import ngrams
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.model_files import save_model
from keras_nplm.models.spelling import SpellingModel, load_spelling
from keras_nplm.models.text_figures import evaluate_split
from keras_nplm.training.ngram_options import NgramOptions
from keras_nplm.training.options import TextOptions
from keras_nplm.training.prepare import prepare_text, record_run

_CLASSES_FILE = "word_classes.tsv"


def estimate(
    method: str,
    corpus: Corpus,
    directory: str | os.PathLike,
    *,
    order: int = NgramOptions.order,
    text: TextOptions = TextOptions(),
    num_classes: int = NgramOptions.num_classes,
    word_classes: str | os.PathLike | None = None,
    paper_bins: bool = False,
) -> dict:
    """Estimate an n-gram language model (Kneser-Ney, deleted interpolation or class-based) and
    evaluate it.

    Kneser-Ney is estimated in bounded memory, whatever the size of the text. The counts of the
    other methods must fit into memory. The model directory has the files of `train`, with
    `ngrams.npz` in place of `model.keras`. A class-based model adds `word_classes.tsv`, written
    after each sweep of the exchange algorithm: an interrupted run resumes from it.

    Args:
        method: `"kneser-ney"`, `"deleted-interpolation"` or `"class-based"`.
        corpus: the text.
        directory: the model directory. It must be absent, or hold a run with the same options.
        order: n, 1 or more; 2 or more unless `method` is `"kneser-ney"`.
        text: how words are counted, and how text is cut into n-grams.
        num_classes: number of word classes of a class-based model, unless `word_classes` is given.
        word_classes: a file of word classes, also of `mkcls`. Default: find them.
        paper_bins: deleted interpolation chooses its weights by the frequency bin of the whole
            context alone.

    Returns:
        the content of `metrics.json`: exact `validation` and `test` figures (see `evaluate`),
        `ngrams` of each order, `seconds` and `cpu_seconds` of the estimation, n-grams
        `scored_per_second`.

    Raises:
        InputError: an option or the text is invalid, or the directory holds a run with other
            options.
    """
    word_classes = fetch(word_classes) if word_classes else None
    kind = "back-off" if method == "kneser-ney" else method
    options = {"kind": kind, "method": method, "order": order, **dataclasses.asdict(text)}
    options.update(_check_method(method, num_classes, word_classes, paper_bins))
    describe_fields(NgramOptions)["order"].check(order)
    check_order(order, corpus.tokenizer)
    if method != "kneser-ney":
        fix = "give 2 or more, or --method kneser-ney, which estimates unigrams."
        check_argument("order", order >= 2, f"2 or more with the method {method}", order, fix)
    with open_output(directory, resume=True) as local, lock_run(local):
        encoded = prepare_text(local, corpus, text)
        vocabulary = record_run(local, corpus, encoded, options)
        if (local / "metrics.json").exists():
            print(
                f"The run in {display_url(local)} is finished: reading its metrics.json.",
                file=sys.stderr,
            )
            with explain_damage(local):
                metrics = read_metrics(local)
                wanted: dict[str, type | tuple] = {
                    "ngrams": list,
                    "seconds": NUMBER,
                    "cpu_seconds": NUMBER,
                }
                check_fields(local / "metrics.json", metrics, wanted)
            return metrics
        began = time.perf_counter(), time.process_time()
        with remove_config_if_refused(local, unless=[_CLASSES_FILE]):
            model = _estimate_and_save(local, options, encoded, vocabulary)
        spent = {
            "seconds": time.perf_counter() - began[0],
            "cpu_seconds": time.process_time() - began[1],
        }
        metrics = evaluate_splits(model, encoded, load_spelling(local))
        metrics.update(model.compute_figures())
        for name, seconds in spent.items():
            metrics[name] = round(seconds, 2)
        write_json(local / "metrics.json", metrics)
        return metrics


def _check_method(
    method: str, num_classes: int, word_classes: str | os.PathLike | None, paper_bins: bool
) -> dict:
    """Check the options of a single method. Return the options that `config.json` records."""
    describe_fields(NgramOptions)["method"].check(method)
    is_file = not word_classes or Path(word_classes).is_file()
    check_argument("word_classes", is_file, "an existing file", repr(str(word_classes)))
    with_classes = word_classes or num_classes != NgramOptions.num_classes
    own = (
        ("class-based", with_classes, "word classes"),
        ("deleted-interpolation", paper_bins, "`paper_bins`"),
    )
    for wanted, given, options in own:
        fix = f"add --method {wanted}."
        check_argument(
            "method", not given or method == wanted, f"{wanted} with {options}", method, fix
        )
    if method == "class-based":
        return (
            {"word_classes": display_url(word_classes)}
            if word_classes
            else {"num_classes": num_classes}
        )
    return {"paper_bins": paper_bins} if method == "deleted-interpolation" else {}


def _estimate_and_save(
    directory: Path, options: dict, encoded: EncodedCorpus, vocabulary: Vocabulary
) -> ngrams.NgramModel:
    """Estimate the n-gram model that `options`, the content of config.json, describe, and write its
    files.
    """
    order = options["order"]
    boundary = options["boundary"]
    if options["method"] == "kneser-ney":
        path = directory / ngrams.NGRAMS_FILE
        tokens = len(encoded.shards("train"))
        ngrams.kneser_ney_on_disk(
            path, lambda: encoded.parts("train"), tokens, len(vocabulary), order, boundary
        )
        return ngrams.BackoffModel.load(path, boundary)
    ids = encoded.ids("train")
    held_out_ids = encoded.ids("validation")
    model: ngrams.NgramModel
    if options["method"] == "deleted-interpolation":
        back_off = not options["paper_bins"]
        model = ngrams.deleted_interpolation(
            ids, held_out_ids, len(vocabulary), order, boundary, back_off=back_off
        )
    else:
        if "word_classes" in options:
            classes = ngrams.load_classes(fetch(options["word_classes"]), vocabulary)
            ngrams.save_classes(directory / _CLASSES_FILE, classes, vocabulary)
        else:
            classes = _find_classes(
                directory / _CLASSES_FILE, ids, vocabulary, boundary, options["num_classes"]
            )
        model = ngrams.class_based(ids, held_out_ids, classes, order, boundary)
    save_model(directory, model)
    return model


def _find_classes(
    path: Path, ids: np.ndarray, vocabulary: Vocabulary, boundary: str, num_classes: int
) -> np.ndarray:
    """Run the exchange algorithm from the start or from the classes saved at `path`, and save its
    result there.
    """
    start = None
    try:
        start = ngrams.load_classes(path, vocabulary) if path.exists() else None
    except InputError as error:
        print(f"{drop_fix(error)} The search for classes begins again.", file=sys.stderr)

    def save_sweep(classes: np.ndarray, moved: int) -> None:
        ngrams.save_classes(path, classes, vocabulary)
        upload(path.parent)
        print(f"{num_classes} classes: {moved:,} words moved", file=sys.stderr)

    classes = ngrams.exchange_classes(
        ids, len(vocabulary), num_classes, boundary, start=start, after_sweep=save_sweep
    )
    ngrams.save_classes(path, classes, vocabulary)
    return classes


def import_arpa(
    path: str | os.PathLike,
    directory: str | os.PathLike,
    *,
    vocabulary: str | os.PathLike | None = None,
    tokenizer: str | Tokenizer | None = None,
    normalise: Sequence[str] = (),
    boundary: str = "sentence",
) -> dict:
    """Import an ARPA file as a model directory, which must not exist and has no encoded corpus.

    `vocabulary` is a `vocabulary.txt` whose word ids to use: models with the same vocabulary can be
    mixed. The default `tokenizer` is `"words"` if it keeps all words whole, else `"whitespace"`.
    Return `ngrams`, the number of n-grams of each order, and `words`, the size of the vocabulary.
    """
    path = fetch(path)
    vocabulary = fetch(vocabulary) if vocabulary else None
    with open_output(directory) as local, lock_new_directory(local):
        model, words = ngrams.read_arpa(
            path, Vocabulary.load(vocabulary) if vocabulary else None, boundary
        )
        if predicts_end(boundary) and np.isneginf(model.unigrams[EOS_ID]):
            wanted = f"With boundary {boundary}, </s> must have a probability above 0"
            raise InputError(
                f"{wanted} in {path}. Received: probability 0. Fix: add --boundary stream."
            )
        chosen = add_steps(tokenizer or _choose_tokenizer(words), normalise)
        imported = LanguageModel(model, words, chosen, boundary)
        imported.spelling = (
            load_spelling(Path(vocabulary).parent)
            if vocabulary
            else _spell_rare_words(model, words)
        )
        imported.save(local)
    return {"ngrams": model.num_ngrams, "words": len(words)}


def _choose_tokenizer(vocabulary: Vocabulary) -> str:
    """Return the tokenizer under which the words of an ARPA file survive."""
    for word in vocabulary.words[len(SPECIALS) :]:
        if split_words(word) != [word]:
            print(
                f"The tokenizer is whitespace, since words would split {word!r} of the model.",
                file=sys.stderr,
            )
            return "whitespace"
    return "words"


def _spell_rare_words(model: ngrams.BackoffModel, vocabulary: Vocabulary) -> SpellingModel:
    """Return a spelling model of the words of an ARPA file, which holds no out-of-vocabulary
    words.
    """
    by_frequency = len(SPECIALS) + np.argsort(-model.unigrams[len(SPECIALS) :], kind="stable")
    return SpellingModel.from_vocabulary(Vocabulary(vocabulary.decode(by_frequency)))


def evaluate_splits(
    model: NextWordModel, corpus: EncodedCorpus, spelling: SpellingModel | None
) -> dict:
    """Evaluate on validation and test, and measure the n-grams scored per CPU second."""
    began = time.process_time()
    metrics = {
        split: evaluate_split(model, corpus, split, None, spelling)
        for split in ("validation", "test")
    }
    scored = metrics["validation"]["tokens"] + metrics["test"]["tokens"]
    return metrics | {"scored_per_second": round(scored / (time.process_time() - began))}
