"""`keras-nplm evaluate`, `score`, `complete` and `generate`: perplexity, next words, new text."""

import dataclasses
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from keras_nplm.cli.parameters import (
    FETCHED,
    SELF_NORMALISED,
    Field,
    Model,
    Switch,
    TextFiles,
    check_left_out,
    integer,
    number,
)
from keras_nplm.cli.printing import format_figures, print_table, printed_by
from keras_nplm.data.tokenizers.registry import list_word_tokenizers
from keras_nplm.io.errors import InputError, shorten_value
from keras_nplm.io.paths import STANDARD_INPUT, is_remote
from keras_nplm.io.text import escape_controls

if TYPE_CHECKING:
    from keras_nplm.data.tokenizers.base import Tokenizer
    from keras_nplm.language_model.language_model import LanguageModel
    from keras_nplm.language_model.scoring import SentenceScore, TokenScore
    from keras_nplm.models.collectors import Collector
    from keras_nplm.models.spelling import SpellingModel

# functions that yield lines and warn of them, by the name of the tokenizer
_Watches = dict[str, Callable[[Iterable[str]], Iterator[str]]]
# names and spelling models of models, by their words
_Spellers = dict[frozenset[str], tuple[str, "SpellingModel"]]
ArpaTokenizer = Annotated[
    str | None, Parameter(choices=list_word_tokenizers(), show_default="whitespace")
]
_STARTER = "the starter model, which was trained on the Python language reference"
PresetDirectory = Annotated[
    str | None, FETCHED, Parameter(name="DIR", help="model directory", show_default=_STARTER)
]


def _print_evaluation(result: dict) -> None:
    if "models" in result:
        _print_comparison(result)
        return
    with_all = "all" in result
    print(f"{result['text']}: {format_figures(result, with_all)}")
    if reason := result.get("bits_per_character_missing"):
        print(f"bits per character: none. {reason}")
    if "spelling" in result:
        print(f"bits per character: {result['spelling']}")
    if "accuracy" in result:
        print(f"accuracy: {result['accuracy']:.2%} of the tokens were the most probable word")
    for row in result.get("orders", ()):
        tokens = f"{row['tokens']:,} tokens"
        print(f"order {row['order']}: {tokens}, perplexity {row['perplexity']:.2f}")
    if "ln_z" in result:
        pairs = result["ln_z"].items()
        print("log Z:", ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in pairs))
    if "dynamic" in result:
        print(f"dynamic: {format_figures(result['dynamic'], with_all)}")


def _print_comparison(result: dict) -> None:
    """Print a row for each model, and why columns are not comparable."""
    print(f"{result['text']}:")
    columns = [
        ("bits per character", "bits_per_character", ".3f"),
        ("bits per byte", "bits_per_byte", ".3f"),
    ]
    if "all" in result:
        columns.append(("per word", "perplexity_per_word", ".2f"))
    columns.append(("perplexity", "perplexity", ".2f"))
    if "all" in result:
        columns.append(("without <unk>", "perplexity_without_unk", ".2f"))
    columns += [("tokens", "tokens", ","), ("<unk>", "unk_tokens", ",")]
    rows = []
    for figures in result["models"]:
        values = [(figures[name], form) for _, name, form in columns]
        cells = ["none" if value is None else format(value, form) for value, form in values]
        rows.append([figures["model"], *cells])
    print_table(["", *(title for title, _, _ in columns)], rows)
    for figures in result["models"]:
        for name in ("bits_per_character_missing", "spelling"):
            if name in figures:
                print(f"bits per character of {figures['model']}: {figures[name]}")
    for sentence in result["not_comparable"]:
        print(sentence)


@printed_by(_print_evaluation)
def evaluate(
    *models: Annotated[Model, Parameter(required=True)],
    split: Annotated[
        Literal["train", "validation", "test"] | None, Parameter(show_default="test")
    ] = None,
    text: TextFiles = (),
    field: Field = None,
    tokenizer: ArpaTokenizer = None,
    accuracy: Switch = False,
    by_order: Switch = False,
    ln_z: Switch = False,
    dynamic: Switch = False,
    all: Switch = False,
) -> dict:
    """Compute the exact perplexity of a split or a text.

    Several models are compared in a table. Bits per character, and per byte of UTF-8, are
    comparable between models of different tokens, perplexities are not. A sentence names the
    options in which the models differ.

    Args:
        split: split of the corpus
        text: text files or globs, one sentence per line, or - for standard input, instead of a
            split
        tokenizer: word tokenizer for an ARPA file: the one of its training text
        accuracy: report how often the most probable word was right; this computes distributions
        by_order: report tokens and perplexity by the order of the n-gram that was found; of a
            network alone all words of the context count
        ln_z: report log Z; a self-normalised network has log Z close to 0
        dynamic: also evaluate a copy that learns from the text as it reads, with settings tuned on
            validation text
        all: print the perplexity without <unk> and that per word, too; --json always has them
    """
    from keras_nplm.language_model.arpa_models import is_arpa_file
    from keras_nplm.language_model.differences import read_warnings

    if text:
        check_left_out({"split": split}, "with `--text`", "drop one of them.")
    else:
        check_left_out({"field": field}, "without `--text`", "add --text FILE.")
    if len(models) > 1:
        given = {"accuracy": accuracy, "by_order": by_order, "ln_z": ln_z, "dynamic": dynamic}
        check_left_out(given, "with several models", "evaluate one model at a time.")
    _check_tokenizer(models, tokenizer)
    for path in models:
        if is_arpa_file(path):
            _check_arpa(path, text, dynamic)
    if len(models) > 1:
        result = _compare(models, split or "test", _Text(text, field), tokenizer)
    else:
        (path,) = models
        model, lines = _open(path, _Text(text, field), tokenizer, {})
        if dynamic:
            _ensure_dynamics(model, Path(path))
        collectors = _make_collectors(accuracy, by_order, ln_z)
        result = model.evaluate(lines or split or "test", collectors, dynamic)
        _note_spelling(path, result)
        if text:
            _warn_of_unknown(path, result)
        else:
            for warning in read_warnings(models):
                print(f"Warning: {warning}", file=sys.stderr)
    result["text"] = ", ".join(text) if text else f"{split or 'test'} split"
    if all:
        result["all"] = True
    return result


def _check_tokenizer(models: Sequence[str], tokenizer: str | None) -> None:
    """Refuse a tokenizer for model directories alone, which have their own."""
    from keras_nplm.language_model.arpa_models import is_arpa_file

    if tokenizer and not any(map(is_arpa_file, models)):
        raise InputError(
            "`--tokenizer` must be left out with a model directory, which has its own. "
            f"Received: {tokenizer}. Fix: leave it out."
        )


def _check_arpa(path: str, text: tuple[str, ...], dynamic: bool) -> None:
    """Refuse options that an ARPA file cannot serve: it holds no text, and does not learn."""
    from keras_nplm.language_model.arpa_models import check_arpa_file

    check_arpa_file(path)
    _refuse_dynamic_arpa(dynamic)
    if not text:
        raise InputError(
            f"`--text` must be given with an ARPA file, which holds no text of its own. Received: "
            f"{path} alone. Fix: add --text FILE, the text to evaluate."
        )


def _refuse_dynamic_arpa(dynamic: bool) -> None:
    fix = "leave it out, or give the directory of a network."
    check_left_out({"dynamic": dynamic}, "with an ARPA file", fix)


@dataclasses.dataclass(frozen=True)
class _Text:
    """The files of a text, if any, and the field that holds it."""

    files: tuple[str, ...]
    field: str | None


def _open(
    path: str, text: _Text, tokenizer: str | None, watches: _Watches
) -> "tuple[LanguageModel, Iterator[str] | None]":
    """Return a model, and the lines of the text that it evaluates, if any.

    Models with the same tokenizer share one of `watches`, so that a text has one warning.
    """
    from keras_nplm.data.corpora.text_files import read_files
    from keras_nplm.data.unusual_text import warn_of_tokens
    from keras_nplm.language_model.arpa_models import open_model

    if not text.files:
        return open_model(path), None
    lines = _read_first(read_files(text.files, text.field))
    model = open_model(path, arpa_tokenizer=tokenizer)
    name = model.tokenizer_name
    if name not in watches:
        watches[name] = warn_of_tokens(model.tokenizer)
    return model, watches[name](lines)


def _warn_of_unknown(path: str, figures: dict[str, Any]) -> None:
    """Warn if many tokens of a text are out of the vocabulary of a model."""
    from keras_nplm.data.unusual_text import MAX_UNKNOWN

    share = figures["unk_tokens"] / figures["tokens"]
    if share > MAX_UNKNOWN:
        print(
            f"Warning: {share:.0%} of the tokens are out of the vocabulary of {path} (<unk>), so "
            "that the perplexity looks good. Fix: compare bits per character, or evaluate text "
            "like the training text.",
            file=sys.stderr,
        )


def _note_spelling(path: str, figures: dict[str, Any], speller: str | None = None) -> None:
    """Say in the figures of an ARPA file which model spells its unknown words.

    `speller` names the model with the same words whose spelling model is used; None: the file's.
    """
    from keras_nplm.language_model.arpa_models import is_arpa_file

    if not is_arpa_file(path) or not figures["unk_tokens"]:
        return
    number = f"{figures['unk_tokens']:,} <unk>"
    model = f"a model of the words of {Path(path).name}"
    if speller is not None:
        model = f"the spelling model of {speller}, which has the same words,"
    figures["spelling"] = f"{model} spells the {number}."


def _compare(
    paths: Sequence[str], split: str, text: _Text, tokenizer: str | None
) -> dict[str, Any]:
    """Return the figures of several models on one text, and why figures are not comparable."""
    from keras_nplm.io.remote import display_url
    from keras_nplm.language_model.arpa_models import is_arpa_file
    from keras_nplm.language_model.differences import (
        TokenOptions,
        check_same_text,
        describe_incomparable,
        read_warnings,
    )

    if text.files:
        _check_read_again(text.files)
    else:
        check_same_text(paths, split)
    rows = {}
    described = {}
    watches: _Watches = {}
    spellers: _Spellers = {}
    alone = []
    # directories first, whose spelling models ARPA files with the same words get
    for path in sorted(paths, key=is_arpa_file):
        model, lines = _open(path, text, tokenizer, watches)
        speller = _share_spelling(path, model, spellers)
        figures = model.evaluate(lines or split)
        _note_spelling(path, figures, speller)
        if "spelling" in figures and speller is None:
            alone.append(path)
        if text.files:
            _warn_of_unknown(path, figures)
        rows[path] = {"model": display_url(path), **figures}
        described[path] = TokenOptions.of_model(path, model)
    sentences = describe_incomparable([described[path] for path in paths])
    if alone and not all(map(is_arpa_file, paths)):
        sentences.append(
            f"Bits per character of {', '.join(alone)} are not exactly comparable: no directory "
            "here has the same words, and with them a spelling model of <unk>."
        )
    if not text.files:
        sentences += read_warnings(paths)
    return {"models": [rows[path] for path in paths], "not_comparable": sentences}


def _share_spelling(path: str, model: "LanguageModel", spellers: _Spellers) -> str | None:
    """Give an ARPA file the spelling model of a model before it with the same words.

    Return the name of that model; None: the model keeps its own, which later ones may get.
    """
    from keras_nplm.language_model.arpa_models import is_arpa_file

    words = frozenset(model.vocabulary.words)
    if is_arpa_file(path) and words in spellers:
        speller, model.spelling = spellers[words]
        return speller
    if model.spelling is not None:
        spellers[words] = (path, model.spelling)
    return None


def _check_read_again(text: Sequence[str]) -> None:
    """Refuse a text that can be read once: several models read it one after another."""
    from keras_nplm.data.corpora.text_files import expand_patterns

    received = [STANDARD_INPUT + " (standard input)"] if list(text) == [STANDARD_INPUT] else []
    if not received:
        received = [str(path) for path in expand_patterns(text) if not path.is_file()]
    if received:
        raise InputError(
            "`--text` must be a regular file with several models, which read it one after another. "
            f"Received: {received[0]}. Fix: save it to a file."
        )


def _make_collectors(accuracy: bool, by_order: bool, ln_z: bool) -> "list[Collector]":
    from keras_nplm.models.collectors import Accuracy, PerplexityByOrder

    collectors: list[Collector] = []
    if accuracy:
        collectors.append(Accuracy())
    if by_order:
        collectors.append(PerplexityByOrder())
    if ln_z:
        # it imports Keras
        from keras_nplm.models.networks.log_z import LogZ

        collectors.append(LogZ())
    return collectors


def _ensure_dynamics(model: "LanguageModel", directory: Path) -> None:
    """Tune dynamic evaluation and write `dynamic.json`, unless the model directory has it."""
    from keras_nplm.io.paths import check_output_path
    from keras_nplm.io.remote import display_url, upload
    from keras_nplm.language_model.dynamics import DYNAMICS_FILE, save_dynamics

    if model.dynamics is not None:
        return
    path = directory / DYNAMICS_FILE
    check_output_path(path)
    tuned = model.tune_dynamic()
    for written in save_dynamics(directory, tuned):
        upload(written)
    print(
        f"Tuned on {tuned.tokens:,} tokens of validation text: {tuned.settings}. "
        f"Perplexity there: {tuned.static:.2f} static, {tuned.dynamic:.2f} dynamic. "
        f"Written to {display_url(path)}.",
        file=sys.stderr,
    )


def _read_first(lines: Iterator[str]) -> Iterator[str]:
    """Read the first line now: an unreadable file is refused before the model is loaded."""
    return itertools.chain(list(itertools.islice(lines, 1)), lines)


# Characters from which `score` takes a network through Keras, whose start pays off then: NumPy is
# as fast on a free core, but takes twice the time where BLAS has more threads than free cores.
_LONG_TEXT = 1 << 19


def _read_short_text(lines: Iterator[str]) -> tuple[Iterator[str], bool]:
    """Read the beginning of a text now; return all lines, and whether the text is short."""
    from keras_nplm.data.word_counts import batch_by_size

    beginning = next(batch_by_size(lines, _LONG_TEXT), [])
    is_short = sum(len(line) + 1 for line in beginning) < _LONG_TEXT
    return itertools.chain(beginning, lines), is_short


_SENTENCE_COLUMNS = ["ln P (nats)", "tokens", "<unk>"]
_TOKEN_COLUMNS = ["token", "ln P (nats)", "order", "sentence"]


def _print_scores(result: dict) -> None:
    from keras_nplm.data.ids import UNK

    if "columns" in result:
        print(*result["columns"], sep="\t")
    for position, sentence in enumerate(result["sentences"], start=1):
        for score in sentence if isinstance(sentence, list) else [sentence]:
            log_prob = "-inf" if score["log_prob"] is None else f"{score['log_prob']:.4f}"
            if "token" in score:
                order = UNK if score["is_unknown"] else score["order"]
                print(escape_controls(score["token"]), log_prob, order, position, sep="\t")
            else:
                print(log_prob, score["tokens"], score["unk_tokens"], sep="\t")


@printed_by(_print_scores)
def score(
    model: Model,
    file: Annotated[
        str, FETCHED, Parameter(name="FILE", metavar="FILE", show_default="standard input")
    ] = STANDARD_INPUT,
    /,
    *,
    tokenizer: ArpaTokenizer = None,
    self_normalised: Annotated[Switch, Parameter(help=SELF_NORMALISED)] = False,
    tokens: Switch = False,
    dynamic: Switch = False,
    header: bool = True,
    field: Field = None,
) -> dict:
    """Compute log-probabilities of sentences, in nats.

    Prints a line per sentence: log-probability, tokens, out-of-vocabulary tokens. A blank line has
    0 tokens. With the boundary text, a context includes the lines before, up to a blank line. With
    the boundary stream, each line begins without context, unlike in `evaluate`.

    Args:
        file: text file, one sentence per line, or - for standard input
        tokenizer: word tokenizer for an ARPA file: the one of its training text
        tokens: print a line per token: token, log-probability, n-gram order or <unk>, number of the
            sentence
        dynamic: a copy of the model learns from each sentence before the next is scored
        header: print the names of the columns first
    """
    from keras_nplm.data.corpora.text_files import read_files, read_lines
    from keras_nplm.data.unusual_text import warn_of_tokens
    from keras_nplm.language_model.arpa_models import is_arpa_file, open_model

    _check_tokenizer([model], tokenizer)
    if is_arpa_file(model):
        _refuse_dynamic_arpa(dynamic)
    if self_normalised:
        check_left_out({"dynamic": dynamic}, "with `--self-normalised`", "leave one of them out.")
    if file == STANDARD_INPUT:
        lines = _read_first(read_files([STANDARD_INPUT], field))
    else:
        lines = _read_first(read_lines([Path(file)], field))
    if dynamic:
        opened = open_model(model)
        _ensure_dynamics(opened, Path(model))
    else:
        lines, is_short = _read_short_text(lines)
        opened = open_model(
            model,
            self_normalised=self_normalised,
            as_arrays=is_short,
            arpa_tokenizer=tokenizer,
        )
    if self_normalised:
        print("Scores are off by log Z: see `evaluate --ln-z`.", file=sys.stderr)
    lines = warn_of_tokens(opened.tokenizer, is_scored=True)(lines)
    result: dict[str, Any] = {}
    if header:
        result["columns"] = _TOKEN_COLUMNS if tokens else _SENTENCE_COLUMNS
    if tokens:
        scored = opened.score_tokens(lines, dynamic=dynamic)
        result["sentences"] = ([_list_score(token) for token in sentence] for sentence in scored)
    else:
        result["sentences"] = map(_list_score, opened.score(lines, dynamic=dynamic))
    return result


def _list_score(score: "SentenceScore | TokenScore") -> dict:
    values = dataclasses.asdict(score)
    if not math.isfinite(score.log_prob):
        values["log_prob"] = None  # JSON has no infinity
    return values


def _print_next_words(result: dict) -> None:
    for context, words in result.items():
        print(f"{escape_controls(context)} …")
        cells = [_format_probability(probability) for probability in words.values()]
        width = max(map(len, cells), default=0)
        for word, cell in zip(words, cells, strict=True):
            print(f"  {cell:>{width}} {escape_controls(word)}")


def _format_probability(probability: float) -> str:
    """Return a probability with four decimals, a small one with two significant digits."""
    return f"{probability:.1e}" if 0 < probability < 0.001 else f"{probability:.4f}"


@printed_by(_print_next_words)
def complete(
    *words: Annotated[str, Parameter(name="[DIR] CONTEXT", required=True)],
    prefix: Switch = False,
    top_k: Annotated[int, integer(least=1, metavar="K")] = 5,
) -> dict:
    """Print the most probable next words of a context.

    Args:
        words: model directory, and contexts such as "the result of"; without a directory the
            starter model, which was trained on the Python language reference
        prefix: complete the last, unfinished word of each CONTEXT, as in "the val"; prints
            P(word | words before it), which does not depend on the prefix
        top_k: number of words per context
    """
    from keras_nplm.io.remote import fetch
    from keras_nplm.language_model.completion import split_prompt
    from keras_nplm.language_model.language_model import LanguageModel

    directory, contexts = _split_directory(words)
    path = fetch(directory) if directory else _find_starter()
    model = LanguageModel.load(path, as_arrays=True)
    predict = model.complete_prefix if prefix else model.next_words
    found = {context: dict(predict(context, top_k)) for context in contexts}
    for context, words_of_context in found.items():
        if prefix and not words_of_context:
            unfinished = split_prompt(model.codec, context)[1]
            print(f"No word of the vocabulary begins with {unfinished!r}.", file=sys.stderr)
    return found


def _split_directory(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the model directory, None if it is left out, and the contexts."""
    first, *others = words
    _refuse_late_directory(first, others)
    # a long text is no name of a file: `Path.exists` would fail
    is_text = not (os.path.exists(first) or is_remote(first)) and len(first.split()) != 1
    if others and not is_text:
        return first, tuple(others)
    if os.path.isdir(first) or is_remote(first):
        raise InputError(
            f"`CONTEXT` must follow the model directory {first}. Received: none. Fix: add it, as "
            'in "the cat".'
        )
    return None, words


def _refuse_late_directory(first: str, others: Sequence[str]) -> None:
    """Refuse contexts before the model directory: the starter model would answer."""
    if is_remote(first) or os.path.isdir(first):
        return
    for word in others:
        if is_remote(word) or os.path.isfile(os.path.join(word, "config.json")):
            raise InputError(
                f"The model directory must be the first argument. Received: {word}, after "
                f'{shorten_value(first)}. Fix: keras-nplm complete {word} "{first:.50}".'
            )


def _find_starter() -> Path:
    from keras_nplm.language_model.presets import find_preset

    print(
        "No model directory is given: using the starter model of the Python language reference.",
        file=sys.stderr,
    )
    return find_preset("starter")


def _print_text(result: dict) -> None:
    print(escape_controls(result["whole"]))


_ALL_WORDS = Parameter(show_default="all words")


@printed_by(_print_text)
def generate(
    directory: PresetDirectory = None,
    /,
    *,
    prompt: Annotated[str, Parameter(metavar="TEXT")] = "",
    num_words: Annotated[int, integer(least=1, below=1_000_001, example=50)] = 50,
    seed: Annotated[int, integer(least=0)] = 0,
    temperature: Annotated[float, number(least=0, example=1.0)] = 1.0,
    top_k: Annotated[int | None, integer(least=1, example=40, metavar="K"), _ALL_WORDS] = None,
) -> dict:
    """Generate text: sample word after word from the model.

    Args:
        prompt: text to continue; after a space at its end a new word begins
        num_words: number of words
        seed: random seed of the text
        temperature: sampling temperature; below 1 frequent words become more probable, 0 takes the
            most probable word
        top_k: most probable words to sample from
    """
    from keras_nplm.language_model.language_model import LanguageModel

    model = LanguageModel.load(directory or _find_starter(), as_arrays=True)
    text = model.generate(prompt, num_words, seed=seed, temperature=temperature, top_k=top_k)
    whole = _continue_prompt(prompt, text, model.tokenizer)
    return {"prompt": prompt, "text": text, "whole": whole}


def _continue_prompt(prompt: str, text: str, tokenizer: "Tokenizer") -> str:
    """Return a prompt as it was given, and the text after it, without white space at its end."""
    text = text.rstrip()
    if not prompt or not text or text[0].isspace() or tokenizer.ends_with_space(prompt):
        return prompt + text
    return prompt + tokenizer.separator + text
