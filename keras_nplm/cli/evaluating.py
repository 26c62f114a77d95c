"""`keras-nplm evaluate` and `score`: perplexity of texts, log-probabilities of sentences."""

import dataclasses
import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from keras_nplm.cli.parameters import (
    SELF_NORMALISED,
    Field,
    Model,
    Switch,
    TextFiles,
    check_left_out,
)
from keras_nplm.cli.printing import print_lines, print_table, printed_by
from keras_nplm.data.tokenizers.registry import list_word_tokenizers
from keras_nplm.io.paths import STANDARD_INPUT
from keras_nplm.io.text import escape_controls

if TYPE_CHECKING:
    from keras_nplm.language_model.scoring import SentenceScore, TokenScore
    from keras_nplm.models.collectors import Collector

ArpaTokenizer = Annotated[
    str | None, Parameter(choices=list_word_tokenizers(), show_default="whitespace")
]
_LN_Z = (
    "log Z: mean {ln_z[mean]:.3f}, standard deviation {ln_z[standard_deviation]:.3f}, mean "
    "absolute {ln_z[mean_absolute]:.3f}"
)


def _print_evaluation(result: dict) -> None:
    models = {figures["model"]: figures for figures in result.get("models", ())}
    if models:
        print(f"{result['text']}:")
    models = models or {result["text"]: result}
    rows = dict(models)
    if "dynamic" in result:
        rows["dynamic"] = {"accuracy": None, **result["dynamic"]}
    titles = ["bits per character", "bits per byte", "perplexity", "tokens", "<unk>", "accuracy"]
    if "all" in result:
        titles[2:3] = ["per word", "perplexity", "without <unk>"]
    print_table(rows, titles)
    for model, figures in models.items():
        steps = {"normalised": ", ".join(figures["normalised"])} if "normalised" in figures else {}
        print_lines(
            {"model": model, **figures, **steps},
            "bits per character of {model}: none. {bits_per_character_missing}",
            "bits per character of {model}: they are of the normalised text ({normalised})",
        )
    if "orders" in result:
        print_table(
            {f"order {row['order']}": row for row in result["orders"]}, ["tokens", "perplexity"]
        )
    print_lines(result, _LN_Z)
    for sentence in result.get("not_comparable", ()):
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
    options in which the models differ. The <unk> of an ARPA file is spelled by a model of its
    words.

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
            validation text, which the model directory keeps
        all: print the perplexity without <unk> and that per word, too; --json always has them
    """
    from keras_nplm.language_model.comparison import compare
    from keras_nplm.models.collectors import Accuracy, PerplexityByOrder

    if text:
        check_left_out({"split": split}, "with `--text`", "drop one of them.")
    if len(models) > 1:
        given = {"accuracy": accuracy, "by_order": by_order, "ln_z": ln_z, "dynamic": dynamic}
        check_left_out(given, "with several models", "evaluate one model at a time.")
    _check_tokenizer(models, tokenizer)
    collectors: list[Collector] = []
    if accuracy:
        collectors.append(Accuracy())
    if by_order:
        collectors.append(PerplexityByOrder())
    if ln_z:
        from keras_nplm.models.networks.log_z import LogZ  # imports Keras

        collectors.append(LogZ())
    result = compare(
        models,
        split or "test",
        collectors,
        files=text,
        field=field,
        dynamic=dynamic,
        arpa_tokenizer=tokenizer,
    )
    if len(models) == 1:
        (result,) = result["models"]
        del result["model"]
    result["text"] = ", ".join(text) if text else f"{split or 'test'} split"
    return result | ({"all": True} if all else {})


def _check_tokenizer(models: Sequence[str], tokenizer: str | None) -> None:
    from keras_nplm.language_model.arpa_models import is_arpa_file

    if not any(map(is_arpa_file, models)):
        fix = "leave it out. The directory has its own."
        check_left_out({"tokenizer": tokenizer}, "with a model directory", fix)


# Characters from which `score` takes a network through Keras, whose start pays off then: NumPy is
# as fast on a free core, but takes twice the time where BLAS has more threads than free cores.
_LONG_TEXT = 1 << 19
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
        str, Parameter(name="FILE", metavar="FILE", show_default="standard input")
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
    from keras_nplm.data.corpora.text_files import read_files
    from keras_nplm.data.unusual_text import warn_of_tokens
    from keras_nplm.data.word_counts import batch_by_size
    from keras_nplm.language_model.comparison import ensure_dynamics
    from keras_nplm.language_model.language_model import LanguageModel

    _check_tokenizer([model], tokenizer)
    if self_normalised:
        check_left_out({"dynamic": dynamic}, "with `--self-normalised`", "leave one of them out.")
    lines = read_files([file], field)
    beginning = next(batch_by_size(lines, _LONG_TEXT), [])
    is_short = sum(len(line) + 1 for line in beginning) < _LONG_TEXT
    opened = LanguageModel.load(
        model,
        self_normalised=self_normalised,
        as_arrays=is_short and not dynamic,
        arpa_tokenizer=tokenizer,
    )
    if dynamic:
        ensure_dynamics(opened, Path(model))
    if self_normalised:
        print("Scores are off by log Z: see `evaluate --ln-z`.", file=sys.stderr)
    lines = warn_of_tokens(opened.tokenizer, is_scored=True)(itertools.chain(beginning, lines))
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
