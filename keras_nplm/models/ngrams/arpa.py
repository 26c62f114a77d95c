"""ARPA files: the text format of back-off n-gram models, as KenLM and SRILM read and write it."""

import functools
import gzip
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_nplm.data.ids import BOS, BOS_ID, EOS, EOS_ID, PAD_ID, SPECIALS, UNK, UNK_ID
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.io.text import open_text
from keras_nplm.models.base import check_vocabulary_size, row_blocks
from keras_nplm.models.ngrams.arpa_lines import ArpaLines, Section, read_header, read_section
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.kneser_ney import compute_logs
from keras_nplm.models.ngrams.mass import BackoffMass
from keras_nplm.models.ngrams.merging import merge_into_unk
from keras_nplm.models.ngrams.tables import ContextTrie

_LN10 = np.log(10)
_LOG10_ZERO = -99.0  # by convention, the log10 of probability 0
_ROUNDING = 0.01  # relative, by which the probabilities after a context may sum to more than 1
_SUM_ROUNDING = 1e-4  # by which probabilities of seven digits may sum to more than 1
_DIGITS = 1e-3  # the same for what a back-off weight multiplies: some tools write four digits
BLOCK_NGRAMS = 1 << 16  # n-grams that are written at a time
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
    words = np.array(vocabulary.words, dtype=object)
    is_listed = np.isfinite(model.unigrams)
    is_listed[[BOS_ID, EOS_ID]] = True
    for order, keys in enumerate(model.keys, start=2):
        for block in row_blocks(len(keys), BLOCK_NGRAMS):
            is_listed[model.ngrams(order, block)] = True
    unigrams = np.flatnonzero(is_listed)
    numbers = [len(unigrams), *map(len, model.keys)]
    highest = _find_highest_order(model)
    if highest == 1:
        # KenLM refuses a file of 1-grams alone, and reads one whose order 2 is empty
        highest = 2
        numbers = [len(unigrams), 0]
    opener = gzip.open if Path(path).suffix.lower() == ".gz" else open
    with (
        replace_file(path) as temporary,
        opener(temporary, "wt", encoding="utf-8", newline="\n") as file,
    ):
        file.write("\\data\\\n")
        for order, number in enumerate(numbers[:highest], start=1):
            file.write(f"ngram {order}={number}\n")
        for order in range(1, highest + 1):
            file.write(f"\n\\{order}-grams:\n")
            has_backoffs = order < min(highest, model.order)
            for block in row_blocks(numbers[order - 1], BLOCK_NGRAMS):
                if order == 1:
                    ids = unigrams[block, None]
                    log_probs = model.unigrams[unigrams[block]]
                else:
                    ids = model.ngrams(order, block)
                    log_probs = model.log_probs[order - 2][block]
                columns = [_format_log10(log_probs), map(" ".join, words[ids].tolist())]
                if has_backoffs:
                    columns.append(_format_log10(_find_backoffs(model, ids)))
                lines = map("\t".join, zip(*columns, strict=True))
                file.writelines(map("{}\n".format, lines))
        file.write("\n\\end\\\n")


def _find_highest_order(model: BackoffModel) -> int:
    """Return the order up to which a model must be written: above it are no n-grams, and no weights
    that count.
    """
    order = model.order
    while order > 1 and not len(model.keys[order - 2]) and not model.backoffs[order - 2].any():
        order -= 1
    return order


def _find_backoffs(model: BackoffModel, ids: np.ndarray) -> np.ndarray:
    """Return ln γ of contexts, int [N, length]: 0 for those that no n-gram continues."""
    nodes = model.contexts.find_nodes(ids)
    backoffs = np.zeros(len(ids), np.float32)
    is_known = nodes >= 0
    backoffs[is_known] = model.backoffs[ids.shape[1] - 1][nodes[is_known]]
    return backoffs


def _format_log10(log_probs: np.ndarray) -> Iterator[str]:
    finite = np.where(np.isfinite(log_probs), log_probs / _LN10, _LOG10_ZERO)
    without_sign = np.where(finite == 0, 0.0, finite)  # 0 in place of -0
    return map("{:.7g}".format, without_sign.tolist())


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
    with open_text(path) as file:
        lines = ArpaLines(Path(path), file)
        numbers = read_header(lines)
        words = SPECIALS if vocabulary is None else vocabulary.words
        place = {word: i for i, word in enumerate(words)}
        place[_UNK] = UNK_ID
        new_ids = itertools.count(len(words))
        unigrams = read_section(lines, 1, numbers[0], len(numbers), place, new_ids)
        file_words = [word for word, i in place.items() if i >= len(words)]
        if vocabulary is None:
            vocabulary = Vocabulary(file_words)
        all_words = [*words, *file_words]
        lines.refuse_repeated(unigrams, unigrams.ids[:, 0], all_words)
        unigrams = _leave_out_padding(unigrams)
        ids = unigrams.ids[:, 0]
        if not np.isin(np.arange(len(SPECIALS), len(vocabulary)), ids).any():
            _refuse_vocabulary(path, vocabulary, file_words)
        log_prob = np.full(len(all_words), -np.inf)
        log_prob[ids] = unigrams.log10_probs
        log_prob[[PAD_ID, BOS_ID]] = -np.inf
        absent = np.setdiff1d(np.arange(len(all_words)), [*ids, UNK_ID, PAD_ID, BOS_ID, EOS_ID])
        is_unk_divided = False
        if len(absent):
            share = _divide_unk(log_prob, len(absent))
            is_unk_divided = share < log_prob[UNK_ID]
            log_prob[[UNK_ID, *absent]] = share
        backoff = np.zeros(len(all_words))
        backoff[ids] = unigrams.log10_backoffs
        sections = [*map(_leave_out_padding, _read_sections(lines, numbers, place))]
        _remove_empty_orders(unigrams, sections)
        refuse_repeated = functools.partial(lines.refuse_repeated, words=all_words)
        model = _build(log_prob, backoff, sections, boundary, refuse_repeated)
        if any((section.log10_backoffs > 0).any() for section in (unigrams, *sections)):
            _refuse_large_backoffs(lines, model, [unigrams, *sections[:-1]], all_words)
    if is_unk_divided:
        _divide_listed_unk(model, absent)
    outside = len(all_words) - len(vocabulary)
    if outside:
        model = merge_into_unk(model, len(vocabulary))
    return ArpaFile(model, vocabulary, outside, len(absent))


def _divide_unk(log10_probs: np.ndarray, absent: int) -> float:
    """Return log10 P of `<unk>` and of each word that a file lacks.

    It is that of the file's `<unk>`, unless the sum were above 1: then they share what is left.
    """
    of_unk = 10.0 ** log10_probs[UNK_ID]
    of_words = np.sum(10.0**log10_probs) - of_unk
    if of_words + (absent + 1) * of_unk <= 1 + _SUM_ROUNDING:
        return float(log10_probs[UNK_ID])
    left = max(1 - of_words, of_unk)
    return float(np.log10(min(of_unk, left / (absent + 1))))


def _divide_listed_unk(model: BackoffModel, absent: np.ndarray) -> None:
    """Divide P(<unk> | h) of each context that lists `<unk>` with the words that a file lacks.

        P'(<unk> | h) = P(<unk> | h) - sum of P(w | h) over the absent words w, which back off

    In an interpolated model this is above 0. In others it may be below a share of P(<unk> | h),
    which `<unk>` keeps. Then γ(h) becomes smaller, so that the sum over all words stays.
    """
    is_absent = np.zeros(model.vocabulary_size, bool)
    is_absent[absent] = True
    for k, keys in enumerate(model.keys):
        rows = np.flatnonzero(keys % model.vocabulary_size == UNK_ID)
        nodes = keys[rows] // model.vocabulary_size
        listed = np.exp(model.log_probs[k][rows], dtype=np.float64)
        # anew for each order: those below may have other back-off weights now
        rest = listed - BackoffMass(model, is_absent).masses[k + 1][nodes]
        kept = np.maximum(rest, listed / (len(absent) + 1))
        model.log_probs[k][rows] = compute_logs(kept)
        excess = kept - rest
        too_much = np.flatnonzero(excess > 0)
        if len(too_much):
            _reduce_backoffs(model, k, nodes[too_much], excess[too_much])


def _reduce_backoffs(model: BackoffModel, k: int, nodes: np.ndarray, excess: np.ndarray) -> None:
    """Reduce γ of contexts of k+1 words: the sums of their probabilities fall by `excess`."""
    is_word = np.ones(model.vocabulary_size, bool)
    total = BackoffMass(model, is_word).masses[k + 1][nodes]
    contexts_of_listed = model.keys[k] // model.vocabulary_size
    p = np.exp(model.log_probs[k], dtype=np.float64)
    listed = np.bincount(contexts_of_listed, p, minlength=model.contexts.sizes[k])[nodes]
    backed_off = total - listed
    model.backoffs[k][nodes] += np.log1p(-excess / backed_off)


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
    with open_text(path) as file:
        lines = ArpaLines(Path(path), file)
        numbers = read_header(lines)
        place = {UNK: UNK_ID, _UNK: UNK_ID}
        unigrams = read_section(
            lines, 1, numbers[0], len(numbers), place, itertools.count(len(SPECIALS))
        )
        for word in (BOS, EOS):
            if word not in place:
                raise InputError(
                    f"The 1-grams must list {word}, as KenLM needs it. Received: {path}. "
                    f"Fix: add the 1-gram, such as -99 {word}, or read the file by "
                    "`keras-nplm ngram --arpa`."
                )
        sections = _read_sections(lines, numbers, place)
        words = [*SPECIALS, *(word for word, i in place.items() if i >= len(SPECIALS))]
        refuse_repeated = functools.partial(lines.refuse_repeated, words=words)
        ids = unigrams.ids[:, 0]
        refuse_repeated(unigrams, ids)
        log_prob = np.full(len(words), -np.inf)
        log_prob[UNK_ID] = _NO_UNK
        log_prob[ids] = unigrams.log10_probs
        backoff = np.zeros(len(words))
        backoff[ids] = unigrams.log10_backoffs
        return _build(log_prob, backoff, sections, "stream", refuse_repeated, -np.inf), place


def _read_sections(
    lines: ArpaLines, numbers: Sequence[int], place: dict[str, int]
) -> list[Section]:
    """Read the sections from order 2 on, and the end of the file."""
    sections = [
        read_section(lines, k, number, len(numbers), place)
        for k, number in enumerate(numbers[1:], start=2)
    ]
    lines.expect("\\end\\")
    return sections


def _remove_empty_orders(unigrams: Section, sections: list[Section]) -> None:
    """Remove the highest orders without n-grams, unless there are back-off weights below them."""
    while sections and not len(sections[-1].ids):
        below = sections[-2] if len(sections) > 1 else unigrams
        if below.log10_backoffs.any():
            return
        sections.pop()


def _leave_out_padding(section: Section) -> Section:
    """Leave out n-grams with the word `<pad>`: its id is the mask, so no context can hold it."""
    kept = (section.ids != PAD_ID).all(axis=1)
    return Section(*(column[kept] for column in section))


def _build(
    log10_prob: np.ndarray,
    log10_backoff: np.ndarray,
    sections: Sequence[Section],
    boundary: str | None,
    refuse_repeated: Callable[[Section, np.ndarray], None],
    zero: float = _LOG10_ZERO,
) -> BackoffModel:
    """Build the model from the unigrams by id, and from the section of each order from 2 on.

    A log10 of `zero` or less is of probability 0.
    """

    def convert(log10_probs: np.ndarray) -> np.ndarray:
        return np.where(log10_probs <= zero, -np.inf, log10_probs * _LN10).astype(np.float32)

    size = len(log10_prob)
    keys = []
    log_probs = []
    backoffs = [(log10_backoff * _LN10).astype(np.float32)] if sections else []
    # an n-gram below the highest order may be a context, the beginning of an n-gram must be one
    possible = [section.ids for section in sections[:-1]]
    possible += [section.ids[:, :-1] for section in sections]
    trie = ContextTrie.from_contexts(size, possible, len(sections))
    for k, section in enumerate(sections, start=2):
        ids = section.ids
        key = trie.find_keys(ids)
        refuse_repeated(section, key)
        by_key = np.argsort(key)
        keys.append(key[by_key])
        log_probs.append(convert(section.log10_probs)[by_key])
        if k <= len(sections):
            values = np.zeros(trie.sizes[k - 1], np.float32)
            values[trie.find_nodes(ids)] = section.log10_backoffs * _LN10
            backoffs.append(values)
    return BackoffModel(trie, convert(log10_prob), keys, log_probs, backoffs, boundary)


def _refuse_large_backoffs(
    lines: ArpaLines, model: BackoffModel, sections: Sequence[Section], words: Sequence[str]
) -> None:
    """Refuse a back-off weight above 1 that makes the probabilities after its context sum to more
    than 1.
    """
    is_word = np.zeros(model.vocabulary_size, bool)
    is_word[sections[0].ids[:, 0]] = True
    mass = BackoffMass(model, is_word)
    for k, section in enumerate(sections, start=1):
        rows = np.flatnonzero(section.log10_backoffs > 0)
        nodes = model.contexts.find_nodes(section.ids[rows])
        above = mass.masses[k - 1][model.contexts.parents(k)[nodes]]
        backoffs = 10.0 ** section.log10_backoffs[rows]
        totals = mass.masses[k][nodes]
        too_large = totals > np.maximum(above, 1) * (1 + _ROUNDING) + _DIGITS * backoffs
        if too_large.any():
            first = int(np.argmax(too_large))
            row = rows[first]
            context = " ".join(words[i] for i in section.ids[row])
            expected = (
                f"a back-off with which the probabilities after {context!r} sum to 1, "
                f"not {totals[first]:.3g}"
            )
            raise lines.error(section.numbers[row], expected, f"{section.log10_backoffs[row]:g}")
