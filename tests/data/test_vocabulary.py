import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.data.vocabulary import SPECIALS, Vocabulary
from keras_nplm.io.errors import InputError

words = st.text(alphabet="abcd", min_size=1, max_size=2)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(words, max_size=8), min_size=1, max_size=8), st.integers(1, 3))
def test_ids_are_by_decreasing_frequency_then_by_word(sentences, min_count):
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    kept = [word for word in counts if counts[word] >= min_count]
    if not kept:
        with pytest.raises(InputError):
            Vocabulary.build(sentences, min_count=min_count)
        return
    vocabulary = Vocabulary.build(sentences, min_count=min_count)
    assert vocabulary.words == ["<pad>", "<unk>", "<s>", "</s>", *sorted(kept, key=lambda word: (-counts[word], word))]
    assert Vocabulary.build(sentences, min_count=min_count, max_size=1).words == vocabulary.words[:5]


def _is_word(text):
    return text.split() == [text] and text not in SPECIALS


@settings(deadline=None, max_examples=25)
@given(st.lists(st.text(min_size=1).filter(_is_word), min_size=1, unique=True))
def test_a_saved_vocabulary_loads_back_exactly(tmp_path_factory, words):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.txt"
    try:
        Vocabulary(words).save(path)
    except UnicodeEncodeError:
        return  # a lone surrogate
    assert Vocabulary.load(path) == Vocabulary(words)


def test_encode_and_decode_known_and_out_of_vocabulary_words():
    vocabulary = Vocabulary(["the", "été", "猫"])
    ids = vocabulary.encode(["猫", "the", "dog", "<unk>", "été"])
    assert ids.tolist() == [6, 4, 1, 1, 5] and ids.dtype == np.int32
    assert vocabulary.decode(ids) == ["猫", "the", "<unk>", "<unk>", "été"]
    assert vocabulary.encode([]).shape == (0,)
    with pytest.raises(InputError, match="half a surrogate pair"):
        vocabulary.encode(["the", "\udcff"])


def test_the_keras_lookup_gives_the_ids_of_encode():
    tokens = ["猫", "the", "dog", "<unk>", "<pad>", "<s>", "</s>", ""]
    vocabulary = Vocabulary(["the", "été", "猫"])
    np.testing.assert_array_equal(vocabulary.lookup(tokens), vocabulary.encode(tokens))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "empty or truncated"),
        (b"<pad>\n<unk>\n<s>\n</s>\nthe\ncat", "empty or truncated"),
        (b"the\ncat\n", "must begin with the lines <pad>"),
        (b"<pad>\n<s>\n<unk>\n</s>\nthe\n", "must begin with the lines <pad>"),
        (b"<pad>\n<unk>\n<s>\n</s>\nthe\nthe\n", "Duplicate word 'the' .*line 6"),
        (b"<pad>\n<unk>\n<s>\n</s>\nthe\n<s>\n", "Duplicate word '<s>' .*line 6"),
        (b"<pad>\n<unk>\n<s>\n</s>\nthe cat\n", "Word 'the cat' .line 5. must not .* white space"),
        (b"<pad>\n<unk>\n<s>\n</s>\n\n", "Word '' .line 5. must not be empty"),
        (b"<pad>\n<unk>\n<s>\n</s>\n", "at least one word"),
        (b"<pad>\n<unk>\n<s>\n</s>\n\xe9t\xe9\n", "not UTF-8"),
    ],
)
def test_a_damaged_vocabulary_file_is_refused(tmp_path, content, message):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"vocabulary.txt.*{message}"):
        Vocabulary.load(path)


def test_a_missing_vocabulary_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        Vocabulary.load(tmp_path / "vocabulary.txt")


def test_reserved_tokens_are_refused_and_unk_is_read():
    with pytest.raises(InputError, match="reserved token <s>"):
        Vocabulary.build([["<s>", "the"]])
    assert Vocabulary.build([["<unk>", "the"]]).words[4:] == ["the"]


@pytest.mark.parametrize("options", [{"min_count": 0}, {"max_size": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InputError, match="must be 1 or more"):
        Vocabulary.build([["the"]], **options)


@pytest.mark.parametrize("ids", [[7], [-1]])
def test_ids_out_of_range_are_refused(ids):
    with pytest.raises(InputError, match="Ids must be 0 to 4"):
        Vocabulary(["the"]).decode(ids)


# forms of lemmas


def test_forms_are_saved_with_the_vocabulary(tmp_path):
    path = tmp_path / "vocabulary.txt"
    vocabulary = Vocabulary(["cat", "mat"], {"cats": "cat", "mats": "mat"})
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary != Vocabulary(["cat", "mat"])
    assert vocabulary.with_words(["dromedary"]).forms == vocabulary.forms
    Vocabulary(["the"]).save(path)  # removes the old forms
    assert Vocabulary.load(path).forms is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"",
        lambda text: text[:-1],
        lambda text: text[: text[:-1].rindex(b"\n") + 1],
        lambda text: text + b"x\ty\n",
        lambda text: text.replace(b"\tcat\n", b"\tmat\n"),
        lambda text: text.replace(b"cats", b"\xff"),
        lambda text: text[text.index(b"\n") + 1 :],
    ],
)
def test_damaged_forms_are_refused(tmp_path, damage):
    Vocabulary(["cat", "mat"], {"cats": "cat", "mats": "mat"}).save(tmp_path / "vocabulary.txt")
    forms = tmp_path / "forms.tsv"
    whole = forms.read_bytes()
    forms.write_bytes(damage(whole))
    assert forms.read_bytes() != whole
    with pytest.raises(InputError, match="forms.tsv"):
        Vocabulary.load(tmp_path / "vocabulary.txt")


@pytest.mark.parametrize(
    "lines, message",
    [
        ("cats\tcat\nmat\tcat\n", "one token outside the vocabulary. Received: 'mat'"),
        ("cats\tdog\n", "must be in the vocabulary. Received: 'dog'"),
        ("cats\t<unk>\n", "must be in the vocabulary. Received: '<unk>'"),
        ("<s>\tcat\n", "Received: '<s>'"),
        ("\tcat\n", "Received: ''"),
        ("two cats\tcat\n", "Received: 'two cats'"),
        ("cats\n", "does not match vocabulary.txt"),
        ("cats\tcat\tcat\n", "does not match vocabulary.txt"),
        ("cats\tcat\ncats\tmat\n", "does not match vocabulary.txt"),
        ("cats\tcat", "does not match vocabulary.txt"),
    ],
)
def test_invalid_forms_are_refused_despite_their_checksum(tmp_path, monkeypatch, lines, message):
    Vocabulary(["cat", "mat"], {"cats": "cat"}).save(tmp_path / "vocabulary.txt")
    head = "form\tword\tcrc32 00000000"
    monkeypatch.setattr("keras_nplm.data.forms._head", lambda lines, words: head)
    (tmp_path / "forms.tsv").write_text(f"{head}\n{lines}")
    with pytest.raises(InputError, match=message):
        Vocabulary.load(tmp_path / "vocabulary.txt")
