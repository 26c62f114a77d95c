"""`keras-nplm add-words`: add out-of-vocabulary words to a trained network."""

import argparse

from keras_nplm.cli.flags import AddCommand, add_directory, add_flag, add_output, check_network
from keras_nplm.io.options import Option
from keras_nplm.io.text import escape_controls

_MOST_PRINTED = 20

RULE = Option(
    name="rule",
    type=str,
    default="likelihood",
    choices=("likelihood", "expectation"),
    help="rule for the new words' vectors: likelihood uses the words before and after, expectation (the paper's) those "
    "before",
)
PRIOR_TOKENS = Option(
    name="prior_tokens",
    type=int,
    default=10_000,
    least=1,
    help="tokens of prior text without the new words, which shrinks their probability",
)
_MIN_COUNT = Option(name="min_count", type=int, default=1, least=1, help="least count of a new word in the text")


def add(command: AddCommand) -> None:
    """Add the command."""
    help = "Add out-of-vocabulary words to a network from a text that has them, without training."
    parser = command("add-words", _add_words, _show_add_words, help)
    add_directory(parser)
    help = "text files or globs with the new words (required)"
    parser.add_argument("--text", metavar="FILE", nargs="+", required=True, help=help)
    help = "words to add (default: all out-of-vocabulary words of the text)"
    parser.add_argument("--words", metavar="W", nargs="+", help=help)
    add_flag(parser, _MIN_COUNT)
    add_flag(parser, RULE)
    add_flag(parser, PRIOR_TOKENS)
    add_output(parser)


def _add_words(options: argparse.Namespace) -> dict:
    from keras_nplm.data.corpora.text_files import expand_patterns, read_lines
    from keras_nplm.data.unusual_text import warn_of_tokens
    from keras_nplm.io.files import write_json
    from keras_nplm.io.remote import open_output
    from keras_nplm.language_model.directory import lock_new_directory
    from keras_nplm.language_model.language_model import LanguageModel

    with open_output(options.output) as target, lock_new_directory(target):
        sentences = list(read_lines(expand_patterns(options.text)))
        language_model = LanguageModel.load(options.directory)
        check_network(language_model, "add-words")
        sentences = list(warn_of_tokens(language_model.tokenizer_name)(sentences))

        from keras_nplm.language_model.new_words import add_words, count_new_words

        words, min_count = options.words, options.min_count
        rules = dict(rule=options.rule, prior_tokens=options.prior_tokens)
        grown = add_words(language_model, sentences, words, min_count, **rules)
        counts = count_new_words(language_model, sentences, words, min_count)
        result = {"added_words": counts, "rule": options.rule, "vocabulary_size": len(grown.vocabulary)}
        write_json(target / "metrics.json", result)
        grown.save(target)  # writes config.json last: a directory without one is incomplete
    return result | {"directory": options.output}


def _show_add_words(result: dict) -> None:
    counts = result["added_words"]
    printed = ", ".join(f"{escape_controls(word)} ({count})" for word, count in list(counts.items())[:_MOST_PRINTED])
    more = f" and {len(counts) - _MOST_PRINTED:,} more" if len(counts) > _MOST_PRINTED else ""
    print(f"added {len(counts):,} words (count in the text): {printed}{more}")
    print(f"the model is in {result['directory']}; next: keras-nplm evaluate {result['directory']} --text FILE")
