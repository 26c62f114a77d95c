"""`keras-nplm rescore`: rescore and re-rank the N-best lists of a decoder."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from cyclopts import Parameter

from keras_nplm.cli.parameters import (
    FETCHED_FILE,
    SELF_NORMALISED,
    SEVERAL,
    Called,
    Model,
    Switch,
    check_left_out,
    read_input,
    read_output,
)
from keras_nplm.cli.printing import printed_by
from keras_nplm.data.tokenizers.registry import get_tokenizer, list_word_tokenizers
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.text import split_fields
from keras_nplm.rescoring.ranking import FEATURE_NAME, name_features

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel
    from keras_nplm.rescoring.formats import LineFormat
    from keras_nplm.rescoring.lists import NBestFile
    from keras_nplm.rescoring.tuning import WordErrors

Format = Literal["moses", "kaldi", "tsv"]
_BY_FIRST_LINE = "by the first line, tsv by the file's name"
_ALL_ONE = (
    "1 for the decoder's score or the total of the last rescoring, without both for each feature, "
    f"and 1 for {FEATURE_NAME}"
)
# as in regression, where fewer than ten observations for each fitted number overfit
_LISTS_PER_WEIGHT = 10
_STANDARD_OUTPUT = "standard output; with --json no file"


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Features:
    """The features of hypotheses: those of files, the model's own, and the weights of all."""

    scores: Annotated[tuple[str, ...], SEVERAL, Parameter(metavar="NAME=FILE")] = ()
    """Kaldi archives of costs, -ln P, each with the name of its feature"""

    weights: Annotated[
        tuple[str, ...], SEVERAL, Parameter(metavar="NAME=W", show_default=_ALL_ONE)
    ] = ()
    """weights of features"""

    name: Annotated[str, Parameter(metavar="NAME")] = FEATURE_NAME
    """name of the model's feature in the output"""

    def read_scores(self) -> dict[str, str]:
        """Return the names of `scores` and their files, which are downloaded if they are remote."""
        from keras_nplm.io.remote import fetch

        pairs = _split_pairs("--scores", self.scores, "lm=lm.scores")
        return {name: str(fetch(file)) for name, file in pairs.items()}

    def read_weights(self) -> dict[str, float] | None:
        """Return the weights of features by name; None if none are given."""
        pairs = _split_pairs("--weights", self.weights, "nplm=0.5")
        return {name: _parse_weight(name, text) for name, text in pairs.items()} or None


ReferenceFile = Annotated[str | None, Parameter(metavar="FILE", converter=read_input)]


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """Whether and how weights are tuned."""

    tune: ReferenceFile = None
    """reference texts to tune the weights: line i for list i (Moses), or after the list's name"""

    references: ReferenceFile = None
    """reference texts to report the errors, without tuning"""

    def check(self) -> None:
        """Refuse flags that have no effect together."""
        if self.tune:
            given = {"references": self.references}
            check_left_out(given, "with `--tune`", "drop one of them.")

    def read_losses(self, format: "LineFormat") -> "WordErrors | None":
        """Return the word errors by the reference texts; None if there are none."""
        from keras_nplm.io.remote import fetch
        from keras_nplm.rescoring.tuning import WordErrors, read_references

        path = self.tune or self.references
        return WordErrors(read_references(str(fetch(path)), format)) if path else None


def _print_rescored(result: dict) -> None:
    # standard output has the lists themselves
    file = sys.stdout if result["output"] else sys.stderr
    print(f"{result['hypotheses']:,} hypotheses in {result['lists']:,} lists", file=file)
    if result["weights"]:
        weights = [f"{name}={weight:.6g}" for name, weight in result["weights"].items()]
        print("--weights", *weights, file=file)
    if "oracle" in result:
        names = {"baseline": "before", "rescored": "after rescoring", "oracle": "oracle"}
        rates = ", ".join(f"{result[key]:.4f} {name}" for key, name in names.items())
        print(f"word error rate: {rates}", file=file)
        _print_references_without_list(result, file)
    print(f"the first hypothesis changed in {result['changed']:,} lists", file=file)


def _print_references_without_list(result: dict, file: TextIO) -> None:
    """Print how many references have no list, as of an utterance that the decoder lost."""
    # the last line of a file of Moses may be blank: a reference without words
    if result["words_without_list"]:
        number = result["references_without_list"]
        print(
            f"references without a list, which are not in the rates: {number:,} of "
            f"{number + result['lists']:,}, with {result['words_without_list']:,} words",
            file=file,
        )


OutputFile = Annotated[
    str | None, Parameter(metavar="FILE", converter=read_output, show_default=_STANDARD_OUTPUT)
]
WordTokenizer = Annotated[
    str | None, Parameter(choices=list_word_tokenizers(), show_default="the model's")
]


@printed_by(_print_rescored)
def rescore(
    model: Model,
    nbest: Annotated[str, FETCHED_FILE, Parameter(name="NBEST")],
    /,
    *,
    format: Annotated[Format | None, Parameter(show_default=_BY_FIRST_LINE)] = None,
    features: Features = Features(),
    tuning: Tuning = Tuning(),
    output: OutputFile = None,
    tokenizer: WordTokenizer = None,
    self_normalised: Annotated[Switch, Parameter(help=SELF_NORMALISED)] = False,
    call: Called,
) -> dict:
    """Rescore and re-rank the N-best lists of a decoder.

    Args:
        nbest: file of N-best lists of any size, plain or compressed; a TSV file may have a header
        format: format of the N-best lists
        output: file to write in the same format, gzipped if it ends in .gz
        tokenizer: word tokenizer of the hypotheses
    """
    from keras_nplm.io.remote import open_output_file
    from keras_nplm.language_model.arpa_models import open_model
    from keras_nplm.language_model.directory import check_output_file
    from keras_nplm.rescoring.files import STANDARD_OUTPUT, rescore_file
    from keras_nplm.rescoring.lists import NBestFile

    name_features(features.name)  # refuses a name that no feature can have
    tuning.check()
    is_in_place = output is not None and _is_same_file(output, nbest)
    fix = "choose a different name."
    check_argument("--output", not is_in_place, "a different file than NBEST", output, fix)
    with contextlib.nullcontext() if output is None else open_output_file(output) as path:
        if path is not None:
            check_output_file(path)
        lists = NBestFile(nbest, format, features.read_scores())
        _note_header(lists)
        weights = features.read_weights()
        losses = tuning.read_losses(lists.format)
        language_model = open_model(model, self_normalised=self_normalised)
        if tokenizer:
            language_model = _change_tokenizer(language_model, tokenizer)
        result = rescore_file(
            language_model,
            lists,
            path or (None if call.is_json else STANDARD_OUTPUT),
            weights=weights,
            losses=losses,
            tune_weights=tuning.tune is not None,
            name=features.name,
        )
    if tuning.tune is not None:
        _warn_of_few_lists(result["lists"], len(result["weights"]))
    _warn_of_unknown(result)
    if losses:
        for key in ("baseline", "oracle", "rescored"):
            result[key] /= max(1, losses.denominator)
        without_list = losses.references_without_list
        result["references_without_list"] = len(without_list)
        result["words_without_list"] = sum(
            len(split_fields(text)) for text in without_list.values()
        )
    result["output"] = output
    return result


def _is_same_file(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _note_header(lists: "NBestFile") -> None:
    """Say which columns are read, if only the absence of numbers makes the first line a header."""
    if not lists.format.guessed_columns:
        return
    name, hypothesis, *features = lists.format.guessed_columns
    print(
        f"The first line of {lists.path.name} is a header, as it has no scores: id {name}, "
        f"hypothesis {hypothesis}, features {', '.join(features)}.",
        file=sys.stderr,
    )


def _warn_of_few_lists(lists: int, weights: int) -> None:
    """Warn if weights are tuned on so few lists that they fit these lists alone."""
    enough = _LISTS_PER_WEIGHT * weights
    if lists < enough:
        print(
            f"Warning: {lists:,} lists are few to tune {weights} weights: the weights fit these "
            "lists, and the error rate of other lists is usually higher than the printed one. "
            f"Fix: tune on {enough:,} lists or more, {_LISTS_PER_WEIGHT} for each weight, and "
            "measure the error rate on other lists (`--weights`, `--references`).",
            file=sys.stderr,
        )


def _warn_of_unknown(result: dict) -> None:
    """Warn if many tokens of the hypotheses are out of the vocabulary of the model."""
    from keras_nplm.data.unusual_text import MAX_UNKNOWN

    share = result["unk_tokens"] / max(1, result["tokens"])
    if share > MAX_UNKNOWN:
        print(
            f"Warning: {share:.0%} of the tokens of the hypotheses are out of the vocabulary "
            "(<unk>): the model can hardly rank them. Fix: map integer ids to words, choose the "
            "`--tokenizer` of the hypotheses, or train a model on text like them.",
            file=sys.stderr,
        )


def _change_tokenizer(language_model: "LanguageModel", tokenizer: str) -> "LanguageModel":
    """Return a model that splits hypotheses with a different word tokenizer, and normalises as
    before.
    """
    given = language_model.tokenizer
    wanted = f"left out if the model's tokens are not words ({given.kind})"
    check_argument("--tokenizer", given.tokens_are_words, wanted, tokenizer, "leave it out.")
    changed = get_tokenizer(tokenizer).with_steps(given.steps)
    codec = language_model.codec.with_tokenizer(changed)
    return type(language_model).of(language_model.model, codec)


def _split_pairs(flag: str, values: Sequence[str], example: str) -> dict[str, str]:
    """Return values NAME=VALUE by their names. The name of a weight may have an equals sign."""
    pairs: dict[str, str] = {}
    for value in values:
        split = value.rpartition if flag == "--weights" else value.partition
        name, _, text = split("=")
        is_pair = bool(name and text) and name not in pairs
        fix = f"write, for example, {flag} {example}."
        check_argument(flag, is_pair, "NAME=VALUE, each name once", repr(value), fix)
        pairs[name] = text
    return pairs


def _parse_weight(name: str, text: str) -> float:
    from keras_nplm.rescoring.formats import parse_number

    try:
        return parse_number(text)
    except ValueError as error:
        raise InputError(
            f"The weight of {name} must be a number. Received: {text!r}. Fix: write, for example, "
            f"{name}=0.5."
        ) from error
