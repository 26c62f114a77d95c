"""Commands on models of lemmas and of subwords, and on unigrams: flags, files and answers."""

import json

import pytest

from keras_nplm import LanguageModel
from keras_nplm.data.tokenizers import normalisation
from keras_nplm.data.tokenizers.normalisation import NUMBER, STEPS, load_forms
from keras_nplm.io.files import read_json

DICTIONARY = {"cats": "cat", "sat": "sit", "sits": "sit", "went": "go", "mats": "mat"}
LINES = ["The Cat SAT on 12 mats.", "cats sit; dogs, too: 3rd 1,000", "Été İ", "a c A"] * 9


@pytest.fixture
def lemmas(tmp_path, run, monkeypatch) -> LanguageModel:
    """A bigram model of lemmas beside one of plain words; then there is no dictionary."""
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    line = f"ngram --train {tmp_path}/text.txt --order 2 --output {tmp_path}"
    monkeypatch.setattr(normalisation, "load_english_lemmas", DICTIONARY.copy)
    load_forms.cache_clear()
    run(f"{line}/plain")
    run(f"{line}/lemmas --normalise {' '.join(STEPS)}")
    load_forms.cache_clear()
    monkeypatch.setattr(normalisation, "load_english_lemmas", None)
    return LanguageModel.load(tmp_path / "lemmas")


def test_a_model_of_lemmas_needs_no_dictionary(tmp_path, lemmas, run):
    config = read_json(tmp_path / "lemmas" / "config.json")
    assert config["tokenizer"] == "words+lower+numbers+lemmas"
    forms = {form: DICTIONARY[form] for form in ("cats", "sat", "sits", "mats")}
    assert lemmas.vocabulary.forms == forms  # no text has go
    assert lemmas.tokenize("Cats SAT on 77 mats") == ["cat", "sit", "on", NUMBER, "mat"]
    assert [*lemmas.score(["the cats sat on 5"])] == [*lemmas.score(["The CAT sit on _number_"])]
    text = lemmas.generate(num_words=40)
    assert lemmas.tokenize(text) == text.split()
    answers = json.loads(run("complete", tmp_path / "lemmas", "the Cats", "the cat", "--json").out)
    assert answers["the Cats"] == answers["the cat"]


def test_forms_are_kept_with_the_vocabulary(tmp_path, lemmas, run):
    lemmas.save(tmp_path / "saved")
    both = f"{tmp_path}/saved {tmp_path}/lemmas"
    run(f"mix {both} --weights 0.5 0.5 --output {tmp_path}/mixed")
    assert LanguageModel.load(tmp_path / "mixed").vocabulary == lemmas.vocabulary
    error = run(f"mix {both} {tmp_path}/plain --output {tmp_path}/other", status=2).err
    assert "Received: no --normalise, and --normalise lower numbers lemmas of" in error
    run(f"export {tmp_path}/lemmas {tmp_path}/two.arpa")
    run(
        f"ngram --arpa {tmp_path}/two.arpa --vocabulary {tmp_path}/lemmas/vocabulary.txt "
        f"--tokenizer words --output {tmp_path}/again --normalise {' '.join(STEPS)}"
    )
    assert LanguageModel.load(tmp_path / "again").vocabulary.forms == lemmas.vocabulary.forms


def test_a_model_of_subwords_answers_in_words_and_gives_its_subwords(tmp_path, run):
    lines = ["the cat sat on the mat", "the dogs sat", "a cat's mats: 3, 33", "我们可以 我们"] * 20
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    line = f"ngram --train {tmp_path}/text --tokenizer sentencepiece --order 3 --output {tmp_path}"
    run(f"{line}/model --pieces 330")
    run(f"{line}/bpe --pieces 330 --set pieces_kind=bpe")
    run(f"{line}/same --pieces-file {tmp_path}/model/sentencepiece.model")
    model = tmp_path / "model"
    config = read_json(model / "config.json")
    expected = {"tokenizer": "sentencepiece", "pieces": 330, "pieces_kind": "unigram"}
    assert {name: config[name] for name in expected} == expected
    answers = json.loads(run("complete", model, "the cat", "我们可以 ", "--json").out)
    assert next(iter(answers["the cat"])) == "sat" and "我们" in "".join(answers["我们可以 "])
    generated = json.loads(run(f"generate {model} --prompt 'the cat ' --num-words 9 --json").out)
    assert "▁" not in generated["whole"]
    assert generated["whole"] == ("the cat " + generated["text"]).rstrip()
    same = LanguageModel.load(tmp_path / "same").vocabulary
    assert same == LanguageModel.load(model).vocabulary
    assert "crc32" in read_json(tmp_path / "same" / "config.json")["pieces_file"]
    run(f"mix {model} {tmp_path}/same --output {tmp_path}/mixed")
    error = run(f"mix {model} {tmp_path}/bpe --output {tmp_path}/wrong", status=2).err
    assert "must have the same vocabulary" in error


@pytest.mark.long
@pytest.mark.usefixtures("no_logs")
def test_a_network_of_subwords_is_trained_and_reported(tmp_path, run):
    lines = ["the cat sat on the mat", "the dogs sat", "a cat's mats: 3, 33", "我们可以 我们"] * 20
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    model = tmp_path / "model"
    run(
        f"train --train {tmp_path}/text --tokenizer sentencepiece --output {model} --pieces 330 "
        "--embedding-dim 8 --hidden-units 8 --config small --epochs 1 --set shortlist_size=20"
    )
    report = (model / "report.html").read_text(encoding="utf-8")
    assert "<h2>Continuations</h2>" in report and "bits per character" in report
    assert "▁" not in run("complete", model, "the cat").out
    counts = LanguageModel.load(model).corpus.frequencies()
    # the short-list has the most frequent subwords
    assert counts[4:24].min() >= counts[24:].max() - 1


def test_unigrams_are_estimated_exported_and_read(tmp_path, run):
    (tmp_path / "text").write_text("a b\nb c a\nc\na\nb b a c\n" * 20)
    flags = f"--train {tmp_path}/text --tokenizer whitespace --order 1"
    run(f"ngram {flags} --output {tmp_path}/one")
    run(f"export {tmp_path}/one {tmp_path}/one.arpa")
    run(f"ngram --arpa {tmp_path}/one.arpa --output {tmp_path}/read")
    one = LanguageModel.load(tmp_path / "one")
    read = LanguageModel.load(tmp_path / "read")
    assert one.model.order == read.model.order == 1
    texts = ["a b", "c x", ""]
    expected = [score.log_prob for score in one.score(texts)]
    assert [score.log_prob for score in read.score(texts)] == pytest.approx(expected, rel=1e-5)
    for method in ("deleted-interpolation", "class-based"):
        line = f"ngram {flags} --method {method} --output {tmp_path}/{method}"
        assert f"2 or more with the method {method}" in run(line, status=2).err
        assert not (tmp_path / method).exists()


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


def test_a_file_with_the_word_pad_has_an_unknown_word(tmp_path, run):
    """N-grams begin and end with it."""
    (tmp_path / "odd.arpa").write_text(ARPA)
    run(f"ngram --arpa {tmp_path}/odd.arpa --tokenizer whitespace --output {tmp_path}/odd")
    language_model = LanguageModel.load(tmp_path / "odd")
    texts = ["a <pad> b", "<pad>", "a b <pad> <pad>"]
    others = [text.replace("<pad>", "zzz") for text in texts]
    assert [*language_model.score(texts)] == [*language_model.score(others)]
    (tmp_path / "nbest").write_text("".join(f"0 ||| {text} ||| ||| -1\n" for text in texts))
    lines = run(f"rescore {tmp_path}/odd {tmp_path}/nbest").out.splitlines()
    assert len(lines) == len(texts)
