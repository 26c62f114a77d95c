"""`keras-nplm ngram` and `mix`: n-gram models estimated from counts, and mixtures of models."""

import argparse

from keras_nplm.cli import flags
from keras_nplm.cli.flags import Option
from keras_nplm.cli.parser import hide_in_help
from keras_nplm.cli.printing import print_splits
from keras_nplm.models.caches import LENGTH
from keras_nplm.training.estimate import METHODS, NGRAM_ORDER, NUM_CLASSES, estimate, import_arpa
from keras_nplm.training.mix import mix
from keras_nplm.training.options import Options, TextOptions, describe_fields

_HELP = "estimation method; kneser-ney sorts counts on the disk of --output, the others need them in memory"
_METHOD = Option("method", str, METHODS[0], _HELP, choices=METHODS)
_HELP = "number of word classes of the method class-based"
_NUM_CLASSES = Option("num_classes", int, NUM_CLASSES, _HELP, least=1)


def add(command: flags.AddCommand) -> None:
    _add_ngram_flags(command("ngram", _ngram, _show_ngram, "Estimate an n-gram model and evaluate it.", flags.RESUME))
    _add_mix_flags(command("mix", _mix, _show_mix, "Mix models, with weights fitted on the validation split."))


def _add_ngram_flags(parser: argparse.ArgumentParser) -> None:
    flags.add_output(parser)
    flags.add_flag(parser, _METHOD)
    flags.add_flag(parser, _NUM_CLASSES)
    help = "word classes to use, one word and its class per line, separated by a tab (default: classes by clustering)"
    parser.add_argument("--word-classes", metavar="FILE", help=help)
    help = "deleted interpolation with weights by the frequency of the whole context alone"
    flags.add_switch(parser, "--paper-bins", help)
    hide_in_help(parser, "word_classes", "paper_bins", "vocabulary", "config", "token", "tokenizer", "corpus", "pieces")
    arpa = parser.add_argument_group("model of a different toolkit")
    help = "ARPA file, plain or .gz, to read instead of a corpus (default: none)"
    arpa.add_argument("--arpa", metavar="FILE", help=help)
    help = "vocabulary.txt of a model to mix the ARPA file with (default: the words of the ARPA file)"
    arpa.add_argument("--vocabulary", metavar="FILE", help=help)
    data = flags.add_corpus_flags(parser)
    flags.add_flag(data, NGRAM_ORDER, default=None)
    flags.add_configuration_flags(parser, [*describe_fields(TextOptions)], groups={TextOptions: data})


def _ngram(options: argparse.Namespace) -> dict:
    # The order of an n-gram model may be 1: it is no order of a network
    of_text = argparse.Namespace(**{**vars(options), "order": None})
    chosen = flags.read_options(of_text)
    if options.arpa:
        result = _import_arpa(options, chosen)
    else:
        flags.check_left_out(options, ["vocabulary"], "without `--arpa`", "give `--arpa`.")
        corpus = flags.open_named_corpus(options)
        chosen = flags.read_options(of_text, corpus)

        result = estimate(
            options.method,
            corpus,
            options.output,
            order=options.order or chosen.network.ngram_order,
            num_classes=options.num_classes,
            word_classes=options.word_classes,
            paper_bins=options.paper_bins,
            text=chosen.text,
        )
    return result | {"directory": str(options.output)}


def _import_arpa(options: argparse.Namespace, chosen: Options) -> dict:
    of_text = ["train", "resample", "order", "pieces", "pieces_kind", "pieces_file"]
    flags.check_left_out(options, of_text, "with `--arpa`", "leave it out. The ARPA file holds a whole model.")
    is_chosen = any(word.startswith("--tok") for word in options.arguments)
    return import_arpa(
        options.arpa,
        options.output,
        vocabulary=options.vocabulary,
        tokenizer=flags.read_tokenizer(options) if is_chosen else None,
        normalise=options.normalise,
        boundary=chosen.text.boundary,
    )


def _show_ngram(result: dict) -> None:
    listed = ", ".join(f"{number:,} {order}-grams" for order, number in enumerate(result["ngrams"], start=1))
    print(listed if "seconds" not in result else f"{listed}: {result['seconds']} s, {result['cpu_seconds']} CPU s")
    print_splits(result)


def _add_mix_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directories", metavar="DIR", nargs="+", help="model directories with the same vocabulary")
    flags.add_output(parser)
    help = "fixed weights, one per model (default: fitted on the validation split)"
    parser.add_argument("--weights", metavar="W", nargs="+", type=float, help=help)
    flags.add_switch(parser, "--by-frequency", "separate weights for each bin of the context's frequency")
    for name, value, cache in (
        ("unigram", "WORDS", "unigram cache, whose words weigh 1/e after this number of words, 1 or more,"),
        ("ngram", "WORDS", "n-gram cache: words after the same context weigh more, with this decay in words,"),
        ("continuous", "FLATNESS", "continuous cache of the first network, with this flatness, 0 or more,"),
    ):
        help = f"{cache} as one more model (default: off; without {value}: chosen on the validation split)"
        given = dict(metavar=value, nargs="?", type=float, const=True, default=False)
        parser.add_argument(f"--{name}-cache", **given, help=help)
    flags.add_flag(parser, LENGTH)
    flags.add_switch(parser, "--uniform", "the uniform distribution as one more model; its weight comes last")


def _mix(options: argparse.Namespace) -> dict:
    names = "weights by_frequency unigram_cache ngram_cache continuous_cache cache_length uniform".split()
    given = {name: getattr(options, name) for name in names}
    return mix(options.directories, options.output, **given) | {"directory": str(options.output)}


def _show_mix(result: dict) -> None:
    if len(result["weights"]) > 1:
        print(f"weights for {len(result['weights'])} bins of the context's frequency")
    names = {"decay": "decay", "ngram_decay": "n-gram decay", "flatness": "flatness"}
    chosen = [f"{title} {result[name]:g}" for name, title in names.items() if name in result]
    if chosen:
        print(f"caches: {', '.join(chosen)}")
    print_splits(result)
