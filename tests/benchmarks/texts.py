"""The nine texts of `default --texts`, made from public corpora.

`python -m tests.benchmarks.texts CORPORA TEXTS` writes them to the directory TEXTS,
with a sentence, a line of verse or a saying in each line. CORPORA holds these files of NLTK and of
Debian, which nothing here downloads:

- `brown.zip`, `inaugural.zip`, `masc_tagged.zip`, `shakespeare.zip`, `state_union.zip` of NLTK,
- `debian/`, made by `dpkg-deb -x` from the packages fortunes, debian-reference-de and manpages-de.
"""

import gzip
import random
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from keras_nplm.io.files import replace_file

_SENTENCE_END = re.compile(r"""(?<=[.!?]) (?=["'A-ZÄÖÜ])""")
_VERSE = re.compile(r"<LINE>(.*?)</LINE>", re.DOTALL)
_XML_TAG = re.compile(r"<.*?>")
_BROWN_FILE = re.compile(r".*/c([a-r])\d\d")  # with its category
_TROFF_ESCAPE = re.compile(r"\\(?:f.|[,/&|^]|\(..|\[.*?\])")
_PRESS = "abc"  # categories of Brown
_FICTION = "klmnpr"
_SHARE = Path("debian/usr/share")


def read_inaugural(corpora: Path) -> Iterator[str]:
    return _read_addresses(corpora / "inaugural.zip")


def read_press(corpora: Path) -> Iterator[str]:
    return _read_brown(corpora, _PRESS)


def read_shakespeare(corpora: Path) -> Iterator[str]:
    for _, text in _read_members(corpora / "shakespeare.zip", ".xml"):
        for verse in _VERSE.findall(text):
            yield _XML_TAG.sub("", verse).replace("&amp;", "&")


def read_fiction(corpora: Path) -> Iterator[str]:
    return _read_brown(corpora, _FICTION)


def read_union(corpora: Path) -> Iterator[str]:
    return _read_addresses(corpora / "state_union.zip")


def read_fortunes(corpora: Path) -> Iterator[str]:
    for path in sorted((corpora / _SHARE / "games" / "fortunes").iterdir()):
        if not path.suffix:
            yield from path.read_text(encoding="utf-8").split("\n%\n")


def read_masc(corpora: Path) -> Iterator[str]:
    """Read the sentences of all kinds of text, shuffled: each split has each kind."""
    sentences = [
        sentence
        for _, text in _read_members(corpora / "masc_tagged.zip", ".txt")
        for sentence in _remove_tags(text, "_")
    ]
    random.Random(0).shuffle(sentences)
    yield from sentences


def read_german_reference(corpora: Path) -> Iterator[str]:
    path = corpora / _SHARE / "debian-reference" / "debian-reference.de.txt.gz"
    for paragraph in _decompress(path).split("\n\n"):
        yield from _split_sentences(paragraph)


def read_german_manual(corpora: Path) -> Iterator[str]:
    """Read the pages of commands; a request of troff, such as `.TP`, ends a paragraph."""
    for path in sorted((corpora / _SHARE / "man" / "de" / "man1").glob("*.gz")):
        lines = _decompress(path).splitlines()
        text = "\n".join("" if line.startswith((".", "'")) else line for line in lines)
        text = _TROFF_ESCAPE.sub("", text).replace("\\", "")
        for paragraph in text.split("\n\n"):
            yield from _split_sentences(paragraph)


TEXTS: dict[str, Callable[[Path], Iterator[str]]] = {
    "inaugural": read_inaugural,
    "press": read_press,
    "shakespeare": read_shakespeare,
    "brown-fiction": read_fiction,
    "union": read_union,
    "fortunes": read_fortunes,
    "masc-shuffled": read_masc,
    "reference-de": read_german_reference,
    "man-de": read_german_manual,
}


def write_texts(corpora: Path, directory: Path) -> None:
    """Write all texts to a directory, which is made."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, read in TEXTS.items():
        lines = (" ".join(sentence.split()) for sentence in read(corpora))
        text = "".join(f"{line}\n" for line in lines if line)
        with replace_file(directory / f"{name}.txt") as temporary:
            temporary.write_text(text, encoding="utf-8")


def _read_addresses(path: Path) -> Iterator[str]:
    for _, text in _read_members(path, ".txt"):
        yield from _split_sentences(text)


def _read_brown(corpora: Path, categories: str) -> Iterator[str]:
    for name, text in _read_members(corpora / "brown.zip", ""):
        file = _BROWN_FILE.fullmatch(name)
        if file is not None and file[1] in categories:
            yield from _remove_tags(text, "/")


def _read_members(path: Path, suffix: str) -> Iterator[tuple[str, str]]:
    """Read the texts of an archive: pairs of name and text, in the order of names."""
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(suffix) and "README" not in name:
                yield name, archive.read(name).decode("utf-8", errors="replace")


def _decompress(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def _remove_tags(text: str, mark: str) -> Iterator[str]:
    """Return the sentences of a tagged text: words in a line, each followed by a mark and a tag."""
    for line in text.splitlines():
        words: Iterable[str] = (word.rpartition(mark)[0] for word in line.split())
        yield " ".join(words)


def _split_sentences(text: str) -> list[str]:
    return _SENTENCE_END.split(" ".join(text.split()))


if __name__ == "__main__":
    write_texts(*map(Path, sys.argv[1:]))
