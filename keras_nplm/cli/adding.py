"""`keras-nplm add-words`: words of a text join the vocabulary of a network."""

import argparse
from pathlib import Path

from keras_nplm.cli.options import AddCommand, directory, output
from keras_nplm.data.corpora.text_files import expand_patterns, read_lines
from keras_nplm.io.files import write_json
from keras_nplm.language_model.directory import check_output_directory
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.new_words import PRIOR_TOKENS, RULES, add_words, count_new_words

_SHOWN = 20


def add(command: AddCommand) -> None:
    """Add the command."""
    help = "Give a network words that its vocabulary lacks, from a text that has them, without training."
    parser = command("add-words", _add_words, _show_add_words, help)
    directory(parser)
    parser.add_argument("--text", metavar="FILE", nargs="+", required=True, help="text files or globs that have them")
    parser.add_argument("--words", metavar="W", nargs="+", help="the words; default: all that the vocabulary lacks")
    parser.add_argument("--min-count", type=int, default=1, help="how often the text must have them; default: 1")
    rules = "likelihood: by what stands before and after; expectation: the paper's, by what stands before"
    parser.add_argument("--rule", choices=RULES, default=RULES[0], help=f"{rules}; default: {RULES[0]}")
    prior = f"tokens that count as read before without the words; default: {PRIOR_TOKENS:,}"
    parser.add_argument("--prior-tokens", type=int, default=PRIOR_TOKENS, help=prior)
    output(parser)


def _add_words(options: argparse.Namespace) -> dict:
    target = Path(options.output)
    check_output_directory(target)
    language_model = LanguageModel.load(options.directory)
    sentences = list(read_lines(expand_patterns(options.text)))
    grown = add_words(
        language_model,
        sentences,
        options.words,
        options.min_count,
        rule=options.rule,
        prior_tokens=options.prior_tokens,
    )
    added = count_new_words(language_model, sentences, options.words, options.min_count)
    told = {"added_words": added, "rule": options.rule, "vocabulary_size": len(grown.vocabulary)}
    write_json(target / "metrics.json", told)
    grown.save(target)  # last, its config.json
    return told | {"directory": str(target)}


def _show_add_words(result: dict) -> None:
    added = result["added_words"]
    shown = ", ".join(f"{word} ({count})" for word, count in list(added.items())[:_SHOWN])
    more = f" and {len(added) - _SHOWN:,} more" if len(added) > _SHOWN else ""
    print(f"{len(added):,} words, and how often they were met: {shown}{more}")
    print(f"the model is in {result['directory']}; next: keras-nplm evaluate {result['directory']} --text FILE")
