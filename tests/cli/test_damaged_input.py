"""Damaged files and odd arguments: a fast selection of tests/cli/test_hostile_input.py, on n-gram models."""

import itertools
import json
import os
import shutil
import zipfile

import numpy as np
import pytest

from keras_nplm.cli.main import build_parser, main

LINES = "the cat sat on the mat\na dog sat on the cat\nthe dog ran\n" * 12
ODD_WORDS = ["", "nan", "9" * 30, "-1", "\udcff", "/dev/null"]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    root = tmp_path_factory.mktemp("damaged")
    (root / "text.txt").write_text(LINES, encoding="utf-8")
    command = ["ngram", "--train", root / "text.txt", "--order", 3, "--min-count", 1, "--output", root / "model"]
    assert main([*map(str, command)]) == 0
    return root / "model"


@pytest.fixture
def directory(original, tmp_path):
    return shutil.copytree(original, tmp_path / "model")


@pytest.fixture
def evaluate(original, capsys):
    """Evaluate a directory: the figures must be the original ones, or there must be one error line."""
    main(["evaluate", str(original), "--json"])
    expected = capsys.readouterr().out

    def run(directory) -> str:
        status = main(["evaluate", str(directory), "--json"])
        out, error = capsys.readouterr()
        assert "Traceback" not in error
        if status == 0:
            assert out == expected
            return ""
        assert status == 2 and not out and error.startswith("keras-nplm evaluate: ") and error.count("\n") == 1
        return error

    return run


@pytest.mark.parametrize("damage", ["cut", "flip", "insert"])
@pytest.mark.parametrize("name", ["vocabulary.txt", "config.json", "corpus/corpus.json", "ngrams.npz"])
def test_a_damaged_file_is_refused_or_changes_no_figure(directory, evaluate, name, damage):
    path = directory / name
    data = path.read_bytes()
    at = len(data) // 2
    parts = {"cut": b"", "flip": bytes([data[at] ^ 4]) + data[at + 1 :], "insert": b"\xff" + data[at:]}
    path.write_bytes(data[:at] + parts[damage])
    evaluate(directory)


def test_changed_token_ids_are_refused(directory, evaluate):
    path = directory / "corpus" / "test.00000.ids"
    ids = np.fromfile(path, "<i4")
    ids[:2] = ids[1::-1]
    ids.tofile(path)
    assert "corpus.json" in evaluate(directory)


@pytest.mark.parametrize("name", ["config.json", "corpus/corpus.json"])
def test_json_values_of_a_different_type_are_refused_or_unused(directory, evaluate, name):
    path = directory / name
    value = json.loads(path.read_text(encoding="utf-8"))
    for key, odd in itertools.product(value, [None, [], float("nan"), 10**400]):
        path.write_text(json.dumps(value | {key: odd}), encoding="utf-8")
        evaluate(directory)
    path.write_text("[" * 100_000, encoding="utf-8")
    assert evaluate(directory)


def test_arrays_of_a_different_type_or_shape_are_refused(directory, evaluate):
    with np.load(directory / "ngrams.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    for name, array in arrays.items():
        for odd in (np.full(array.shape, None, object), array[None], np.full(array.shape, np.nan)):
            np.savez(directory / "ngrams.npz", **arrays | {name: odd})
            assert evaluate(directory), name


def test_an_archive_larger_than_its_file_is_refused_unpacked(directory, evaluate):
    with zipfile.ZipFile(directory / "ngrams.npz", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.npy", bytes(1 << 22))
    assert "unpack to" in evaluate(directory)


@pytest.mark.parametrize("name", ["vocabulary.txt", "ngrams.npz"])
@pytest.mark.parametrize("kind", ["directory", "pipe", "device", "circular link"])
def test_a_path_that_is_not_a_file_is_refused(directory, evaluate, name, kind):
    path = directory / name
    path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    assert evaluate(directory)


@pytest.mark.parametrize("shards", [["/etc/passwd"], ["../corpus/test.00000.ids"], ["\0"], ["é" * 300]])
def test_shards_with_paths_are_refused(directory, evaluate, shards):
    path = directory / "corpus" / "corpus.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    value["splits"]["test"]["shards"] = shards
    path.write_text(json.dumps(value), encoding="utf-8")
    assert evaluate(directory)


@pytest.mark.parametrize(
    "text", [b"\xff\xfe", "été".encode("utf-16"), b"\0\n<s> </s>\n", "\u2028 ½\r\x85".encode(), b""]
)
def test_any_bytes_can_be_scored_or_are_refused(original, tmp_path, capsys, text):
    (tmp_path / "text").write_bytes(text)
    status = main(["score", str(original), str(tmp_path / "text")])
    out, error = capsys.readouterr()
    assert status in (0, 2) and "Traceback" not in error
    assert status or len(out.splitlines()) == text.count(b"\n") + (not text.endswith(b"\n"))


@pytest.mark.parametrize("name", ["evaluate", "score", "complete", "generate", "nearest", "map", "rescore"])
def test_odd_arguments_are_accepted_or_refused(original, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nbest.tsv").write_text("0\tthe cat sat\t-2\n0\tcat the sat\t-1\n", encoding="utf-8")
    places = {"score": [original.parent / "text.txt"], "complete": ["the"], "nearest": ["the"], "map": ["words.svg"]}
    required = [original, *places.get(name, [])]
    required += [tmp_path / "nbest.tsv"] if name == "rescore" else []
    parser = next(action.choices for action in build_parser()._actions if action.dest == "command")[name]
    flags = [action for action in parser._actions if action.option_strings and action.nargs is None]
    for flag, word in itertools.product(flags, ODD_WORDS):
        try:
            status = main([name, *map(str, required), flag.option_strings[-1], word])
        except SystemExit as end:
            status = end.code
        assert status in (0, 1, 2), (flag.option_strings, word)
        assert "Traceback" not in capsys.readouterr().err


def test_a_network_that_names_foreign_code_is_refused(tmp_path, capsys):
    from keras_nplm import NPLM, LanguageModel, Vocabulary

    LanguageModel(NPLM(7, order=3), Vocabulary(["the", "cat", "sat"]), "words").save(tmp_path / "model")
    path = tmp_path / "model" / "model.keras"
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    config["config"]["hidden"] = {"module": "os", "class_name": "system", "config": {"command": "touch canary"}}
    parts["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    assert main(["complete", str(tmp_path / "model"), "the"]) == 2
    assert "the class os.system. Fix: use TanhHidden" in capsys.readouterr().err
