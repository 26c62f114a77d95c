"""Import hooks: modules imported after a library, and a library imported within a context manager."""

import contextlib
import importlib
import importlib.util
import subprocess
import sys

import pytest

from keras_nplm.io.import_hooks import run_after_import, run_around_import


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A directory of importable modules, which are forgotten after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.meta_path", list(sys.meta_path))
    (tmp_path / "some_library.py").write_text("LOADED = True\n")
    (tmp_path / "registers_classes.py").write_text("import some_library\nassert some_library.LOADED\n")
    yield "some_library"
    for name in ("some_library", "registers_classes"):
        sys.modules.pop(name, None)


def test_modules_are_imported_after_the_library(library):
    run_after_import(library, ["registers_classes"])
    assert "registers_classes" not in sys.modules
    importlib.import_module(library)
    assert "registers_classes" in sys.modules


def test_modules_are_imported_now_if_the_library_is(library):
    importlib.import_module(library)
    run_after_import(library, ["registers_classes"])
    assert "registers_classes" in sys.modules


def test_a_library_is_imported_within_a_context_manager(library):
    events = []

    @contextlib.contextmanager
    def record():
        events.append("before" if library not in sys.modules or "LOADED" not in vars(sys.modules[library]) else "late")
        yield
        events.append("after" if sys.modules[library].LOADED else "early")

    run_around_import(library, record)
    importlib.import_module(library)
    assert events == ["before", "after"]


@pytest.mark.long
def test_keras_loads_a_saved_network_right_after_import_keras_nplm(tmp_path):
    from keras_nplm import NPLM

    NPLM(7, order=3).save(tmp_path / "model.keras")
    program = "import sys, keras_nplm, keras; print(type(keras.models.load_model(sys.argv[1])).__name__)"
    command = [sys.executable, "-c", program, str(tmp_path / "model.keras")]
    assert subprocess.run(command, capture_output=True, text=True).stdout.split() == ["NPLM"]


def test_search_for_a_module_keeps_the_hook(tmp_path, monkeypatch):
    """`importlib.util.find_spec` is a common way to ask whether a library is installed."""
    (tmp_path / "probed_library.py").write_text("")
    (tmp_path / "after_probed_library.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    run_after_import("probed_library", ["after_probed_library"])
    assert importlib.util.find_spec("probed_library") and "after_probed_library" not in sys.modules
    importlib.import_module("probed_library")
    assert "after_probed_library" in sys.modules
