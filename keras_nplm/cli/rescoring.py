"""`keras-nplm rescore`: rescore and re-rank the N-best lists of a decoder."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from keras_nplm.cli.parameters import (
    FETCHED,
    SELF_NORMALISED,
    SEVERAL,
    Called,
    Model,
    Switch,
    check_left_out,
    read_path,
)
from keras_nplm.cli.printing import print_lines, printed_by
from keras_nplm.data.tokenizers.registry import get_tokenizer, list_word_tokenizers
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.text import split_fields
from keras_nplm.rescoring.formats import FEATURE_NAME, parse_number

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel

Format = Literal["moses", "kaldi", "tsv"]
_BY_FIRST_LINE = "by the first line, tsv by the file's name"
_ALL_ONE = (
    "1 for the decoder's score or the total of the last rescoring, without both for each feature, "
    f"and 1 for {FEATURE_NAME}"
)
# as in regression, where fewer than ten observations for each fitted number overfit
_LISTS_PER_WEIGHT = 10
_STANDARD_OUTPUT = "standard output; with --json no file"


def _print_rescored(result: dict) -> None:
    # standard output has the lists themselves
    with contextlib.redirect_stdout(sys.stdout if result["output"] else sys.stderr):
        print_lines(result, "lists: {lists:,}, hypotheses: {hypotheses:,}")
        if result["weights"]:
            weights = [f"{name}={weight:.6g}" for name, weight in result["weights"].items()]
            print("--weights", *weights)
        print_lines(
            result,
            "word error rate: {baseline:.4f} before, {rescored:.4f} after rescoring, {oracle:.4f} "
            "oracle",
        )
        # the last line of a file of Moses may be blank: a reference without words
        if result.get("words_without_list"):
            number = result["references_without_list"]
            print(
                f"references without a list, which are not in the rates: {number:,} of "
                f"{number + result['lists']:,}, with {result['words_without_list']:,} words"
            )
        print_lines(result, "lists whose first hypothesis changed: {changed:,}")


Values = Annotated[tuple[str, ...], SEVERAL]
ReferenceFile = Annotated[str | None, FETCHED, Parameter(metavar="FILE")]
WordTokenizer = Annotated[
    str | None, Parameter(choices=list_word_tokenizers(), show_default="the model's")
]


@printed_by(_print_rescored)
def rescore(
    model: Model,
    nbest: Annotated[str, FETCHED, Parameter(name="NBEST")],
    /,
    *,
    format: Annotated[Format | None, Parameter(show_default=_BY_FIRST_LINE)] = None,
    scores: Annotated[Values, Parameter(metavar="NAME=FILE…")] = (),
    weights: Annotated[Values, Parameter(metavar="NAME=W…", show_default=_ALL_ONE)] = (),
    name: Annotated[str, Parameter(metavar="NAME")] = FEATURE_NAME,
    tune: ReferenceFile = None,
    references: ReferenceFile = None,
    output: Annotated[
        str | None,
        Parameter(metavar="FILE", converter=read_path, show_default=_STANDARD_OUTPUT),
    ] = None,
    tokenizer: WordTokenizer = None,
    self_normalised: Annotated[Switch, Parameter(help=SELF_NORMALISED)] = False,
    call: Called,
) -> dict:
    """Rescore and re-rank the N-best lists of a decoder.

    The output has new features: NAME is ln P of a hypothesis; NAME_words and NAME_unk are its
    numbers of tokens and of unknown words, written if they have a weight. In Moses the new total
    replaces the score, and NAME_before is the old score. In TSV NAME_total is the new total, in the
    last column. Of Kaldi, FILE has the words, and FILE.NAME and FILE.NAME_total are archives of
    costs.

    Args:
        nbest: file of N-best lists of any size, plain or compressed: lines of Moses ("0 ||| words
            ||| features"), of Kaldi ("utterance-1 words"), or TSV with columns id, hypothesis and
            numbers, and perhaps a header
        format: format of the N-best lists
        scores: Kaldi archives of costs, -ln P, each with the name of its feature
        weights: weights of features, of which all others get 0; with --tune, those that are tuned
        name: name of the model's feature in the output
        tune: reference texts to tune the weights for the fewest word errors: one line for each
            list, in order (Moses), or after the list's name and a space (Kaldi) or a tab (TSV)
        references: reference texts to report the errors, without tuning
        output: file to write in the same format, gzipped if it ends in .gz
        tokenizer: word tokenizer of the hypotheses
    """
    from keras_nplm.io.remote import fetch, open_output_file
    from keras_nplm.io.stages import check_output_file
    from keras_nplm.language_model.language_model import LanguageModel
    from keras_nplm.rescoring.files import STANDARD_OUTPUT, rescore_file
    from keras_nplm.rescoring.lists import NBestFile
    from keras_nplm.rescoring.tuning import WordErrors, read_references

    if tune:
        check_left_out({"references": references}, "with `--tune`", "drop one of them.")
    files = _split_pairs("--scores", scores, "lm=lm.scores")
    fixed = {
        key: _parse_weight(key, text)
        for key, text in _split_pairs("--weights", weights, "nplm=0.5").items()
    }
    if tune and fixed:
        names = ", ".join(fixed)
        print(f"Tuned are the features of --weights: {names}. Others get 0.", file=sys.stderr)
    with contextlib.nullcontext() if output is None else open_output_file(output) as path:
        if path is not None:
            check_output_file(path)
            fix = "choose a different name."
            is_new = os.path.realpath(path) != os.path.realpath(nbest)
            check_argument("--output", is_new, "a different file than NBEST", output, fix)
        lists = NBestFile(nbest, format, {key: str(fetch(file)) for key, file in files.items()})
        losses = None
        if texts := tune or references:
            losses = WordErrors(read_references(texts, lists.format))
        language_model = LanguageModel.load(model, self_normalised=self_normalised)
        if tokenizer:
            language_model = _change_tokenizer(language_model, tokenizer)
        result = rescore_file(
            language_model,
            lists,
            path or (None if call.is_json else STANDARD_OUTPUT),
            weights=fixed or None,
            losses=losses,
            tune_weights=tune is not None,
            name=name,
        )
    if tune is not None:
        _warn_of_few_lists(result["lists"], len(result["weights"]))
        _warn_of_negative_total(result["weights"], name)
    _warn_of_unknown(result)
    if losses:
        for key in ("baseline", "oracle", "rescored"):
            result[key] /= max(1, losses.denominator)
        texts_left = losses.references_without_list.values()
        words = [len(split_fields(text)) for text in texts_left]
        result["references_without_list"] = len(words)
        result["words_without_list"] = sum(words)
    result["output"] = output
    return result


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


def _warn_of_negative_total(weights: Mapping[str, float], name: str) -> None:
    """Warn if tuned weights rank against the total of the decoder."""
    from keras_nplm.rescoring.ranking import find_total

    total = find_total(weights, name)
    if total is not None and weights[total] < 0:
        print(
            f"Warning: the tuned weight of {total}, the decoder's total, is negative: what the "
            "decoder likes less comes first. Fix: give totals that are greater for better "
            "hypotheses, such as -cost, or tune on more lists.",
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
    codec = language_model.codec.replace(tokenizer=changed)
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
    try:
        return parse_number(text)
    except ValueError as error:
        raise InputError(
            f"The weight of {name} must be a number. Received: {text!r}. Fix: write, for example, "
            f"{name}=0.5."
        ) from error
