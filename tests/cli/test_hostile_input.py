"""Hostile input: a command gives the right answer, or one error line; no file changes, nothing runs.

Threat model. A model directory, a text, an ARPA file and every argument may come from an untrusted source. They may
be damaged, of the wrong kind, or made to harm. Then

* no code of the file runs: JSON and numbers are read, nothing is unpickled; of `model.keras` only the layers of this
  package, and layers that the program registers, are created
* memory stays bounded by the size of the files: archives of numbers may expand 100 times, text has lines of at most 16
  MiB, a network may have as many weights as its file holds
* only the named files are read: no links within HDF5, no shards with paths, no pipes, devices or directories
* exit status 1 or 2 and one line with the cause, or the figures of the undamaged input

Not detectable: a word respelled in `vocabulary.txt`, a figure edited in `metrics.json`, numbers of a model replaced
together with the checksums of their archive.
"""

import contextlib
import copy
import gzip
import hashlib
import io
import itertools
import json
import math
import os
import random
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_nplm import NPLM, DeepHidden, LanguageModel, NoiseContrastive, Vocabulary
from keras_nplm.cli.main import build_parser, main

WORDS = "a the cat dog mat sat ran on under old red big house tree and".split()
NGRAM = "--order 3 --min-count 1".split()
KINDS = {
    "ngram": NGRAM,
    "interpolation": [*NGRAM, "--method", "deleted-interpolation"],
    "classes": [*NGRAM, "--method", "class-based", "--num-classes", "4"],
}
FUZZ = dict(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def run(*arguments: object) -> tuple[int, str, str]:
    """Run a command in this process. Return its status, its output and its last error line; check their form."""
    out, error = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = stop.code
    out.flush()
    text, said = out.buffer.getvalue().decode("utf-8"), error.getvalue()
    refusal = said.rstrip("\n").split("\n")[-1]
    assert status in (0, 1, 2) and "Traceback" not in text + said, said
    if status and "usage: keras-nplm" not in said:
        assert refusal.startswith(f"keras-nplm {arguments[0]}: ") and len(refusal) < 1500 and not text, said
    return status, text, refusal


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A directory of each kind of model, and the text that they are asked about."""
    root, random_words = tmp_path_factory.mktemp("hostile"), random.Random(0)
    lines = [" ".join(random_words.choices(WORDS, k=random_words.randint(2, 7))) + " ." for _ in range(150)]
    (root / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (root / "nbest.tsv").write_text("0\tthe cat sat\t-2\n0\tcat the sat\t-1\n1\ta dog\t-1\n", encoding="utf-8")
    for kind, options in KINDS.items():
        assert run("ngram", "--train", root / "text.txt", *options, "--output", root / kind)[0] == 0
    assert run("mix", root / "ngram", root / "interpolation", "--uniform", "--output", root / "mixture")[0] == 0
    size = len(WORDS) + 5
    layers = dict(hidden=DeepHidden(4, residual_blocks=1), output=NoiseContrastive(size, num_sampled=3, rank=2))
    network = NPLM(size, 3, embedding_dim=4, **layers)
    LanguageModel(network, Vocabulary([*WORDS, "."]), "words").save(root / "network")
    return root


def ask(root: Path, directory: Path, kind: str) -> tuple[int, str, str]:
    """Let a command read all files of a directory that matter."""
    return run("evaluate", directory, *(["--text", root / "text.txt"] if kind == "network" else []), "--json")


def list_checksums(directory: Path) -> dict[Path, str]:
    files = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def attempt(root, tmp_path) -> Callable[..., str]:
    """Damage a copy of a directory and ask: one error line with `words`, or, without `words`, the right answer."""
    right = {}

    def attempt(kind: str, damage: Callable[[Path], None], words: str = "", exact: bool = True) -> str:
        right.setdefault(kind, ask(root, root / kind, kind)[1])
        directory = tmp_path / "model"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(root / kind, directory)
        damage(directory)
        before = list_checksums(tmp_path)
        status, out, refusal = ask(root, directory, kind)
        assert list_checksums(tmp_path) == before, "it wrote a file"
        assert not words or (status and re.search(words, refusal)), (status, refusal)
        assert status or not exact or out == right[kind], "another answer"
        return refusal if status else ""

    return attempt


# JSON and arrays


def replace_values(value: object, odd_values: list) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of a JSON value with each part replaced, of lists the first part only."""

    def list_places(part: object, place: tuple = ()) -> Iterator[tuple]:
        items = part.items() if isinstance(part, dict) else enumerate(part[:1]) if isinstance(part, list) else ()
        for key, inner in items:
            yield (*place, key)
            yield from list_places(inner, (*place, key))

    for (*outer, last), odd in itertools.product(list_places(value), odd_values):
        changed = copy.deepcopy(value)
        part = changed
        for key in outer:
            part = part[key]
        part[last] = odd
        yield f"{[*outer, last]}: {odd!r:.20}", json.dumps(changed).replace('"DEEP"', "[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize(
    ("kind", "name", "odd_values"),
    [
        ("ngram", "config.json", [None, [], math.nan, 10**400]),
        ("ngram", "corpus/corpus.json", [-1]),
        pytest.param("network", "config.json", [10**400], marks=pytest.mark.long),
        *(
            pytest.param(kind, name, [{}, "x", -1, math.nan, "DEEP"], marks=pytest.mark.long)
            for kind, name in [
                *[(kind, name) for kind in KINDS for name in ("config.json", "corpus/corpus.json")],
                *[("mixture", name) for name in ("config.json", "components/1/config.json")],
            ]
        ),
    ],
)
def test_json_values_of_a_different_type_are_refused_or_unused(attempt, root, kind, name, odd_values):
    value = json.loads((root / kind / name).read_text(encoding="utf-8"))
    for what, text in replace_values(value, odd_values):
        try:
            attempt(kind, lambda directory, text=text: (directory / name).write_text(text, encoding="utf-8"))
        except BaseException as error:
            error.add_note(f"{name} {what}")
            raise


ODD_ARRAYS = {
    "objects": lambda array: np.full(array.shape, None, object),
    "text": lambda array: np.full(array.shape, "x"),
    "complex": lambda array: array.astype(np.complex128),
    "NaN": lambda array: np.full(array.shape, np.nan),
    "infinite": lambda array: np.full(array.shape, np.inf),
    "longer": lambda array: np.append(array, array.reshape(-1)[-1:]),
    "empty": lambda array: np.zeros(0, array.dtype),
    "one more dimension": lambda array: array[None],
    "other byte order": lambda array: array.astype(array.dtype.newbyteorder()),
    "= reversed": lambda array: array[::-1].copy() if array.ndim else array,
    "= negative": lambda array: (~array if array.dtype == bool else -array - 1).astype(array.dtype),
    "= huge": lambda array: np.full(array.shape, np.iinfo(array.dtype).max if array.dtype.kind in "iu" else 1).astype(
        array.dtype
    ),
}


@pytest.mark.parametrize(
    "kind", ["ngram", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("interpolation", "classes", "mixture"))]
)
def test_arrays_of_a_different_type_or_shape_are_refused(attempt, root, kind):
    file = "mixture.npz" if kind == "mixture" else "ngrams.npz"
    with np.load(root / kind / file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    odd_ones = list(ODD_ARRAYS.items())[:: 4 if kind == "ngram" else 1]
    for (name, array), (what, make) in itertools.product(arrays.items(), odd_ones):
        odd = make(array)
        damage = lambda directory, name=name, odd=odd: np.savez(directory / file, **arrays | {name: odd})  # noqa: E731
        refusal = attempt(kind, damage, exact=False)
        assert refusal or what.startswith("= ") or np.array_equal(odd, array), (name, what)
    for name in arrays:
        rest = {other: array for other, array in arrays.items() if other != name}
        attempt(kind, lambda directory, rest=rest: np.savez(directory / file, **rest))


# Files


def flip_bit(directory: Path, name: str) -> None:
    data = bytearray((directory / name).read_bytes())
    data[len(data) // 2] ^= 4
    (directory / name).write_bytes(data)


def cut_file(directory: Path, name: str) -> None:
    os.truncate(directory / name, (directory / name).stat().st_size // 2)


def replace_file(directory: Path, name: str, kind: str) -> None:
    path = directory / name
    path.unlink()
    make = {"directory": path.mkdir, "pipe": lambda: os.mkfifo(path), "circular link": lambda: path.symlink_to(path)}
    make.get(kind, lambda: path.symlink_to(kind))()


def add_zeros(directory: Path, name: str) -> None:
    with zipfile.ZipFile(directory / name, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.npy", bytes(1 << 22))


def claim_size(directory: Path, name: str) -> None:
    """Let the last part of an archive claim 4 GB."""
    data = bytearray((directory / name).read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    (directory / name).write_bytes(data)


def claim_shape(directory: Path, name: str) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + b"\n"
    with np.load(directory / name) as stored:
        names = stored.files
    with zipfile.ZipFile(directory / name, "w") as archive:
        for part in names:
            archive.writestr(f"{part}.npy", b"\x93NUMPY\x01\x00v\x00" + header)


def swap_ids(directory: Path, name: str) -> None:
    ids = np.fromfile(directory / name, "<i4")
    ids[:2] = ids[1::-1]
    ids.tofile(directory / name)


def name_shards(directory: Path, name: str, *shards: str) -> None:
    value = json.loads((directory / name).read_text(encoding="utf-8"))
    value["splits"]["test"]["shards"] = list(shards)
    (directory / name).write_text(json.dumps(value), encoding="utf-8")


IDS, CORPUS = "corpus/test.00000.ids", "corpus/corpus.json"
FILES = ["vocabulary.txt", "config.json", CORPUS, IDS, "ngrams.npz"]
DAMAGES = [
    *[("ngram", damage, name, (), "") for name in FILES for damage in (flip_bit, cut_file)],
    ("network", cut_file, "model.keras", (), "must be a whole model file"),
    ("network", claim_size, "model.keras", (), "unpack to"),
    *[
        ("ngram", replace_file, name, (kind,), " ")
        for name in ("vocabulary.txt", "ngrams.npz", IDS)
        for kind in ("directory", "pipe", "circular link", "/dev/zero", "/none")
    ],
    ("network", replace_file, "model.keras", ("pipe",), "model.keras"),
    ("ngram", swap_ids, IDS, (), "corpus.json"),
    ("ngram", add_zeros, "ngrams.npz", (), "unpack to"),
    ("network", add_zeros, "model.keras", (), "unpack to|whole model file"),
    ("ngram", claim_size, "ngrams.npz", (), " "),
    ("ngram", claim_shape, "ngrams.npz", (), " "),
    *[
        ("ngram", name_shards, CORPUS, shards, " ")
        for shards in [("/etc/passwd",), ("../" + IDS,), (Path(IDS).name,) * 2, ("\0",), ("é" * 300,)]
    ],
]


@pytest.mark.parametrize(("kind", "damage", "name", "arguments", "words"), DAMAGES)
def test_damaged_files_are_refused_or_change_no_figure(attempt, kind, damage, name, arguments, words):
    attempt(kind, lambda directory: damage(directory, name, *arguments), words)


@pytest.mark.long
@settings(max_examples=80, **FUZZ)
@given(
    which=st.sampled_from(
        [
            *[(kind, name) for kind in KINDS for name in FILES],
            *[("mixture", name) for name in ("mixture.npz", "components/0/ngrams.npz", "components/1/config.json")],
            ("network", "model.keras"),
        ]
    ),
    how=st.sampled_from(("cut", "flip", "flip", "insert", "delete")),
    place=st.floats(0, 1),
    byte=st.integers(1, 255),
)
def test_a_damaged_byte_is_refused_or_changes_no_figure(attempt, which, how, place, byte):
    def damage(directory: Path) -> None:
        data = (directory / which[1]).read_bytes()
        at = min(int(place * len(data)), len(data) - 1)
        rest = {"flip": bytes([data[at] ^ byte]) + data[at + 1 :], "insert": bytes([byte]) + data[at:], "cut": b""}
        (directory / which[1]).write_bytes(data[:at] + rest.get(how, data[at + byte :]))

    attempt(which[0], damage)


@pytest.mark.long
def test_files_of_another_model_are_refused_or_the_same(attempt, root):
    for kind, other in itertools.permutations([*KINDS, "mixture"], 2):
        for path in (root / other).rglob("*"):
            name = path.relative_to(root / other)
            if path.is_file() and (root / kind / name).is_file() and name.name != "metrics.json":
                attempt(kind, lambda directory, name=name, path=path: shutil.copy(path, directory / name))


# model.keras


def rewrite_network(directory: Path, change: Callable[[dict], None]) -> None:
    """Change the parts of `model.keras`, by name, and its configuration, under the name "config"."""
    with zipfile.ZipFile(directory / "model.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["config"] = json.loads(parts["config.json"])
    change(parts)
    config = parts.pop("config")
    if "config.json" in parts:
        parts["config.json"] = config if isinstance(config, bytes) else json.dumps(config).encode()
    with zipfile.ZipFile(directory / "model.keras", "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def set_option(part: str | None, **options: object) -> Callable[[dict], None]:
    """A change of the configuration of the network, or of one of its layers."""

    def change(parts: dict) -> None:
        config = parts["config"]["config"]
        (config[part]["config"] if part else config).update(options)

    return change


def set_weights(make: Callable[[h5py.Group, str], object]) -> Callable[[dict], None]:
    """A change of the matrix C among the stored weights."""

    def change(parts: dict) -> None:
        file = io.BytesIO(parts["model.weights.h5"])
        with h5py.File(file, "r+") as stored:
            del stored["embed/vars/0"]
            make(stored["embed/vars"], "0")
        parts["model.weights.h5"] = file.getvalue()

    return change


def make_virtual(group: h5py.Group, name: str) -> None:
    layout = h5py.VirtualLayout((20, 4), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (20, 4))
    group.create_virtual_dataset(name, layout)


EXEC = {"module": "builtins", "class_name": "exec", "config": {"source": "1"}, "registered_name": "exec"}
SYSTEM = {"module": "os", "class_name": "system", "config": {"command": "touch canary"}, "registered_name": None}
LAMBDA = {"module": "keras.layers", "class_name": "Lambda", "config": {"name": "x"}, "registered_name": None}
FOREIGN = {
    "exec": EXEC,
    "system": SYSTEM,
    "Lambda": LAMBDA,
    "Dense": {"module": "keras.layers", "class_name": "Dense", "config": {"units": 2}, "registered_name": None},
    "Sequential": {"module": "keras", "class_name": "Sequential", "config": {"layers": [LAMBDA]}},
    "optimiser": {"module": "x", "class_name": "x", "config": {}, "registered_name": "keras_nplm>LazySGD"},
    "nothing": {"module": None, "class_name": None, "config": None, "registered_name": []},
}
HUGE = dict(shape=(1 << 20, 1 << 20), dtype="f4", chunks=(1, 1024), compression="gzip")
NETWORKS = {
    **{
        f"{name} as {part}": (set_option(None, **{part: described}), "Received: the class")
        for name, described in FOREIGN.items()
        for part in ("hidden", "output", "dtype")
    },
    **{f"{name} itself": (lambda parts, d=d: parts.update(config=d), " ") for name, d in FOREIGN.items()},
    **{
        f"{name} {number!r:.20}": (set_option(part, **{name: number}), "must be a whole model file")
        for part, name in [(None, "vocabulary_size"), (None, "order"), (None, "embedding_dim"), ("output", "rank")]
        for number in (10**5, 10**10, -1, "5")
    },
    "hidden units": (set_option("hidden", hidden_units=10**9), "must be a whole model file"),
    "blocks": (set_option("hidden", residual_blocks=10**6), "must be a whole model file"),
    "short-list": (set_option("output", shortlist_size=10**9), "must be a whole model file"),
    "long name": (set_option(None, name="x" * 1001), "at most 1,000 long"),
    "long description": (set_option(None, name="x" * 2_000_000), "at most 1,048,576 bytes"),
    "input shape": (lambda parts: parts["config"]["config"]["hidden"].update(build_config={"input_shape": [9]}), " "),
    **{f"part {name}": (lambda parts, n=name: parts.update({n: b"x"}), " ") for name in ("../canary", "assets/x")},
    **{f"no {n}": (lambda parts, n=n: parts.pop(n), " ") for n in ("metadata.json", "config.json", "model.weights.h5")},
    **{
        f"config {data!r:.9}": (lambda parts, d=data: parts.update(config=d), " ")
        for data in (b"[" * 10**5, b"NaN", b"")
    },
    "weights cut": (lambda parts: parts.update({"model.weights.h5": b"PK\3\4"}), " "),
    "weights not finite": (set_weights(lambda g, n: g.create_dataset(n, data=np.full((20, 4), np.nan))), "finite"),
    "weights of another shape": (set_weights(lambda g, n: g.create_dataset(n, data=np.zeros((3, 4)))), " "),
    "weights absent": (set_weights(lambda group, name: None), " "),
    "weights huge": (set_weights(lambda g, n: g.create_dataset(n, **HUGE)), "claim to be larger"),
    "weights in a file": (
        set_weights(lambda g, n: g.create_dataset(n, (20, 4), "f4", external=[("/etc/passwd", 0, 320)])),
        "different file",
    ),
    "weights virtual": (set_weights(make_virtual), "different file"),
    **{
        f"weights {type(link).__name__}": (
            set_weights(lambda g, n, link=link: g.__setitem__(n, link)),
            "different file",
        )
        for link in (h5py.ExternalLink("/etc/passwd", "/x"), h5py.SoftLink("/embed/vars/0"))
    },
}


_FAST = re.compile("(exec|Lambda|Dense|nothing) as hidden|.* 10000000000|config|weights .*")


@pytest.mark.parametrize(
    "name", [name if _FAST.match(name) else pytest.param(name, marks=pytest.mark.long) for name in NETWORKS]
)
def test_a_network_of_other_classes_sizes_or_weights_is_refused(attempt, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change, words = NETWORKS[name]
    attempt("network", lambda directory: rewrite_network(directory, change), words)
    assert not list(tmp_path.parent.rglob("canary")), "it ran"


def test_what_a_network_was_compiled_with_is_not_read(attempt):
    compiled = {"optimizer": SYSTEM}
    damage = lambda directory: rewrite_network(directory, lambda parts: parts["config"].update(compile_config=compiled))  # noqa: E731
    assert not attempt("network", damage)


# Text, ARPA files, arguments

TEXTS = [b"\xff\xfe", "été".encode("utf-16"), b"\0\n<s> </s>\n", "\u2028 ½\r\x85".encode(), b"", b"x" * 10_000_000]


def check_text(root: Path, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "text").write_bytes(text)
    status, out, _ = run("score", root / "ngram", tmp_path / "text")
    assert status or len(out.splitlines()) == text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
    assert not status or run("evaluate", root / "ngram", "--text", tmp_path / "text")[0]
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    status, _, _ = run("ngram", "--train", tmp_path / "text", "--output", tmp_path / "out", *NGRAM)
    assert status == 0 or not (tmp_path / "out" / "config.json").exists()
    assert (tmp_path / "text").read_bytes() == text


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:20]))
def test_any_bytes_are_a_text_or_are_refused(root, tmp_path, text):
    check_text(root, tmp_path, text)


@pytest.mark.long
@settings(max_examples=40, **FUZZ)
@given(
    text=st.binary(max_size=200)
    | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.lists(st.sampled_from(["the cat", "<s>", "<unk>", "\r", "\n", "\x85", "\ufeff", " "]))
    .map("".join)
    .map(str.encode)
)
def test_random_bytes_are_a_text_or_are_refused(root, tmp_path, text):
    check_text(root, tmp_path, text)


def test_an_arpa_file_that_expands_1000_times_is_read_by_lines(tmp_path):
    (tmp_path / "bomb.arpa.gz").write_bytes(gzip.compress(b"\\data\\\n" + b"\n" * (8 << 20)))
    status, _, refusal = run("ngram", "--arpa", tmp_path / "bomb.arpa.gz", "--output", tmp_path / "out")
    assert status == 2 and "line 8388610: expected ngram 1=NUMBER" in refusal and not (tmp_path / "out").exists()


ODD_FIELDS = [b"", b"9" * 5000, *b"nan inf 1 -1e999 \xc2\xb2 \0 \xff <s> the \\end\\".split()]


@pytest.mark.long
@settings(max_examples=60, **FUZZ)
@given(data=st.data())
def test_a_damaged_arpa_file_or_list_of_words_is_refused_or_usable(root, tmp_path_factory, data):
    directory = tmp_path_factory.mktemp("arpa")
    assert run("export", root / "ngram", directory / "model.arpa")[0] == 0
    shutil.copy(root / "ngram" / "vocabulary.txt", directory)
    edited = directory / data.draw(st.sampled_from(("model.arpa", "vocabulary.txt")))
    lines = edited.read_bytes().split(b"\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at, to = data.draw(st.integers(0, len(lines) - 1)), data.draw(st.integers(0, len(lines) - 1))
        fields = re.split(rb"([\t =])", lines[at])
        fields[data.draw(st.integers(0, len(fields) - 1))] = data.draw(st.sampled_from(ODD_FIELDS))
        changes = {"drop": b"", "repeat": lines[to] + b"\n" + lines[at], "swap": lines[to], "field": b"".join(fields)}
        lines[at] = data.draw(st.sampled_from(sorted(changes.items())))[1]
    edited.write_bytes(b"\n".join(lines))
    files = ("--arpa", directory / "model.arpa", "--vocabulary", directory / "vocabulary.txt")
    status, _, _ = run("ngram", *files, "--tokenizer", "words", "--output", directory / "out")
    assert (status == 0) == (directory / "out").exists()
    if status == 0:
        status, out, _ = run("evaluate", directory / "out", "--text", root / "text.txt", "--json")
        assert status or json.loads(out)["perplexity"] >= 1


ODD_WORDS = ["", "nan", "9" * 30, "-1", "\udcff", "/dev/null"]
MORE_WORDS = "-- 0 1.5 inf 1e999 ٣ .. /proc/self/mem ** %s {} \x1b[2J tfds: tfds:../x brown/none".split()
MORE_WORDS += [" ", "\n", "$(touch x)", "9" * 5000, "a/" * 3000]
TRAIN = {"train": ["--train", "TEXT"], "output": ["--output", "out"]}
LEARN = {"directory": ["DIR"], "text": ["--text", "TEXT"], "output": ["--output", "out"]}
NEEDED = {  # of each command: the arguments without which it is refused, by their names
    **dict.fromkeys(("train", "ngram", "prepare"), TRAIN),
    **dict.fromkeys(("adapt", "add-words"), LEARN),
    **{name: {"directory": ["DIR"]} for name in ("evaluate", "generate")},
    "size": {"vocabulary_size": ["--vocabulary-size", "9"]},
    "mix": {"directories": ["DIR", "DIR"], "output": ["--output", "out"]},
    "score": {"directory": ["DIR"], "file": ["TEXT"]},
    "complete": {"directory": ["DIR"], "context": ["the cat"]},
    "nearest": {"directory": ["DIR"], "words": ["cat"]},
    "analogy": {"directory": ["DIR"], "a": ["the"], "b": ["cat"], "c": ["the"]},
    "map": {"directory": ["DIR"], "target": ["out.svg"]},
    "rescore": {"directory": ["DIR"], "nbest": ["NBEST"]},
    "export": {"directory": ["DIR"], "target": ["out.arpa"]},
    "benchmark": {"benchmarks": ["none"]},
    "paper": {"rows": ["--rows", "none"]},
    "study": {"name": ["none"]},
}
COMMANDS = next(action.choices for action in build_parser()._actions if action.dest == "command")


@pytest.mark.parametrize(
    "name",
    [name if name == "score" else pytest.param(name, marks=pytest.mark.long) for name in NEEDED],
)
def test_odd_arguments_are_accepted_or_refused(root, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"TEXT": root / "text.txt", "DIR": root / "ngram", "NBEST": root / "nbest.tsv"}
    short = [*NGRAM[:2], "--epochs", "1", "--hidden-units", "4"] if name == "train" else []
    before, every = list_checksums(root), [a for a in COMMANDS[name]._actions if a.dest not in ("help", "help_all")]
    more = random.Random(name).sample([*itertools.product(every, MORE_WORDS)], 10)
    odd = [*more, *itertools.product(every, ODD_WORDS)]
    for action, word in odd[::2] if name not in ("train", "ngram", "prepare") else odd[::10]:
        needed = {what: words for what, words in NEEDED[name].items() if what != action.dest}
        if action.dest in ("corpus", "arpa"):
            needed.pop("train", None)
        rest = [names.get(word, word) for words in needed.values() for word in words]
        given = [word] * (action.nargs if isinstance(action.nargs, int) else 1) if action.nargs != 0 else []
        flag = action.option_strings[-1:]
        run(name, *flag, *given, *short, *rest) if flag else run(name, *short, *rest, *given)
    assert list_checksums(root) == before


@pytest.mark.long
def test_a_run_that_diverges_keeps_its_best_epoch(root, tmp_path):
    command = ["train", "--train", root / "text.txt", "--output", tmp_path / "model"]
    command += "--order 3 --embedding-dim 4 --hidden-units 4 --min-count 1 --epochs 60 --patience 60".split()
    command += "--batch-size 64 --learning-rate 0.05 --weight-decay 42 --schedule constant --dropout 0".split()
    status, _, refusal = run(*command)
    epochs = json.loads((tmp_path / "model" / "history.json").read_text(encoding="utf-8"))["epochs"]
    best = min(epochs, key=lambda epoch: epoch["validation_perplexity"])
    assert status == 1 and f"model.keras holds epoch {best['epoch']}" in refusal and len(epochs) > best["epoch"]
    figures = json.loads(run("evaluate", tmp_path / "model", "--split", "validation", "--json")[1])
    assert figures["perplexity"] == pytest.approx(best["validation_perplexity"], rel=1e-4)
    assert run(*command)[::2] == (1, refusal)
