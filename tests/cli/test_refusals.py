"""Invalid input of commands: one error line, exit status 2, nothing written."""

import io
import sys

import pytest

from keras_nplm.data.tokenizers.normalisation import load_forms

NGRAM = "ngram --output m"
LINES = [
    # files and directories
    "train --output m --train none.txt",
    "train --output m --train empty.txt",
    "train --output data",
    "evaluate none",
    "score ngrams latin1.txt --json",
    # standard input stands for one file
    "score - -",
    "score -",
    "evaluate ngrams - --text -",
    "rescore x y --tune ''",
    f"{NGRAM} --arpa x --vocabulary ''",
    "export ngrams ''",
    # what has no effect together
    "train --output m --corpus brown --train text.txt",
    "train --output m --train text.txt --all --fractions .6 .2 .2",
    "train --output m --minutes 1 --config small",
    "train --output m --vocabulary x --set max_size=9",
    f"{NGRAM} --arpa x --order 3",
    f"{NGRAM} --arpa x --test text.txt",
    f"{NGRAM} --counts x --num-classes 9",
    f"{NGRAM} --train text.txt --order 1 --method class-based",
    f"{NGRAM} --train text.txt --order 1 --method deleted-interpolation",
    f"{NGRAM} --train text.txt --pieces 400",
    f"{NGRAM} --train text.txt --tokenizer bytes --token character",
    f"{NGRAM} --train text.txt --tokenizer bytes --min-count 2",
    f"{NGRAM} --train text.txt --tokenizer sentencepiece --min-count 2",
    f"{NGRAM} --train text.txt --tokenizer sentencepiece --pieces-file x --pieces 400",
    "prepare --train text.txt --output m --pipeline-options a=b",
    "mix ngrams --uniform --cache-length 9 --output m",
    "size",
    "size ngrams",
    "size ngrams --vocabulary-size 99",
    "size --vocabulary-size 99 --epochs 7",
    "size --vocabulary-size 99 --tokens 9000 --token character --config small",
    "rescore ngrams text.txt --tune text.txt --references text.txt",
    "map ngrams words.svg --words a --num-words 3",
    "score ngrams text.txt --self-normalised --dynamic",
    # names and values
    "map ngrams words.png",
    "paper --rows mlp11 --output m",
    "rescore ngrams list.tsv --name a=b",
    "rescore ngrams text.txt --format kaldi --output m",
    "rescore ngrams text.txt --weights nplm",
    "rescore ngrams text.txt --weights nplm=x",
    "rescore ngrams list.tsv --weights foo=1",
    "rescore ngrams list.tsv --output list.tsv",
    # the model of `complete`, and the directory of `size`
    "complete ngrams",
    "complete the ngrams",
    "complete 'the cat sat' ngrams",
    "complete s3://bucket/model",
    "complete data word",
    "complete text.txt word",
    "size m.lm",
    # formats of `export`
    "export ngrams page --runtime text.txt",
    "export ngrams demo --format page --runtime text.txt",
    "export ngrams m.arpa --quantise",
    "export ngrams m.onnx --prune 1e-7",
    "export ngrams page --format saved-model --quantise",
    "export ngrams page --top-k 3",
    "export ngrams page.onnx --format page",
    "export ngrams m.onnx --network-alone",
    "export ngrams m.onnx.gz --format onnx",
    "export ngrams text.txt --format onnx",
    "train --output m --set hidden_units=30",
    "train --output m --set drop_out=0.3",
    "export ngrams m.gz",
    "export ngrams m.vec",
    "export none mine.arp",
    "export ngrams m.arpa --order 9",
]


def test_invalid_input_is_one_line_and_status_2(files, run, messages, monkeypatch):
    (files / "data").mkdir()
    (files / "data" / "mine").touch()
    (files / "empty.txt").touch()
    (files / "latin1.txt").write_bytes("un été\n".encode("latin1"))
    (files / "list.tsv").write_text("1\tthe cat\t-2\n")
    run("export ngrams m.arpa")
    (files / "m.arpa").rename(files / "m.lm")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    names = sorted(files.iterdir())
    for line in LINES:
        captured = run(line, status=2)
        error = captured.err.splitlines()[-1]
        assert error.startswith(f"keras-nplm {line.split()[0]}: ") and not captured.out
        assert sorted(files.iterdir()) == names, line
        messages.add(error)


def test_an_argument_that_is_no_utf8_is_refused(run):
    error = run("complete", "the", "\udcff", status=2).err
    assert "An argument must be UTF-8 text" in error


def test_a_backend_without_tensorflow_is_refused(run, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    error = run("complete the", status=2).err
    assert "`KERAS_BACKEND` must be tensorflow. Received: 'jax'. Fix: " in error


LEMMAS = "simplemma.strategies.dictionaries"
EXTRAS = [  # the extra, the library, the command
    ("zstd", "backports.zstd", "evaluate ngrams --text text.zst"),
    ("lemmas", LEMMAS, "ngram --train text.txt --normalise lemmas --output m"),
    ("beam", "apache_beam", "prepare --train text.txt --runner DirectRunner --output m"),
    ("onnx", "tf2onnx", "export network m.onnx"),
    ("onnx", "onnxruntime.quantization", "export network m.onnx --quantise"),
    ("remote", "s3fs", "ngram --train text.txt --output s3://bucket/model"),
]


@pytest.mark.parametrize("extra, library, command", EXTRAS)
def test_a_missing_extra_is_named(
    extra, library, command, files, model_directory, monkeypatch, run
):
    (files / "text.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    (files / "network").symlink_to(model_directory)
    names = sorted(files.iterdir())
    monkeypatch.setitem(sys.modules, library, None)
    load_forms.cache_clear()  # of simplemma
    (line,) = run(command, status=2).err.splitlines()
    fix = f"Fix: `pip install 'keras-nplm[{extra}]'`."
    assert f"needs the extra {extra} (" in line and line.endswith(fix)
    assert sorted(files.iterdir()) == names
