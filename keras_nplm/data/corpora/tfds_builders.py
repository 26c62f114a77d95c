"""TensorFlow Datasets builders of our corpora: `tfds.load("brown")` and
`tfds.load("python_reference")`, once this module is imported.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import tensorflow_datasets as tfds
from tensorflow_datasets.core.download.checksums import UrlInfo

from keras_nplm.data.corpora import brown, python_reference
from keras_nplm.data.corpus import SPLITS


class _SentenceBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """One sentence an example, in the order of the text."""

    VERSION = tfds.core.Version("1.0.0")
    DESCRIPTION = ""
    LICENSE = ""

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description=self.DESCRIPTION,
            features=tfds.features.FeaturesDict({"text": tfds.features.Text(doc="a sentence")}),
            license=self.LICENSE,
            disable_shuffling=True,
        )

    def _generate_examples(self, sentences: Iterable[str]) -> Iterator[tuple[int, dict]]:
        for number, sentence in enumerate(sentences):
            yield number, {"text": sentence}


class Brown(_SentenceBuilder):
    """The Brown corpus, see `read_split`.

    The archive is read from `manual_dir`, or downloaded, and checked.
    """

    DESCRIPTION = (
        "The Brown corpus, one sentence an example, its tokens joined by single spaces, with the "
        "split of Bengio et al. (2003)."
    )
    LICENSE = "Non-commercial use; redistribution permitted by the copyright holder."
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="plain", description="Words and punctuation."),
        tfds.core.BuilderConfig(
            name="marks", description="Also <text> and <paragraph> before the first of each."
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        f"Put brown.zip from {brown.URL} there, or omit it to have it downloaded."
    )
    url_infos = {brown.URL: UrlInfo(size=brown.BYTES, checksum=brown.SHA256, filename="brown.zip")}

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        archive = Path(dl_manager.download(brown.URL))
        marks = self.builder_config.name == "marks"
        return {
            split: self._generate_examples(brown.read_lines(archive, split, marks=marks))
            for split in SPLITS
        }


class PythonReference(_SentenceBuilder):
    """The Python Language Reference: see `keras_nplm.data.corpora.python_reference.read_split`."""

    VERSION = tfds.core.Version("2.0.0")
    DESCRIPTION = "The Python Language Reference, one sentence an example, without markup."
    LICENSE = "Python Software Foundation License Version 2"
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(
            name="{}.{}.{}".format(*sys.version_info[:3]), description="The running Python's text."
        )
    ]
    url_infos: dict[str, UrlInfo] = {}  # there is nothing to download

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        return {
            split: self._generate_examples(python_reference.read_split(split)) for split in SPLITS
        }
