"""Files of N-best lists rescored from end to end, by the function and by the command."""

import json
import re

import pytest

from keras_nplm import InputError, NBestFile, rescore_file
from tests.tokenizers import build_model


def test_a_refused_file_is_not_written(build_ngram_model, tmp_path):
    (tmp_path / "list").write_text("0 ||| mat ||| TM= -1 ||| -1\n")
    model = build_ngram_model("sentence")
    with pytest.raises(InputError, match="no feature 'am' for its weight"):
        rescore_file(model, NBestFile(tmp_path / "list"), tmp_path / "out", weights={"am": 1})
    assert not (tmp_path / "out").exists()


@pytest.fixture
def rescore(build_ngram_model, tmp_path, run):
    """Function that runs the command on a text of lists: standard output and standard error."""
    build_ngram_model("sentence").save(tmp_path / "model")

    def rescore(text: str, *flags: str, status: int = 0) -> tuple[str, str]:
        (tmp_path / "list").write_text(text)
        return run("rescore", tmp_path / "model", tmp_path / "list", *flags, status=status)

    return rescore


def test_the_command_tunes_weights_and_takes_them(build_ngram_model, rescore, tmp_path):
    """The language model likes the right hypotheses better than the decoder does."""
    model = build_ngram_model("sentence")
    text = ""
    right = []
    for pair in (("the cat sat", "the cat mat"), ("on the mat", "on cat mat"), ("the cat", "mat")):
        scores = {text: score.log_prob for text, score in zip(pair, model.score(pair), strict=True)}
        worst, best = sorted(pair, key=scores.get)
        # the decoder's best hypothesis is the last, as its score says
        number = len(right)
        text += f"{number} ||| {best} ||| ||| -2 ||| b\n{number} ||| {worst} ||| ||| -1 ||| a\n"
        right.append(best)
    references = tmp_path / "references"
    references.write_text("\n".join([*right, "a lost utterance", ""]))
    tuned = tmp_path / "tuned"
    out, _ = rescore(text, "--tune", str(references), "--output", str(tuned), "--json")
    result = json.loads(out)
    assert (result["lists"], result["hypotheses"], result["changed"]) == (3, 6, 3)
    assert result["baseline"] > 0.3
    assert result["rescored"] == result["oracle"] == 0
    assert (result["references_without_list"], result["words_without_list"]) == (1, 3)
    assert {*result["weights"]} == {"score", "nplm", "nplm_words", "nplm_unk"}
    assert [nbest.texts[0] for nbest in NBestFile(tuned)] == right
    weights = [f"{name}={weight!r}" for name, weight in result["weights"].items()]
    out, error = rescore(text, "--references", str(references), "--weights", *weights)
    assert out == tuned.read_text()  # standard output has the lists alone
    assert f"{result['baseline']:.4f} before, 0.0000 after rescoring, 0.0000 oracle" in error
    assert "not in the rates: 1 of 4, with 3 words" in error


def test_the_command_reads_archives_of_kaldi(rescore, tmp_path):
    (tmp_path / "costs").write_text("u-1 300\nu-2 3.5\n")
    text = "u-1 the cat\nu-2 mat\n"
    flags = ["--scores", f"am={tmp_path / 'costs'}", "--tokenizer", "whitespace"]
    rescore(text, *flags, "--output", str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "u-2 mat\nu-1 the cat\n"
    costs, totals = ((tmp_path / f"out.{name}").read_text() for name in ("nplm", "nplm_total"))
    assert float(totals.split()[1]) == pytest.approx(float(costs.split()[1]) + 3.5, abs=1e-5)
    _, error = rescore(text, *flags, status=2)
    assert "Kaldi's format needs files for the costs." in error


def test_a_tokenizer_option_keeps_the_normalisation(tmp_path, run):
    build_model("words+lower+numbers", ["the cat 1"], 2).save(tmp_path / "model")
    (tmp_path / "n.best").write_text("0 ||| The Cat 12 ||| LM= 1 ||| 1\n")
    for flags in ([], ["--tokenizer", "whitespace"]):
        weights = ("--weights", "nplm=1", "nplm_unk=1")
        out = run("rescore", tmp_path / "model", tmp_path / "n.best", *weights, *flags).out
        assert re.search(r"nplm_unk= -?0(\.0+)? ", out)
