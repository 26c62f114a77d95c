import types

import pytest

from keras_nplm import open_corpus


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
