"""Commands on models of lemmas and of subwords, and on unigrams: flags, files and answers."""

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from keras_nplm import LanguageModel
from keras_nplm.data.tokenizers.normalisation import NUMBER, STEPS, load_forms
from keras_nplm.io.files import read_json

pytestmark = pytest.mark.usefixtures("here")
DICTIONARY = {"cats": "cat", "sat": "sit", "sits": "sit", "went": "go", "mats": "mat"}
SUBWORDS = "the cat sat on the mat\nthe dogs sat\na cat's mats: 3, 33\n我们可以 我们\n" * 20
LINES = ["The Cat SAT on 12 mats.", "cats sit; dogs, too: 3rd 1,000", "Été İ", "a c A"] * 9


@pytest.fixture
def lemmas(here, run, monkeypatch) -> LanguageModel:
    """A bigram model of lemmas beside one of plain words; then there is no dictionary."""
    Path("text.txt").write_text("\n".join(LINES), encoding="utf-8")
    line = "ngram --train text.txt --order 2 --output"
    library = Mock()
    library.DefaultDictionaryFactory.return_value.get_dictionary.return_value = DICTIONARY
    monkeypatch.setitem(sys.modules, "simplemma.strategies.dictionaries", library)
    load_forms.cache_clear()
    run(f"{line} plain")
    run(f"{line} lemmas --normalise {' '.join(STEPS)}")
    load_forms.cache_clear()
    monkeypatch.setitem(sys.modules, "simplemma.strategies.dictionaries", None)
    return LanguageModel.load("lemmas")


def test_a_model_of_lemmas_needs_no_dictionary(lemmas, ask):
    config = read_json("lemmas/config.json")
    assert config["tokenizer"] == "words+lower+numbers+lemmas"
    forms = {form: DICTIONARY[form] for form in ("cats", "sat", "sits", "mats")}
    assert lemmas.vocabulary.forms == forms  # no text has go
    assert lemmas.tokenize("Cats SAT on 77 mats") == ["cat", "sit", "on", NUMBER, "mat"]
    assert [*lemmas.score(["the cats sat on 5"])] == [*lemmas.score(["The CAT sit on _number_"])]
    text = lemmas.generate(num_words=40)
    assert lemmas.tokenize(text) == text.split()
    answers = ask("complete lemmas 'the Cats' 'the cat'")
    assert answers["the Cats"] == answers["the cat"]


def test_forms_are_kept_with_the_vocabulary(lemmas, run):
    lemmas.save("saved")
    both = "saved lemmas"
    run(f"mix {both} --weights 0.5 0.5 --output mixed")
    assert LanguageModel.load("mixed").vocabulary == lemmas.vocabulary
    error = run(f"mix {both} plain --output other", status=2).err
    assert "Received: no --normalise, and --normalise lower numbers lemmas of" in error
    run("export lemmas two.arpa")
    run(
        "ngram --arpa two.arpa --vocabulary lemmas/vocabulary.txt "
        f"--tokenizer words --output again --normalise {' '.join(STEPS)}"
    )
    assert LanguageModel.load("again").vocabulary.forms == lemmas.vocabulary.forms


def test_a_model_of_subwords_answers_in_words_and_gives_its_subwords(run, ask):
    Path("text").write_text(SUBWORDS, encoding="utf-8")
    line = "ngram --train text --tokenizer sentencepiece --order 3 --output"
    run(f"{line} model --pieces 330")
    run(f"{line} bpe --pieces 330 --set pieces_kind=bpe")
    run(f"{line} same --pieces-file model/sentencepiece.model")
    config = read_json("model/config.json")
    expected = {"tokenizer": "sentencepiece", "pieces": 330, "pieces_kind": "unigram"}
    assert {name: config[name] for name in expected} == expected
    answers = ask("complete", "model", "the cat", "我们可以 ")
    assert next(iter(answers["the cat"])) == "sat" and "我们" in "".join(answers["我们可以 "])
    generated = ask("generate model --prompt 'the cat ' --num-words 9")
    assert "▁" not in generated["whole"]
    assert generated["whole"] == ("the cat " + generated["text"]).rstrip()
    same = LanguageModel.load("same").vocabulary
    assert same == LanguageModel.load("model").vocabulary
    assert "crc32" in read_json("same/config.json")["pieces_file"]
    run("mix model same --output mixed")
    error = run("mix model bpe --output wrong", status=2).err
    assert "must have the same vocabulary" in error


@pytest.mark.long
@pytest.mark.usefixtures("no_logs")
def test_a_network_of_subwords_is_trained_and_reported(run):
    Path("text").write_text(SUBWORDS, encoding="utf-8")
    run(
        "train --train text --tokenizer sentencepiece --output model --pieces 330 "
        "--embedding-dim 8 --hidden-units 8 --config small --epochs 1 --set shortlist_size=20"
    )
    report = Path("model/report.html").read_text(encoding="utf-8")
    assert "<h2>Continuations</h2>" in report and "bits per character" in report
    assert "▁" not in run("complete model 'the cat'").out
    counts = LanguageModel.load("model").corpus.frequencies()
    # the short-list has the most frequent subwords
    assert counts[4:24].min() >= counts[24:].max() - 1


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


def test_a_file_with_the_word_pad_has_an_unknown_word(run):
    """N-grams begin and end with it."""
    Path("odd.arpa").write_text(ARPA)
    run("ngram --arpa odd.arpa --tokenizer whitespace --output odd")
    language_model = LanguageModel.load("odd")
    texts = ["a <pad> b", "<pad>", "a b <pad> <pad>"]
    others = [text.replace("<pad>", "zzz") for text in texts]
    assert [*language_model.score(texts)] == [*language_model.score(others)]
    Path("nbest").write_text("".join(f"0 ||| {text} ||| ||| -1\n" for text in texts))
    lines = run("rescore odd nbest").out.splitlines()
    assert len(lines) == len(texts)
