"""`rescore`: what it says about headers of TSV files, about weights and about hypotheses."""

from pathlib import Path

import pytest

from keras_nplm.cli.main import main

LIST = "{id}\tthe cat sat on the mat\t-2\n{id}\tthe cat sat in the mat\t-1\n"
TEXTS = [  # N-best lists, and flags
    (f"id\thypothesis\tam\n{LIST}", ""),
    (f"utt\ttext\tam\n{LIST}", ""),
    (f"a\tb\tam\n{LIST}", ""),
    (LIST, "--json"),
    ("1\tthe cat sat\t-2\n1\tthe cat\t-1\n", ""),
    ("1\t12 7 301\t-2\n1\t12 7 301\t-1\n", ""),
    ("1\tthe cat sat\t-2\n1\t<s> the cat </s>\t-1\n", "--tokenizer whitespace"),
    ("1\tthe cat sat\t-2\n1\t<s> the cat </s>\t-1\n", "--tokenizer words"),
]


def test_scores_notes_and_warnings_are_printed(files, capsys, messages):
    for text, flags in TEXTS:
        Path("list.tsv").write_text(text.format(id=1), encoding="utf-8")
        main(f"rescore ngrams list.tsv {flags}".split())
        printed = capsys.readouterr()
        messages.add(f"{text} {flags}\n{printed.out}{printed.err}")


@pytest.mark.parametrize("lists, is_few", [(39, True), (40, False)])
def test_few_lists_for_the_number_of_weights_are_a_warning(files, run, lists, is_few):
    names = [f"u{number}" for number in range(lists)]
    Path("references").write_text("".join(f"{name}\tthe cat sat on the mat\n" for name in names))
    Path("list.tsv").write_text("".join(LIST.format(id=name) for name in names))
    tuned = run("rescore ngrams list.tsv --tune references --output out.tsv")
    assert tuned.out.splitlines()[1].count("=") == 4
    warning = "Warning: 39 lists are few to tune 4 weights: the weights fit these lists"
    assert (warning in tuned.err) == is_few == ("Fix: tune on 40 lists or more" in tuned.err)
    assert not run("rescore ngrams list.tsv --references references --output o.tsv").err
    part = run("rescore ngrams list.tsv --weights nplm=1 --tune references --output part.tsv")
    assert part.out.splitlines()[1].count("=") == 1 and "nplm. Others get 0." in part.err


@pytest.mark.parametrize("total, is_warned", [(0, True), (2, False)])
def test_costs_in_place_of_scores_are_a_warning(files, run, total, is_warned):
    """The model has no opinion on unknown words: the total of the decoder decides."""
    names = [f"u{number}" for number in range(40)]
    text = "{id}\tzig zag\t{total}\n{id}\tzag zig\t1\n"
    Path("references").write_text("".join(f"{name}\tzig zag\n" for name in names))
    Path("list.tsv").write_text("".join(text.format(id=name, total=total) for name in names))
    for flag in ("--tune", "--references"):
        tuned = run(f"rescore ngrams list.tsv {flag} references --output out{flag}.tsv")
        warning = "Warning: the tuned weight of score, the decoder's total, is negative"
        assert (warning in tuned.err) == (is_warned and flag == "--tune")
