"""A run that is prepared: an epoch has as many updates as its dataset has batches, with shares and
segments too.
"""

import pytest
import tensorflow as tf

from keras_nplm import Options, ngram_dataset, open_corpus
from keras_nplm.data.encoding import count_vocabulary, encode_corpus
from keras_nplm.training.fit import divide_epoch
from keras_nplm.training.run import Run


def _prepare(directory, sizes: list[int], share: float, options: Options) -> Run:
    """Encode texts with these numbers of tokens, the first whole, the others with a share."""
    files = []
    for number, size in enumerate(sizes):
        path = directory / f"{number}.txt"
        path.write_text(" ".join(f"w{i % 9}" for i in range(size - 1)) + "\n", encoding="utf-8")
        files.append(str(path))
    resample = [(share, [file]) for file in files[1:]]
    corpus = open_corpus(train=files[:1], resample=resample, validation=files[:1], test=files[:1])
    vocabulary = count_vocabulary(corpus, ["train"], min_count=1, max_size=None)
    encoded = encode_corpus(corpus, vocabulary, directory / "corpus")
    return Run(directory, options, {}, encoded, vocabulary)


@pytest.mark.parametrize("segment", [1, 4, 8])
@pytest.mark.parametrize("sizes", [[40], [33, 41, 57, 49], [41, *[145] * 6]], ids=len)
@pytest.mark.parametrize("share", [0.13, 0.5])
def test_each_epoch_has_a_batch_for_each_update(tmp_path, sizes, share, segment):
    options = Options.of(order=3, segment=segment, batch_size=segment)
    run = _prepare(tmp_path, sizes, share, options)
    batch_size, steps, _ = divide_epoch(run, tf.distribute.get_strategy())
    dataset = ngram_dataset(
        run.encoded.for_training(), 3, batch_size, segment=segment, drop_remainder=True
    )
    batches = len(dataset)
    assert batches >= steps
    # at most the rounding of each share to segments is lost
    tokens = sizes[0] + share * sum(sizes[1:])
    rounded = segment * (len(sizes) - 1)
    assert steps * batch_size > tokens - rounded - len(sizes) - batch_size
    if len(sizes) == 1:
        assert run.ngrams_per_epoch == sizes[0]
