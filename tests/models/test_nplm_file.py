"""Model files from an untrusted source: what is loaded, and what is refused before Keras reads it."""

import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from keras_nplm import NPLM, AveragedContext, DeepHidden, EnergyOutput, FullSoftmax, InputError, NoiseContrastive
from keras_nplm.models.nplm_file import check_memory, load_network

V, N, M, H = 11, 8, 3, 4


def _layers() -> dict:
    return {
        "context": AveragedContext(V, M, averages_after=(2,)),
        "hidden": DeepHidden(H, residual_blocks=1, layer_norm=True),
    }


NETWORKS = {
    "plain": dict(embedding_dim=M, hidden_units=H, direct_connections=True),
    "given layers": dict(**_layers(), output=NoiseContrastive(V, num_sampled=3, rank=2)),
    "energy": dict(output=EnergyOutput(V, H)),
    "tied": dict(embedding_dim=M, output=FullSoftmax(V, tied=True)),
    "short-list": dict(output=FullSoftmax(V, shortlist_size=3)),
    "no hidden layer": dict(hidden=None, direct_connections=True),
    "adaptive": dict(hidden_units=0, direct_connections=True, output="adaptive"),
    "bfloat16": dict(dtype="mixed_bfloat16"),
    "pointer": dict(pointer=True, direct_connections=True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_this_package_load(name, tmp_path):
    model, contexts = NPLM(V, N, **NETWORKS[name]), np.random.default_rng(0).integers(0, V, (5, N - 1))
    model.save(tmp_path / "model.keras")
    loaded = load_network(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.next_log_probs(contexts), model.next_log_probs(contexts))
    assert not loaded.compiled and loaded.get_config() == model.get_config()


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    NPLM(V, N, **_layers(), output=FullSoftmax(V, rank=2)).save(path)
    return path


def _rewrite(saved: Path, target: Path, edit: Callable[[dict], None] = lambda _: None, **others: bytes) -> Path:
    """Copy a model file with an edited config.json, and with other contents of parts such as `metadata`."""
    with zipfile.ZipFile(saved) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    described = json.loads(parts["config.json"])
    edit(described)
    parts["config.json"] = json.dumps(described).encode()
    parts |= {name: others[name.split(".")[0]] for name in parts if name.split(".")[0] in others}
    with zipfile.ZipFile(target, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return target


def test_a_file_of_an_earlier_version_is_refused_in_one_sentence(saved, tmp_path):
    """Its configuration has the flat options, such as `output_layer`."""

    def earlier(described):
        config = described["config"]
        for name in ("context", "hidden", "output"):
            del config[name]
        config |= {"output_layer": "full", "held_out_mass": 0.04, "averages_after": None}

    with pytest.raises(
        InputError, match="must be written by this version of keras_nplm. .* Fix: train the model again"
    ):
        load_network(_rewrite(saved, tmp_path / "model.keras", earlier))


@pytest.mark.parametrize(
    "part, options",
    [
        (None, dict(order=10**10)),
        (None, dict(order="8")),
        (None, dict(vocabulary_size=10**9)),
        (None, dict(vocabulary_size=None)),
        ("context", dict(embedding_dim=10**8)),
        ("context", dict(averages_after=["2"])),
        ("hidden", dict(hidden_units=10**8)),
        ("hidden", dict(residual_blocks=10**6)),
        ("hidden", dict(residual_blocks=-1)),
        ("hidden", dict(build_config={"input_shape": [None, 10**12]})),
        ("output", dict(rank=10**8)),
        ("output", dict(num_sampled=10**9)),
        ("output", dict(shortlist_size=10**9)),
    ],
)
def test_sizes_that_the_weights_do_not_have_are_refused(part, options, saved, tmp_path):
    def edit(described):
        config = described["config"]
        layer = config[part] if part else {"config": config}
        (layer if "build_config" in options else layer["config"]).update(options)

    with pytest.raises(InputError, match="must be a whole model file"):
        load_network(_rewrite(saved, tmp_path / "model.keras", edit))


def _nest(depth: int) -> dict:
    return {"x": _nest(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    "part, edit, message",
    [
        ("config", {"name": "x" * 50_000_000}, "config.json in .* must have at most 1,048,576 bytes. Received: 50,0"),
        (
            "config",
            {"name": "x" * 1001},
            "A string or list in config.json in .* must be at most 1,000 long. Received: 1,001",
        ),
        ("config", {"cutoffs": [*range(1001)]}, "must be at most 1,000 long. Received: 1,001"),
        ("config", _nest(80), "config.json in .* must be nested at most 64 levels deep"),
        ("metadata", {"x": "x" * 2_000_000}, "metadata.json in .* must have at most 1,048,576 bytes"),
        ("metadata", {"x": "x" * 1001}, "metadata.json in .* must be at most 1,000 long"),
    ],
    ids=["size", "string", "list", "depth", "metadata", "string of metadata"],
)
def test_huge_descriptions_are_refused_before_they_are_parsed(part, edit, message, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.models, "load_model", lambda *_, **__: pytest.fail("Keras reads the file"))
    others = {"metadata": json.dumps(edit).encode()} if part == "metadata" else {}
    change = lambda described: None if others else described["config"].update(edit)  # noqa: E731
    path = _rewrite(saved, tmp_path / "model.keras", change, **others)
    tracemalloc.start()
    with pytest.raises(InputError, match=message):
        load_network(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_more_weights_than_the_described_network_has_are_refused(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.models, "load_model", lambda *_, **__: pytest.fail("Keras reads the file"))
    path = _rewrite(saved, tmp_path / "model.keras", model=bytes(50_000_000))
    with pytest.raises(
        InputError, match="its 50,000,000 bytes of weights are more than the described network can have"
    ):
        load_network(path)


@pytest.mark.parametrize(
    "described",
    [
        {"module": "builtins", "class_name": "exec", "config": {}, "registered_name": "exec"},
        {"module": "os", "class_name": "system", "config": {"command": "true"}, "registered_name": None},
        {"module": "keras.layers", "class_name": "Lambda", "config": {"name": "x"}, "registered_name": None},
        {"module": "keras.layers", "class_name": "Dense", "config": {"units": 2}, "registered_name": None},
        {"class_name": "__lambda__", "config": {"code": "x", "defaults": None, "closure": None}},
        {"module": "x", "class_name": "x", "config": {}, "registered_name": "keras_nplm>LazySGD"},
        {"module": None, "class_name": None, "config": None, "registered_name": []},
    ],
    ids=lambda described: str(described["class_name"]),
)
@pytest.mark.parametrize("part", ["context", "hidden", "output", "dtype", "name"])
def test_classes_of_other_packages_are_refused(part, described, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.models, "load_model", lambda *_, **__: pytest.fail("Keras reads the file"))
    edit = lambda whole: whole["config"].update({part: described})  # noqa: E731
    with pytest.raises(InputError, match="must hold layers of keras_nplm, .* Received: the class"):
        load_network(_rewrite(saved, tmp_path / "model.keras", edit))


def test_a_hidden_layer_that_the_program_registers_is_loaded(tmp_path):
    @keras.saving.register_keras_serializable("test_nplm_file")
    class Clipped(keras.layers.Layer):
        def call(self, x):
            return keras.ops.clip(x, -1, 1)

    model, contexts = NPLM(V, N, M, hidden=Clipped()), np.ones((2, N - 1), np.int32)
    model.save(tmp_path / "model.keras")
    loaded = load_network(tmp_path / "model.keras")
    assert isinstance(loaded.hidden, Clipped)
    np.testing.assert_array_equal(loaded(contexts), model(contexts))


def test_a_stock_hidden_layer_is_refused_by_name(tmp_path):
    NPLM(V, N, M, hidden=keras.layers.Dense(H)).save(tmp_path / "model.keras")
    with pytest.raises(InputError, match=r"Received: the class keras.layers.Dense. Fix: .* `keras.models.load_model`"):
        load_network(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").hidden.units == H


def test_tied_matrix_is_stored_once_and_older_files_load(tmp_path):
    """Files of before had C in the output layer, too."""
    model, contexts = NPLM(V, N, M, H, output=FullSoftmax(V, tied=True)), np.ones((2, N - 1), np.int32)
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        weights = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(weights, "r+") as stored:
        output = stored["layers/full_softmax/vars"]
        assert sorted(part.size for part in output.values()) == [V, H * M]
        output["0"] = stored["embed/vars/0"][:]
    path = _rewrite(tmp_path / "model.keras", tmp_path / "older.keras", model=weights.getvalue())
    for file in (tmp_path / "model.keras", path):
        np.testing.assert_array_equal(load_network(file)(contexts), model(contexts))


def test_hidden_units_of_the_energy_output_are_checked(tmp_path):
    NPLM(V, N, embedding_dim=M, output=EnergyOutput(V, H)).save(tmp_path / "saved.keras")
    edit = lambda described: described["config"]["output"]["config"].update(hidden_units=10**9)  # noqa: E731
    with pytest.raises(InputError, match="it describes more weights than"):
        load_network(_rewrite(tmp_path / "saved.keras", tmp_path / "model.keras", edit))


def test_damaged_files_are_refused(saved, tmp_path):
    whole = saved.read_bytes()
    (tmp_path / "half.keras").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.keras").write_text("no archive")
    for name in ("half.keras", "text.keras"):
        with pytest.raises(InputError, match="must be a whole model file"):
            load_network(tmp_path / name)
    with pytest.raises(InputError, match=r"none\.keras"):
        load_network(tmp_path / "none.keras")


def test_weights_that_are_not_finite_are_refused(tmp_path):
    model = NPLM(V, 3, M, H)
    model.prob.b.assign(np.full(V, np.nan))
    model.save(tmp_path / "model.keras")
    with pytest.raises(InputError, match="the weights NPLM/prob/b must be finite"):
        load_network(tmp_path / "model.keras")


def test_a_network_larger_than_the_memory_is_refused():
    check_memory(1000)
    with pytest.raises(InputError, match="must fit into .* bytes of memory. Received: 1,000,000,000,000,000 weights"):
        check_memory(10**15)
