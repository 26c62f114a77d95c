"""`keras-nplm adapt` and `add-words`: a network learns from a text, or gets its words."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from keras_nplm.cli.parameters import (
    NONE_GIVEN,
    OPTIONS,
    SEVERAL,
    Directory,
    Field,
    Given,
    Output,
    TextFiles,
    flatten,
)
from keras_nplm.cli.printing import NEXT, print_lines, printed_by
from keras_nplm.io.text import escape_controls
from keras_nplm.language_model.options import AdaptationOptions, NewWordOptions

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel

    AdaptationFlags = Given
    NewWordFlags = Given
else:
    AdaptationFlags = flatten({AdaptationOptions: OPTIONS})
    NewWordFlags = flatten({NewWordOptions: OPTIONS})

_MOST_PRINTED = 20


@contextlib.contextmanager
def _open(
    directory: str, text: tuple[str, ...], field: str | None, output: str
) -> Iterator[tuple[Path, "LanguageModel", list[str]]]:
    """Lock the output directory in the block; yield it, the network and the lines of the text."""
    from keras_nplm.data.corpora.text_files import read_files
    from keras_nplm.data.unusual_text import warn_of_tokens
    from keras_nplm.io.remote import open_output
    from keras_nplm.io.stages import lock_new_directory
    from keras_nplm.language_model.language_model import LanguageModel

    with open_output(output) as target, lock_new_directory(target):
        lines = list(read_files(text, field))
        language_model = LanguageModel.load(directory)
        warn = warn_of_tokens(language_model.tokenizer)
        yield target, language_model, list(warn(lines))


def _save(target: Path, language_model: "LanguageModel", result: dict) -> None:
    from keras_nplm.io.files import write_json

    write_json(target / "metrics.json", result)
    language_model.save(target)


def _print_adaptation(result: dict) -> None:
    learned = (
        "adapted on {tokens:,} tokens: learning rate {rate:.3g}, {epochs} epochs, {share:.0%} of "
        "the change of the weights"
    )
    if not result["adaptation"]["rate"]:
        learned = (
            "{tokens:,} tokens did not lower the perplexity of the held-out lines: the model is "
            "unchanged"
        )
    print_lines(
        result["adaptation"],
        learned,
        "held-out lines: perplexity {before:.2f} before, {after:.2f} after, over "
        "{held_out_tokens:,} tokens, {held_out_unk_tokens:,} of them <unk>",
    )
    old = "{old_validation[before]:.2f} before, {old_validation[after]:.2f} after"
    print_lines(result, f"old validation: perplexity {old}", NEXT)


@printed_by(_print_adaptation)
def adapt(
    directory: Directory,
    /,
    *,
    text: TextFiles,
    field: Field = None,
    options: AdaptationFlags = NONE_GIVEN,
    output: Output,
) -> dict:
    """Adapt a network to a text by fine-tuning.

    The result is a personal model from a general one. Training ends by early stopping.

    Args:
        text: text files or globs, one sentence per line, oldest text first, or - for standard
            input
    """
    from keras_nplm.language_model.directory import read_metrics
    from keras_nplm.models.evaluation import evaluate

    with _open(directory, text, field, output) as (target, general, lines):
        adapted = general.adapt(lines, **options)
        result: dict[str, Any] = {"adaptation": dataclasses.asdict(cast(Any, adapted.adaptation))}
        if general.corpus is not None and "validation" in general.corpus.splits:
            ids = general.corpus.ids("validation")
            before = read_metrics(Path(directory)).get("validation")
            if not before:
                before = evaluate(general.model, ids, boundary=general.boundary)
            after = evaluate(adapted.model, ids, boundary=general.boundary)
            perplexities = {"before": before["perplexity"], "after": after["perplexity"]}
            result["old_validation"] = perplexities
        _save(target, adapted, result)
    result["directory"] = output
    return result


def _print_added_words(result: dict) -> None:
    counts = result["added_words"]
    listed = [f"{escape_controls(word)} ({count})" for word, count in counts.items()]
    more = f" and {len(listed) - _MOST_PRINTED:,} more" if len(listed) > _MOST_PRINTED else ""
    printed = ", ".join(listed[:_MOST_PRINTED])
    print(f"added {len(counts):,} words (count in the text): {printed}{more}")
    print_lines(
        result, "the model is in {directory}; next: keras-nplm evaluate {directory} --text FILE"
    )


@printed_by(_print_added_words)
def add_words(
    directory: Directory,
    /,
    *,
    text: TextFiles,
    field: Field = None,
    words: Annotated[
        list[str] | None,
        SEVERAL,
        Parameter(metavar="W", show_default="all out-of-vocabulary words of the text"),
    ] = None,
    options: NewWordFlags = NONE_GIVEN,
    output: Output,
) -> dict:
    """Add out-of-vocabulary words to a network from a text that has them, without training.

    Args:
        text: text files or globs with the new words; - for standard input
        words: words to add
    """
    from keras_nplm.language_model import new_words

    chosen = NewWordOptions(**options)
    with _open(directory, text, field, output) as (target, language_model, sentences):
        grown = new_words.add_words(
            language_model,
            sentences,
            words,
            chosen.min_count,
            rule=chosen.rule,
            prior_tokens=chosen.prior_tokens,
        )
        counts = new_words.count_new_words(language_model, sentences, words, chosen.min_count)
        size = len(grown.vocabulary)
        result: dict[str, Any] = {
            "added_words": counts,
            "rule": chosen.rule,
            "vocabulary_size": size,
        }
        _save(target, grown, result)
    result["directory"] = output
    return result
