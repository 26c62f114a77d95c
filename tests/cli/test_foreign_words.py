"""Words of an untrusted model are harmless in what the commands print and write, and files keep
them exactly.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import NPLM, LanguageModel, Vocabulary
from keras_nplm.cli.main import main
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.models.ngrams import kneser_ney, read_arpa, write_arpa
from keras_nplm.models.ngrams.word_classes import load_classes, save_classes

WORDS = [
    *["=HYPERLINK(1)", "+1", "-cmd|'x'!A0", "@SUM(1)", '"=1"', "\\end\\", "\\data\\", "ngram"],
    *[
        "\x1b]0;evil\x07",
        "\x9b31m",
        "`rm`",
        "<script>evil()</script>",
        "](http://evil.example)",
        "a|b",
        "-1.5",
    ],
]


VOCABULARY = Vocabulary(WORDS)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("foreign") / "model"
    model = NPLM(len(VOCABULARY), order=3, embedding_dim=4, hidden_units=3)
    LanguageModel(model, VOCABULARY, "whitespace", "sentence").save(directory)
    return directory


@pytest.mark.parametrize(
    "command",
    [["complete", "", "--top-k", "16"], ["nearest", "a|b", "--top-k", "14"]],
    ids=["complete", "nearest"],
)
def test_terminals_get_no_control_characters(command, directory, capsys):
    name, *arguments = command
    assert main([name, str(directory), *arguments]) == 0
    printed = capsys.readouterr().out
    assert r"\x1b]0;evil\x07" in printed and r"\x9b31m" in printed
    assert all(character.isprintable() or character == "\n" for character in printed)


def test_tables_for_spreadsheets_have_no_formulas(directory, tmp_path):
    assert main(["map", str(directory), str(tmp_path / "words.tsv")]) == 0
    cells = [line.split("\t")[0] for line in (tmp_path / "words.tsv").read_text().splitlines()]
    words = [word for word in WORDS if any(map(str.isalpha, word))]
    assert cells == [f"'{word}" if word[0] in "=+-@" else word for word in words]


def test_files_for_programs_have_the_words_unchanged(directory, tmp_path):
    assert main(["export", str(directory), str(tmp_path / "words.vec")]) == 0
    rows = (tmp_path / "words.vec").read_text("utf-8").split("\n")[1:-1]
    assert [row.split(" ")[0] for row in rows][-len(WORDS) :] == WORDS
    vectors = np.array([row.split(" ")[1:] for row in rows], np.float32)
    np.testing.assert_array_equal(
        vectors, LanguageModel.load(directory).model.embed.C[-len(rows) :]
    )
    ids = np.tile(np.append(VOCABULARY.encode(WORDS), 3), 3).astype(np.int32)
    model = kneser_ney(ids, len(VOCABULARY), 2, "sentence")
    write_arpa(tmp_path / "words.arpa", model, VOCABULARY)
    read, vocabulary = read_arpa(tmp_path / "words.arpa")
    assert set(vocabulary.words) >= set(WORDS) and read.num_ngrams[1:] == model.num_ngrams[1:]


ODD_WORDS = st.text(
    st.sampled_from("aé§5\x0b\x0c\x1c\x1f\x85\xa0\u2028\u3000\ufeff=\\"), min_size=1, max_size=4
)


@settings(deadline=None, max_examples=15)
@given(st.lists(ODD_WORDS, min_size=2, max_size=4, unique=True))
def test_files_keep_words_with_any_space_but_ascii(tmp_path_factory, words):
    path = tmp_path_factory.mktemp("odd")
    vocabulary = Vocabulary(["first", *words])
    visible = [*filter(None, map(clean_text, words))]  # no tokenizer makes a byte order mark a word
    assert get_tokenizer("whitespace").split(" ".join(words) + "\t\r\n") == visible
    vocabulary.save(path / "vocabulary.txt")
    assert Vocabulary.load(path / "vocabulary.txt") == vocabulary
    model = kneser_ney(np.arange(4, len(vocabulary)), len(vocabulary), 2, "stream")
    write_arpa(path / "model.arpa", model, vocabulary)
    np.testing.assert_allclose(
        read_arpa(path / "model.arpa", vocabulary)[0].log_probs[0], model.log_probs[0], atol=1e-5
    )
    classes = np.arange(len(vocabulary), dtype=np.int32)
    save_classes(path / "classes", classes, vocabulary)
    assert load_classes(path / "classes", vocabulary).tolist() == [0, 1, *classes[2:]]
