"""Invalid arguments and files of `keras_nplm.data` are refused in one sentence: call, words of the
message.
"""

import numpy as np
import pytest

from keras_nplm import (
    Corpus,
    InputError,
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
from keras_nplm.data.ids import check_ngrams
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.shards import encode_batches
from keras_nplm.data.text_counts import read_totals, read_word_counts, write_word_counts
from keras_nplm.data.tokenizers.registry import add_steps, get_tokenizer
from keras_nplm.data.tokenizers.words import WordTokenizer

IDS = np.array([4, 5, 3], np.int32)


@pytest.fixture(scope="module")
def of_subwords() -> Vocabulary:
    """A vocabulary of subwords."""
    return Vocabulary.from_subwords(Subwords.train(["the cat"], 300))


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param({"batch_size": 0}, "`batch_size` must be 1 or more", id="an empty batch"),
        pytest.param(
            {"boundary": "line"}, "`boundary` must be one of sentence, text", id="no boundary"
        ),
        pytest.param(
            {"batch_size": 8, "drop_remainder": True},
            "3 n-grams do not fill a batch of 8",
            id="a batch larger than the text",
        ),
        pytest.param(
            {"first_batch": 1},
            "`first_batch` must be 0 to 1, with `first_epoch`",
            id="a first batch without an epoch",
        ),
        pytest.param({"seed": 1.5}, "`seed` must be an integer. Received", id="seed 1.5"),
        pytest.param(
            {"part": (2, 2)}, r"`part` must be \(w, N\) with 0 <= w < N", id="part 2 of 0 and 1"
        ),
        pytest.param({"part": None}, r"`part` must be \(w, N\)", id="no part"),
        pytest.param({"part": (0, 2, 3)}, r"`part` must be \(w, N\)", id="a part of three"),
        pytest.param({"part": (0, 1.5)}, r"`part` must be \(w, N\)", id="1.5 workers"),
        pytest.param({"most_batches": 0}, "`most_batches` must be 1 or more", id="no batches"),
        pytest.param({"first_epoch": -1}, "`first_epoch` must be 0 or more", id="a negative epoch"),
        pytest.param(
            {"first_batch": 0.5}, "`first_batch` must be an integer, 0 or more", id="half a batch"
        ),
        pytest.param(
            {"batch_size": 6, "part": (0, 2), "segment": 2},
            "`batch_size` must be a multiple of 4, the number",
            id="batches with a part of a segment",
        ),
    ],
)
def test_invalid_options_of_a_dataset_are_refused(options, message):
    valid = {"order": 3, "batch_size": 2}
    with pytest.raises(InputError, match=message):
        ngram_dataset(IDS, **{**valid, **options})


@pytest.mark.parametrize(
    "texts, options, message",
    [
        pytest.param([], {}, "`texts` must have at least one", id="no text"),
        pytest.param([(IDS, np.nan)], {}, r"must be a number in \(0, 1\]", id="a share of NaN"),
        pytest.param(
            [(IDS, 0.1)], {}, "A share of 0.1 of 2 n-grams must be at least one", id="no n-gram"
        ),
        pytest.param(
            [(IDS, 1)],
            {"shuffle": False},
            "`shuffle` must be True for Resampled",
            id="not shuffled",
        ),
    ],
)
def test_invalid_resampled_texts_are_refused(texts, options, message):
    with pytest.raises(InputError, match=message):
        ngram_dataset(Resampled(texts), 3, 1, boundary="stream", **options)


def test_ngrams_of_order_0_are_refused(messages):
    messages.refuse(lambda: extract_ngrams(IDS, 0, "stream"))


@pytest.mark.parametrize(
    "contexts, targets, order, message",
    [
        pytest.param(
            [[4, 5]],
            [4],
            4,
            r"`context_ids` must be \[B, 3\]. Received: \[1, 2\]",
            id="a context of another width",
        ),
        pytest.param(
            [[4, 9]], [4, 5], 3, "Ids must be 0 to 8. Received: 9", id="an id out of range"
        ),
    ],
)
def test_invalid_ngrams_are_refused(contexts, targets, order, message):
    with pytest.raises(InputError, match=message):
        check_ngrams(contexts, targets, order, 9)


def test_a_vocabulary_without_words_is_refused():
    with pytest.raises(InputError, match="No word occurs 2 times"):
        Vocabulary.build([["the"]], min_count=2)


def test_reserved_words_of_a_text_are_refused():
    encode = Vocabulary(["a"]).encode
    with pytest.raises(InputError, match="reserved token <s>"):
        list(encode_batches([["a"], ["<s>"]], encode, "text"))


def test_half_a_surrogate_pair_is_refused(of_subwords):
    with pytest.raises(InputError, match="half a surrogate pair"):
        Vocabulary(["the"]).encode(["the", "\udcff"])
    with pytest.raises(InputError, match="valid UTF-8"):
        of_subwords.subwords.encode("a \udcff")


def test_a_vocabulary_of_subwords_is_not_one_of_words(of_subwords):
    with pytest.raises(InputError, match="needs the tokenizer `sentencepiece`"):
        of_subwords.tokenizer("words")
    with pytest.raises(InputError, match="must be the pieces"):
        of_subwords.with_words(["new"])


def test_a_vocabulary_of_words_is_not_one_of_subwords():
    with pytest.raises(InputError, match="needs a vocabulary with subwords"):
        Vocabulary(["a"]).tokenizer("sentencepiece")
    with pytest.raises(InputError, match="trained, not counted"):
        Vocabulary.build(["a"], tokenizer="sentencepiece")


def test_subwords_of_no_text_or_file_are_refused():
    with pytest.raises(InputError, match="at least one word"):
        Subwords.train(["", "\ud800"])
    with pytest.raises(InputError, match=r"absent\.model"):
        SubwordOptions(file="absent.model").make([])


@pytest.mark.parametrize(
    "name, message",
    [
        pytest.param("sentencepiece+numbers", "no step but .lower", id="numbers of subwords"),
        pytest.param(
            "words+numbers+lower",
            "one of words, .*, bytes. Received: .*in this order",
            id="steps in another order",
        ),
    ],
)
def test_invalid_names_of_tokenizers_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        get_tokenizer(name)


@pytest.mark.parametrize("tokenizer", [None, WordTokenizer], ids=["None", "a class"])
def test_tokenizers_other_than_names_and_objects_are_refused(tokenizer):
    with pytest.raises(InputError, match="`tokenizer` must be a name or a Tokenizer. Received: "):
        get_tokenizer(tokenizer)


def test_an_unknown_boundary_of_sentences_is_refused(tmp_path):
    sentences = [["the"]]
    vocabulary = Vocabulary(["the"])
    with pytest.raises(InputError, match="`boundary` must be one of sentence, text, stream"):
        encode_sentences(sentences, vocabulary, "line")
    corpus = Corpus("one", "whitespace", {"train": lambda: iter(sentences)})
    with pytest.raises(InputError, match="`boundary` must be one of sentence, text, stream"):
        encode_corpus(corpus, vocabulary, tmp_path / "ids", "line")


def test_a_tokenizer_of_ids_is_refused():
    with pytest.raises(InputError, match="`tokenizer` must be left out without `vocabulary`"):
        ngram_dataset(IDS, 3, 2, tokenizer="words")


@pytest.mark.parametrize(
    "order, batch_size, segment, argument",
    [(3.0, 2, 1, "order"), (3, 2.0, 1, "batch_size"), (3, 2, 2.0, "segment")],
)
def test_sizes_other_than_integers_are_refused(order, batch_size, segment, argument):
    with pytest.raises(InputError, match=f"`{argument}` must be an integer, . or more"):
        ngram_dataset(IDS, order, batch_size, segment=segment)


def test_unknown_steps_of_tokenizers_are_refused():
    message = "must be some of lower, numbers, lemmas. Received: 'stems'"
    with pytest.raises(InputError, match=message):
        add_steps("words", ["stems"])


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param(
            {"subwords": SubwordOptions()}, "`subwords` must be left out", id="subwords of words"
        ),
        pytest.param(
            {"test": ["text.txt"]}, "--validation and --test need --train", id="a test set alone"
        ),
        pytest.param(
            {"name": "penn"}, "`corpus` must be .* Received: 'penn'", id="an unknown corpus"
        ),
    ],
)
def test_invalid_corpora_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        open_corpus(**options)


@pytest.mark.parametrize(
    "content, options, message",
    [
        pytest.param(b"", {}, "text.txt is empty", id="no byte"),
        pytest.param(
            b"one\ntwo\n\xe9\n",
            {},
            r"text.txt is not UTF-8 text \(byte 8\).*iconv -f WINDOWS-1252",
            id="Latin 1",
        ),
        pytest.param(
            b"a\nb\nc\nd\n",
            {"fractions": (0.5, 0.5, 0.5)},
            "must be three positive numbers that sum to 1",
            id="fractions above 1",
        ),
        pytest.param(
            b"one line\n", {}, r"1 lines of text are too few .* add text, or name", id="one line"
        ),
        pytest.param(
            b"a\nb\nc\n", {}, "3 lines .* Fix: add text, larger shares by --fractions", id="3 lines"
        ),
        pytest.param(
            b"a\n" * 9,
            {"test": ["text.txt"], "all_lines": True},
            "`--all` leaves no line for validation and test. Fix: leave it out",
            id="all lines for training, and some to test",
        ),
        pytest.param(
            b"a\n" * 9,
            {"resample": [("x", ["text.txt"])]},
            "share of a text in an epoch must be a number",
            id="a share that is no number",
        ),
    ],
)
def test_invalid_text_is_refused(tmp_path, monkeypatch, content, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_corpus(train=["text.txt"], **options)


_SPECIALS = "<pad>\n<unk>\n<s>\n</s>\n"


@pytest.mark.parametrize(
    "content, message",
    [
        pytest.param(
            f"{_SPECIALS}the\ncat", "vocabulary.txt is empty or truncated", id="no line end"
        ),
        pytest.param(
            f"{_SPECIALS}the\nthe\n", "Duplicate word 'the' .*line 6", id="a word in two lines"
        ),
        pytest.param(
            f"{_SPECIALS}the cat\n",
            "Word 'the cat' .line 5. must not .* white space",
            id="two words in a line",
        ),
        pytest.param(_SPECIALS, "at least one word", id="no word"),
        pytest.param(
            "<pad>\n<s>\n<unk>\n</s>\nthe\n",
            "must begin with the lines <pad>",
            id="reserved words in another order",
        ),
    ],
)
def test_an_invalid_vocabulary_file_is_refused(tmp_path, content, message):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content.encode())
    with pytest.raises(InputError, match=message):
        Vocabulary.load(path)


@pytest.mark.parametrize(
    "content, message",
    [
        pytest.param(
            "cats\tcat\nmat\tcat\n",
            "one token outside the vocabulary. Received: 'mat'",
            id="a word of the vocabulary as a form",
        ),
        pytest.param(
            "cats\t<unk>\n",
            "must be in the vocabulary. Received: '<unk>'",
            id="a form of no word",
        ),
    ],
)
def test_invalid_forms_with_the_right_checksum_are_refused(tmp_path, content, message):
    path = tmp_path / "vocabulary.txt"
    vocabulary = Vocabulary(["cat", "mat"], {"cats": "cat"})
    vocabulary.save(path)
    head = make_head(content, vocabulary.words)
    path.with_name("forms.tsv").write_text(f"{head}\n{content}")
    with pytest.raises(InputError, match=message):
        Vocabulary.load(path)


def _drop_all(data: bytes) -> bytes:
    return b""


def _drop_the_last_byte(data: bytes) -> bytes:
    return data[:-1]


def _change_a_byte(data: bytes) -> bytes:
    return data[:-7] + bytes([data[-7] ^ 1]) + data[-6:]


def _change_the_first_byte(data: bytes) -> bytes:
    return bytes([data[0] ^ 4]) + data[1:]


every_damage = pytest.mark.parametrize(
    "damage",
    [
        pytest.param(_drop_all, id="empty"),
        pytest.param(_drop_the_last_byte, id="truncated"),
        pytest.param(_change_a_byte, id="one byte"),
        pytest.param(_change_the_first_byte, id="the head"),
    ],
)


@every_damage
def test_damaged_word_counts_are_refused(tmp_path, damage):
    path = tmp_path / "unknown.tsv"
    write_word_counts(path, {"cow": 2, "été": 1}, {"words": 7})
    read_totals(path, ["words"])
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=path.name):
        read_totals(path, ["words"])
    with pytest.raises(InputError, match=path.name):
        next(read_word_counts(path))


@every_damage
@pytest.mark.parametrize("name", ["forms.tsv", "sentencepiece.model"])
def test_a_damaged_file_beside_the_words_is_refused(tmp_path, of_subwords, name, damage):
    of_forms = Vocabulary(["cow"], {"cows": "cow", "kine": "cow"})
    vocabulary = of_forms if name == "forms.tsv" else of_subwords
    vocabulary.save(tmp_path / "vocabulary.txt")
    Vocabulary.load(tmp_path / "vocabulary.txt")
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))
    with pytest.raises(InputError, match=name):
        Vocabulary.load(tmp_path / "vocabulary.txt")
