"""`export`: ARPA files of networks and of counts, and what is printed of files and pages."""

from pathlib import Path

import pytest

from keras_nplm import Vocabulary
from keras_nplm.io.files import read_json
from keras_nplm.models.ngrams import prune, read_arpa, write_arpa
from keras_nplm.serving.web_page import RUNTIME_VERSION


def test_a_network_is_approximated_on_a_text_and_pruned(model_directory, here, ask, run):
    text = "The following table shows the result of the call .\nIt is the same .\n"
    Path("text.txt").write_text(text)
    Path("model").symlink_to(model_directory)
    line = "export model small.arpa.gz --order 2 --text text.txt --min-expected-count 0.5"
    *_, approximated, compared = run(line).out.splitlines()
    assert approximated == "an approximation of model"
    compare = "keras-nplm evaluate model small.arpa.gz --text FILE --tokenizer words"
    assert compared == f"compare: {compare}"
    vocabulary = Vocabulary.load(model_directory / "vocabulary.txt")
    whole, _ = read_arpa("small.arpa.gz", vocabulary)
    output = ask(f"{line} --prune 1e-6")
    model, _ = read_arpa("small.arpa.gz", vocabulary)
    assert output["ngrams"] == model.num_ngrams and output["compare"] == compare
    assert model.num_ngrams[0] < sum(model.num_ngrams) < sum(whole.num_ngrams)


def test_a_count_based_model_is_only_pruned(build_ngram_model, here, run, ask):
    language_model = build_ngram_model("stream")
    language_model.save("model")
    line = "export model a.arpa"
    model = language_model.model
    for flags, expected in (("", model), ("--prune 1e-3", prune(model, 1e-3))):
        output = ask(f"{line} {flags}")
        assert output["ngrams"] == expected.num_ngrams and "approximated" not in output
        write_arpa("b.arpa", expected, language_model.vocabulary)
        assert Path("a.arpa").read_bytes() == Path("b.arpa").read_bytes()
        assert output["compare"].endswith(" model a.arpa --text FILE --tokenizer words")
    error = run(f"{line} --order 2", status=2).err
    assert "`--text` must name a text if the model directory has no corpus/" in error


def test_what_a_file_holds_is_printed_with_its_perplexity(ngram_directory, here, run, ask):
    line = f"export {ngram_directory} mine.tflite"
    wrote, *holds = run(line).out.splitlines()
    assert wrote == "wrote mine.tflite, mine.tflite.json, mine.tflite.vocabulary.txt"
    metrics = read_json(ngram_directory / "metrics.json")
    splits = ("validation", "test")
    figures = ", ".join(f"{metrics[split]['perplexity']:.2f} ({split})" for split in splits)
    expected = {"Model: An n-gram model in back-off form of order 5", f"Perplexity: {figures}"}
    assert expected <= {*holds}
    assert ask(line)["contents"] == read_json("mine.tflite.json")


@pytest.mark.long
def test_a_page_says_what_it_loads(model_directory, here, run):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    lines = run(f"export {model_directory} page/ --quantise").out.splitlines()
    written, *holds, loads, advice, following = lines
    assert written == "wrote page/index.html"
    assert "Matrices: rounded to 8 bits" in holds
    (perplexity,) = [line for line in holds if line.startswith("Perplexity")]
    assert perplexity.startswith("Perplexity before the matrices were rounded to 8 bits: ")
    assert loads.startswith("It loads ONNX Runtime from cdn.jsdelivr.net.")
    assert advice == f"and export with --runtime onnxruntime-web-{RUNTIME_VERSION}.tgz."
    assert following == "next: open page/index.html in a browser"
    assert '"quantised": true' in Path("page/facts.js").read_text(encoding="utf-8")
