"""ARPA files as language models: read and check them."""

import os
import sys
from pathlib import Path

import numpy as np

from keras_nplm.data.boundary import predicts_end
from keras_nplm.data.ids import EOS_ID, SPECIALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.remote import fetch
from keras_nplm.io.text import check_is_file, open_text
from keras_nplm.language_model.codec import TextCodec
from keras_nplm.models.ngrams import BackoffModel
from keras_nplm.models.ngrams.arpa import ArpaFile, read_arpa_file
from keras_nplm.models.spelling import SpellingModel

TOKENIZER = "whitespace"  # of ARPA files and counts, whose words stand between white space
_EXPECTED = "A model directory or an ARPA file is needed."
_NAME_MODEL = "name a directory that `train`, `ngram` or `mix` wrote, or an ARPA file."
_MOST_OFF = 0.01  # how far a sum of rounded probabilities may be from 1
_CHECKED = 16  # contexts of one word whose probabilities are summed
_BINARY = b"mmap lm http://kheafield.com/code"  # the beginning of a binary file of KenLM
_HEADER = b"\\data\\"
_HEAD = 1 << 20  # bytes in which the header begins; SRILM writes comments before it


def is_arpa_file(path: str | os.PathLike) -> bool:
    """Return whether a path is a file: what `LanguageModel.load` reads as an ARPA file."""
    return fetch(path).is_file()


def check_arpa_file(path: str | os.PathLike) -> None:
    """Refuse a path that is no file, or a file without the header of ARPA files."""
    found = fetch(path)
    if not found.exists():
        received = "which does not exist"
        fix = f"check the name, or train a model with `keras-nplm train --output {path}`."
    else:
        check_is_file(found)  # its beginning is read again
        with open_text(found) as file:
            head = file.read(_HEAD)
        if _HEADER in head:
            return
        received = "a file without the line \\data\\"
        fix = f"{_NAME_MODEL} `evaluate` takes a text after --text."
        if head.startswith(_BINARY):
            received = "a binary file of KenLM"
            fix = "name the ARPA file that `build_binary` read."
    raise InputError(f"{_EXPECTED} Received: {path}, {received}. Fix: {fix}")


def read_arpa_model(
    path: str | os.PathLike,
    *,
    vocabulary: Vocabulary | None = None,
    spelling: SpellingModel | None = None,
    tokenizer: str | Tokenizer | None = None,
    boundary: str | None = None,
) -> tuple[BackoffModel, TextCodec]:
    """Read an ARPA file as a model with the codec of its text, and print to standard error where it
    differs from the vocabulary.

    Args:
        path: the file.
        vocabulary: the vocabulary whose ids to use; see `read_arpa`. Default: the words of the
            file.
        spelling: the spelling model of that vocabulary. Default: one is made of the words of the
            file.
        tokenizer: the tokenizer. Default: `"whitespace"`.
        boundary: the boundary. Default: `"sentence"` if the file gives `</s>` a probability, else
            `"stream"`.

    Raises:
        InputError: the file is absent or malformed, it has no word of the vocabulary, or it gives
            `</s>` probability 0 where the boundary needs it.
    """
    read = read_arpa_file(fetch(path), vocabulary, boundary)
    model = read.model
    known = model.boundary or "sentence"
    if predicts_end(known) and np.isneginf(model.unigrams[EOS_ID]):
        raise InputError(
            f"With boundary {known}, </s> must have a probability above 0 in {path}. "
            "Received: probability 0. Fix: add --boundary stream."
        )
    _print_differences(path, read)
    chosen = get_tokenizer(tokenizer or TOKENIZER)
    if spelling is None and chosen.has_unknown:
        # of the words of the file by frequency: it holds no out-of-vocabulary words
        first = len(SPECIALS)
        by_frequency = first + np.argsort(-model.unigrams[first:], kind="stable")
        words = Vocabulary(read.vocabulary.decode(by_frequency))
        spelling = SpellingModel.from_vocabulary(words)
    codec = TextCodec(read.vocabulary, chosen, known, spelling)
    _warn_of_sums(path, model, codec)
    return model, codec


def _print_differences(path: str | os.PathLike, read: ArpaFile) -> None:
    name = Path(path).name
    if read.outside:
        print(
            f"{read.outside:,} words of {name} are not in the vocabulary. They count as <unk>, "
            "which gets the sum of their probabilities.",
            file=sys.stderr,
        )
    if read.absent:
        number = len(read.vocabulary) - len(SPECIALS)
        print(
            f"{name} lacks {read.absent:,} of {number:,} words of the vocabulary. They have a "
            "share of the probability of its <unk>.",
            file=sys.stderr,
        )


def _warn_of_sums(path: str | os.PathLike, model: BackoffModel, codec: TextCodec) -> None:
    """Warn if the probabilities of all words do not sum to 1, after no word or after one."""
    words = np.linspace(len(SPECIALS), model.vocabulary_size - 1, _CHECKED).astype(np.int32)
    contexts = np.tile(codec.first_context(model.order), (1 + _CHECKED, 1))
    contexts[1:, -1:] = words[:, None]
    sums = np.exp(model.next_log_probs(contexts)).sum(axis=1)
    furthest = sums[np.abs(sums - 1).argmax()]
    if abs(furthest - 1) > _MOST_OFF:
        print(
            f"Warning: the probabilities of {Path(path).name} sum to {furthest:.3f} in a context, "
            "not to 1, so that its perplexity is not comparable. Fix: normalise the file, as "
            "`ngram -renorm` of SRILM does.",
            file=sys.stderr,
        )
