"""`rescore`: what it prints about headers of TSV files, and about weights that few lists tune."""

import pytest

from keras_nplm.cli.main import main

LIST = "{id}\tthe cat sat on the mat\t-2\n{id}\tthe cat sat in the mat\t-1\n"


@pytest.fixture
def rescore(tmp_path, ngram_directory, capsys):
    """Function that rescores a text of N-best lists: standard output and standard error."""

    def rescore(text: str, *flags: str, status: int = 0) -> tuple[str, str]:
        (tmp_path / "list.tsv").write_text(text, encoding="utf-8")
        capsys.readouterr()
        assert main(["rescore", str(ngram_directory), str(tmp_path / "list.tsv"), *flags]) == status
        return capsys.readouterr()

    return rescore


@pytest.mark.parametrize(
    "header, note",
    [
        pytest.param("id\thypothesis\tam\n", "", id="its own names"),
        pytest.param("utt\ttext\tam\n", "", id="known names"),
        pytest.param(
            "a\tb\tam\n",
            "The first line of list.tsv is a header, as it has no scores: id a, hypothesis b, "
            "features am.",
            id="other names",
        ),
    ],
)
def test_a_header_is_kept_and_named_if_its_names_are_not_known(rescore, header, note):
    out, error = rescore(header + LIST.format(id=1))
    assert out.splitlines()[0] == header.strip() + "\tnplm\tnplm_total"
    assert len(out.splitlines()) == 3
    assert ("is a header" in error) == bool(note)
    assert note in error


@pytest.mark.parametrize("lists, is_few", [(39, True), (40, False)])
def test_few_lists_for_the_number_of_weights_are_a_warning(rescore, tmp_path, lists, is_few):
    names = [f"u{number}" for number in range(lists)]
    references = tmp_path / "references"
    references.write_text("".join(f"{name}\tthe cat sat on the mat\n" for name in names))
    text = "".join(LIST.format(id=name) for name in names)
    output = ["--output", str(tmp_path / "out.tsv")]
    out, error = rescore(text, "--tune", str(references), *output)
    assert out.splitlines()[1].count("=") == 4
    warning = (
        "Warning: 39 lists are few to tune 4 weights: the weights fit these lists, and the error "
        "rate of other lists is usually higher than the printed one. Fix: tune on 40 lists or "
        "more, 10 for each weight"
    )
    assert (warning in error) == is_few
    assert ("Warning" in error) == is_few
    _, error = rescore(text, "--references", str(references), *output)
    assert "Warning" not in error


def test_an_arpa_file_rescores_like_its_model(rescore, tmp_path, ngram_directory, capsys):
    out, _ = rescore(LIST.format(id=1))
    arpa = tmp_path / "model.arpa.gz"
    assert main(["export", str(ngram_directory), str(arpa)]) == 0
    capsys.readouterr()
    assert main(["rescore", str(arpa), str(tmp_path / "list.tsv")]) == 0
    # seven digits in the file
    for line, expected in zip(capsys.readouterr().out.splitlines(), out.splitlines(), strict=True):
        *before, total = line.split("\t")
        assert before[:3] == expected.split("\t")[:3]
        assert float(total) == pytest.approx(float(expected.split("\t")[-1]), abs=1e-4)


def test_a_weight_without_a_feature_is_refused_before_anything_is_written(rescore):
    lists = "id\ttext\tam\n" + LIST.format(id=1) + LIST.format(id=2)
    out, error = rescore(lists, "--weights", "foo=1", status=2)
    assert out == ""
    assert "The N-best lists have no feature 'foo' for its weight." in error


@pytest.mark.parametrize("tokenizer", ["whitespace", "words"])
def test_markers_in_hypotheses_are_a_warning(rescore, tokenizer):
    text = "1\tthe cat sat\t-2\n1\t<s> the cat </s>\t-1\n"
    _, error = rescore(text, "--tokenizer", tokenizer)
    assert (
        "Warning: The text holds <s>, which counts as text: each line is a sentence, without "
        "markers. Fix: remove it, for example by `sed -E 's#</?s>##g'`.\n"
    ) in error
    assert "whitespace" not in error


@pytest.mark.parametrize("words, is_foreign", [("12 7 301", True), ("the cat sat", False)])
def test_hypotheses_of_unknown_words_are_a_warning(rescore, words, is_foreign):
    _, error = rescore(f"1\t{words}\t-2\n1\t{words}\t-1\n")
    warning = (
        "Warning: 75% of the tokens of the hypotheses are out of the vocabulary (<unk>): the model "
        "can hardly rank them. Fix: map integer ids to words"
    )
    assert (warning in error) == is_foreign
    assert ("Warning" in error) == is_foreign


def test_lists_are_not_replaced(rescore, tmp_path):
    target = tmp_path / "list.tsv"
    _, error = rescore(LIST.format(id=1), "--output", str(target), status=2)
    assert "`--output` must be a different file than NBEST." in error
    assert target.read_text(encoding="utf-8") == LIST.format(id=1)
