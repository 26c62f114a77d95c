"""`rescore`: what it says about headers of TSV files, about weights and about hypotheses."""

import json
from pathlib import Path

import pytest

LIST = "{id}\tthe cat sat on the mat\t-2\n{id}\tthe cat sat in the mat\t-1\n"


@pytest.fixture
def rescore(files, run):
    """Function that rescores a text of N-best lists: standard output and standard error."""

    def rescore(text: str, flags: str = "") -> tuple[str, str]:
        (files / "list.tsv").write_text(text, encoding="utf-8")
        return run(f"rescore ngrams list.tsv {flags}")

    return rescore


@pytest.mark.parametrize("lists, is_few", [(39, True), (40, False)])
def test_few_lists_for_the_number_of_weights_are_a_warning(rescore, lists, is_few):
    names = [f"u{number}" for number in range(lists)]
    Path("references").write_text("".join(f"{name}\tthe cat sat on the mat\n" for name in names))
    text = "".join(LIST.format(id=name) for name in names)
    out, error = rescore(text, "--tune references --output out.tsv")
    assert out.splitlines()[1].count("=") == 4
    warning = "Warning: 39 lists are few to tune 4 weights: the weights fit these lists"
    assert (warning in error) == is_few == ("Warning" in error)
    assert "Fix: tune on 40 lists or more, 10 for each weight" in error or not is_few
    assert "Warning" not in rescore(text, "--references references --output out.tsv")[1]


def test_an_arpa_file_rescores_like_its_model(rescore, run):
    out, _ = rescore(LIST.format(id=1))
    run("export ngrams model.arpa.gz")
    lines = run("rescore model.arpa.gz list.tsv").out.splitlines()
    # seven digits in the file
    for line, expected in zip(lines, out.splitlines(), strict=True):
        *before, total = line.split("\t")
        assert before[:3] == expected.split("\t")[:3]
        assert float(total) == pytest.approx(float(expected.split("\t")[-1]), abs=1e-4)


@pytest.mark.parametrize(
    "first, second, flags, warning",
    [
        ("the cat sat", "the cat", "", ""),
        (
            "12 7 301",
            "12 7 301",
            "",
            "75% of the tokens of the hypotheses are out of the vocabulary",
        ),
        ("the cat sat", "<s> the cat </s>", "--tokenizer whitespace", "The text holds <s>"),
        ("the cat sat", "<s> the cat </s>", "--tokenizer words", "The text holds <s>"),
    ],
)
def test_hypotheses_that_are_hard_to_rank_are_a_warning(rescore, first, second, flags, warning):
    _, error = rescore(f"1\t{first}\t-2\n1\t{second}\t-1\n", flags)
    assert ("Warning: " in error) == bool(warning) and warning in error


def test_the_result_is_one_object(rescore):
    out, _ = rescore(LIST.format(id=1), "--json")
    result = json.loads(out)
    assert (result["lists"], result["hypotheses"], result["output"]) == (1, 2, None)
