"""Subwords: every line is restored, words are encoded on their own, and files that do not match are refused."""

import io
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.subwords as module
from keras_nplm import Corpus, InputError, Vocabulary, encode_corpus, open_corpus
from keras_nplm.data.encoding import count_vocabulary
from keras_nplm.data.shards import encode_text
from keras_nplm.data.subwords import MIN_PIECES, SubwordOptions, Subwords, read_subwords, write_subwords
from keras_nplm.data.tokenizers import continue_line, get_tokenizer, join_tokens

LINES = [
    "the cat sat on the mat",
    "the dogs sat",
    "a cat's mats:  3, 33, 333",
    "Straße ОЙ 我们可以 我们",
    "the\xa0cat\u3000x\xa0:",
] * 9
ODD = [
    "",
    " ",
    "  a  b ",
    "▁",
    "a▁b c▁ ▁▁",
    "<s> </s> <unk> <pad> <0x41> <U+00A0>",
    "\0",
    "\n\t\r\u2028\xa0",
    "\U0010ffff",
    "▅",
]


@pytest.fixture(scope="module", params=module.PIECES_KINDS)
def subwords(request) -> Subwords:
    return Subwords.train(LINES, 340, request.param)


@pytest.mark.parametrize("line", [*ODD, *LINES[:5]])
def test_odd_lines_are_restored_without_unk(subwords, line):
    pieces = subwords.encode(line)
    assert subwords.decode(pieces) == line and "<unk>" not in pieces
    assert all(piece.split() == [piece] for piece in pieces)


@given(st.text() | st.text(" ▁▅a\u0301\xa0\u3000<0x41>Us/\0我"))
@settings(deadline=None)
def test_any_line_is_restored(subwords, line):
    vocabulary = Vocabulary.from_subwords(subwords)
    ids = subwords.encode_ids(line)
    assert subwords.decode(vocabulary.decode(ids)) == line
    np.testing.assert_array_equal(vocabulary.encode(subwords.encode(line)), ids)
    assert ids.dtype == np.int32 and (ids > 3).all()


@pytest.mark.long
def test_every_character_is_restored(subwords):
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    text = " ".join(f"a{character}b{character}" for character in characters)
    assert subwords.decode(subwords.encode(text)) == text


@given(st.lists(st.text("the catsmo▁ñ", min_size=1), min_size=2))
@settings(deadline=None)
def test_the_pieces_of_a_word_do_not_depend_on_its_neighbours(subwords, words):
    each = [piece for word in words for piece in subwords.encode(word)]
    assert subwords.encode(" ".join(words)) == each


def test_pieces_of_plain_words_are_those_of_the_library(subwords):
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=subwords.model)
    for line in LINES[:5]:
        expected = [processor.id_to_piece(i) for i in processor.encode(line)]
        assert [
            piece.replace("<U+00A0>", "\xa0").replace("<U+3000>", "\u3000") for piece in subwords.encode(line)
        ] == expected


def test_bytes_that_are_not_utf8_become_the_replacement_character():
    assert continue_line(["▁a", "<0xE2>", "<0x98>", "▁b"]) == " a\ufffd b"


def test_joined_tokens_have_spaces_where_pieces_say_so():
    assert join_tokens(["▁the", "▁c", "at", "▁", "▁:"], "sentencepiece") == "the cat  :"


def test_half_a_surrogate_pair_is_refused(subwords):
    with pytest.raises(InputError, match="valid UTF-8"):
        subwords.encode("a \udcff")


def test_training_is_deterministic(subwords):
    for kind in module.PIECES_KINDS:
        assert Subwords.train(iter(LINES), 320, kind).model == Subwords.train(LINES, 320, kind).model


@pytest.mark.parametrize("kind", module.PIECES_KINDS)
@pytest.mark.parametrize(
    "lines", [["<s> <0x41> <unk> <pad> <U+00A0>"] * 50, ["▁ ▅ a▁b\ta"] * 9, ["我们" * 9000], ["a"], ["a\0b"] * 9]
)
def test_odd_text_can_be_trained_on(lines, kind):
    subwords = Subwords.train(lines, MIN_PIECES, kind)
    assert all(subwords.decode(subwords.encode(line)) == line for line in lines)
    assert len(subwords) <= MIN_PIECES - 4 and len({*subwords.words}) == len(subwords)


def test_the_vocabulary_has_the_wanted_size():
    text = ["".join(chr(97 + i % 7 * (i // 7) % 26) for i in range(n, n + 9)) for n in range(400)]
    for kind in module.PIECES_KINDS:
        assert len(Vocabulary.from_subwords(Subwords.train(text, 310, kind))) == 310


def test_lines_are_sampled_evenly_over_a_long_text(monkeypatch):
    monkeypatch.setattr(module, "_SAMPLE", 100)
    monkeypatch.setattr(module, "_LONGEST", 4)
    kept = module._sample_lines(f"{number:03d}" for number in range(400))
    assert kept == [f"{number:03d}" for number in range(0, 400, 16)]
    assert module._sample_lines(["abcdefghij"]) == ["abcd", "efgh", "ij"]


def test_rare_characters_become_bytes_if_pieces_are_few():
    lines = ["".join(chr(0x4E00 + i) for i in range(500))] * 3
    assert len(Subwords.train(lines, MIN_PIECES)) <= MIN_PIECES - 4


@pytest.mark.parametrize("lines", [[], ["", "  "], ["\ud800"]])
def test_a_text_without_words_is_refused(lines):
    with pytest.raises(InputError, match="at least one word"):
        Subwords.train(lines)


@pytest.mark.parametrize(
    "options, name", [({"pieces": 299}, "pieces"), ({"pieces": 10**12}, "pieces"), ({"kind": "word"}, "kind")]
)
def test_options_out_of_range_are_refused(options, name):
    with pytest.raises(InputError, match=f"`{name}`"):
        Subwords.train(LINES, **options)


def _train(**options) -> bytes:
    import sentencepiece

    model = io.BytesIO()
    defaults = dict(vocab_size=320, hard_vocab_limit=False, byte_fallback=True, minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=model, **defaults | options)
    return model.getvalue()


def test_a_model_of_a_different_author_is_read(tmp_path):
    (tmp_path / "t5.model").write_bytes(_train(user_defined_symbols=["<mask>", "\n"], control_symbols=["<cls>"]))
    subwords = SubwordOptions(file=str(tmp_path / "t5.model")).make([])
    vocabulary = Vocabulary.from_subwords(subwords)
    assert "<cls>" not in vocabulary.words and "<U+000A>" in vocabulary.words
    for line in [*ODD, *LINES[:5], "the  cat sat\n<mask> ﬁ ①"]:  # its own normalisation is switched off
        assert subwords.decode(subwords.encode(line)) == line
    assert subwords.encode("a\n<mask>")[-2:] == ["<U+000A>", "<mask>"]


def test_a_model_without_a_space_before_the_line_gets_one():
    with_prefix = [Subwords(_train(add_dummy_prefix=prefix)).encode("cat") for prefix in (True, False)]
    assert all(pieces[0].startswith("▁") for pieces in with_prefix)


@pytest.mark.parametrize(
    "model, message",
    [
        (b"", "without pieces"),
        (b"text", "must be a SentencePiece model"),
        ("word", "unigram or BPE"),
        ("suffix", "must begin with"),
        ("no bytes", "must have byte fallback"),
    ],
)
def test_models_that_cannot_be_used_are_refused(model, message, tmp_path):
    if model == "word":
        model = _train(model_type="word")
    if model == "suffix":
        model = _train(treat_whitespace_as_suffix=True)
    if model == "no bytes":
        model = _train(byte_fallback=False, vocab_size=60)
    (tmp_path / "x.model").write_bytes(model)
    with pytest.raises(InputError, match=message) as caught:
        SubwordOptions(file=str(tmp_path / "x.model")).make([])
    assert "x.model" in str(caught.value)


def test_a_missing_model_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"absent\.model"):
        SubwordOptions(file=str(tmp_path / "absent.model")).make([])


def test_vocabulary_and_model_are_saved_together(subwords, tmp_path):
    vocabulary = Vocabulary.from_subwords(subwords)
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt") == vocabulary
    assert vocabulary != Vocabulary(subwords.words)
    Vocabulary(["a"]).save(tmp_path / "vocabulary.txt")
    assert not (tmp_path / "sentencepiece.model").exists()


def test_the_saved_file_is_read_by_the_library(subwords, tmp_path):
    import sentencepiece

    write_subwords(tmp_path / "x.model", subwords)
    assert sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "x.model")).encode("the cat")
    assert SubwordOptions(file=str(tmp_path / "x.model")).make([]) == subwords


@pytest.mark.parametrize("place", [0, 10, -7, -5, -1])
def test_a_damaged_file_is_refused(subwords, tmp_path, place):
    write_subwords(tmp_path / "x.model", subwords)
    data = bytearray((tmp_path / "x.model").read_bytes())
    data[place] ^= 4
    (tmp_path / "x.model").write_bytes(data)
    with pytest.raises(InputError, match="checksum"):
        read_subwords(tmp_path / "x.model")


def test_a_model_of_a_different_vocabulary_is_refused(subwords, tmp_path):
    Vocabulary.from_subwords(subwords).save(tmp_path / "vocabulary.txt")
    write_subwords(tmp_path / "sentencepiece.model", Subwords.train(["other words"], MIN_PIECES))
    with pytest.raises(InputError, match=r"sentencepiece\.model does not match"):
        Vocabulary.load(tmp_path / "vocabulary.txt")
    with pytest.raises(InputError, match="must be the pieces"):
        Vocabulary(["a"], subwords=subwords)


def test_tokenizer_and_vocabulary_must_both_have_subwords(subwords):
    with pytest.raises(InputError, match="needs the tokenizer `sentencepiece`"):
        Vocabulary.from_subwords(subwords).tokenizer("words")
    with pytest.raises(InputError, match="needs a vocabulary with subwords"):
        Vocabulary(["a"]).tokenizer("sentencepiece")
    with pytest.raises(InputError, match="no step but"):
        get_tokenizer("sentencepiece+numbers", subwords=subwords)
    with pytest.raises(InputError, match="trained, not counted"):
        Vocabulary.build(LINES, tokenizer="sentencepiece")
    with pytest.raises(InputError, match="must be the pieces"):
        Vocabulary.from_subwords(subwords).with_words(["new"])


def test_lower_case_comes_before_the_pieces(subwords):
    vocabulary = Vocabulary.from_subwords(subwords)
    tokenize = vocabulary.tokenizer("sentencepiece+lower")
    assert subwords.decode(tokenize("THE Cat İ")) == "the cat i"
    (ids,) = encode_text(["THE Cat"], vocabulary, "sentencepiece+lower")
    np.testing.assert_array_equal(ids, [*subwords.encode_ids("the cat"), 3])


def test_lines_are_encoded_in_chunks(subwords, monkeypatch):
    monkeypatch.setattr("keras_nplm.data.shards.CHUNK_TOKENS", 10)
    vocabulary = Vocabulary.from_subwords(subwords)
    chunks = [*encode_text([*LINES, " ", ""], vocabulary, "sentencepiece")]
    expected = [i for line in LINES for i in [*subwords.encode_ids(line).tolist(), 3]]
    assert len(chunks) > 9 and np.concatenate(chunks).tolist() == expected


def _open(path, **options) -> Corpus:
    return open_corpus(train=[str(path)], tokenizer="sentencepiece", subwords=SubwordOptions(pieces=320), **options)


def _restore(ids: np.ndarray, vocabulary: Vocabulary) -> list[str]:
    parts = np.split(ids, np.flatnonzero(ids == 3) + 1)[:-1]
    return [vocabulary.subwords.decode(vocabulary.decode(part[:-1])) for part in parts]


def test_a_corpus_of_text_files_is_encoded_as_subwords(tmp_path):
    (tmp_path / "text.txt").write_text("\n \n".join(LINES), encoding="utf-8")
    corpus = _open(tmp_path / "text.txt")
    vocabulary = count_vocabulary(corpus)
    encoded = encode_corpus(corpus, vocabulary, tmp_path / "corpus")
    assert [*corpus.sentences("train")] == LINES[:36]
    assert _restore(encoded.ids("train"), vocabulary) == LINES[:36]
    assert encoded.splits["test"]["unk_tokens"] == 0 and encoded.tokenizer == "sentencepiece"


@pytest.mark.long
def test_several_processes_encode_the_same_subwords(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("\n".join(LINES * 30), encoding="utf-8")
    ids = []
    for size in (1 << 25, 1 << 10):
        monkeypatch.setattr("keras_nplm.data.corpora.pieces.PIECE_BYTES", size)
        monkeypatch.setattr("keras_nplm.data.corpora.pieces.PARALLEL_BYTES", size)
        corpus = _open(tmp_path / "text.txt")
        ids.append(encode_corpus(corpus, count_vocabulary(corpus), tmp_path / str(size)).ids("train"))
    np.testing.assert_array_equal(*ids)


def test_a_corpus_whose_tokens_are_apart_is_joined_by_spaces(tmp_path):
    corpus = open_corpus("python_reference", tokenizer="sentencepiece", normalise=["lower"])
    line = next(corpus.sentences("train"))
    assert line.startswith('The " assert " statement') and corpus.tokenizer == "sentencepiece+lower"
    splits = {split: lambda: iter(LINES) for split in ("train", "validation", "test")}
    corpus = Corpus("lines", "sentencepiece", splits, SubwordOptions(pieces=320))
    vocabulary = count_vocabulary(corpus)
    encoded = encode_corpus(corpus, vocabulary, tmp_path)
    assert _restore(encoded.ids("test"), vocabulary) == LINES


def test_fewer_pieces_than_wanted_are_reported(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("\n".join(["a b"] * 10), encoding="utf-8")
    corpus = open_corpus(train=[str(tmp_path / "text.txt")], tokenizer="sentencepiece")
    size = len(count_vocabulary(corpus))
    assert 262 <= size <= 264  # as the version of SentencePiece
    assert f"this text has {size} subwords, fewer than --pieces 8,000" in capsys.readouterr().err


def test_subword_options_without_subwords_are_refused():
    with pytest.raises(InputError, match="`subwords` must be left out"):
        open_corpus(subwords=SubwordOptions())


@pytest.mark.parametrize("kind", module.PIECES_KINDS)
def test_ids_are_by_decreasing_frequency_and_bytes_come_last(kind):
    subwords = Subwords.train(LINES, 340, kind)
    counts = np.bincount(np.concatenate([*map(subwords.encode_ids, LINES)]), minlength=len(subwords) + 4)[4:]
    assert (np.diff(counts[:-256]) <= 0).all() and counts[0] > counts[-257]
    assert subwords.words[-256:] == [f"<0x{byte:02X}>" for byte in range(256)]
    assert subwords.words[0] == "▁" or kind == "bpe"
