"""Arguments and files of `keras_nplm.data` that are refused; `messages.json` has the sentences."""

import functools

import numpy as np
import pytest

from keras_nplm import (
    Corpus,
    Resampled,
    SubwordOptions,
    Subwords,
    Vocabulary,
    encode_corpus,
    encode_sentences,
    ngram_dataset,
    open_corpus,
)
from keras_nplm.data.forms import make_head
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.shards import ShardedIds, encode_batches
from keras_nplm.data.source import NgramSource
from keras_nplm.data.tokenizers.registry import add_steps, get_tokenizer

IDS = np.array([4, 5, 3], np.int32)


@pytest.fixture(scope="module")
def of_subwords() -> Vocabulary:
    """A vocabulary of subwords."""
    return Vocabulary.from_subwords(Subwords.train(["the cat"], 300))


def test_options_of_a_dataset(messages):
    for options in (
        {"batch_size": 0},
        {"boundary": "line"},
        {"batch_size": 8, "drop_remainder": True},
        {"first_batch": 1},
        {"part": (2, 2)},
        {"most_batches": 0},
        {"first_epoch": -1},
        {"batch_size": 6, "part": (0, 2), "segment": 2},
        {"tokenizer": "words"},
    ):
        valid = {"order": 3, "batch_size": 2}
        messages.refuse(functools.partial(ngram_dataset, IDS, **{**valid, **options}))


def test_a_text_that_can_be_read_once(tmp_path, messages):
    sentences = iter([["the", "cat"]] * 9)
    corpus = Corpus("once", "whitespace", {"train": lambda: sentences})
    vocabulary = Vocabulary.build(corpus.sentences("train"))
    messages.refuse(lambda: encode_corpus(corpus, vocabulary, tmp_path / "encoded"))


def test_resampled_texts(messages):
    for share, options in ((np.nan, {}), (0.1, {}), (1, {"shuffle": False})):

        def build(share=share, options=options):
            return ngram_dataset(Resampled([(IDS, share)]), 3, 1, boundary="stream", **options)

        messages.refuse(build)


def test_ngrams(messages):
    messages.refuse(lambda: extract_ngrams(IDS, 0, "stream"))
    messages.refuse(lambda: NgramSource(IDS, order=1))
    messages.refuse(lambda: NgramSource(IDS, order=3).segments(0, 8))


def test_shards_that_changed_since_they_were_opened(messages, tmp_path):
    path = tmp_path / "train.ids"
    for changed in (IDS[:2], IDS + 1):
        IDS.tofile(path)
        shards = ShardedIds([path], vocabulary_size=6)
        changed.tofile(path)
        messages.refuse(functools.partial(shards.read, 0, 3))


def test_texts_and_sentences(messages, tmp_path):
    vocabulary = Vocabulary(["a"])
    messages.refuse(lambda: list(encode_batches([["a"], ["<s>"]], vocabulary.encode, "text")))
    messages.refuse(lambda: vocabulary.encode(["the", "\udcff"]))
    messages.refuse(lambda: encode_sentences([["the"]], vocabulary, "line"))
    for words, boundary in ((["the"], "line"), (["the", "x\0y"], "sentence")):
        corpus = Corpus("one", "whitespace", {"train": [words].__iter__})
        encode = functools.partial(encode_corpus, corpus, vocabulary, tmp_path / "ids", boundary)
        messages.refuse(encode)


def test_vocabularies(messages, of_subwords):
    messages.refuse(lambda: Vocabulary.build([["the"]], min_count=2))
    messages.refuse(lambda: Vocabulary.build([["the", "cat\n"]]))
    messages.refuse(lambda: Vocabulary(["the", "a\0b"]))
    messages.refuse(lambda: Vocabulary(["the"], {"\ud800": "the"}))
    messages.refuse(lambda: Vocabulary.build(["a"], tokenizer="sentencepiece"))
    messages.refuse(lambda: Vocabulary(["a"]).tokenizer("sentencepiece"))
    messages.refuse(lambda: of_subwords.tokenizer("words"))
    messages.refuse(lambda: of_subwords.with_words(["new"]))


def test_subwords(messages, of_subwords):
    messages.refuse(lambda: of_subwords.subwords.encode("a \udcff"))
    messages.refuse(lambda: Subwords.train(["", "\ud800"]))
    messages.refuse(lambda: SubwordOptions(file="absent.model").make([]))


def test_names_of_tokenizers(messages):
    for name in ("sentencepiece+numbers", "words+numbers+lower", "letters"):
        messages.refuse(functools.partial(get_tokenizer, name))
    messages.refuse(lambda: add_steps("words", ["stems"]))


def test_corpora(messages, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = ["text.txt"]
    shares = {"fractions": (0.6, 0.2, 0.2)}
    for content, options in (
        (b"", {"subwords": SubwordOptions()}),
        (b"", shares),
        (b"", {"shuffle": True}),
        (b"", {"field": "text"}),
        (b"", {"resample": [(0.5, files)]}),
        (b"", {"test": files}),
        (b"", {"name": "penn"}),
        (b"", {"train": files}),
        (b"one\ntwo\n\xe9\n", {"train": files}),
        (b"a\nb\nc\nd\n", {"train": files, "fractions": (0.5, 0.5, 0.5)}),
        (b"one line\n", {"train": files}),
        (b"a\nb\nc\n", {"train": files}),
        (b"a\n", {"train": files, "test": files, "all_lines": True}),
        (b"a\n", {"train": files, "test": files, **shares}),
        (b"a\n", {"train": files, "all_lines": True, **shares}),
        (b"a\n", {"train": files, "fractions": (0.6, 0.2)}),
        (b"a\n", {"train": files, "validation": files, "test": files, "shuffle": True}),
    ):
        (tmp_path / "text.txt").write_bytes(content)
        messages.refuse(functools.partial(open_corpus, **options))


_SPECIALS = "<pad>\n<unk>\n<s>\n</s>\n"


def test_vocabulary_files(messages, tmp_path):
    path = tmp_path / "vocabulary.txt"
    for content in (
        f"{_SPECIALS}the\ncat",
        f"{_SPECIALS}the\nthe\n",
        f"{_SPECIALS}the cat\n",
        _SPECIALS,
        "<pad>\n<s>\n<unk>\n</s>\nthe\n",
    ):
        path.write_bytes(content.encode())
        messages.refuse(lambda: Vocabulary.load(path))
    vocabulary = Vocabulary(["cat", "mat"], {"cats": "cat"})
    vocabulary.save(path)
    for content in ("cats\tcat\nmat\tcat\n", "cats\t<unk>\n"):
        head = make_head(content, vocabulary.words)  # the right checksum
        path.with_name("forms.tsv").write_text(f"{head}\n{content}")
        messages.refuse(lambda: Vocabulary.load(path))
