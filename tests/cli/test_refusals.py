"""Invalid input of commands: one error line, exit status 2, nothing written."""

import sys

import pytest

NGRAM = "ngram --output {tmp}/m"
LINES = [
    # files and directories
    "train --output {tmp}/m --train {tmp}/none.txt",
    "train --output {tmp}/m --train {tmp}/empty.txt",
    "train --output {tmp}",
    "evaluate {tmp}/none",
    "score {model} {tmp}/latin1.txt --json",
    "rescore x y --tune ''",
    f"{NGRAM} --arpa x --vocabulary ''",
    "export {model} ''",
    # what has no effect together
    "train --output {tmp}/m --corpus brown --train {text}",
    "train --output {tmp}/m --train {text} --all --fractions .6 .2 .2",
    "train --output {tmp}/m --minutes 1 --config small",
    "train --output {tmp}/m --vocabulary x --set max_size=9",
    f"{NGRAM} --arpa x --order 3",
    f"{NGRAM} --arpa x --test {{text}}",
    f"{NGRAM} --counts x --num-classes 9",
    f"{NGRAM} --train {{text}} --pieces 400",
    f"{NGRAM} --train {{text}} --tokenizer bytes --token character",
    f"{NGRAM} --train {{text}} --tokenizer bytes --min-count 2",
    f"{NGRAM} --train {{text}} --tokenizer sentencepiece --min-count 2",
    f"{NGRAM} --train {{text}} --tokenizer sentencepiece --pieces-file x --pieces 400",
    "prepare --train {text} --output {tmp}/m --pipeline-options a=b",
    "mix {model} --uniform --cache-length 9 --output {tmp}/m",
    "size --vocabulary-size 99 --epochs 7",
    "size --vocabulary-size 99 --tokens 9000 --token character --config small",
    "rescore {model} {text} --tune {text} --references {text}",
    "map {model} words.svg --words a --num-words 3",
    "score {model} {text} --self-normalised --dynamic",
    # names and values
    "map {model} words.png",
    "paper --rows mlp11 --output {tmp}/m",
    "rescore {model} {tmp}/list.tsv --name a=b",
    "rescore {model} {text} --format kaldi --output {tmp}/m",
    "rescore {model} {text} --weights nplm",
    "rescore {model} {text} --weights nplm=x",
    "rescore {model} {tmp}/list.tsv --weights foo=1",
    "rescore {model} {tmp}/list.tsv --output {tmp}/list.tsv",
    # the model directory of `complete`
    "complete {model}",
    "complete the {model}",
    "complete 'the cat sat' {model}",
    "complete s3://bucket/model",
    "complete {tmp} word",
    "complete {text} word",
    "complete {tmp}/m.lm word",
    # formats of `export`
    "export {model} page --runtime {text}",
    "export {model} demo --format page --runtime {text}",
    "export {model} {tmp}/m.arpa --quantise",
    "export {model} {tmp}/m.onnx --prune 1e-7",
    "export {model} page --format saved-model --quantise",
    "export {model} page --top-k 3",
    "export {model} page.onnx --format page",
    "export {model} m.onnx --network-alone",
    "export {model} m.onnx.gz --format onnx",
    "export {model} m.gz",
    "export {tmp}/none mine.arp",
    "export {model} {tmp}/m.arpa --order 9",
]


def test_invalid_input_is_one_line_and_status_2(tmp_path, text, ngram_directory, run, messages):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin1.txt").write_bytes("un été\n".encode("latin1"))
    (tmp_path / "list.tsv").write_text("1\tthe cat\t-2\n")
    run(f"export {ngram_directory} {tmp_path}/m.arpa")
    (tmp_path / "m.arpa").rename(tmp_path / "m.lm")
    files = sorted(tmp_path.iterdir())
    for line in LINES:
        captured = run(line.format(tmp=tmp_path, model=ngram_directory, text=text), status=2)
        error = captured.err.splitlines()[-1]
        assert error.startswith(f"keras-nplm {line.split()[0]}: ") and not captured.out
        assert sorted(tmp_path.iterdir()) == files, line
        messages.add(error.replace(str(text), "{text}").replace(str(ngram_directory), "{model}"))


def test_an_argument_that_is_no_utf8_is_refused(ngram_directory, run):
    error = run("complete", ngram_directory, "\udcff", status=2).err
    assert "An argument must be UTF-8 text" in error


def test_a_backend_without_tensorflow_is_refused(run, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    error = run("complete the", status=2).err
    assert "`KERAS_BACKEND` must be tensorflow. Received: 'jax'. Fix: " in error


EXTRAS = [  # the extra, the library, the command
    ("zstd", "backports.zstd", "evaluate {model} --text {tmp}/text.zst"),
    ("lemmas", "simplemma", "ngram --train {text} --normalise lemmas --output {tmp}/m"),
    ("beam", "apache_beam", "prepare --train {text} --runner DirectRunner --output {tmp}/m"),
    ("onnx", "tf2onnx", "export {network} {tmp}/m.onnx"),
    ("onnx", "onnxruntime.quantization", "export {network} {tmp}/m.onnx --quantise"),
    ("remote", "s3fs", "ngram --train {text} --output s3://bucket/model"),
]


@pytest.mark.parametrize("extra, library, command", EXTRAS)
def test_a_missing_extra_is_named(
    extra, library, command, ngram_directory, model_directory, text, tmp_path, monkeypatch, run
):
    (tmp_path / "text.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    monkeypatch.setitem(sys.modules, library, None)
    names = dict(model=ngram_directory, network=model_directory, tmp=tmp_path, text=text)
    (line,) = run(command.format(**names), status=2).err.splitlines()
    fix = f"Fix: `pip install 'keras-nplm[{extra}]'`."
    assert f"needs the extra {extra} (" in line and line.endswith(fix)
    assert [path.name for path in tmp_path.iterdir()] == ["text.zst"]
