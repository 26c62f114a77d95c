"""Invalid input of commands: one error line, exit status 2, nothing written."""

import sys

import pytest

from keras_nplm.cli.main import main

SUBWORDS = "ngram --train {text} --output {tmp}/m --tokenizer sentencepiece"
BYTES = "ngram --train {text} --output {tmp}/m --tokenizer bytes"
ROWS = [
    (
        "ngram --output {tmp}/m --fractions 0.6 0.2 0.2",
        "`fractions` must be left out unless the lines of `train` are split",
    ),
    ("train --output {tmp}/m --order 1", "`--order` must be 2 to 1,023. Received: 1. Fix: "),
    ("train --output {tmp}/m --train {tmp}/none.txt", "No such text file"),
    ("train --output {tmp}/m --train {tmp}/empty.txt", "empty.txt is empty"),
    ("train --output {tmp}/m --train {tmp}/latin1.txt", "latin1.txt is not UTF-8"),
    ("train --output {tmp}/m --corpus penn", "`corpus` must be python_reference, brown"),
    ("train --output {tmp}", "is not a model directory"),
    (
        "train --output {tmp}/m --head adaptive --set held_out_mass=0.1",
        "`held_out_mass` must be 0 with",
    ),
    ("train --output {tmp}/m --seed 5000000000", "`--seed` must be 0 to 2,147,483,647"),
    (
        "train --output {tmp}/m --resample 2 {tmp}/empty.txt",
        "`--resample` must be a share in (0, 1]",
    ),
    ("evaluate {tmp}/none", "does not exist"),
    ("evaluate {model} --text {tmp}/empty.txt", "empty.txt is empty"),
    ("score {model} {tmp}/latin1.txt --json", "latin1.txt is not UTF-8 text (byte 3)"),
    ("train --output {tmp}/m --corpus brown --train {text}", "`--corpus` cannot be combined with"),
    ("complete {model}", "`CONTEXT` must follow the model directory"),
    (
        "complete {tmp} word",
        ", a directory without config.json. Fix: name a directory that `train`",
    ),
    (
        "complete {text} word",
        "text.txt. Fix: name a directory that `train`, `ngram` or `mix` wrote",
    ),
    ("complete {model} word --top-k 0", "`--top-k` must be 1 or more"),
    ("complete {model} \udcff", "An argument must be UTF-8 text"),
    ("generate {model} --num-words 0", "`--num-words` must be 1 to 1,000,000"),
    ("generate {model} --temperature nan", "`--temperature` must be a finite"),
    ("ngram --output {tmp}/m --num-classes 0", "`--num-classes` must be 1 or more"),
    ("ngram --output {tmp}/m --vocabulary x", "`vocabulary` must be an existing file"),
    (
        "train --output {tmp}/m --vocabulary x --set max_size=9",
        "`--max-size` cannot be combined with `--vocabulary`",
    ),
    ("ngram --output {tmp}/m --arpa x --vocabulary .", "`vocabulary` must be an existing file"),
    ("ngram --output {tmp}/m --arpa x --order 3", "`--order` cannot be combined with `--arpa`"),
    ("ngram --output {tmp}/m --arpa x --method class-based", "`--method` cannot be combined"),
    ("ngram --output {tmp}/m --arpa x --min-count 9", "`--min-count` cannot be combined"),
    ("ngram --output {tmp}/m --arpa x --test {text}", "`--test` cannot be combined with `--arpa`"),
    ("size --vocabulary-size 4", "`vocabulary_size` must be 5 or more"),
    ("map {model} words.png", "`TARGET` must be a file in .svg or .tsv"),
    ("map {model} words.svg --num-words 2001", "`--num-words` must be 1 to 2,000"),
    (
        "export {model} {tmp}/m.arpa --quantise",
        "`--quantise` cannot be combined with the format arpa",
    ),
    ("export {model} m.onnx.gz", "`TARGET` must have an ending of the format"),
    ("export {model} m.gz", "`TARGET` must end with one of"),
    (
        "export {tmp}/none {tmp}/mine.arp",
        "`TARGET` must end with one of .tflite, .onnx, .arpa, .vec, .arpa.gz, or be a directory",
    ),
    ("export {model} {tmp}/m.arpa --order 9", ", the order of the model. Received: 9"),
    (
        "export {model} {tmp}/m.onnx --prune 1e-7",
        "`--prune` cannot be combined with the format onnx",
    ),
    (
        "export {model} {tmp}/m.arpa --min-expected-count 0",
        "`--min-expected-count` must be above 0",
    ),
    ("rescore {model} {text} --tune a --references b", "`--references` cannot be combined"),
    ("mix {model} --uniform --cache-length 9 --output {tmp}/m", "must be left out without a cache"),
    ("size --vocabulary-size 99 --epochs 7", "`--epochs` must be left out without `--tokens`"),
    (
        "size --vocabulary-size 99 --tokens 9000 --token character --config small",
        "`--token` cannot be combined with `--config`",
    ),
    ("complete s3://bucket/model", "`CONTEXT` must follow the model directory s3://bucket/model"),
    ("paper --rows mlp11 --output {tmp}/m", "`rows` must be names of mlp1, mlp3"),
    ("rescore {model} nbest --name a=b", "`name` must be one word"),
    (
        "rescore {model} {text} --format kaldi --output {tmp}/m",
        "line 1: expected `utterance-k words`",
    ),
    (
        "ngram --train {text} --output {tmp}/m --pieces 400",
        "`--pieces` must be left out without subwords",
    ),
    (f"{SUBWORDS} --pieces 299", "300 to 1,000,000"),
    (f"{SUBWORDS} --min-count 2", "`--min-count` cannot be combined with subwords"),
    (f"{BYTES} --min-count 2", "`--min-count` cannot be combined with UTF-8 bytes"),
    (f"{BYTES} --pieces 400", "`--pieces` must be left out without subwords"),
    (f"{BYTES} --token character", "cannot be combined with `--token character`"),
    (f"{SUBWORDS} --token character", "cannot be combined with `--token character`"),
    (f"{SUBWORDS} --normalise lemmas", "no step but +lower"),
    (
        f"{SUBWORDS} --pieces-file x.model --pieces 400",
        "`--pieces` cannot be combined with `--pieces-file`",
    ),
    (f"{SUBWORDS} --pieces-file absent.model", "absent.model"),
]


@pytest.mark.parametrize(
    "command, flag",
    [
        ("rescore x y", "--tune"),
        ("rescore x y", "--references"),
        ("ngram --arpa x --output y", "--vocabulary"),
    ],
)
def test_a_path_that_a_script_did_not_set_is_refused(capsys, command, flag):
    assert main([*command.split(), flag, ""]) == 2
    assert f"`{flag}` must be a path. Received: ''. Fix: name a file" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, message", ROWS)
def test_invalid_input_is_one_line_and_status_2(
    tmp_path, text, ngram_directory, capsys, arguments, message
):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin1.txt").write_bytes("un été\n".encode("latin1"))
    assert main(arguments.format(tmp=tmp_path, model=ngram_directory, text=text).split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err and "Traceback" not in captured.err and not captured.out
    assert captured.err.splitlines()[-1].startswith(f"keras-nplm {arguments.split()[0]}: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "latin1.txt"]


@pytest.mark.parametrize("context", ["the", "the cat", "the cat sat"])
def test_a_context_before_the_model_directory_is_refused(ngram_directory, capsys, context):
    assert main(["complete", context, str(ngram_directory)]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert captured.err.endswith(f'Fix: keras-nplm complete {ngram_directory} "{context}".\n')


def test_an_arpa_file_in_place_of_a_directory_is_imported(ngram_directory, tmp_path, capsys):
    main(["export", str(ngram_directory), str(tmp_path / "m.arpa")])
    (tmp_path / "m.arpa").rename(tmp_path / "m.lm")
    assert main(["complete", str(tmp_path / "m.lm"), "the"]) == 2
    assert f"Fix: make one by `keras-nplm ngram --arpa {tmp_path}/m.lm" in capsys.readouterr().err


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
    extra, library, command, ngram_directory, model_directory, text, tmp_path, monkeypatch, capsys
):
    (tmp_path / "text.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    monkeypatch.setitem(sys.modules, library, None)
    names = dict(model=ngram_directory, network=model_directory, tmp=tmp_path, text=text)
    assert main(command.format(**names).split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"needs the extra {extra} (" in line and line.endswith(
        f"Fix: `pip install 'keras-nplm[{extra}]'`."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["text.zst"]
