import subprocess
import sys
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


@pytest.mark.long
def test_builders_are_registered_by_the_import_of_the_package():
    code = "import keras_nplm, tensorflow_datasets as tfds; print(tfds.builder_cls('brown').BUILDER_CONFIGS[1].marks)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
