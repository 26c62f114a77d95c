"""Rescore a file of N-best lists, list by list, with given weights or with weights tuned on the
file itself.
"""

import contextlib
import functools
import gzip
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.rescoring.formats import FEATURE_NAME, Kaldi, LineFormat, name_total
from keras_nplm.rescoring.lists import NBestFile, NBestList
from keras_nplm.rescoring.ranking import (
    add_scores,
    check_weights,
    find_total,
    name_features,
    sum_features,
)
from keras_nplm.rescoring.tuning import Losses, tune

STANDARD_OUTPUT = "-"


def rescore_file(
    language_model: LanguageModel,
    nbest: NBestFile,
    output: str | os.PathLike | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    losses: Losses | None = None,
    tune_weights: bool = False,
    name: str = FEATURE_NAME,
) -> dict[str, Any]:
    """Rescore a file: add a language model's features to each hypothesis, rank the lists, and write
    them.

    Args:
        nbest: the file. It may be larger than memory, but not with `tune_weights`.
        output: the output file, in the format of the input; see `open_writer`. None: no file. `"-"`
            is standard output.
        weights: weight of each feature; see `rescore`. With `tune_weights`, the initial weights.
        losses: losses of hypotheses, to report what rescoring gains; see `tune`.
        tune_weights: tune the weights for the smallest loss of `losses`, which must be given.
        name: name of the language model's feature.

    Returns:
        - `format`; `lists` and `hypotheses`, their numbers; `changed`: the number of lists whose
          first hypothesis is not the decoder's.
        - `tokens` of all hypotheses that the language model predicts, and `unk_tokens` among them.
        - `weights`; None if each list had its default weights.
        - With `losses`, their sums: `baseline` of the decoder's first hypotheses, `rescored`, and
          `oracle` of the best.
    """
    _, tokens, unk_tokens = name_features(name)
    checked = check_weights(nbest, weights, name)
    lists: Iterable[NBestList] = add_scores(language_model, checked, name)
    if tune_weights:
        assert losses is not None
        lists = list(lists)
        weights = tune(lists, losses, weights, name=name)
    counts: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    written = [name, *(count for count in (tokens, unk_tokens) if (weights or {}).get(count))]
    with open_writer(output, nbest.format, written) as write:
        for one in lists:
            totals = sum_features(one, weights, name)
            write(one.sort(totals))
            before = find_total(one.features, name)
            # without a total the decoder's best hypothesis is its first
            decoder_best = np.argmax(one.features[before]) if before else 0
            best = np.argmax(totals)
            counts.update(
                lists=1,
                hypotheses=len(one),
                changed=int(one.texts[best] != one.texts[decoder_best]),
                tokens=int(one.features[tokens].sum()),
                unk_tokens=int(one.features[unk_tokens].sum()),
            )
            if losses:
                [loss] = losses([one])
                numbers = {"baseline": loss[decoder_best], "rescored": loss[best]}
                errors.update(numbers | {"oracle": loss.min()})
    used = dict(weights) if weights else None
    return {
        "format": nbest.format.name,
        **counts,
        "weights": used,
        **{key: float(value) for key, value in errors.items()},
    }


@contextlib.contextmanager
def open_writer(
    path: str | os.PathLike | None, format: LineFormat, features: Sequence[str]
) -> Iterator[Callable[[NBestList], None]]:
    """Open a file of N-best lists and return a function that writes a ranked list of an `NBestFile`
    with new features and totals.

    - Moses: the total replaces the score, which is kept as a feature `NAME_before`.
    - TSV: new features are new columns. The total is the last column, `NAME_total`.
    - Kaldi: the file receives the words. Each new feature, and the total, goes to an archive of
      costs `PATH.FEATURE`.

    The file, gzipped if its name ends in `.gz`, appears when the block ends without an error. None:
    nothing is written.
    """
    if path == STANDARD_OUTPUT and format.name == Kaldi.name:
        raise InputError(
            "Kaldi's format needs files for the costs. Fix: name a file with `--output`."
        )
    with contextlib.ExitStack() as stack:

        @functools.cache
        def open_file(ending: str) -> BinaryIO:
            return stack.enter_context(_open_output(path, ending))

        def write(nbest: NBestList) -> None:
            assert nbest.totals is not None
            columns = [*(nbest.features[name] for name in features), nbest.totals]
            rows = zip(*(column.tolist() for column in columns), strict=True)
            for line, row in zip(nbest.lines, rows, strict=True):
                values = dict(zip(names, row, strict=True))
                for ending, extended in format.extend(line, values).items():
                    open_file(ending).write(extended.encode() + b"\n")

        names = [*features, name_total(features[0])]
        header = format.extend_header(names)
        if header:
            open_file("").write(header.encode() + b"\n")
        yield write


@contextlib.contextmanager
def _open_output(path: str | os.PathLike | None, ending: str) -> Iterator[BinaryIO]:
    """Open a file to write, or one of archives beside it, which appears without an error."""
    if path is None:
        with open(os.devnull, "wb") as nowhere:
            yield nowhere
        return
    if path == STANDARD_OUTPUT:
        sys.stdout.flush()  # text that was printed before comes first
        yield sys.stdout.buffer
        return
    path = Path(path)
    is_gzip = path.suffix.lower() == ".gz"
    name = f"{path.stem}{ending}.gz" if is_gzip else f"{path.name}{ending}"
    opener = gzip.open if is_gzip else open
    with replace_file(path.with_name(name)) as temporary, opener(temporary, "wb") as file:
        yield cast(BinaryIO, file)
