"""`export` prints what a LiteRT or ONNX file holds, with its perplexity."""

import json

import pytest

from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json


def _format(metrics):
    figures = [(split, metrics[split]["perplexity"]) for split in ("validation", "test")]
    return ", ".join(f"{perplexity:.2f} ({split})" for split, perplexity in figures)


def test_it_prints_what_a_file_of_an_n_gram_model_holds(ngram_directory, tmp_path, capsys):
    path = tmp_path / "mine.tflite"
    assert main(["export", str(ngram_directory), str(path)]) == 0
    wrote, *holds = capsys.readouterr().out.splitlines()
    assert wrote == f"wrote {path}, {path}.json, {path}.vocabulary.txt"
    figures = _format(read_json(ngram_directory / "metrics.json"))
    assert {"Model: An n-gram model in back-off form of order 5", f"Perplexity: {figures}"} <= {
        *holds
    }
    assert main(["export", str(ngram_directory), str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["contents"] == read_json(f"{path}.json")


@pytest.mark.long
def test_the_network_alone_is_printed_beside_its_mixture(model_directory, tmp_path, capsys):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    mixture = tmp_path / "mixture"
    assert main(["mix", str(model_directory), "--uniform", "--output", str(mixture)]) == 0
    whole = tmp_path / "whole.onnx"
    alone = tmp_path / "alone.tflite"
    figures = _format(read_json(mixture / "metrics.json"))
    capsys.readouterr()
    assert main(["export", str(mixture), str(whole)]) == 0
    holds = capsys.readouterr().out.splitlines()
    assert f"Perplexity: {figures}" in holds
    assert any(line.startswith("Mixture of: ") for line in holds)
    assert main(["export", str(mixture), str(alone), "--network-alone", "--quantise"]) == 0
    holds = capsys.readouterr().out.splitlines()
    assert f"Perplexity: {_format(read_json(model_directory / 'metrics.json'))}" in holds
    assert f"Perplexity of the mixture, which is not here: {figures}" in holds
    assert "Matrices: rounded to 8 bits after perplexity was measured" in holds


def test_the_network_alone_of_n_grams_is_refused(ngram_directory, tmp_path, capsys):
    command = ["export", str(ngram_directory), str(tmp_path / "mine.onnx"), "--network-alone"]
    assert main(command) == 2
    assert (
        "must be a mixture with one network to be exported with `--network-alone`"
        in capsys.readouterr().err
    )
    assert not list(tmp_path.iterdir())


def test_the_network_alone_has_no_other_formats(ngram_directory, tmp_path, capsys):
    command = ["export", str(ngram_directory), str(tmp_path / "served"), "--network-alone"]
    assert main(command) == 2
    assert "`--network-alone`" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
