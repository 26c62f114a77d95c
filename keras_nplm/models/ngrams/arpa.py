"""ARPA files: the text format of back-off n-gram models, as KenLM and SRILM read and write it."""

import gzip
import itertools
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_nplm.data.ids import BOS, BOS_ID, EOS, EOS_ID, PAD_ID, SPECIALS, UNK, UNK_ID
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.models.base import check_vocabulary_size, row_blocks
from keras_nplm.models.ngrams.arpa_lines import Section, make_line_error, read_sections
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.kneser_ney import compute_logs
from keras_nplm.models.ngrams.mass import BackoffMass
from keras_nplm.models.ngrams.merging import merge_into_unk

_LN10 = np.log(10)
_LOG10_ZERO = -99.0  # by convention, the log10 of probability 0
_ROUNDING = 0.01  # relative, by which the probabilities after a context may sum to more than 1
_SUM_ROUNDING = 1e-4  # by which probabilities of seven digits may sum to more than 1
_DIGITS = 1e-3  # the same for what a back-off weight multiplies: some tools write four digits
_BLOCK_NGRAMS = 1 << 14  # n-grams that are written at a time
_UNK = "<UNK>"  # as some tools write <unk>
_NO_UNK = -100.0  # KenLM's log10 P of out-of-vocabulary words where a file has no <unk>


def write_arpa(path: str | os.PathLike, model: BackoffModel, vocabulary: Vocabulary) -> None:
    """Write a back-off n-gram model as an ARPA file, gzipped if the name ends in `.gz`, in bounded
    memory.

    Probabilities are written as log10, in 7 digits. The highest orders are left out if they have no
    n-gram. Every file lists `<s>`, `</s>` and each word of a listed n-gram, as readers need them;
    those without a probability get -99. In a model with the boundary `"stream"` that is `</s>`,
    too. Other readers begin each line after `<s>`, so they score a model of the boundary `"text"`
    without the lines before.

    Raises:
        InputError: the vocabulary has a different size than the model.
        RunError: the file cannot be written.
    """
    check_vocabulary_size(model, len(vocabulary))
    model = _remove_empty_orders(model)
    words = np.array(vocabulary.words, dtype=object)
    is_listed = np.isfinite(model.unigrams)
    is_listed[[BOS_ID, EOS_ID]] = True
    for order, keys in enumerate(model.keys, start=2):
        for block in row_blocks(len(keys), _BLOCK_NGRAMS):
            is_listed[model.ngrams(order, block)] = True
    unigrams = np.flatnonzero(is_listed)
    numbers = [len(unigrams), *map(len, model.keys)]
    if model.order == 1:
        # KenLM refuses a file of 1-grams alone, and reads one whose order 2 is empty
        numbers.append(0)
    opener = gzip.open if Path(path).suffix.lower() == ".gz" else open
    with (
        replace_file(path) as temporary,
        opener(temporary, "wt", encoding="utf-8", newline="\n") as file,
    ):
        file.write("\\data\\\n")
        for order, number in enumerate(numbers, start=1):
            file.write(f"ngram {order}={number}\n")
        for order, number in enumerate(numbers, start=1):
            file.write(f"\n\\{order}-grams:\n")
            for block in row_blocks(number, _BLOCK_NGRAMS):
                if order == 1:
                    ids = unigrams[block, None]
                    log_probs = model.unigrams[unigrams[block]]
                else:
                    ids = model.ngrams(order, block)
                    log_probs = model.log_probs[order - 2][block]
                columns = [_format_log10(log_probs), map(" ".join, words[ids].tolist())]
                if order < model.order:
                    nodes = model.contexts.find_nodes(ids)
                    # no n-gram continues an unknown context
                    backoffs = np.where(nodes < 0, 0, model.backoffs[order - 1][nodes])
                    columns.append(_format_log10(backoffs))
                lines = map("\t".join, zip(*columns, strict=True))
                file.writelines(map("{}\n".format, lines))
        file.write("\n\\end\\\n")


def _remove_empty_orders(model: BackoffModel) -> BackoffModel:
    """Return a model without its highest orders, if they have no n-gram, and no weight that
    counts.
    """
    order = model.order
    while order > 1 and not len(model.keys[order - 2]) and not model.backoffs[order - 2].any():
        order -= 1
    return model.cut(order)


def _format_log10(log_probs: np.ndarray) -> Iterator[str]:
    finite = np.where(np.isfinite(log_probs), log_probs / _LN10, _LOG10_ZERO)
    return map("{:.7g}".format, (finite + 0.0).tolist())  # 0 in place of -0


class ArpaFile(NamedTuple):
    """A model that was read from an ARPA file.

    Attributes:
        model: the model.
        vocabulary: the vocabulary of its ids.
        outside: number of the file's words that the vocabulary lacks. They count as `<unk>`.
        absent: number of the vocabulary's words that the file lacks. They have a share of the
            probability of the file's `<unk>`.
    """

    model: BackoffModel
    vocabulary: Vocabulary
    outside: int
    absent: int


def read_arpa(
    path: str | os.PathLike, vocabulary: Vocabulary | None = None, boundary: str | None = None
) -> tuple[BackoffModel, Vocabulary]:
    """Read a back-off n-gram model from an ARPA file of KenLM, SRILM or `write_arpa`, compressed or
    not.

    The file is read as a stream: memory holds the tables of the model and about twice their size
    while they are sorted.

    Args:
        path: the file.
        vocabulary: the vocabulary whose ids the words get. Words of the file that it lacks are
            merged into `<unk>`, which gets the sum of their probabilities after each context; see
            `merge_into_unk`. A word of the vocabulary that is not in the file gets the probability
            of the file's `<unk>`, as in KenLM with `lmplz --vocab_pad |V|`. Without this padding
            they would sum to more than 1: `<unk>` and these words share its probability, also after
            a context that lists `<unk>`. Default: the words of the file, in its order. A word
            `<pad>` of the file is left out: in text it is unknown.
        boundary: `"sentence"`, `"text"` or `"stream"`, how the training text was cut into n-grams.
            Default: `"sentence"` if the file gives `</s>` a probability, else `"stream"`.

    Returns:
        the model and its vocabulary.

    Raises:
        InputError: the file is absent, not UTF-8 or malformed (the error names the line), or the
            vocabulary has none of its words.
    """
    read = read_arpa_file(path, vocabulary, boundary)
    return read.model, read.vocabulary


def read_arpa_file(
    path: str | os.PathLike, vocabulary: Vocabulary | None = None, boundary: str | None = None
) -> ArpaFile:
    """Read an ARPA file as `read_arpa`, and count the words in which it and the vocabulary
    differ.
    """
    words = SPECIALS if vocabulary is None else vocabulary.words
    known = {_UNK: UNK_ID} | {word: i for i, word in enumerate(words)}
    place = defaultdict(itertools.count(len(words)).__next__, known)
    sections = read_sections(path, place)
    sections = [*map(_leave_out_padding, sections)]
    file_words = [word for word, i in place.items() if i >= len(words)]
    all_words = [*words, *file_words]
    if vocabulary is None:
        vocabulary = Vocabulary(file_words)
    is_in_file = np.zeros(len(all_words), bool)
    is_in_file[sections[0].ids[:, 0]] = True
    if not is_in_file[len(SPECIALS) : len(vocabulary)].any():
        _refuse_vocabulary(path, vocabulary, file_words)
    model = _build(path, all_words, sections, boundary)
    model.unigrams[[PAD_ID, BOS_ID]] = -np.inf
    _refuse_large_backoffs(path, all_words, sections, model)
    absent = len(SPECIALS) + np.flatnonzero(~is_in_file[len(SPECIALS) :])
    _divide_unk(model, absent)
    outside = len(all_words) - len(vocabulary)
    if outside:
        model = merge_into_unk(model, len(vocabulary))
    return ArpaFile(_remove_empty_orders(model), vocabulary, outside, len(absent))


def _divide_unk(model: BackoffModel, absent: np.ndarray) -> None:
    """Give the words that a file lacks the probability of its `<unk>`, or a share of it.

    They share the probability of `<unk>` if the sum were above 1 otherwise. Then a context h that
    lists `<unk>` divides it, too:

        P'(<unk> | h) = P(<unk> | h) - sum of P(w | h) over the absent words w, which back off

    In an interpolated model this is above 0. In others it may be below a share of P(<unk> | h),
    which `<unk>` keeps. Then γ(h) becomes smaller, so that the sum over all words is 1.
    """
    p = np.exp(model.unigrams, dtype=np.float64)
    of_unk = p[UNK_ID]
    number = len(absent) + 1
    left = max(1 - p.sum() + of_unk, of_unk)
    if number * of_unk <= left + _SUM_ROUNDING:
        model.unigrams[absent] = model.unigrams[UNK_ID]
        return
    model.unigrams[[UNK_ID, *absent]] = compute_logs(min(of_unk, left / number))
    is_absent = np.zeros(model.vocabulary_size, bool)
    is_absent[absent] = True
    for k, keys in enumerate(model.keys):
        nodes, words = np.divmod(keys, model.vocabulary_size)
        rows = np.flatnonzero(words == UNK_ID)
        nodes = nodes[rows]
        listed = np.exp(model.log_probs[k][rows], dtype=np.float64)
        # anew for each order: those below may have other back-off weights now
        rest = listed - BackoffMass(model, is_absent).masses[k + 1][nodes]
        kept = np.maximum(rest, listed / number)
        model.log_probs[k][rows] = compute_logs(kept)
        changed = nodes[kept > rest]
        model.backoffs[k][changed] = model.compute_backoffs(k + 2)[changed]


def _refuse_vocabulary(
    path: str | os.PathLike, vocabulary: Vocabulary, file_words: Sequence[str]
) -> None:
    """Refuse a vocabulary without any word of the file: it is of a different kind of tokens."""
    examples = ", ".join(map(repr, file_words[:3]))
    own = ", ".join(map(repr, vocabulary.words[len(SPECIALS) :][:3]))
    raise InputError(
        f"`vocabulary` must have words of {path}, such as {examples}. Received: {own}, …, and no "
        "word of the file. Fix: give the vocabulary of a model with the same tokens."
    )


def read_arpa_as_written(path: str | os.PathLike) -> tuple[BackoffModel, dict[str, int]]:
    """Read an ARPA file with the numbers that KenLM has, whether they are a distribution or not.

    Unlike `read_arpa`, numbers at and below -99 are kept. All words but `<unk>` have ids from 4 on:
    `<s>`, `</s>` and `<pad>` are words like others, also inside a sentence. `<unk>` has id 1. It
    has -100 if the file does not list it.

    Returns:
        the model; and the ids of the words.

    Raises:
        InputError: the file is absent, not UTF-8 or malformed (the error names the line), or lists
            no `<s>` or `</s>`.
    """
    place = defaultdict(itertools.count(len(SPECIALS)).__next__, {UNK: UNK_ID, _UNK: UNK_ID})
    sections = read_sections(path, place)
    for word in (BOS, EOS):
        if word not in place:
            raise InputError(
                f"The 1-grams must list {word}, as KenLM needs it. Received: {path}. "
                f"Fix: add the 1-gram, such as -99 {word}, or read the file by "
                "`keras-nplm ngram --arpa`."
            )
    words = [*SPECIALS, *(word for word, i in place.items() if i >= len(SPECIALS))]
    model = _build(path, words, sections, "stream", zero=-np.inf)
    if np.isneginf(model.unigrams[UNK_ID]):
        model.unigrams[UNK_ID] = _NO_UNK * _LN10
    return model, place


def _leave_out_padding(section: Section) -> Section:
    """Leave out n-grams with the word `<pad>`: its id is the mask, so no context can hold it."""
    kept = (section.ids != PAD_ID).all(axis=1)
    return Section(*(column[kept] for column in section))


def _build(
    path: str | os.PathLike,
    words: Sequence[str],
    sections: Sequence[Section],
    boundary: str | None,
    zero: float = _LOG10_ZERO,
) -> BackoffModel:
    """Build the model of a file's sections. A log10 of `zero` or less is of probability 0."""

    def convert(log10_probs: np.ndarray) -> np.ndarray:
        return np.where(log10_probs <= zero, -np.inf, log10_probs * _LN10).astype(np.float32)

    first, *longer = sections
    unigrams = np.full(len(words), -np.inf, np.float32)
    unigrams[first.ids[:, 0]] = convert(first.log10_probs)
    model = BackoffModel.from_ngrams(
        unigrams,
        [(section.ids, convert(section.log10_probs)) for section in longer],
        # an n-gram below the highest order may be a context
        [(section.ids, section.log10_backoffs * _LN10) for section in sections[:-1]],
        boundary,
    )
    for section, keys in zip(sections, [np.sort(first.ids[:, 0]), *model.keys], strict=True):
        if (np.diff(keys) == 0).any():
            _refuse_repeated(path, words, section)
    return model


def _refuse_repeated(path: str | os.PathLike, words: Sequence[str], section: Section) -> None:
    """Refuse a section that lists an n-gram twice."""
    listed = set()
    for number, ids in zip(section.numbers, map(tuple, section.ids.tolist()), strict=True):
        if ids in listed:
            ngram = " ".join(words[i] for i in ids)
            raise make_line_error(path, number, "an n-gram that is not listed above", ngram)
        listed.add(ids)


def _refuse_large_backoffs(
    path: str | os.PathLike,
    words: Sequence[str],
    sections: Sequence[Section],
    model: BackoffModel,
) -> None:
    """Refuse a back-off weight above 1 that makes the probabilities after its context sum to more
    than 1.
    """
    if not any((section.log10_backoffs > 0).any() for section in sections):
        return
    mass = BackoffMass(model, np.isfinite(model.unigrams))
    for k, section in enumerate(sections[:-1], start=1):
        nodes = model.contexts.find_nodes(section.ids)
        above = mass.masses[k - 1][model.contexts.parents(k)[nodes]]
        totals = mass.masses[k][nodes]
        bound = np.maximum(above, 1) * (1 + _ROUNDING) + _DIGITS * 10.0**section.log10_backoffs
        [rows] = ((section.log10_backoffs > 0) & (totals > bound)).nonzero()
        for row in rows[:1]:
            context = " ".join(words[i] for i in section.ids[row])
            expected = (
                f"a back-off with which the probabilities after {context!r} sum to 1, "
                f"not {totals[row]:.3g}"
            )
            weight = f"{section.log10_backoffs[row]:g}"
            raise make_line_error(path, section.numbers[row], expected, weight)
