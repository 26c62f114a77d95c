"""Invalid arguments and files of `keras_nplm.data` are refused in one sentence: call, words of the
message.
"""

import functools

import numpy as np
import pytest

from keras_nplm import (
    InputError,
    Resampled,
    SubwordOptions,
    Subwords,
    Vocabulary,
    ngram_dataset,
    open_corpus,
)
from keras_nplm.data.ids import check_ngrams
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.shards import encode_batches
from keras_nplm.data.text_counts import read_word_counts, write_word_counts
from keras_nplm.data.tokenizers.registry import add_steps, get_tokenizer

IDS = np.array([4, 5, 3], np.int32)
SUBWORDS = functools.cache(lambda: Vocabulary.from_subwords(Subwords.train(["the cat"], 300)))


def _dataset(ids=IDS, **options):
    return ngram_dataset(ids, **{"order": 3, "batch_size": 2} | options)


def _resample(texts, **options):
    return _dataset(Resampled(texts), **{"boundary": "stream", "batch_size": 1} | options)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: _dataset(batch_size=0), "`batch_size` must be 1 or more"),
        (lambda: _dataset(boundary="line"), "`boundary` must be one of sentence, text"),
        (lambda: _dataset(batch_size=8, drop_remainder=True), "3 n-grams do not fill a batch of 8"),
        (lambda: _dataset(first_batch=1), "`first_batch` must be 0 to 1, with `first_epoch`"),
        (lambda: _dataset(seed=1.5), "`seed` must be an integer. Received"),
        (lambda: _dataset(part=(2, 2)), r"`part` must be \(w, N\) with 0 <= w < N"),
        (
            lambda: _dataset(batch_size=6, part=(0, 2), segment=2),
            "`batch_size` must be a multiple of 4, the number",
        ),
        (lambda: _resample([]), "`texts` must have at least one"),
        (lambda: _resample([(IDS, np.nan)]), r"must be a number in \(0, 1\]"),
        (lambda: _resample([(IDS, 0.1)]), "A share of 0.1 of 2 n-grams must be at least one"),
        (lambda: _resample([(IDS, 1)], shuffle=False), "`shuffle` must be True for Resampled"),
        (lambda: extract_ngrams(IDS, 0, "stream"), "`order` .* must be 1 or more"),
        (
            lambda: check_ngrams([[4, 5]], [4], 4, 9),
            r"`context_ids` must be \[B, 3\]. Received: \[1, 2\]",
        ),
        (lambda: check_ngrams([[4, 9]], [4, 5], 3, 9), "Ids must be 0 to 8. Received: 9"),
        (lambda: Vocabulary.build([["the"]], min_count=2), "No word occurs 2 times"),
        (
            lambda: list(encode_batches([["a"], ["<s>"]], Vocabulary(["a"]).encode, "text")),
            "reserved token <s>",
        ),
        (lambda: Vocabulary(["the"]).encode(["the", "\udcff"]), "half a surrogate pair"),
        (lambda: SUBWORDS().tokenizer("words"), "needs the tokenizer `sentencepiece`"),
        (lambda: SUBWORDS().with_words(["new"]), "must be the pieces"),
        (lambda: SUBWORDS().subwords.encode("a \udcff"), "valid UTF-8"),
        (lambda: Vocabulary(["a"]).tokenizer("sentencepiece"), "needs a vocabulary with subwords"),
        (lambda: Vocabulary.build(["a"], tokenizer="sentencepiece"), "trained, not counted"),
        (lambda: Subwords.train(["", "\ud800"]), "at least one word"),
        (lambda: SubwordOptions(file="absent.model").make([]), r"absent\.model"),
        (lambda: open_corpus(subwords=SubwordOptions()), "`subwords` must be left out"),
        (lambda: get_tokenizer("sentencepiece+numbers"), "no step but .lower"),
        (
            lambda: get_tokenizer("words+numbers+lower"),
            "one of words, .*, bytes. Received: .*in this order",
        ),
        (
            lambda: add_steps("words", ["stems"]),
            "must be some of lower, numbers, lemmas. Received: 'stems'",
        ),
        (lambda: open_corpus(test=["text.txt"]), "--validation and --test need --train"),
        (lambda: open_corpus("penn"), "`corpus` must be .* Received: 'penn'"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    "content, options, message",
    [
        (b"", {}, "text.txt is empty"),
        (b"one\ntwo\n\xe9\n", {}, r"text.txt is not UTF-8 text \(byte 8\).*iconv -f LATIN1"),
        (
            b"a\nb\nc\nd\n",
            {"fractions": (0.5, 0.5, 0.5)},
            "must be three positive numbers that sum to 1",
        ),
        (b"one line\n", {}, "1 lines of text are too few to split"),
        (b"a\n" * 9, {"test": ["text.txt"]}, "--validation and --test must be given together"),
        (
            b"a\n" * 9,
            {"resample": [("x", ["text.txt"])]},
            "share of a text in an epoch must be a number",
        ),
    ],
)
def test_invalid_text_is_refused(tmp_path, monkeypatch, content, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_corpus(train=["text.txt"], **options)


def _load_forms(path, content):
    Vocabulary(["cat", "mat"], {"cats": "cat"}).save(path)
    with pytest.MonkeyPatch.context() as context:
        # the right checksum
        context.setattr("keras_nplm.data.forms._head", lambda lines, words: "head")
        path.with_name("forms.tsv").write_text(f"head\n{content}")
        Vocabulary.load(path)


def _load_words(path, content):
    path.write_bytes(b"<pad>\n<unk>\n<s>\n</s>\n" + content if b"<s>" not in content else content)
    Vocabulary.load(path)


@pytest.mark.parametrize(
    "load, content, message",
    [
        (_load_words, b"the\ncat", "vocabulary.txt is empty or truncated"),
        (_load_words, b"the\nthe\n", "Duplicate word 'the' .*line 6"),
        (_load_words, b"the cat\n", "Word 'the cat' .line 5. must not .* white space"),
        (_load_words, b"", "at least one word"),
        (_load_words, b"<pad>\n<s>\n<unk>\n</s>\nthe\n", "must begin with the lines <pad>"),
        (_load_forms, "cats\tcat\nmat\tcat\n", "one token outside the vocabulary. Received: 'mat'"),
        (_load_forms, "cats\t<unk>\n", "must be in the vocabulary. Received: '<unk>'"),
    ],
)
def test_an_invalid_vocabulary_file_is_refused(tmp_path, load, content, message):
    with pytest.raises(InputError, match=message):
        load(tmp_path / "vocabulary.txt", content)


FILES = {
    "unknown.tsv": (
        lambda path: write_word_counts(
            path.with_name("unknown.tsv"), {"cow": 2, "été": 1}, {"words": 7}
        ),
        lambda path: read_word_counts(path.with_name("unknown.tsv"), ["words"]),
    ),
    "forms.tsv": (Vocabulary(["cow"], {"cows": "cow", "kine": "cow"}).save, Vocabulary.load),
    "sentencepiece.model": (lambda path: SUBWORDS().save(path), Vocabulary.load),
}
DAMAGES = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[:-1],
    "one byte": lambda data: data[:-7] + bytes([data[-7] ^ 1]) + data[-6:],
    "the head": lambda data: bytes([data[0] ^ 4]) + data[1:],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_refused(tmp_path, name, damage):
    write, load = FILES[name]
    write(tmp_path / "vocabulary.txt")
    load(tmp_path / "vocabulary.txt")
    (tmp_path / name).write_bytes(DAMAGES[damage]((tmp_path / name).read_bytes()))
    with pytest.raises(InputError, match=name):
        load(tmp_path / "vocabulary.txt")
