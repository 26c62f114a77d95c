import hashlib
import itertools
import types

import pytest

from keras_nplm import InputError, Vocabulary, open_corpus
from keras_nplm.data.corpora import SPLITS


def test_brown_has_the_split_and_vocabulary_of_the_paper(brown_directory):
    corpus = open_corpus("brown", data_dir=str(brown_directory))
    sentences = {split: list(corpus.sentences(split)) for split in SPLITS}
    sizes = {split: (len(lines), sum(map(len, lines))) for split, lines in sentences.items()}
    assert sizes == {"train": (35_523, 800_001), "validation": (11_690, 200_021), "test": (10_127, 161_170)}
    whole = list(itertools.chain.from_iterable(sentences.values()))
    assert len({token for sentence in whole for token in sentence}) == 56_057
    assert len(Vocabulary.build(whole, min_count=4)) == 4 + 17_904
    checksum = hashlib.sha256("\n".join(map(" ".join, whole)).encode()).hexdigest()
    assert checksum == "28b2f182e6b966d0fae3b5f93f466a713e8461a8247444be21a1760789c7a870"


def test_a_damaged_archive_is_refused(tmp_path):
    (tmp_path / "brown.zip").write_bytes(b"not a zip file")
    with pytest.raises(InputError, match="brown.zip is damaged: its sha256 must be 9b27.* Fix: delete the file"):
        open_corpus("brown/plain", data_dir=str(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("name, first", [("plain", "The"), ("marks", "<text>")])
def test_the_brown_builder_has_the_sentences_of_the_corpus(brown_directory, name, first):
    import tensorflow_datasets as tfds

    builder = tfds.builder_cls("brown")(config=name)
    manager = types.SimpleNamespace(download=lambda url: brown_directory / "brown.zip")
    corpus = open_corpus(f"brown/{name}", data_dir=str(brown_directory))
    for split, examples in builder._split_generators(manager).items():
        texts = [example["text"].split() for _, example in examples]
        assert texts == list(corpus.sentences(split))
        assert texts[0][0] == first or split != "train"
