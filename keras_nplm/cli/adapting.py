"""`keras-nplm adapt`: fine-tune a trained network on a text of the user."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from keras_nplm.cli.flags import AddCommand, add_directory, add_flag, add_output, check_network
from keras_nplm.language_model.adaptation import EPOCHS, HELD_OUT, SEED

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel


def add(command: AddCommand) -> None:
    """Add the command."""
    help = "Adapt a network to a text: a personal model from a general one, by fine-tuning with early stopping."
    parser = command("adapt", _adapt, _show_adapt, help)
    add_directory(parser)
    help = "text files or globs, one sentence per line, in the order in which they were written (required)"
    parser.add_argument("--text", metavar="FILE", nargs="+", required=True, help=help)
    for option in (HELD_OUT, EPOCHS, SEED):
        add_flag(parser, option)
    add_output(parser)


def _adapt(options: argparse.Namespace) -> dict:
    from keras_nplm.data.corpora.text_files import expand_patterns, read_lines
    from keras_nplm.data.unusual_text import warn_of_tokens
    from keras_nplm.io.files import write_json
    from keras_nplm.io.remote import open_output
    from keras_nplm.language_model.directory import lock_new_directory
    from keras_nplm.language_model.language_model import LanguageModel

    with open_output(options.output) as target, lock_new_directory(target):
        lines = list(read_lines(expand_patterns(options.text)))
        general = LanguageModel.load(options.directory)
        check_network(general, "adapt")
        adapted = general.adapt(
            list(warn_of_tokens(general.tokenizer_name)(lines)),
            held_out=options.held_out,
            epochs=options.epochs,
            seed=options.seed,
        )
        result = {"adaptation": dataclasses.asdict(adapted.adaptation)}
        if general.corpus is not None:
            result["old_validation"] = _evaluate_old_text(general, adapted, Path(options.directory))
        write_json(target / "metrics.json", result)
        adapted.save(target)  # writes config.json last: a directory without one is incomplete
    return result | {"directory": options.output}


def _evaluate_old_text(general: "LanguageModel", adapted: "LanguageModel", directory: Path) -> dict:
    """Return the perplexity of the general model's validation split before and after; read, if it was measured."""
    from keras_nplm.language_model.directory import read_metrics
    from keras_nplm.models.evaluation import evaluate

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
    if "old_validation" in result:
        old = result["old_validation"]
        print(f"old validation     perplexity {old['before']:.2f} before, {old['after']:.2f} after")
    print(f'the model is in {result["directory"]}; next: keras-nplm complete {result["directory"]} "a context"')
