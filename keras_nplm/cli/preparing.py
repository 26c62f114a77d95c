"""`keras-nplm prepare`: count and encode a text once, for several models, here or on a cluster."""

import dataclasses
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from keras_nplm.cli.configurations import (
    ConfigName,
    TextFlags,
    announce_text,
    get_configuration,
)
from keras_nplm.cli.corpus import (
    NO_TEXTS,
    CorpusFlags,
    Resample,
    Texts,
    WordFile,
    open_given_corpus,
)
from keras_nplm.cli.parameters import NONE_GIVEN, SEVERAL, Output, check_left_out
from keras_nplm.cli.printing import VOCABULARY, print_lines, print_table, printed_by

_LOCAL = "local"
_HELP = (
    "local: all cores of this machine; or a runner of Apache Beam: FlinkRunner, SparkRunner, "
    "DataflowRunner"
)
Runner = Annotated[str, Parameter(help=_HELP, metavar="NAME")]
_HELP = "options of Apache Beam, such as flink_master=host:8081; all workers need the same paths"
PipelineOptions = Annotated[tuple[str, ...], SEVERAL, Parameter(help=_HELP, metavar="NAME=VALUE")]


def _print_prepared(result: dict) -> None:
    from keras_nplm.data.corpora.opening import name_directory

    print_lines(result, "vocabulary {vocabulary_size:,} types", VOCABULARY)
    print_table(result["splits"], ["tokens", "sentences", "<unk>"])
    # without validation text `train` asks for the number of epochs, and `ngram` for nothing
    name = "train" if "validation" in result["splits"] else "ngram"
    command = f"keras-nplm {name} --corpus {name_directory(result['directory'])} --output MODEL"
    print(f"the corpus is in {result['directory']}; next: {command}")


@printed_by(_print_prepared)
def prepare(
    *,
    output: Annotated[Output, Parameter(help="directory to write")],
    runner: Runner = _LOCAL,
    pipeline_options: PipelineOptions = (),
    config: Annotated[ConfigName, Parameter(show=False)] = None,
    corpus: CorpusFlags = NONE_GIVEN,
    texts: Texts = NO_TEXTS,
    vocabulary: WordFile = None,
    resample: Resample = (),
    words: TextFlags = NONE_GIVEN,
) -> dict:
    """Count and encode a text for several models.

    `train --corpus DIR` and `ngram --corpus DIR` read the result.
    """
    from keras_nplm.data.beam_runner import BeamRunner
    from keras_nplm.data.corpora.chunks import run_chunks_by
    from keras_nplm.io.remote import open_output
    from keras_nplm.io.stages import check_stages, lock_stages
    from keras_nplm.training.prepare import describe_fixed_vocabulary, prepare_corpus

    named = get_configuration(config)
    chosen = dataclasses.replace(named.options.text, **words)
    announce_text(config, chosen, words)
    chunks = None
    if runner == _LOCAL:
        given = {"pipeline_options": pipeline_options}
        check_left_out(given, "with `--runner local`", "name the runner of Apache Beam.")
    else:
        check_stages(Path(output))
        chunks = BeamRunner(runner, output, pipeline_options)
    with (
        open_output(output) as directory,
        lock_stages(directory),
        run_chunks_by(chunks),
    ):
        opened = open_given_corpus(
            corpus, texts, resample, named=named.corpus, words=words, vocabulary=vocabulary
        )
        encoded, _ = prepare_corpus(opened, directory, chosen)
    names = ("sentences", "tokens", "unk_tokens")
    splits = {}
    for split, counts in encoded.splits.items():
        splits[split] = {name: counts[name] for name in names}
    result = {"directory": output, "vocabulary_size": encoded.vocabulary_size, "splits": splits}
    return result | describe_fixed_vocabulary(opened, encoded)
