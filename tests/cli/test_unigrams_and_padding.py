"""`ngram --order 1` through the commands, and an ARPA file with the word `<pad>` as a model
directory.
"""

import json

import pytest

from keras_nplm import LanguageModel
from keras_nplm.cli.main import main

TEXT = "a b\nb c a\nc\na\nb b a c\n" * 20
# With the word <pad>, with which n-grams begin and end
ARPA = """\\data\\
ngram 1=6
ngram 2=4

\\1-grams:
-1\t<unk>
-99\t<s>\t-0.3
-0.7\t</s>
-0.6\ta\t-0.2
-0.5\tb
-0.4\t<pad>\t-0.1

\\2-grams:
-0.2\t<s> a
-0.4\ta b
-0.3\ta <pad>
-0.1\t<pad> b

\\end\\
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("unigrams")
    (directory / "text").write_text(TEXT)
    (directory / "odd.arpa").write_text(ARPA)
    return directory


def test_unigrams_are_estimated_exported_and_read(files, capsys):
    flags = ["--train", str(files / "text"), "--tokenizer", "whitespace", "--order", "1"]
    assert main(["ngram", *flags, "--output", str(files / "one")]) == 0
    assert json.loads((files / "one" / "config.json").read_text())["order"] == 1
    assert main(["export", str(files / "one"), str(files / "one.arpa")]) == 0
    assert main(["ngram", "--arpa", str(files / "one.arpa"), "--output", str(files / "read")]) == 0
    one = LanguageModel.load(files / "one")
    read = LanguageModel.load(files / "read")
    assert one.model.order == read.model.order == 1
    texts = ["a b", "c x", ""]
    expected = [score.log_prob for score in one.score(texts)]
    assert [score.log_prob for score in read.score(texts)] == pytest.approx(expected, rel=1e-5)
    capsys.readouterr()
    for method in ("deleted-interpolation", "class-based"):
        assert main(["ngram", *flags, "--method", method, "--output", str(files / method)]) == 2
        assert f"2 or more with the method {method}" in capsys.readouterr().err
        assert not (files / method).exists()
    assert main(["train", *flags, "--output", str(files / "network")]) == 2
    assert "`--order` must be 2 to" in capsys.readouterr().err


def test_a_file_with_the_word_pad_has_an_unknown_word(files, capsys):
    arpa = ["--arpa", str(files / "odd.arpa"), "--tokenizer", "whitespace"]
    assert main(["ngram", *arpa, "--output", str(files / "odd")]) == 0
    language_model = LanguageModel.load(files / "odd")
    texts = ["a <pad> b", "<pad>", "a b <pad> <pad>"]
    others = [text.replace("<pad>", "zzz") for text in texts]
    assert [*language_model.score(texts)] == [*language_model.score(others)]
    (files / "nbest").write_text("".join(f"0 ||| {text} ||| ||| -1\n" for text in texts))
    capsys.readouterr()
    assert main(["rescore", str(files / "odd"), str(files / "nbest")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(texts)
