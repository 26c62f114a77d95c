"""`keras-nplm prepare`: count and encode a text once, for several models, on this machine or on a cluster."""

import argparse
from pathlib import Path

from keras_nplm.cli import flags
from keras_nplm.cli.flags import Option
from keras_nplm.cli.parser import hide_in_help
from keras_nplm.data.beam_runner import BeamRunner
from keras_nplm.data.corpora.chunks import run_chunks_by
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.remote import open_output
from keras_nplm.training.options import TextOptions, describe_fields
from keras_nplm.training.prepare import check_prepared_directory, prepare_corpus

_LOCAL = "local"
_HELP = "local: all cores of this machine; or a runner of Apache Beam: FlinkRunner, SparkRunner, DataflowRunner"
_RUNNER = Option("runner", str, _LOCAL, _HELP, metavar="NAME")


def add(command: flags.AddCommand) -> None:
    help = "Count and encode a text for several models: `train --corpus DIR` and `ngram --corpus DIR` read the result."
    parser = command("prepare", _prepare, _show_prepare, help, flags.RESUME)
    flags.add_output(parser, "directory to write")
    flags.add_flag(parser, _RUNNER)
    help = "options of Apache Beam, such as flink_master=host:8081; all workers need the same paths (default: none)"
    parser.add_argument("--pipeline-options", metavar="NAME=VALUE", nargs="+", default=(), help=help)
    data = flags.add_corpus_flags(parser)
    flags.add_configuration_flags(parser, [*describe_fields(TextOptions)], groups={TextOptions: data})
    hide_in_help(parser, "config")


def _prepare(options: argparse.Namespace) -> dict:
    text = flags.read_options(options).text
    runner = None
    if options.runner != _LOCAL:
        check_prepared_directory(Path(options.output))
        runner = BeamRunner(options.runner, options.output, options.pipeline_options)
    else:
        flags.check_left_out(options, ["pipeline_options"], "with `--runner local`", "name the runner of Apache Beam.")
    with open_output(options.output, resume=True) as directory, lock_directory(directory), run_chunks_by(runner):
        check_prepared_directory(directory)
        corpus = flags.open_named_corpus(options)
        encoded, vocabulary = prepare_corpus(corpus, directory, text)
    names = ("sentences", "tokens", "unk_tokens")
    splits = {split: {name: counts[name] for name in names} for split, counts in encoded.splits.items()}
    return {"directory": options.output, "vocabulary_size": len(vocabulary), "splits": splits}


def _show_prepare(result: dict) -> None:
    print(f"vocabulary {result['vocabulary_size']:,} types")
    for split, counts in result["splits"].items():
        unknown = f"{counts['unk_tokens']:,} <unk>"
        print(f"{split:10} {counts['tokens']:,} tokens in {counts['sentences']:,} sentences, {unknown}")
    directory = result["directory"]
    print(f"the corpus is in {directory}; next: keras-nplm train --corpus {directory} --output MODEL")
