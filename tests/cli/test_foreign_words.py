"""Words of an untrusted model are harmless in what the commands print and write, and files keep
them exactly.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import NPLM, LanguageModel, Vocabulary
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.models.ngrams import kneser_ney, read_arpa, write_arpa
from keras_nplm.models.ngrams.word_classes import load_classes, save_classes

# formulas of spreadsheets, lines of ARPA files, control characters, and marks of other languages
WORDS = """
=HYPERLINK(1) +1 -cmd|'x'!A0 @SUM(1) "=1" \\end\\ \\data\\ ngram \x1b]0;evil\x07 \x9b31m `rm`
<script>evil()</script> ](http://evil.example) a|b -1.5
""".split()
VOCABULARY = Vocabulary(WORDS)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("foreign") / "model"
    model = NPLM(len(VOCABULARY), order=3, embedding_dim=4, hidden_units=3)
    LanguageModel(model, VOCABULARY, "whitespace", "sentence").save(directory)
    return directory


@pytest.mark.parametrize("name, argument", [("complete", ""), ("nearest", "a|b")])
def test_terminals_get_no_control_characters(name, argument, directory, run):
    printed = run(name, directory, argument, "--top-k", 16).out
    assert r"\x1b]0;evil\x07" in printed and r"\x9b31m" in printed
    assert all(character.isprintable() or character == "\n" for character in printed)


def test_tables_for_spreadsheets_have_no_formulas(directory, tmp_path, run):
    run(f"map {directory} {tmp_path}/words.tsv")
    cells = [line.split("\t")[0] for line in (tmp_path / "words.tsv").read_text().splitlines()]
    words = [word for word in WORDS if any(map(str.isalpha, word))]
    assert cells == [f"'{word}" if word[0] in "=+-@" else word for word in words]


def test_files_for_programs_have_the_words_unchanged(directory, tmp_path, run):
    run(f"export {directory} {tmp_path}/words.vec")
    rows = (tmp_path / "words.vec").read_text("utf-8").split("\n")[1:-1]
    assert [row.split(" ")[0] for row in rows][-len(WORDS) :] == WORDS
    vectors = np.array([row.split(" ")[1:] for row in rows], np.float32)
    expected = LanguageModel.load(directory).model.embed.C[-len(rows) :]
    np.testing.assert_array_equal(vectors, expected)


ODD_WORDS = st.text(
    st.sampled_from("aé§5\x0b\x0c\x1c\x1f\x85\xa0\u2028\u3000\ufeff=\\"), min_size=1, max_size=4
)


@settings(max_examples=15)
@given(st.lists(ODD_WORDS | st.sampled_from(WORDS), min_size=2, max_size=4, unique=True))
def test_files_keep_words_with_any_space_but_ascii(tmp_path_factory, words):
    path = tmp_path_factory.mktemp("odd")
    vocabulary = Vocabulary(["first", *words])
    visible = [*filter(None, map(clean_text, words))]  # no tokenizer makes a byte order mark a word
    assert get_tokenizer("whitespace").split(" ".join(words) + "\t\r\n") == visible
    vocabulary.save(path / "vocabulary.txt")
    assert Vocabulary.load(path / "vocabulary.txt") == vocabulary
    model = kneser_ney(np.arange(4, len(vocabulary)), len(vocabulary), 2, "stream")
    write_arpa(path / "model.arpa", model, vocabulary)
    read, _ = read_arpa(path / "model.arpa", vocabulary)
    np.testing.assert_allclose(read.log_probs[0], model.log_probs[0], atol=1e-5)
    classes = np.arange(len(vocabulary), dtype=np.int32)
    save_classes(path / "classes", classes, vocabulary)
    assert load_classes(path / "classes", vocabulary).tolist() == [0, 1, *classes[2:]]
