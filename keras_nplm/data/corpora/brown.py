"""The Brown corpus (Francis & Kucera 1964) in NLTK's packaging, with the split of Bengio et al. (2003), for TFDS."""

import itertools
import zipfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

URL = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/brown.zip"
TRAIN_TOKENS, VALIDATION_TOKENS = 800_000, 1_000_000  # each split ends with the first sentence to reach its mark


class BrownConfig(tfds.core.BuilderConfig):
    """Whether the marks between texts and paragraphs are tokens (`<text>`, `<paragraph>`), as the paper has them."""

    def __init__(self, *, marks: bool, **kwargs):
        super().__init__(**kwargs)
        self.marks = marks


class Brown(tfds.core.GeneratorBasedBuilder):
    """1,161,192 tokens of American English of 1961 in 57,340 sentences, tags stripped, case and punctuation kept.

    The files ca01 … cr09 in the order of their names are one running text, split as in the paper: train until the
    first sentence end at or after 800,000 tokens (800,001 of them), validation until 1,000,000 (200,021), test the
    rest (161,170). The archive is taken from `manual_dir` if it lies there, else downloaded; its sha256 is checked
    either way.

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 4.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "The split of Bengio et al. (2003)."}
    BUILDER_CONFIGS = [
        BrownConfig(name="plain", marks=False, description="Words and punctuation."),
        BrownConfig(name="marks", marks=True, description="Also <text> and <paragraph> before the first of each."),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"Put brown.zip, from {URL}, there; or leave it out to have it downloaded."

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            description="The Brown corpus, one tokenised sentence an example.",
            features=tfds.features.FeaturesDict({"text": tfds.features.Text(doc="tokens joined by single spaces")}),
            homepage="https://www.nltk.org/nltk_data/",
            license="Non-commercial use; redistribution permitted by the copyright holder.",
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict:
        archive = Path(dl_manager.download(URL))  # from `manual_dir`, if it is there; checked against checksums.tsv
        splits = {"train": [], "validation": [], "test": []}
        tokens = 0
        for sentence in _sentences(archive, self.builder_config.marks):
            split = "train" if tokens < TRAIN_TOKENS else "validation" if tokens < VALIDATION_TOKENS else "test"
            splits[split].append(sentence)
            tokens += len(sentence)
        return {split: self._generate_examples(sentences) for split, sentences in splits.items()}

    def _generate_examples(self, sentences: list[list[str]]) -> Iterator[tuple[int, dict]]:
        for number, sentence in enumerate(sentences):
            yield number, {"text": " ".join(sentence)}


def _sentences(archive: Path, marks: bool) -> Iterator[list[str]]:
    """The sentences of all files in name order; a blank line ends a paragraph, a line holds `word/tag` pairs."""
    with zipfile.ZipFile(archive) as files:
        for name in sorted(name for name in files.namelist() if len(Path(name).name) == 4 and name[-4] == "c"):
            lines = files.read(name).decode("ascii").splitlines()
            opening = ["<text>", "<paragraph>"] if marks else []
            for blank, group in itertools.groupby(lines, key=lambda line: not line.strip()):
                if blank:
                    opening = opening or (["<paragraph>"] if marks else [])
                    continue
                for line in group:
                    yield opening + [pair.rpartition("/")[0] for pair in line.split()]
                    opening = []
