"""Rescoring: the features are the scores of sentences, whatever is shared; files and commands from end to end."""

import gzip
import itertools
import json
import re

import numpy as np
import pytest

from keras_nplm import NPLM, LanguageModel, Vocabulary, kneser_ney
from keras_nplm.cli.main import main
from keras_nplm.language_model.rescoring import NBestFile, NBestList, add_scores
from keras_nplm.models.self_normalised import SelfNormalised

HYPOTHESES = ["the cat sat on a mat", "the cat sat on the mat", "a cat sat on the mat", "", "the dog sat", "mat"]


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
@pytest.mark.parametrize("is_network", [False, True])
def test_features_are_the_scores_of_the_sentences(build_ngram_model, boundary, is_network):
    model = build_ngram_model(boundary)
    if is_network:
        network = NPLM(9, order=3, embedding_dim=4, hidden_units=5, boundary=boundary)
        network.prob.b.assign(np.linspace(-3, -1, 9))  # no hypothesis is as good as the empty one
        model.model = SelfNormalised(network)
    lists = [NBestList("0", HYPOTHESES), NBestList("1", HYPOTHESES[::-1])]
    expected = {text: next(model.score([text])) for text in HYPOTHESES}
    for nbest in add_scores(lists, model.score):
        scores = [expected[text] for text in nbest.texts]
        np.testing.assert_allclose(nbest.features["nplm"], [s.log_prob for s in scores], rtol=1e-5, atol=1e-6)
        assert nbest.features["nplm_words"].tolist() == [score.tokens for score in scores]
        assert nbest.features["nplm_unk"].tolist() == [score.unk_tokens for score in scores]
    best = max(HYPOTHESES, key=lambda text: expected[text].log_prob)
    assert [nbest.texts[0] for nbest in model.rescore(lists)] == [best, best]


def test_lists_are_read_lazily(build_ngram_model):
    read = itertools.count()
    lists = (NBestList(str(i), ["the cat " * 1000] * 10) for i in read)  # endless
    ranked = build_ngram_model("sentence").rescore(lists)
    assert [nbest.name for nbest in itertools.islice(ranked, 3)] == ["0", "1", "2"]
    assert next(read) < 20


@pytest.fixture(scope="module")
def moses(tmp_path_factory):
    """A development list whose right hypotheses the model likes better than the decoder does, and references."""
    directory = tmp_path_factory.mktemp("nbest")
    right = ["The value is a string.", "This is the name of a function.", "The object is a class."]
    wrong = ["The value is string a.", "This the is name of a function.", "The object a class."]
    lines = []
    for i, (good, bad) in enumerate(zip(right, wrong, strict=True)):
        lines += [f"{i} ||| {bad} ||| TM= -1 ||| -1 ||| a", f"{i} ||| {good} ||| TM= -2 ||| -2 ||| b"]
    (directory / "list").write_text("\n".join(lines) + "\n")
    (directory / "references").write_text("\n".join(right) + "\n")
    (directory / "losses").write_text("1\n0\n" * 3)
    return directory


@pytest.mark.parametrize("known", ["references", "losses"])
def test_the_command_tunes_weights_and_takes_them(model_directory, moses, tmp_path, capsys, known):
    command = ["rescore", str(model_directory), str(moses / "list"), "--metric", {"losses": "loss"}.get(known, "wer")]
    assert main([*command, "--tune", str(moses / known), "--output", str(tmp_path / "tuned"), "--json"]) == 0
    tuned = json.loads(capsys.readouterr().out)
    assert (tuned["lists"], tuned["hypotheses"], tuned["changed"]) == (3, 6, 3)
    assert tuned["rescored"] == tuned["oracle"] == 0 < tuned["baseline"]
    assert tuned["baseline"] == pytest.approx(1.0 if known == "losses" else (2 + 2 + 1) / (5 + 7 + 5))
    assert set(tuned["weights"]) == {"score", "nplm", "nplm_words", "nplm_unk"}
    weights = [f"{name}={weight!r}" for name, weight in tuned["weights"].items()]
    capsys.readouterr()
    assert main([*command, "--references", str(moses / known), "--weights", *weights]) == 0
    again = capsys.readouterr()
    assert re.search(r"0\.\d+ before, 0\.0000 after rescoring, 0\.0000 oracle|1\.0000 before", again.err)
    assert again.out == (tmp_path / "tuned").read_text()  # standard output has the lists alone
    read = list(NBestFile(tmp_path / "tuned"))
    assert [nbest.texts[0] for nbest in read] == (moses / "references").read_text().splitlines()
    assert all("nplm_before" in nbest.features for nbest in read)


def test_the_command_rescores_kaldi(model_directory, tmp_path):
    (tmp_path / "words").write_text("u-1 value the is\nu-2 The value is\n")
    (tmp_path / "costs").write_text("u-1 3\nu-2 3.5\n")
    output = tmp_path / "out.gz"
    scores = ["--scores", f"am={tmp_path / 'costs'}", "--tokenizer", "whitespace"]
    assert main(["rescore", str(model_directory), str(tmp_path / "words"), *scores, "--output", str(output)]) == 0
    assert gzip.decompress(output.read_bytes()).decode() == "u-2 The value is\nu-1 value the is\n"
    costs = gzip.decompress((tmp_path / "out.nplm.gz").read_bytes()).decode().split()
    totals = gzip.decompress((tmp_path / "out.nplm_total.gz").read_bytes()).decode().split()
    assert [costs[0], costs[2]] == ["u-2", "u-1"] and float(costs[1]) > 0
    assert float(totals[1]) == pytest.approx(float(costs[1]) + 3.5, abs=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("list --format kaldi --output {tmp}", "line 1: expected `utterance-k words`"),
        ("list --tune {nbest}/losses --metric loss --restarts -1", "`restarts` must be 0 or more"),
        ("list --output {model}/vocabulary.txt", "vocabulary.txt"),
    ],
)
def test_invalid_arguments_are_one_error(model_directory, moses, tmp_path, capsys, arguments, message):
    words = arguments.format(nbest=moses, tmp=tmp_path / "o", model=model_directory).split()
    assert main(["rescore", str(model_directory), f"{moses}/{words[0]}", *words[1:]]) == 2
    captured = capsys.readouterr()
    assert not captured.out and message in captured.err.splitlines()[-1] and "Traceback" not in captured.err
    assert not [*tmp_path.iterdir()]


def test_a_tokenizer_option_keeps_the_normalisation(tmp_path):
    vocabulary = Vocabulary(["the", "cat", "_number_"])
    model = kneser_ney(np.array([4, 5, 6, 3, 4, 5, 3], np.int32), len(vocabulary), 2, "sentence")
    LanguageModel(model, vocabulary, "words+lower+numbers", "sentence").save(tmp_path / "model")
    (tmp_path / "n.best").write_text("0 ||| The Cat 12 ||| LM= 1 ||| 1\n")
    command = ["rescore", str(tmp_path / "model"), str(tmp_path / "n.best"), "--output", str(tmp_path / "out")]
    for flags in ([], ["--tokenizer", "whitespace"]):
        assert main([*command, *flags, "--weights", "nplm=1", "nplm_unk=1"]) == 0
        assert re.search(r"nplm_unk= -?0(\.0+)? ", (tmp_path / "out").read_text())
