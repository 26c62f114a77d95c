"""`keras-nplm adapt` and `add-words`: a trained network learns from a text of the user, or gets its words."""

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from keras_nplm.cli.flags import AddCommand, Option, add_directory, add_files, add_flag, add_output
from keras_nplm.data.corpora.text_files import read_files
from keras_nplm.data.unusual_text import warn_of_tokens
from keras_nplm.io.files import write_json
from keras_nplm.io.remote import open_output
from keras_nplm.io.text import escape_controls
from keras_nplm.language_model.adaptation import EPOCHS, HELD_OUT, SEED
from keras_nplm.language_model.directory import lock_new_directory, read_metrics
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.new_words import PRIOR_TOKENS, RULES, add_words, count_new_words
from keras_nplm.models.evaluation import evaluate

_MOST_PRINTED = 20
_HELP = "rule for the new vectors: likelihood uses the words before and after, expectation (the paper's) those before"
_RULE = Option("rule", str, RULES[0], _HELP, choices=RULES)
_HELP = "tokens of prior text without the new words, which shrinks their probability"
_PRIOR_TOKENS = Option("prior_tokens", int, PRIOR_TOKENS, _HELP, least=1)
_MIN_COUNT = Option("min_count", int, 1, "least count of a new word in the text", least=1)


def add(command: AddCommand) -> None:
    help = "Adapt a network to a text: a personal model from a general one, by fine-tuning with early stopping."
    parser = command("adapt", _adapt, _show_adapt, help)
    add_directory(parser)
    help = "text files or globs, one sentence per line, in the order of their writing, or - for standard input"
    add_files(parser, "--text", help, True)
    for option in (HELD_OUT, EPOCHS, SEED):
        add_flag(parser, option)
    add_output(parser)

    help = "Add out-of-vocabulary words to a network from a text that has them, without training."
    parser = command("add-words", _add_words, _show_add_words, help)
    add_directory(parser)
    add_files(parser, "--text", "text files or globs with the new words; - for standard input", True)
    help = "words to add (default: all out-of-vocabulary words of the text)"
    parser.add_argument("--words", metavar="W", nargs="+", help=help)
    for option in (_MIN_COUNT, _RULE, _PRIOR_TOKENS):
        add_flag(parser, option)
    add_output(parser)


@contextlib.contextmanager
def _open(options: argparse.Namespace) -> Iterator[tuple[Path, LanguageModel, list[str]]]:
    """Lock the output directory within the block; yield it, the network and the lines of the text."""
    with open_output(options.output) as target, lock_new_directory(target):
        lines = list(read_files(options.text))
        language_model = LanguageModel.load(options.directory)
        yield target, language_model, list(warn_of_tokens(language_model.tokenizer)(lines))


def _save(target: Path, language_model: LanguageModel, result: dict) -> None:
    write_json(target / "metrics.json", result)
    language_model.save(target)  # writes config.json last: a directory without one is incomplete


def _adapt(options: argparse.Namespace) -> dict:
    with _open(options) as (target, general, lines):
        given = {name: getattr(options, name) for name in ("held_out", "epochs", "seed")}
        adapted = general.adapt(lines, **given)
        result = {"adaptation": dataclasses.asdict(adapted.adaptation)}
        if general.corpus is not None:
            result["old_validation"] = _evaluate_old_text(general, adapted, Path(options.directory))
        _save(target, adapted, result)
    return result | {"directory": options.output}


def _evaluate_old_text(general: LanguageModel, adapted: LanguageModel, directory: Path) -> dict:
    ids, boundary = general.corpus.ids("validation"), general.boundary
    before = read_metrics(directory, missing_ok=True).get("validation") or evaluate(general.model, ids, boundary)
    return {"before": before["perplexity"], "after": evaluate(adapted.model, ids, boundary)["perplexity"]}


def _show_adapt(result: dict) -> None:
    chosen = result["adaptation"]
    if chosen["rate"]:
        print(
            f"adapted on {chosen['tokens']:,} tokens: learning rate {chosen['rate']:.3g}, {chosen['epochs']} epochs, "
            f"{chosen['share']:.0%} of the change of the weights"
        )
    else:
        print(f"{chosen['tokens']:,} tokens did not lower the perplexity of the held-out lines: the model is unchanged")
    unknown = f", {chosen['held_out_unk_tokens']:,} of them <unk> (see add-words)"
    print(
        f"held-out lines     perplexity {chosen['before']:.2f} before, {chosen['after']:.2f} after, over "
        f"{chosen['held_out_tokens']:,} tokens{unknown if chosen['held_out_unk_tokens'] else ''}"
    )
    if old := result.get("old_validation"):
        print(f"old validation     perplexity {old['before']:.2f} before, {old['after']:.2f} after")
    print(f'the model is in {result["directory"]}; next: keras-nplm complete {result["directory"]} "a context"')


def _add_words(options: argparse.Namespace) -> dict:
    with _open(options) as (target, language_model, sentences):
        words, min_count = options.words, options.min_count
        rules = dict(rule=options.rule, prior_tokens=options.prior_tokens)
        grown = add_words(language_model, sentences, words, min_count, **rules)
        counts = count_new_words(language_model, sentences, words, min_count)
        result = {"added_words": counts, "rule": options.rule, "vocabulary_size": len(grown.vocabulary)}
        _save(target, grown, result)
    return result | {"directory": options.output}


def _show_add_words(result: dict) -> None:
    counts = result["added_words"]
    printed = ", ".join(f"{escape_controls(word)} ({count})" for word, count in list(counts.items())[:_MOST_PRINTED])
    more = f" and {len(counts) - _MOST_PRINTED:,} more" if len(counts) > _MOST_PRINTED else ""
    print(f"added {len(counts):,} words (count in the text): {printed}{more}")
    print(f"the model is in {result['directory']}; next: keras-nplm evaluate {result['directory']} --text FILE")
