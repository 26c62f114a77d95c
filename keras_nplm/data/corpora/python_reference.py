"""The embedded default corpus: the Python Language Reference, which every CPython carries.

No download.
"""

import pydoc_data.topics
import re
import zlib
from collections.abc import Iterator

from keras_nplm.data.tokenizers.words import split_words

# A line of a table, or a line that underlines a title.
_RULE = re.compile(r"""\s*([*=\-^~"])\1{2,}\s*|\s*[+|].*[+|]\s*""")
# the same in every version of Python
_SPLITS = {0: "test", 1: "test", 2: "validation", 3: "validation"}
_SENTENCE_END = re.compile(r"""(?<=[.!?])["”)*]*\s+(?=["“(*\[]*[A-Z])""")


def read_split(split: str) -> Iterator[list[str]]:
    """Read the sentences of one split of `pydoc_data.topics`, the text of `help("assert")`, as
    lists of tokens.

    About 65,000 tokens of English prose, without tables, grammar rules and interactive sessions; a
    paragraph that several topics repeat is kept once. The split is by whole topics: about 80/10/10
    per cent of the tokens. The text belongs to the running Python: its figures differ between
    versions.
    """
    seen: set[str] = set()
    for topic, text in sorted(pydoc_data.topics.topics.items()):
        for paragraph in _read_paragraphs(text):
            if paragraph in seen:
                continue
            seen.add(paragraph)
            if _SPLITS.get(zlib.crc32(topic.encode()) % 20, "train") == split:
                yield from map(split_words, _SENTENCE_END.split(paragraph))


def _read_paragraphs(text: str) -> Iterator[str]:
    """Read the paragraphs of prose of a topic as single lines."""
    for block in re.split(r"\n\s*\n", text):
        paragraph = " ".join(
            " ".join(line for line in block.splitlines() if not _RULE.fullmatch(line)).split()
        )
        if paragraph and "::=" not in paragraph and not paragraph.startswith(">>>"):
            yield paragraph
