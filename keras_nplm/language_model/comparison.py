"""Evaluate models on one text: the figures of each, and in two sentences what is not comparable."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.corpora.text_files import expand_patterns, read_files
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.text_counts import TOTALS
from keras_nplm.data.unusual_text import MAX_UNKNOWN, warn_of_tokens
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import remove_contents
from keras_nplm.io.paths import STANDARD_INPUT, check_output_path
from keras_nplm.io.remote import display_url, fetch, upload
from keras_nplm.language_model.arpa_models import check_arpa_file, is_arpa_file
from keras_nplm.language_model.differences import (
    HELD_OUT_KNOWLEDGE,
    TokenOptions,
    find_differences,
)
from keras_nplm.language_model.directory import read_description, read_metrics
from keras_nplm.language_model.dynamics import DYNAMICS_FILE, save_dynamics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.models.collectors import Collector
from keras_nplm.models.dynamic.tuning import check_learns

# why figures of the text are not comparable either, by what differs
_OF_TEXT = {
    "normalisation": "with --normalise they are of the normalised text",
    "boundary": "with --boundary stream they leave out the ends of lines",
    "held-out mass": HELD_OUT_KNOWLEDGE,
}


def ensure_dynamics(language_model: LanguageModel, directory: Path) -> None:
    """Tune dynamic evaluation and write it to the model directory, unless the directory has it."""
    if language_model.dynamics is not None:
        return
    check_learns(language_model.model)
    path = directory / DYNAMICS_FILE
    check_output_path(path)  # before the tuning, which takes minutes
    tuned = language_model.tune_dynamic()
    for written in save_dynamics(directory, tuned):
        upload(written)
    print(
        f"Tuned on {tuned.tokens:,} tokens of validation text: {tuned.settings}. "
        f"Perplexity there: {tuned.static:.2f} static, {tuned.dynamic:.2f} dynamic. "
        f"Written to {display_url(path)}.",
        file=sys.stderr,
    )


def compare(
    paths: Sequence[str],
    split: str = "test",
    collectors: Sequence[Collector] = (),
    *,
    files: Sequence[str] = (),
    field: str | None = None,
    dynamic: bool = False,
    arpa_tokenizer: str | None = None,
) -> dict[str, Any]:
    """Evaluate model directories and ARPA files, one after another, on the same text.

    Args:
        paths: the directories and files.
        split: the split of the training corpus to read, if no files are given.
        collectors, dynamic: see `LanguageModel.evaluate`. Settings of dynamic evaluation that a
            directory lacks are tuned, and written to it.
        files, field: files of text and globs, and the field that holds the text of data files.
        arpa_tokenizer: the tokenizer of ARPA files. Default: white space.

    Returns:
        `models`, the figures of each model, with its name as `model`; and `not_comparable`, two
        sentences at most on what is not comparable and why.
    """
    read: Callable[[], Iterator[str]] = functools.partial(read_files, files, field)
    if len(paths) > 1 and files:
        read = _repeat_lines(files, field)
    elif len(paths) > 1:
        _check_same_text(paths, split)
    arpa_files = [*filter(is_arpa_file, paths)]
    rows: list[dict[str, Any]] = []
    tokens: list[TokenOptions] = []
    spelled: dict[str, Mapping[str, int]] = {}  # the words that spell the <unk> of a text, by path
    watches: dict[str, Callable[[Iterable[str]], Iterator[str]]] = {}  # a text has one warning
    for path in paths:
        model = LanguageModel.load(path, arpa_tokenizer=arpa_tokenizer)
        if dynamic:
            ensure_dynamics(model, Path(path))
        watch = watches.setdefault(model.tokenizer.name, warn_of_tokens(model.tokenizer))
        text = watch(read()) if files else split
        figures = {"model": display_url(path), **model.evaluate(text, collectors, dynamic)}
        rows.append(figures)
        tokens.append(TokenOptions.of_model(path, model))
        if model.spelling is not None and figures["unk_tokens"]:
            spelled[path] = model.spelling.counts
    if files:
        _warn_of_unknown(rows, needs_tokenizer=bool(arpa_files) and arpa_tokenizer is None)
    else:
        _warn_of_training(paths)
    learned = [spelled.get(path) for path in paths if path not in arpa_files]
    spelled_alone = [
        path
        for path, words in spelled.items()
        if learned and path in arpa_files and words not in learned
    ]
    return {"models": rows, "not_comparable": describe_incomparable(tokens, spelled_alone)}


def _repeat_lines(files: Sequence[str], field: str | None) -> Callable[[], Iterator[str]]:
    """Return a function that reads the lines of files from the beginning, each time it is called.

    A pipe and standard input can be read once: their lines are kept in memory.
    """
    is_input = list(files) == [STANDARD_INPUT]
    if is_input or not all(path.is_file() for path in expand_patterns(files)):
        kept = list(read_files(files, field))
        return lambda: iter(kept)
    return functools.partial(read_files, files, field)


def _warn_of_unknown(rows: Sequence[Mapping[str, Any]], needs_tokenizer: bool) -> None:
    """Warn once of all models whose perplexity looks good as many tokens of a text are `<unk>`."""
    shares = {row["model"]: row["unk_tokens"] / row["tokens"] for row in rows}
    high = [f"{share:.0%} ({name})" for name, share in shares.items() if share > MAX_UNKNOWN]
    fix = "evaluate text like the training text, or compare bits per character if comparable."
    if needs_tokenizer:
        fix = f"give the tokenizer of the training text of an ARPA file by --tokenizer, {fix}"
    if high:
        print(
            f"Warning: {', '.join(high)} of the tokens are out of the vocabulary (<unk>), so that "
            f"the perplexity looks good. Fix: {fix}",
            file=sys.stderr,
        )


def _warn_of_training(paths: Sequence[str]) -> None:
    """Warn of models that were trained on the split that is evaluated."""
    for path in paths:
        for warning in read_metrics(fetch(path)).get("warnings", ()):
            print(f"Warning: {path}: {warning}", file=sys.stderr)


def describe_incomparable(
    models: Sequence[TokenOptions], spelled_alone: Sequence[str] = ()
) -> list[str]:
    """Return a sentence on figures of tokens and one on figures of the text, where they are not
    comparable; nothing if all are.

    `spelled_alone`: ARPA files whose `<unk>` is spelled by other words than that of directories.
    """
    differences = find_differences(models)
    names = [model.name for model in models]
    of_tokens = [
        ", ".join(f"{value} ({name})" for value, name in zip(values, names, strict=True))
        for values in differences.values()
    ]
    of_text = [reason for name, reason in _OF_TEXT.items() if name in differences]
    knowing = [model.name for model in models if model.codec.vocabulary_scope == "corpus"]
    if knowing and "vocabulary" in differences:
        of_text.append(f"the vocabulary of {', '.join(knowing)} has the words of all splits")
    if spelled_alone:
        of_text.append(
            f"<unk> of {', '.join(spelled_alone)} is spelled by the words of the file, "
            "<unk> of a directory by the rare words of its text, which an import by `keras-nplm "
            "ngram --arpa` with the --vocabulary of the directory has, too"
        )
    sentences = {
        "Perplexities and tokens": of_tokens,
        "Bits per character and byte": of_text,
    }
    return [
        f"{figures} are not comparable: {'; '.join(reasons)}."
        for figures, reasons in sentences.items()
        if reasons
    ]


def _check_same_text(paths: Sequence[str], split: str) -> None:
    """Refuse model directories whose split is not of the same text."""
    (name, sizes), *others = [_read_split(Path(path), split) for path in paths]
    for path, (other_name, other_sizes) in zip(paths[1:], others, strict=True):
        # normalisation changes the other sizes
        is_of_name = name is not None and (name, sizes[0]) == (other_name, other_sizes[0])
        if sizes != other_sizes and not is_of_name:
            raise InputError(
                f"The {split} splits of {paths[0]} and {path} must be of one text. Received: "
                f"{sizes[0]:,} sentences of {remove_contents(str(name))!r}; and "
                f"{other_sizes[0]:,} of {remove_contents(str(other_name))!r}. "
                "Fix: add --text FILE, a text for all models."
            )


def _read_split(directory: Path, split: str) -> tuple[str | None, list[int]]:
    """Return the name of the text of a model directory, if it has one, and the sizes of a split."""
    path = directory / "corpus"
    if not path.is_dir():
        if not directory.is_dir():
            check_arpa_file(directory)
        raise InputError(
            f"`--text` must be given, as {directory} has no corpus/. Received: no text. "
            "Fix: add --text FILE, a text for all models."
        )
    config, _ = read_description(directory)
    counts = EncodedCorpus.load(path).splits.get(split, {})
    sizes = [counts.get(name, 0) for name in ("sentences", *TOTALS)]
    return config.get("corpus"), sizes
