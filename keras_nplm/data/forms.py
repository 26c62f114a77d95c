"""The files beside a `vocabulary.txt`: their names, and `forms.tsv`, the forms of lemmatised
words.
"""

import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_text, replace_file

FORMS = "forms.tsv"
FORMS_MARK = b"form\tword\tcrc32 "  # begins our file
SUBWORDS = "sentencepiece.model"
# before the checksum at the end of our file: protobuf field 1000, fixed 32 bits, which other
# software skips, after all fields of SentencePiece
SUBWORDS_MARK = b"\xc5\x3e"


def companion_path(path: str | os.PathLike, file: str) -> Path:
    """Return the path of a file that belongs to a vocabulary file: beside it, with the same
    beginning of its name.
    """
    name = Path(path).name
    stem = name.removesuffix("vocabulary.txt")
    return Path(path).with_name(f"{stem}{file}" if stem != name else f"{name}.{file}")


def list_companions(path: str | os.PathLike) -> list[Path]:
    """Return the paths of the files that may belong to a vocabulary file."""
    return [companion_path(path, file) for file in (FORMS, SUBWORDS)]


def check_companions(path: str | os.PathLike) -> None:
    """Refuse foreign files of the names that belong to a vocabulary file: they must be neither
    replaced nor read as a part of the vocabulary.
    """
    for file in (FORMS, SUBWORDS):
        companion = companion_path(path, file)
        if os.path.lexists(companion) and not _is_ours(companion, file):
            raise InputError(
                f"{companion} must be absent or a file of keras_nplm: it would be a part of the "
                "vocabulary. Received: a file of other software. Fix: move it, or choose a "
                "different directory."
            )


def _is_ours(companion: Path, file: str) -> bool:
    if not companion.is_file():
        return False
    content = companion.read_bytes()
    return content.startswith(FORMS_MARK) if file == FORMS else content[-6:-4] == SUBWORDS_MARK


def write_forms(path: Path, forms: Mapping[str, str], words: Sequence[str]) -> None:
    """Write `forms.tsv`: a first line with a checksum, then a line `form<TAB>word` for each
    form.
    """
    lines = "".join(f"{form}\t{word}\n" for form, word in forms.items())
    with replace_file(path) as temporary:
        temporary.write_bytes(f"{make_head(lines, words)}\n{lines}".encode())


def read_forms(path: Path, words: Sequence[str]) -> dict[str, str] | None:
    """Read the forms that `write_forms` wrote."""
    if not os.path.lexists(path):
        return None
    head, _, lines = read_text(path).partition("\n")
    if head != make_head(lines, words):
        raise InputError(
            f"{path} does not match vocabulary.txt (checksum mismatch). Fix: restore the file or "
            "retrain."
        )
    return dict(line.split("\t") for line in lines.split("\n")[:-1])


def make_head(lines: str, words: Sequence[str]) -> str:
    """Return the first line of `forms.tsv`: its checksum covers the other lines and the
    vocabulary.
    """
    checksum = zlib.crc32("\n".join([*words, lines]).encode())
    return f"{FORMS_MARK.decode()}{checksum:08x}"
