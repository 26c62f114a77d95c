"""The file of forms beside a `vocabulary.txt`: many surface forms to one word, for vocabularies of lemmas."""

import contextlib
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_nplm.errors import InputError, RunError
from keras_nplm.files import read_text, replacing


def forms_beside(path: str | os.PathLike) -> Path:
    """Where the forms of a vocabulary are.

    Args:
        path: of the vocabulary.

    Example:

    >>> forms_beside("model/vocabulary.txt").name, forms_beside("brown.tflite.vocabulary.txt").name
    ('forms.tsv', 'brown.tflite.forms.tsv')
    """
    name = Path(path).name
    stem = name.removesuffix("vocabulary.txt")
    return Path(path).with_name(f"{stem}forms.tsv" if stem != name else f"{name}.forms.tsv")


def write_forms(path: Path, forms: Mapping[str, str] | None, words: Sequence[str]) -> None:
    """Write a line for each form, itself and its word with a tab between; without forms there is no such file.

    Args:
        path: the file.
        forms: forms, each with its word.
        words: of the vocabulary, whose checksum is in the first line.

    Raises:
        RunError: the file cannot be written.
    """
    if forms is not None:
        lines = "".join(f"{form}\t{word}\n" for form, word in forms.items())
        with replacing(path) as temporary:
            temporary.write_bytes(f"{_head(lines, words)}\n{lines}".encode())
        return
    try:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # of a vocabulary that stood there before
    except OSError as error:
        raise RunError(f"Cannot remove {path}: {error.strerror}. It is of another vocabulary: remove it.") from error


def read_forms(path: Path, words: Sequence[str]) -> dict[str, str] | None:
    """Read what `write_forms` wrote.

    Args:
        path: the file.
        words: of the vocabulary that lies beside it.

    Returns:
        None where there is no such file.

    Raises:
        InputError: the file is damaged, or of another vocabulary.

    Example:

    >>> path = getfixture("tmp_path") / "forms.tsv"
    >>> write_forms(path, {"cats": "cat"}, ["the", "cat"])
    >>> read_forms(path, ["the", "cat"])
    {'cats': 'cat'}
    """
    if not os.path.lexists(path):
        return None
    head, _, lines = read_text(path).partition("\n")
    rows = [line.split("\t") for line in lines.split("\n")]
    forms = dict(row for row in rows if len(row) == 2)
    if head != _head(lines, words) or rows[-1] != [""] or len(forms) != len(rows) - 1:
        raise InputError(f"{path} was changed or cut short, or is of another vocabulary: make the model again.")
    return forms


def _head(lines: str, words: Sequence[str]) -> str:
    """The first line, whose checksum tells whether the rest is whole, and of which vocabulary it is."""
    checksum = zlib.crc32("\n".join([*words, lines]).encode())
    return f"form\tword\tcrc32 {checksum:08x}"
