"""`export` to ARPA files: a network, a count-based model, and options out of range."""

import contextlib
import io
import json

import numpy as np
import pytest

from keras_nplm import LanguageModel, Vocabulary, evaluate
from keras_nplm.cli.main import main
from keras_nplm.models.ngrams import kneser_ney, prune, read_arpa, write_arpa

V = 9  # <pad> <unk> <s> </s> and five words


def _text():
    ids = np.random.default_rng(3).choice([1, 4, 5, 6, 7], 300).astype(np.int32)
    ids[6::7] = 3
    return np.append(ids, 3).astype(np.int32)


@pytest.fixture(scope="module")
def exported(model_directory, tmp_path_factory):
    """The output of `export --json` for a network's ARPA file, the path of the file, and the network."""
    path = tmp_path_factory.mktemp("arpa") / "network.arpa.gz"
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert main(["export", str(model_directory), str(path), "--prune", "1e-5", "--order", "3", "--json"]) == 0
    return json.loads(output.getvalue()), path, LanguageModel.load(model_directory)


def test_export_writes_a_network_as_an_arpa_file(exported):
    output, path, network = exported
    model, _ = read_arpa(path, network.vocabulary)
    assert output == {"format": "arpa", "ngrams": model.num_ngrams, "written": [str(path)]}
    assert model.order == 3 and min(model.num_ngrams) > 500
    assert evaluate(model, network.corpus.ids("train"))["perplexity"] == pytest.approx(
        network.evaluate("train")["perplexity"], rel=0.25
    )


def test_export_uses_a_given_text_and_prunes_to_a_size(model_directory, exported, tmp_path, capsys):
    text, path = tmp_path / "text.txt", tmp_path / "small.arpa"
    text.write_text("The following table shows the result of the call .\nIt is the same .\n", encoding="utf-8")
    unigrams = exported[0]["ngrams"][0]
    flags = ["--text", str(text), "--min-expected-count", "0.5", "--max-ngrams", str(unigrams + 20)]
    assert main(["export", str(model_directory), str(path), *flags, "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["ngrams"]
    assert numbers[0] == unigrams and 5 <= sum(numbers[1:]) <= 20


def test_export_of_a_count_based_model_only_prunes(tmp_path, capsys):
    vocabulary, directory = Vocabulary(["the", "cat", "sat", "on", "mat"]), tmp_path / "model"
    model = kneser_ney(_text(), V, 3, "stream")
    LanguageModel(model, vocabulary, "words", "stream").save(directory)
    for flags, expected in (([], model), (["--prune", "1e-3"], prune(model, 1e-3))):
        assert main(["export", str(directory), str(tmp_path / "a.arpa"), *flags, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["ngrams"] == expected.num_ngrams
        write_arpa(tmp_path / "b.arpa", expected, vocabulary)
        assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()
    assert main(["export", str(directory), str(tmp_path / "a.arpa"), "--order", "2"]) == 2
    assert "`--text` must name a text if the model directory has no corpus/" in capsys.readouterr().err
