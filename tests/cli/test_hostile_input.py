"""Hostile input: a command gives the right answer, or one error line; no file changes, nothing
runs.

Threat model. A model directory, a text or an ARPA file may come from an untrusted source. They may
be damaged, of the wrong kind, or made to harm. Then

* no code of the file runs: JSON and numbers are read, nothing is unpickled; of `model.keras` only
the layers of this
  package, and layers that the program registers, are created
* memory stays bounded by the size of the files: archives of numbers may expand 100 times, text has
lines of at most 16
  MiB, a network may have as many weights as its file holds
* only the named files are read: no links within HDF5, no shards with paths, no pipes, devices or
directories * exit status 1 or 2 and one line with the cause, or the figures of the undamaged input

`manifest.json` has size and checksum of each file. Who makes a file to harm makes it, too: then
nothing runs, and memory stays bounded, but the numbers of the file are believed.
"""

import contextlib
import functools
import io
import json
import os
import random
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from keras_nplm import DeepHidden, LanguageModel, LinearHead, NoiseContrastive, Vocabulary
from keras_nplm.cli.main import main
from keras_nplm.io.stages import MANIFEST, MODEL, Stages
from tests.files import read_files
from tests.networks import compose

IDS = "corpus/test.00000.ids"
FILES = ["vocabulary.txt", "config.json", "corpus/corpus.json", IDS, "ngrams.npz", MANIFEST]
WORDS = "a the cat dog mat sat ran on under old red big house tree and".split()
NGRAM = "--order 3 --min-count 1".split()


def run(*arguments: object) -> tuple[int, str, str]:
    """Run a command in this process.

    Return its status, its output and its last error line; check their form.
    """
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    error = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        status = main([str(argument) for argument in arguments])
    out.flush()
    text = out.buffer.getvalue().decode("utf-8")
    said = error.getvalue()
    refusal = said.rstrip("\n").split("\n")[-1]
    assert status in (0, 1, 2) and "Traceback" not in text + said, said
    if status:
        assert (
            refusal.startswith(f"keras-nplm {arguments[0]}: ") and len(refusal) < 1500 and not text
        ), said
    return status, text, refusal


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """An n-gram model, a network, and the text that they are asked about."""
    root = tmp_path_factory.mktemp("hostile")
    random_words = random.Random(0)
    lines = [
        " ".join(random_words.choices(WORDS, k=random_words.randint(2, 7))) + " ."
        for _ in range(150)
    ]
    (root / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert run("ngram", "--train", root / "text.txt", *NGRAM, "--output", root / "ngram")[0] == 0
    size = len(WORDS) + 5
    network = compose(
        size,
        hidden=DeepHidden(4, residual_blocks=1, name="hidden"),
        head=LinearHead(size, rank=2, name="prob"),
        objective=NoiseContrastive(num_sampled=3),
    )
    LanguageModel(network, Vocabulary([*WORDS, "."]), "words").save(root / "network")
    (root / "arrays").symlink_to(root / "network")
    return root


def ask(root: Path, directory: Path, kind: str) -> tuple[int, str, str]:
    """Let a command read all files of a directory that matter."""
    if kind == "arrays":
        # the network without Keras
        return run("score", directory, root / "text.txt", "--json")
    return run(
        "evaluate",
        directory,
        *(["--text", root / "text.txt"] if kind == "network" else []),
        "--json",
    )


@pytest.fixture(scope="module")
def right(root) -> dict[str, str]:
    return {kind: ask(root, root / kind, kind)[1] for kind in ("ngram", "network", "arrays")}


@pytest.fixture
def attempt(root, right, tmp_path) -> Callable[..., None]:
    """Damage a copy of a directory and ask: one error line with `words`, or, without `words`, the
    right answer. With `is_recorded` the manifest fits to what was done.
    """

    def attempt(
        kind: str, damage: Callable[[Path], None], words: str = "", is_recorded: bool = False
    ) -> None:
        directory = tmp_path / "model"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(root / kind, directory)
        damage(directory)
        if is_recorded:
            (directory / MANIFEST).unlink()
            Stages(directory).record(MODEL, {}, ["[!.]*"])
        before = read_files(tmp_path)
        status, out, refusal = ask(root, directory, kind)
        assert read_files(tmp_path) == before, "it wrote a file"
        assert not words or (status and re.search(words, refusal)), (status, refusal)
        assert status or out == right[kind], "another answer"

    return attempt


# Files


def replace_file(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink()
    make(path)


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def add_zeros(path: Path) -> None:
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.npy", bytes(1 << 22))


def claim_size(path: Path) -> None:
    """Let the last part of an archive claim 4 GB."""
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    path.write_bytes(data[:at] + (0xFFFFFFF0).to_bytes(4, "little") + data[at + 4 :])


@pytest.mark.parametrize(
    "kind, name, damage, words",
    [
        ("network", "model.keras", claim_size, "uncompressed"),
        ("network", "model.keras", add_zeros, "uncompressed|whole model file"),
        ("arrays", "scorer.npz", claim_size, "uncompressed"),
        ("arrays", "scorer.npz", add_zeros, "uncompressed"),
        ("ngram", "ngrams.npz", claim_size, " "),
        ("ngram", "ngrams.npz", add_zeros, "uncompressed"),
    ],
)
def test_damaged_archives_are_refused_or_change_no_figure(attempt, kind, name, damage, words):
    def damage_archive(directory: Path) -> None:
        damage(directory / name)

    attempt(kind, damage_archive, words, is_recorded=True)


@pytest.mark.parametrize("name", ["vocabulary.txt", "ngrams.npz", IDS])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(Path.mkdir, id="directory"),
        pytest.param(os.mkfifo, id="pipe"),
        pytest.param(link_to_zeros, id="endless"),
    ],
)
def test_what_is_no_file_is_refused_or_changes_no_figure(attempt, name, make):
    def replace(directory: Path) -> None:
        replace_file(directory / name, make)

    attempt("ngram", replace, f"{name.rpartition('/')[2]}, which its stage `.*` made, has changed")


@pytest.mark.parametrize(
    "kind, name",
    [
        *(("ngram", name) for name in FILES),
        ("network", "model.keras"),
        ("arrays", "scorer.npz"),
    ],
)
def test_a_damaged_byte_is_refused(attempt, kind, name):
    """In any file; `io/test_stages.py` has other damage. The manifest, which has no checksum
    itself, is cut.
    """

    def damage(directory: Path) -> None:
        data = bytearray((directory / name).read_bytes())
        middle = len(data) // 2
        if name == MANIFEST:
            del data[middle:]
        else:
            data[middle] ^= 1
        (directory / name).write_bytes(data)

    attempt(kind, damage, f"{name.rpartition('/')[2]}.*Fix: restore the file")


# model.keras


def rewrite_network(directory: Path, change: Callable[[dict], None]) -> None:
    """Change the parts of `model.keras`, by name, and its configuration, under the name
    "config".
    """
    with zipfile.ZipFile(directory / "model.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["config"] = json.loads(parts["config.json"])
    change(parts)
    parts["config.json"] = json.dumps(parts.pop("config")).encode()
    with zipfile.ZipFile(directory / "model.keras", "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def set_option(part: str | None, **options: object) -> Callable[[dict], None]:
    """A change of the configuration of the network, or of one of its layers."""

    def change(parts: dict) -> None:
        config = parts["config"]["config"]
        (config[part]["config"] if part else config).update(options)

    return change


def set_weights(**stored: object) -> Callable[[dict], None]:
    """A change of the matrix C among the stored weights: a data set of h5py."""

    def change(parts: dict) -> None:
        file = io.BytesIO(parts["model.weights.h5"])
        with h5py.File(file, "r+") as weights:
            del weights["embed/vars/C"]
            if "link" in stored:
                weights["embed/vars/C"] = stored["link"]
            else:
                weights["embed/vars"].create_dataset("C", **stored)
        parts["model.weights.h5"] = file.getvalue()

    return change


def set_part(name: str, content: bytes) -> Callable[[dict], None]:
    """A change of a part of the archive."""
    return lambda parts: parts.update({name: content})


NO_FILE = "does not hold all weights"
TOO_LARGE = "must be a whole model file"
HUGE = dict(shape=(1 << 20, 1 << 20), dtype="f4", chunks=(1, 1024), compression="gzip")
OUTSIDE = dict(shape=(20, 4), dtype="f4", external=[("/etc/passwd", 0, 320)])
EXEC = dict(module="builtins", class_name="exec", config={"command": "touch canary"})
LAMBDA = {**EXEC, "module": "keras.layers", "class_name": "Lambda"}


@pytest.mark.parametrize(
    "change, words",
    [
        pytest.param(set_option(None, hidden=EXEC), "Received: the class", id="hidden"),
        pytest.param(set_option(None, context=LAMBDA), "Received: the class", id="context"),
        pytest.param(set_option(None, vocabulary_size=10**10), TOO_LARGE, id="vocabulary size"),
        pytest.param(set_option(None, embedding_dim="5"), TOO_LARGE, id="vectors"),
        pytest.param(set_option("hidden", hidden_units=10**9), TOO_LARGE, id="hidden units"),
        pytest.param(set_option(None, name="x" * 70_000), "at most 65,536 bytes", id="long name"),
        pytest.param(set_part("../canary", b"x"), " ", id="a part outside"),
        pytest.param(set_part("model.weights.h5", b"PK\3\4"), " ", id="weights cut"),
        pytest.param(
            set_weights(data=np.full((20, 4), np.nan)), "finite", id="weights that are not finite"
        ),
        pytest.param(set_weights(data=np.zeros((3, 4))), " ", id="weights of another shape"),
        pytest.param(set_weights(**HUGE), NO_FILE, id="huge weights"),
        pytest.param(set_weights(**OUTSIDE), NO_FILE, id="weights in a different file"),
        pytest.param(
            set_weights(link=h5py.ExternalLink("/etc/passwd", "/x")), NO_FILE, id="linked weights"
        ),
    ],
)
def test_a_network_of_other_classes_sizes_or_weights_is_refused(
    attempt, change, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    attempt("network", functools.partial(rewrite_network, change=change), words, is_recorded=True)
    assert not list(tmp_path.parent.rglob("canary")), "it ran"
