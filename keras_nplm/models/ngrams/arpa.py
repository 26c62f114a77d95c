"""ARPA files: the text format of back-off n-gram models, as KenLM and SRILM read and write it."""

import gzip
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.special_ids import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import check_argument
from keras_nplm.io.files import replace_file
from keras_nplm.io.text import open_text
from keras_nplm.models.base import row_blocks
from keras_nplm.models.ngrams.arpa_lines import ArpaLines, Section, read_header, read_section
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.mass import BackoffMass
from keras_nplm.models.ngrams.tables import ContextTrie

_LN10 = np.log(10)
_LOG10_ZERO = -99.0  # by convention, the log10 of probability 0
_ROUNDING = 0.01  # relative, by which the probabilities after a context may sum to more than 1
_DIGITS = 1e-3  # the same for what a back-off weight multiplies: some tools write four digits
_BLOCK = 1 << 16  # n-grams that are written at a time
_UNK = "<UNK>"  # as some tools write <unk>


def write_arpa(path: str | os.PathLike, model: BackoffModel, vocabulary: Vocabulary) -> None:
    """Write a back-off n-gram model as an ARPA file, gzipped if the name ends in `.gz`, in bounded memory.

    Probabilities are written as log10, in 7 digits. Every file lists `<s>`, `</s>` and each word of a listed n-gram, as
    readers need them; those without a probability get -99. In a model with the boundary `"stream"` that is `</s>`, too.
    Other readers begin each line after `<s>`, so they score a model of the boundary `"text"` without the lines before.

    Raises:
        InputError: the vocabulary has a different size than the model.
        RunError: the file cannot be written.
    """
    size, fix = model.vocabulary_size, "pass the vocabulary of the model."
    check_argument("vocabulary", len(vocabulary) == size, f"of {size} words, as the model", len(vocabulary), fix)
    words = np.array(vocabulary.words, dtype=object)
    is_listed = np.isfinite(model.unigrams)
    is_listed[[BOS_ID, EOS_ID]] = True
    for order, keys in enumerate(model.keys, start=2):
        for block in row_blocks(len(keys), _BLOCK):
            is_listed[model.ngrams(order, block)] = True
    unigrams = np.flatnonzero(is_listed)
    opener = gzip.open if Path(path).suffix.lower() == ".gz" else open
    with replace_file(path) as temporary, opener(temporary, "wt", encoding="utf-8", newline="\n") as file:
        file.write("\\data\\\n")
        for order, number in enumerate([len(unigrams), *map(len, model.keys)], start=1):
            file.write(f"ngram {order}={number}\n")
        for order in range(1, model.order + 1):
            file.write(f"\n\\{order}-grams:\n")
            for block in row_blocks(len(unigrams) if order == 1 else len(model.keys[order - 2]), _BLOCK):
                ids, log_probs = unigrams[block, None], model.unigrams[unigrams[block]]
                if order > 1:
                    ids, log_probs = model.ngrams(order, block), model.log_probs[order - 2][block]
                columns = [_format_log10(log_probs), map(" ".join, words[ids].tolist())]
                if order < model.order:
                    nodes = model.contexts.find_nodes(ids)
                    columns.append(_format_log10(np.where(nodes < 0, 0, model.backoffs[order - 1][nodes])))
                file.writelines(map("{}\n".format, map("\t".join, zip(*columns, strict=True))))
        file.write("\n\\end\\\n")


def _format_log10(log_probs: np.ndarray) -> Iterator[str]:
    finite = np.where(np.isfinite(log_probs), log_probs / _LN10, _LOG10_ZERO)
    return map("{:.7g}".format, np.where(finite == 0, 0.0, finite).tolist())


def read_arpa(
    path: str | os.PathLike, vocabulary: Vocabulary | None = None, boundary: str | None = None
) -> tuple[BackoffModel, Vocabulary]:
    """Read a back-off n-gram model from an ARPA file of KenLM, SRILM or `write_arpa`, compressed or not.

    The file is read as a stream: memory holds the tables of the model and about twice their size while they are sorted.

    Args:
        path: the file.
        vocabulary: the vocabulary whose ids the words get. A word of the vocabulary that is not in the file gets the
            probability of the file's `<unk>`, as in KenLM. With `lmplz --vocab_pad |V|` the sum is 1. Default: the
            words of the file, in its order.
        boundary: `"sentence"`, `"text"` or `"stream"`, how the training text was cut into n-grams. Default:
            `"sentence"` if the file gives `</s>` a probability, else `"stream"`.

    Returns:
        the model and its vocabulary.

    Raises:
        InputError: the file is absent, not UTF-8 or malformed (the error names the line), or has a word that is not in
            the vocabulary.
    """
    with open_text(path) as file:
        lines = ArpaLines(Path(path), file)
        numbers = read_header(lines)
        words = SPECIALS if vocabulary is None else vocabulary.words
        place = {word: i for i, word in enumerate(words)} | {_UNK: UNK_ID}
        unigrams = read_section(lines, 1, numbers[0], len(numbers), place, adds_words=vocabulary is None)
        if vocabulary is None:
            vocabulary = Vocabulary([word for word, i in place.items() if i >= len(SPECIALS)])
        size, ids = len(vocabulary), unigrams.ids[:, 0]
        lines.refuse_repeated(unigrams, ids, vocabulary.words)
        log_prob = np.full(size, -np.inf)
        log_prob[ids] = unigrams.log10_probs * _LN10
        missing = np.setdiff1d(np.arange(size), [*ids, PAD_ID, BOS_ID, EOS_ID])
        log_prob[missing] = log_prob[UNK_ID]
        log_prob[[PAD_ID, BOS_ID]] = -np.inf
        backoff = np.zeros(size)
        backoff[ids] = unigrams.log10_backoffs * _LN10
        sections = [read_section(lines, k, n, len(numbers), place) for k, n in enumerate(numbers[1:], start=2)]
        lines.expect("\\end\\")
        if not sections:  # a context has a word at least, which an order of 1 never sees
            sections = [Section(np.zeros(0, np.int64), np.zeros((0, 2), np.int32), np.zeros(0), np.zeros(0))]
        model = _build(lines, vocabulary, log_prob, backoff, sections, boundary)
        if any((section.log10_backoffs > 0).any() for section in (unigrams, *sections)):
            _refuse_large_backoffs(lines, model, [unigrams, *sections[:-1]], vocabulary.words)
        return model, vocabulary


def _build(
    lines: ArpaLines,
    vocabulary: Vocabulary,
    log_prob: np.ndarray,
    backoff: np.ndarray,
    sections: Sequence[Section],
    boundary: str | None,
) -> BackoffModel:
    """Build the model from unigrams, and from the section of each order from 2 on."""
    size = len(vocabulary)
    keys, log_probs, backoffs = [], [], [backoff.astype(np.float32)]
    # an n-gram below the highest order may be a context, the beginning of an n-gram must be one
    possible = [section.ids for section in sections[:-1]] + [section.ids[:, :-1] for section in sections]
    trie = ContextTrie.from_contexts(size, possible, len(sections))
    for k, section in enumerate(sections, start=2):
        ids = section.ids
        key = trie.find_nodes(ids[:, :-1]) * size + ids[:, -1]
        lines.refuse_repeated(section, key, vocabulary.words)
        by_key = np.argsort(key)
        keys.append(key[by_key])
        log_probs.append(_from_log10(section.log10_probs)[by_key])
        if k <= len(sections):
            values = np.zeros(trie.sizes[k - 1], np.float32)
            values[trie.find_nodes(ids)] = section.log10_backoffs * _LN10
            backoffs.append(values)
    return BackoffModel(trie, _from_log10(log_prob / _LN10), keys, log_probs, backoffs, boundary)


def _refuse_large_backoffs(
    lines: ArpaLines, model: BackoffModel, sections: Sequence[Section], words: Sequence[str]
) -> None:
    """Refuse a back-off weight above 1 that makes the probabilities after its context sum to more than 1."""
    is_word = np.zeros(model.vocabulary_size, bool)
    is_word[sections[0].ids[:, 0]] = True
    mass = BackoffMass(model, is_word)
    for k, section in enumerate(sections, start=1):
        rows = np.flatnonzero(section.log10_backoffs > 0)
        nodes = model.contexts.find_nodes(section.ids[rows])
        parents = model.contexts.parents(k)
        above = mass.empty if parents is None else mass.masses[k - 2][parents[nodes]]
        backoffs = 10.0 ** section.log10_backoffs[rows]
        too_large = mass.masses[k - 1][nodes] > np.maximum(above, 1) * (1 + _ROUNDING) + _DIGITS * backoffs
        if too_large.any():
            row = rows[np.argmax(too_large)]
            context = " ".join(words[i] for i in section.ids[row])
            total = mass.masses[k - 1][nodes][np.argmax(too_large)]
            expected = f"a back-off with which the probabilities after {context!r} sum to 1, not {total:.3g}"
            raise lines.error(section.numbers[row], expected, f"{section.log10_backoffs[row]:g}")


def _from_log10(log10_probs: np.ndarray) -> np.ndarray:
    return np.where(log10_probs <= _LOG10_ZERO, -np.inf, log10_probs * _LN10).astype(np.float32)
