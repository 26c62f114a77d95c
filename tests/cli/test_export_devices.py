"""`export` prints what a LiteRT or ONNX file holds, with its perplexity."""

import json

import pytest

from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json


def _format(metrics):
    validation = metrics["validation"]["perplexity"]
    test = metrics["test"]["perplexity"]
    return f"{validation:.2f} (validation) and {test:.2f} (test)"


def test_it_prints_the_perplexity_of_an_n_gram_model(ngram_directory, tmp_path, capsys):
    path = tmp_path / "mine.tflite"
    assert main(["export", str(ngram_directory), str(path)]) == 0
    figures = _format(read_json(ngram_directory / "metrics.json"))
    wrote, holds = capsys.readouterr().out.splitlines()
    assert wrote == f"wrote {path}, {path}.json, {path}.vocabulary.txt"
    assert holds == f"{path} holds the n-gram model: perplexity {figures}"
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
    *_, holds = capsys.readouterr().out.splitlines()
    kinds = "network, uniform distribution"
    assert holds == f"{whole} holds the mixture ({kinds}): perplexity {figures}"
    assert main(["export", str(mixture), str(alone), "--network-alone", "--quantise"]) == 0
    *_, holds = capsys.readouterr().out.splitlines()
    figures_alone = _format(read_json(model_directory / "metrics.json"))
    assert holds == (
        f"{alone} holds the network alone in 8 bits: perplexity before rounding {figures_alone}; "
        f"the mixture has {figures}"
    )


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
