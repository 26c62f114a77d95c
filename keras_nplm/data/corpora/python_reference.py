"""The embedded default: the Python Language Reference that every CPython carries, as a TFDS builder."""

import pydoc_data.topics
import re
import sys
import zlib
from collections.abc import Iterator

import tensorflow_datasets as tfds

from keras_nplm.data.tokenizers import split_words

# A line of a table, or one that only underlines a title.
_RULE = re.compile(r"""\s*([*=\-^~"])\1{2,}\s*|\s*[+|].*[+|]\s*""")
_SENTENCE_END = re.compile(r"""(?<=[.!?])["”)*]*\s+(?=["“(*\[]*[A-Z])""")


class PythonReference(tfds.core.GeneratorBasedBuilder):
    """About 65,000 tokens of real English with no download: `pydoc_data.topics`, what `help("assert")` prints.

    Paragraphs are joined and split into sentences, then into words and punctuation (`split_words`). Tables, grammar
    rules, interactive sessions and the underlining of titles are left out. Topics repeat one another's paragraphs
    ("while" stands again within "compound"): each is kept once, so that no test sentence was seen in training for
    that reason. The split is by whole topics, chosen by a checksum of the topic's name: about 80/10/10 per cent of
    the tokens. The text is that of the running Python, so its figures differ a little from version to version.

    Example:

    >>> train = tfds.load("python_reference", split="train", data_dir=getfixture("tmp_path"))  # doctest: +ELLIPSIS
    Downloading and preparing dataset ...
    >>> next(train.as_numpy_iterator())["text"]
    b'The " assert " statement'
    """

    url_infos = {}  # nothing to download: the checksums beside this module are Brown's
    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "Sentences of words and punctuation, split by topic."}
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="{}.{}.{}".format(*sys.version_info[:3]), description="The running Python's text.")
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description="The Python Language Reference, one tokenised sentence an example.",
            features=tfds.features.FeaturesDict({"text": tfds.features.Text(doc="tokens joined by single spaces")}),
            homepage="https://docs.python.org/3/reference/",
            license="Python Software Foundation License Version 2",
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        del dl_manager  # nothing to download
        sentences: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
        seen: set[str] = set()
        for topic, text in sorted(pydoc_data.topics.topics.items()):
            for paragraph in _paragraphs(text):
                if paragraph not in seen:
                    seen.add(paragraph)
                    sentences[_split_of(topic)].extend(_SENTENCE_END.split(paragraph))
        return {split: self._generate_examples(lines) for split, lines in sentences.items()}

    def _generate_examples(self, sentences: list[str]) -> Iterator[tuple[int, dict]]:
        for number, sentence in enumerate(sentences):
            yield number, {"text": " ".join(split_words(sentence))}


def _split_of(topic: str) -> str:
    """The split of a topic: the same on every machine and for every version of Python."""
    return {0: "test", 1: "test", 2: "validation", 3: "validation"}.get(zlib.crc32(topic.encode()) % 20, "train")


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a topic as single lines, without what is not prose."""
    for block in re.split(r"\n\s*\n", text):
        paragraph = " ".join(" ".join(line for line in block.splitlines() if not _RULE.fullmatch(line)).split())
        if paragraph and "::=" not in paragraph and not paragraph.startswith(">>>"):
            yield paragraph
