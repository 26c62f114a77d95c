"""Commands on n-gram models of lemmas: the dictionary is needed for estimation only."""

import json

import pytest

from keras_nplm import LanguageModel
from keras_nplm.cli.main import main
from keras_nplm.data.tokenizers import normalisation
from keras_nplm.data.tokenizers.normalisation import NUMBER, STEPS, load_forms
from keras_nplm.io.files import read_json

DICTIONARY = {
    "cats": "cat",
    "sat": "sit",
    "sits": "sit",
    "went": "go",
    "goings": "going",
    "mats": "mat",
    "dogs": "dog",
}
LINES = [
    "The Cat SAT on 12 mats.",
    "cats sit; dogs, too: 3rd 1,000",
    "Goings on Été İ",
    "polish Polish <unk> c A",
] * 9


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Bigram models of one text, plain and of lemmas."""
    directory = tmp_path_factory.mktemp("normalised")
    (directory / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    common = ["ngram", "--train", str(directory / "text.txt"), "--order", "2", "--output"]
    with pytest.MonkeyPatch.context() as context:
        context.setattr(normalisation, "load_english_lemmas", DICTIONARY.copy)
        load_forms.cache_clear()
        assert main([*common, str(directory / "plain")]) == 0
        assert main([*common, str(directory / "lemmas"), "--normalise", *STEPS]) == 0
    load_forms.cache_clear()
    return directory


@pytest.fixture
def lemmas(models, monkeypatch) -> LanguageModel:
    """The model of lemmas, without a dictionary."""

    def refuse():
        raise AssertionError("an estimated model must not need the dictionary")

    monkeypatch.setattr(normalisation, "load_english_lemmas", refuse)
    return LanguageModel.load(models / "lemmas")


def test_a_model_of_lemmas_needs_no_dictionary(models, lemmas, capsys):
    assert read_json(models / "lemmas" / "config.json")["tokenizer"] == "words+lower+numbers+lemmas"
    forms = {
        "cats": "cat",
        "sat": "sit",
        "sits": "sit",
        "mats": "mat",
        "dogs": "dog",
        "goings": "going",
    }
    assert lemmas.vocabulary.forms == forms
    assert lemmas.tokenize("Cats SAT on 77 mats") == ["cat", "sit", "on", NUMBER, "mat"]
    assert [*lemmas.score(["the cats sat on 5"])] == [*lemmas.score(["The CAT sits on _number_"])]
    assert NUMBER in dict(lemmas.next_words("Cats on"))
    text = lemmas.generate(num_words=40)
    assert lemmas.tokenize(text) == text.split()
    assert main(["complete", str(models / "lemmas"), "the Cats", "the cat", "--json"]) == 0
    assert len({str(answer) for answer in json.loads(capsys.readouterr().out).values()}) == 1


def test_forms_are_kept_with_the_vocabulary(models, lemmas, tmp_path, capsys):
    lemmas.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "forms.tsv").read_bytes() == (
        models / "lemmas" / "forms.tsv"
    ).read_bytes()
    both = [str(tmp_path / "saved"), str(models / "lemmas")]
    assert main(["mix", *both, "--weights", "0.5", "0.5", "--output", str(tmp_path / "mixed")]) == 0
    assert LanguageModel.load(tmp_path / "mixed").vocabulary == lemmas.vocabulary
    assert main(["mix", *both, str(models / "plain"), "--output", str(tmp_path / "other")]) == 2
    error = capsys.readouterr().err
    assert "must have the same normalisation as" in error
    assert "Received: no --normalise, and --normalise lower numbers lemmas of" in error
    assert main(["export", str(models / "lemmas"), str(tmp_path / "two.arpa")]) == 0
    again = [
        "ngram",
        "--arpa",
        str(tmp_path / "two.arpa"),
        "--vocabulary",
        str(models / "lemmas" / "vocabulary.txt"),
    ]
    assert (
        main(
            [
                *again,
                "--tokenizer",
                "words",
                "--output",
                str(tmp_path / "again"),
                "--normalise",
                *STEPS,
            ]
        )
        == 0
    )
    assert LanguageModel.load(tmp_path / "again").vocabulary.forms == lemmas.vocabulary.forms
