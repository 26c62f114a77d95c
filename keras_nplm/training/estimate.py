"""Estimate n-gram models of texts or counts, and import ARPA files (`keras-nplm ngram`), without
Keras or TensorFlow.
"""

import dataclasses
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.corpus import HELD_OUT, Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.fixed_vocabulary import FixedVocabulary
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import add_steps
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.files import write_json
from keras_nplm.io.parts import build_options, check_given, expand_parts, write_config
from keras_nplm.io.remote import CHECKPOINTS, display_url, fetch, fetch_beside, open_output, upload
from keras_nplm.io.stages import MODEL, lock_new_directory, lock_stages
from keras_nplm.language_model.codec import check_order
from keras_nplm.language_model.directory import read_metrics
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.ngrams import NGRAMS_FILE, CountFile
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel, load_spelling
from keras_nplm.models.text_figures import evaluate_split
from keras_nplm.training.methods import EstimationRun, Method, NgramOptions
from keras_nplm.training.options import TextOptions
from keras_nplm.training.prepare import describe_fixed_vocabulary, prepare_text


def estimate(
    method: str | Method,
    corpus: Corpus,
    directory: str | os.PathLike,
    *,
    text: TextOptions = TextOptions(),
    **options: Any,
) -> dict:
    """Estimate an n-gram language model, such as Kneser-Ney, and evaluate it.

    Kneser-Ney is estimated in bounded memory, whatever the size of the text. The counts of the
    other methods must fit into memory. The model directory has the files of `train`, with
    `ngrams.npz` in place of `model.keras`. A class-based model adds `word_classes.tsv`. An
    interrupted search for classes resumes after its last sweep.

    Args:
        method: a part of `keras_nplm.training.methods`, or its name, such as `"kneser-ney"`.
        corpus: the text.
        directory: the model directory. It must be absent, or hold a run with the same options.
        text: how words are counted, and how text is cut into n-grams.
        options: `order`, n: Kneser-Ney takes 1 or more, the other methods 2 or more; and those of
            the method, such as `num_classes` or `word_classes`, a file.

    Returns:
        the content of `metrics.json`: exact `validation` and `test` figures (see `evaluate`) of the
        splits that the corpus has, `ngrams` of each order, `vocabulary` if it is fixed, `seconds`
        and `cpu_seconds` of the estimation, n-grams `scored_per_second`.

    Raises:
        InputError: an option or the text is invalid, or the directory holds a run with other
            options.
    """
    given = expand_parts({"method": method, **options})
    for name, value in given.items():
        given[name] = os.fspath(value) if isinstance(value, os.PathLike) else value
    check_given(given, NgramOptions)
    chosen = build_options(NgramOptions, given, given)
    method, order = chosen.method, chosen.order
    recorded = {
        "kind": method.model_kind,
        **dataclasses.asdict(text),
        **write_config(chosen),
    }
    recorded["method"].update(method.identify_files())
    check_order(order, corpus.tokenizer)
    method.check_corpus(corpus)
    config = {**recorded, **corpus.describe()}
    with (
        open_output(directory) as local,
        lock_stages(local) as stages,
        stages.reopen_if_refused("text"),
    ):
        encoded, vocabulary = prepare_text(local, corpus, text, method.resumed_files)
        run = EstimationRun(local, order, text.boundary, encoded, vocabulary)

        def make() -> None:
            upload(local)
            metrics = _estimate(method, run)
            metrics.update(describe_fixed_vocabulary(corpus, encoded))
            write_json(local / "config.json", config)
            write_json(local / "metrics.json", metrics)

        if stages.is_made(MODEL):
            shown = display_url(local)
            print(f"The run in {shown} is finished: reading its metrics.json.", file=sys.stderr)
        checkpoints = (*method.resumed_files, *CHECKPOINTS)  # of a network that is trained there
        outputs = [NGRAMS_FILE, *method.resumed_files, "config.json", "metrics.json"]
        stages.make(MODEL, config, outputs, make, checkpoints=checkpoints)
        return read_metrics(local)


def _estimate(method: Method, run: EstimationRun) -> dict[str, Any]:
    """Estimate and save a model, and return its figures."""
    began = time.perf_counter()
    cpu_began = time.process_time()
    model = method.estimate_and_save(run)
    seconds = time.perf_counter() - began
    cpu_seconds = time.process_time() - cpu_began
    metrics = evaluate_splits(model, run.encoded, load_spelling(run.directory))
    metrics.update(model.compute_figures())
    metrics["seconds"] = round(seconds, 2)
    metrics["cpu_seconds"] = round(cpu_seconds, 2)
    return metrics


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

    `vocabulary` is a file of the words that count, as in `open_corpus`: other words of the file are
    merged into `<unk>`; see `read_arpa`. A `vocabulary.txt` keeps its ids, so that the models can
    be mixed, and the spelling model beside it is used, too. Default: the words of the file.
    The default `tokenizer` is `"whitespace"`, as `evaluate` reads such a file.
    Return `ngrams`, the number of n-grams of each order, `words`, the size of the vocabulary, and
    the name of the `tokenizer`.
    """
    # all of `LanguageModel`, which `estimate` does not need
    from keras_nplm.language_model.arpa_models import read_arpa_model

    path = fetch(path)
    given_words, spelling = _load_words(vocabulary)
    with open_output(directory) as local, lock_new_directory(local):
        imported = read_arpa_model(
            path,
            vocabulary=given_words,
            spelling=spelling,
            tokenizer=tokenizer,
            normalise=normalise,
            boundary=boundary,
        )
        if spelling is None:
            print(
                f"The spelling model of unknown words is new, of the words of {path.name}. For the "
                "one of another model, add --vocabulary DIR/vocabulary.txt.",
                file=sys.stderr,
            )
        imported.save(local)
    figures = imported.model.compute_figures()
    return {**figures, "words": len(imported.vocabulary), "tokenizer": imported.tokenizer_name}


def _load_words(
    path: str | os.PathLike | None,
) -> tuple[Vocabulary | None, SpellingModel | None]:
    """Load the words that count, and the spelling model beside the `vocabulary.txt` of a model."""
    if path is None:
        return None, None
    fixed = FixedVocabulary.read(path)
    if not fixed.has_ids:
        return fixed.vocabulary, None
    found = fetch(path)
    fetch_beside(found, [SPELLING_FILE])
    return fixed.vocabulary, load_spelling(found.parent)


def estimate_from_counts(
    path: str | os.PathLike,
    directory: str | os.PathLike,
    *,
    order: int | None = None,
    text: TextOptions = TextOptions(),
    vocabulary: str | os.PathLike | None = None,
    tokenizer: str | Tokenizer | None = None,
    normalise: Sequence[str] = (),
) -> dict:
    """Estimate a Kneser-Ney model from a file of n-gram counts, as `ngram-count -write` of SRILM
    writes it.

    The model is that of the text that was counted, and has no encoded corpus. It is estimated in
    bounded memory, but for the words.

    Args:
        path: the file; see `keras_nplm.models.ngrams.CountFile`.
        directory: the model directory, which must be absent or empty.
        order: n. Default: the highest order in the file.
        text: `min_count` and `max_size` of the vocabulary, and the boundary of the text.
        vocabulary: a file of the words that count, in place of `min_count`; see `open_corpus`. A
            `vocabulary.txt` keeps its ids, so that the models can be mixed.
        tokenizer: the tokenizer of more text. Default: `"whitespace"`.
        normalise: normalisation steps of that tokenizer.

    Returns:
        `ngrams`, the number of n-grams of each order, `words`, the size of the vocabulary, and the
        name of the `tokenizer`.

    Raises:
        InputError: a line of the file is damaged, it lacks the order, or an option is invalid.
    """
    from keras_nplm.language_model.arpa_models import TOKENIZER
    from keras_nplm.language_model.language_model import LanguageModel

    local_path = fetch(path)
    words, spelling = _load_words(vocabulary)
    with open_output(directory) as local, lock_new_directory(local):
        counts = CountFile(local_path, order, text.boundary)
        if words is None:
            words = Vocabulary.from_counts(
                counts.words.items(), min_count=text.min_count, max_size=text.max_size
            )
        if spelling is None:
            spelling = SpellingModel.from_vocabulary(words, [counts.count_unknown(words)])
        chosen = add_steps(tokenizer or TOKENIZER, normalise)
        # beside the output, which may be too large for other disks
        with tempfile.TemporaryDirectory(prefix=".counts-", dir=local.absolute().parent) as scratch:
            model = counts.estimate(Path(scratch, NGRAMS_FILE), words)
            LanguageModel(model, words, chosen, text.boundary, spelling).save(local)
    return {**model.compute_figures(), "words": len(words), "tokenizer": chosen.name}


def evaluate_splits(
    model: NextWordModel, corpus: EncodedCorpus, spelling: SpellingModel | None
) -> dict:
    """Evaluate on validation and test, where the corpus has them, and measure the n-grams scored
    per CPU second.
    """
    began = time.process_time()
    metrics: dict[str, Any] = {
        split: evaluate_split(model, corpus, split, spelling)
        for split in HELD_OUT
        if split in corpus.splits
    }
    scored = sum(figures["tokens"] for figures in metrics.values())
    if scored:
        metrics["scored_per_second"] = round(scored / (time.process_time() - began))
    return metrics
