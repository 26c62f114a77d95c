"""The embedded default corpus: the Python Language Reference, which every CPython carries.

No download. Run as a module, it prints the text, one sentence per line:
`python -m keras_nplm.data.corpora.python_reference > my.txt`.
"""

import pydoc_data.topics
import re
import sys
import zlib
from collections.abc import Iterator

from keras_nplm.data.corpus import SPLITS

# The remainder of a topic's checksum gives its split: the same in every version of Python.
_TOPIC_GROUPS = 20
_SPLITS = {0: "test", 1: "test", 2: "validation", 3: "validation"}
_LIST_MARK = re.compile(r"^(?:\* |\d+\. )\s*")
_CODE = re.compile(r'"([^"]+)"|``?([^`]+)``?')  # `"x"`, or in later versions ``x``
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}(\w[^*]*)\*{1,2}(?![\w*])")
_FOOTNOTE = re.compile(r" ?\[\d+\]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[”)]*\s+(?=[“(]*[A-Z])")
# Words and the punctuation of prose. Code, tables, grammar rules and titles are no sentences: they
# hold other signs, or have no full stop.
_SENTENCE = re.compile(r"[(“‘]?\w[\w\s.,;:()’‘“”'/…–—-]*[.!?:][)”’]*")


def read_split(split: str) -> Iterator[str]:
    """Read the sentences of one split of `pydoc_data.topics`, the text of `help("assert")`.

    About 44,000 tokens of English prose, without markup, code, tables, grammar rules and titles. A
    paragraph that several topics repeat is kept once. The split is by whole topics: about 80/10/10
    per cent of the tokens. The text belongs to the running Python: its figures differ between
    versions.

    >>> next(read_split("train"))
    'Assert statements are a convenient way to insert debugging assertions into a program:'
    """
    seen: set[str] = set()
    for topic, text in sorted(pydoc_data.topics.topics.items()):
        for block in re.split(r"\n\s*\n", text):
            paragraph = " ".join(block.split())
            if paragraph in seen:
                continue
            seen.add(paragraph)
            if _choose_split(topic) == split:
                yield from _find_sentences(paragraph)


def _choose_split(topic: str) -> str:
    return _SPLITS.get(zlib.crc32(topic.encode()) % _TOPIC_GROUPS, "train")


def _find_sentences(paragraph: str) -> list[str]:
    """Remove the markup of a paragraph, and keep its sentences."""
    text = _LIST_MARK.sub("", paragraph)
    text = _CODE.sub(lambda code: code[1] or code[2], text)
    text = _EMPHASIS.sub(r"\1", text)
    text = _FOOTNOTE.sub("", text)
    return [part for part in _SENTENCE_END.split(text) if _SENTENCE.fullmatch(part)]


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for name in SPLITS:
        for sentence in read_split(name):
            print(sentence)
