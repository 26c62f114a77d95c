"""The nine texts of `default --texts`, made from public corpora.

`python -m tests.benchmarks.texts CORPORA TEXTS` writes them to the directory TEXTS,
with a sentence, a line of verse or a saying in each line. CORPORA holds these files of NLTK and of
Debian, which nothing here downloads:

- `brown.zip`, `inaugural.zip`, `masc_tagged.zip`, `shakespeare.zip`, `state_union.zip` of NLTK,
- `debian/`, made by `dpkg-deb -x` from the packages fortunes, debian-reference-de and manpages-de.
"""

import functools
import gzip
import random
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from keras_nplm.io.files import replace_file

_SENTENCE_END = re.compile(r"""(?<=[.!?]) (?=["'A-ZÄÖÜ])""")
_VERSE = re.compile(r"<LINE>(.*?)</LINE>", re.DOTALL)
_XML_TAG = re.compile(r"<.*?>")
_TROFF_REQUEST = re.compile(r"^[.'].*$", re.MULTILINE)  # such as `.TP`, which ends a paragraph
_TROFF_ESCAPE = re.compile(r"\\(?:f.|[,/&|^]|\(..|\[.*?\])")
_SHARE = "debian/usr/share"


def split_sentences(text: str) -> Iterator[str]:
    """Split each paragraph of a text into sentences."""
    for paragraph in text.split("\n\n"):
        yield from _SENTENCE_END.split(" ".join(paragraph.split()))


def split_addresses(text: str) -> Iterator[str]:
    return split_sentences(" ".join(text.split()))


def split_tagged(mark: str, text: str) -> Iterator[str]:
    """Split a tagged text: words in a line, each followed by a mark and a tag."""
    for line in text.splitlines():
        yield " ".join(word.rpartition(mark)[0] for word in line.split())


def split_verses(text: str) -> Iterator[str]:
    for verse in _VERSE.findall(text):
        yield _XML_TAG.sub("", verse).replace("&amp;", "&")


def split_sayings(text: str) -> Iterator[str]:
    yield from text.split("\n%\n")


def split_manual(text: str) -> Iterator[str]:
    text = _TROFF_ESCAPE.sub("", _TROFF_REQUEST.sub("", text))
    return split_sentences(text.replace("\\", ""))


_split_brown = functools.partial(split_tagged, "/")
# archive or directory, names of its files, how their text is split
TEXTS: dict[str, tuple[str, str, Callable[[str], Iterator[str]]]] = {
    "inaugural": ("inaugural.zip", r"\d+.*\.txt", split_addresses),
    "press": ("brown.zip", r"c[abc]\d\d", _split_brown),
    "shakespeare": ("shakespeare.zip", r".*\.xml", split_verses),
    "brown-fiction": ("brown.zip", r"c[klmnpr]\d\d", _split_brown),
    "union": ("state_union.zip", r"\d+.*\.txt", split_addresses),
    "fortunes": (f"{_SHARE}/games/fortunes", r"[^.]*", split_sayings),
    "masc-shuffled": ("masc_tagged.zip", r".*\.txt", functools.partial(split_tagged, "_")),
    "reference-de": (f"{_SHARE}/debian-reference", r".*\.de\.txt\.gz", split_sentences),
    "man-de": (f"{_SHARE}/man/de/man1", r".*\.gz", split_manual),
}


def write_texts(corpora: Path, directory: Path) -> None:
    """Write all texts to a directory, which is made."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, (source, pattern, split) in TEXTS.items():
        texts = _read_files(corpora / source, re.compile(pattern))
        lines = [" ".join(line.split()) for text in texts for line in split(text)]
        if name == "masc-shuffled":  # each split has each kind of text
            random.Random(0).shuffle(lines)
        with replace_file(directory / f"{name}.txt") as temporary:
            text = "".join(f"{line}\n" for line in lines if line)
            temporary.write_text(text, encoding="utf-8")


def _read_files(source: Path, pattern: re.Pattern[str]) -> Iterator[str]:
    """Read the files of an archive or a directory, in the order of their names."""
    if source.is_dir():
        files = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    else:
        with zipfile.ZipFile(source) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    for name in sorted(files):
        if pattern.fullmatch(name.rpartition("/")[2]):
            content = gzip.decompress(files[name]) if name.endswith(".gz") else files[name]
            yield content.decode("utf-8", errors="replace")


if __name__ == "__main__":
    write_texts(*map(Path, sys.argv[1:]))
