"""The Brown corpus (Francis & Kucera 1964) in NLTK's packaging, with the split of Bengio et al.
(2003).
"""

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from keras_nplm.data.corpora.download import check_sha256, download_file
from keras_nplm.io.remote import fetch

URL = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/brown.zip"
SHA256 = "9b275f9b3b95d7bd66ccfb7cd259f445a13bbe5d1f4107aba09fd3e8364bafa6"
BYTES = 3_314_357
# tokens before the first and after the last sentence: a split ends with the first sentence to reach
# its mark
_RANGES = {
    "train": (0, 800_000),
    "validation": (800_000, 1_000_000),
    "test": (1_000_000, float("inf")),
}


def find_archive(data_dir: str | None = None) -> Path:
    """Find `brown.zip` in a directory, local or remote, download it if it is absent, and check its
    sha256.
    """
    directory = data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    archive = fetch(os.path.join(os.path.expanduser(directory), "brown.zip"))
    if not archive.is_file():
        download_file(URL, SHA256, archive)
    check_sha256(archive, SHA256, URL, archive)
    return archive


def read_split(archive: Path, split: str, *, marks: bool = False) -> Iterator[list[str]]:
    """Read the sentences of one split of the Brown corpus, as lists of tokens; an empty one ends a
    text.

    The files ca01 … cr09 in the order of their names are one running text, split as in section 4 of
    the paper. Case and punctuation are kept. `marks` adds the tokens `<text>` and `<paragraph>`
    before the first sentence of each.
    """
    first, last = _RANGES[split]
    tokens = 0
    for sentence in _read_sentences(archive, marks):
        if tokens >= last:
            return
        if tokens >= first:
            yield sentence
        tokens += len(sentence)


def read_lines(archive: Path, split: str, *, marks: bool = False) -> Iterator[str]:
    """Read the sentences of one split as lines: tokens joined by single spaces."""
    return map(" ".join, read_split(archive, split, marks=marks))


def _read_sentences(archive: Path, marks: bool) -> Iterator[list[str]]:
    """Read the sentences of all files in name order: a line holds `word/tag` pairs, a blank line
    ends a paragraph.
    """
    with zipfile.ZipFile(archive) as files:
        for name in sorted(
            name for name in files.namelist() if len(Path(name).name) == 4 and name[-4] == "c"
        ):
            lines = files.read(name).decode("ascii").splitlines()
            opening = ["<text>", "<paragraph>"]
            for line in lines:
                if line.strip():
                    yield [
                        *(opening if marks else []),
                        *(pair.rpartition("/")[0] for pair in line.split()),
                    ]
                    opening = []
                else:
                    opening = opening or ["<paragraph>"]
            yield []
