"""Rescoring: the features are the scores of sentences, whatever is shared; files and commands from
end to end.
"""

import dataclasses
import functools
import gzip
import itertools
import json
import re

import numpy as np
import pytest

from keras_nplm import InputError, LanguageModel, Vocabulary, kneser_ney, rescore, rescore_file
from keras_nplm.cli.main import main
from keras_nplm.rescoring.features import add_scores
from keras_nplm.rescoring.nbest import NBestFile, NBestList

HYPOTHESES = [
    "the cat sat on a mat",
    "the cat sat on the mat",
    "a cat sat on the mat",
    "",
    "the dog sat",
    "mat",
]


@pytest.mark.parametrize("boundary", ["sentence", "stream", "text"])
def test_features_are_the_scores_of_the_sentences(build_ngram_model, boundary):
    model = build_ngram_model(boundary)
    lists = [NBestList("0", HYPOTHESES), NBestList("1", HYPOTHESES[::-1])]
    expected = {
        text: dataclasses.astuple(next(model.score([text], alone=True))) for text in HYPOTHESES
    }
    for nbest in add_scores(lists, functools.partial(model.score, alone=True)):
        columns = np.stack(
            [nbest.features[name] for name in ("nplm", "nplm_words", "nplm_unk")], axis=1
        )
        np.testing.assert_allclose(
            columns, [expected[text] for text in nbest.texts], rtol=1e-5, atol=1e-6
        )
    best = max(HYPOTHESES, key=lambda text: expected[text])
    assert [nbest.texts[0] for nbest in rescore(model, lists)] == [best, best]


def test_a_file_is_rescored_by_a_language_model(build_ngram_model, tmp_path):
    lines = [f"0\t{text}\n" for text in ("mat", "the cat sat")]
    (tmp_path / "list.tsv").write_text("".join(lines))
    output = tmp_path / "out.tsv"
    model = build_ngram_model("sentence")
    result = rescore_file(model, NBestFile(tmp_path / "list.tsv"), output, weights={})
    (expected,) = rescore(model, [NBestList("0", ["mat", "the cat sat"])])
    assert [nbest.texts for nbest in NBestFile(output)] == [expected.texts]
    assert (result["hypotheses"], result["weights"]) == (2, None)


@pytest.mark.parametrize("name, column", [("moses", "score"), ("tsv", "score"), ("tsv", "am")])
def test_a_second_rescoring_starts_from_the_total_of_the_first(
    build_ngram_model, tmp_path, name, column
):
    decoder = {"the cat sat on the mat": -1, "the cat": -2, "mat": -12}
    rows = decoder.items()
    text = f"id\thypothesis\t{column}\n" + "".join(f"0\t{text}\t{score}\n" for text, score in rows)
    if name == "moses":
        text = "".join(f"0 ||| {text} ||| ||| {score}\n" for text, score in rows)
    paths = [tmp_path / f"{number}.{name}" for number in range(3)]
    paths[0].write_text(text)
    model = build_ngram_model("sentence")
    first = rescore_file(model, NBestFile(paths[0]), paths[1])
    second = rescore_file(model, NBestFile(paths[1]), paths[2], name="second")
    scores = zip(decoder.values(), model.score([*decoder], alone=True), strict=True)
    expected = sorted((before + 2 * score.log_prob for before, score in scores), reverse=True)
    totals = [float(line.split()[-1]) for line in paths[2].read_text().splitlines()[-3:]]
    assert totals == pytest.approx(expected, abs=1e-5)
    assert (first["changed"], second["changed"]) == (1, 0)


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param({"tune_weights": True}, "`losses` must be given", id="tuning without losses"),
        pytest.param({"restarts": 3}, "`restarts` must be left out", id="restarts alone"),
        pytest.param({"seed": 0}, "`seed` must be left out", id="a seed alone"),
        pytest.param({"write": False}, "`output` must be left out", id="an output not written"),
        pytest.param({"name": "score"}, "`name` must be a different", id="the decoder's name"),
    ],
)
def test_options_without_effect_are_refused(build_ngram_model, tmp_path, options, message):
    (tmp_path / "list").write_text("0 ||| mat ||| TM= -1 ||| -1\n")
    output = tmp_path / "out"
    with pytest.raises(InputError, match=message):
        rescore_file(build_ngram_model("sentence"), NBestFile(tmp_path / "list"), output, **options)
    assert not output.exists()


def test_the_name_of_the_decoder_score_is_refused(build_ngram_model):
    # of a list without a score, as Kaldi's, nothing else would tell
    with pytest.raises(InputError, match="the decoder's total"):
        list(rescore(build_ngram_model("sentence"), [NBestList("0", HYPOTHESES)], name="score"))


def test_lists_are_read_lazily(build_ngram_model):
    read = itertools.count()
    lists = (NBestList(str(i), ["the cat " * 1000] * 10) for i in read)  # endless
    ranked = rescore(build_ngram_model("sentence"), lists)
    assert [nbest.name for nbest in itertools.islice(ranked, 3)] == ["0", "1", "2"]
    assert next(read) < 20


@pytest.fixture(scope="module")
def moses(tmp_path_factory):
    """A development list whose right hypotheses the model likes better than the decoder does, and
    references.
    """
    directory = tmp_path_factory.mktemp("nbest")
    right = ["The value is a string.", "This is the name of a function.", "The object is a class."]
    wrong = ["The value is string a.", "This the is name of a function.", "The object a class."]
    lines = []
    for i, texts in enumerate(zip(wrong, right, strict=True)):
        lines.append(f"{i} ||| {texts[0]} ||| TM= -1 ||| -1 ||| a\n")
        lines.append(f"{i} ||| {texts[1]} ||| TM= -2 ||| -2 ||| a\n")
    (directory / "list").write_text("".join(lines))
    (directory / "references").write_text("\n".join(right) + "\n")
    return directory


def test_the_command_tunes_weights_and_takes_them(model_directory, moses, tmp_path, capsys):
    command = ["rescore", str(model_directory), str(moses / "list")]
    tuning = ["--tune", str(moses / "references"), "--output", str(tmp_path / "tuned"), "--json"]
    assert main([*command, *tuning]) == 0
    tuned = json.loads(capsys.readouterr().out)
    assert (tuned["lists"], tuned["hypotheses"], tuned["changed"]) == (3, 6, 3)
    assert tuned["rescored"] == tuned["oracle"] == 0 < tuned["baseline"]
    assert tuned["baseline"] == pytest.approx((2 + 2 + 1) / (5 + 7 + 5))
    assert set(tuned["weights"]) == {"score", "nplm", "nplm_words", "nplm_unk"}
    weights = [f"{name}={weight!r}" for name, weight in tuned["weights"].items()]
    capsys.readouterr()
    assert main([*command, "--references", str(moses / "references"), "--weights", *weights]) == 0
    again = capsys.readouterr()
    assert "0.0000 after rescoring, 0.0000 oracle" in again.err
    assert again.out == (tmp_path / "tuned").read_text()  # standard output has the lists alone
    read = list(NBestFile(tmp_path / "tuned"))
    assert [nbest.texts[0] for nbest in read] == (moses / "references").read_text().splitlines()
    assert all("nplm_before" in nbest.features for nbest in read)


def test_references_without_a_list_are_counted(build_ngram_model, tmp_path, capsys):
    build_ngram_model("sentence").save(tmp_path / "model")
    (tmp_path / "list").write_text("0 ||| the cat ||| TM= -1 ||| -1\n")
    references = tmp_path / "references"
    command = ["rescore", str(tmp_path / "model"), str(tmp_path / "list")]
    command += ["--references", str(references), "--output", str(tmp_path / "out")]
    references.write_text("the cat\na lost utterance\n\n")
    assert main([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["references_without_list"], result["words_without_list"]) == (2, 3)
    assert main(command) == 0
    line = "references without a list, which are not in the rates: 2 of 3, with 3 words"
    assert line in capsys.readouterr().out.splitlines()
    references.write_text("the cat\n\n")
    assert main(command) == 0
    assert "without a list" not in capsys.readouterr().out


def test_the_command_rescores_kaldi(model_directory, tmp_path):
    (tmp_path / "words").write_text("u-1 value the is\nu-2 The value is\n")
    (tmp_path / "costs").write_text("u-1 3\nu-2 3.5\n")
    output = tmp_path / "out.gz"
    scores = ["--scores", f"am={tmp_path / 'costs'}", "--tokenizer", "whitespace"]
    command = ["rescore", str(model_directory), str(tmp_path / "words"), *scores]
    assert main([*command, "--output", str(output)]) == 0
    assert gzip.decompress(output.read_bytes()).decode() == "u-2 The value is\nu-1 value the is\n"
    names = ("out.nplm.gz", "out.nplm_total.gz")
    costs, totals = (
        gzip.decompress((tmp_path / name).read_bytes()).decode().split() for name in names
    )
    assert costs[0] == totals[0] == "u-2"
    assert float(totals[1]) == pytest.approx(float(costs[1]) + 3.5, abs=1e-5)


def test_a_tokenizer_option_keeps_the_normalisation(tmp_path):
    vocabulary = Vocabulary(["the", "cat", "_number_"])
    model = kneser_ney(np.array([4, 5, 6, 3, 4, 5, 3], np.int32), len(vocabulary), 2, "sentence")
    LanguageModel(model, vocabulary, "words+lower+numbers", "sentence").save(tmp_path / "model")
    (tmp_path / "n.best").write_text("0 ||| The Cat 12 ||| LM= 1 ||| 1\n")
    command = [
        "rescore",
        str(tmp_path / "model"),
        str(tmp_path / "n.best"),
        "--output",
        str(tmp_path / "out"),
    ]
    for flags in ([], ["--tokenizer", "whitespace"]):
        assert main([*command, *flags, "--weights", "nplm=1", "nplm_unk=1"]) == 0
        assert re.search(r"nplm_unk= -?0(\.0+)? ", (tmp_path / "out").read_text())
