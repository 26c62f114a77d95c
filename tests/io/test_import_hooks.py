import subprocess
import sys

from keras_nplm.io.import_hooks import run_after_import


def test_modules_are_imported_right_after_a_library(tmp_path, monkeypatch):
    (tmp_path / "some_library.py").write_text("done = True")
    (tmp_path / "first_extension.py").write_text("import some_library; assert some_library.done")
    (tmp_path / "late_extension.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    run_after_import("some_library", ["first_extension"])
    assert "some_library" not in sys.modules and "first_extension" not in sys.modules
    import some_library  # noqa: F401

    assert "first_extension" in sys.modules
    run_after_import("some_library", ["late_extension"])  # the library is imported already
    assert "late_extension" in sys.modules


def test_a_library_that_is_not_installed_stays_an_import_error():
    code = """if True:
    from keras_nplm.io.import_hooks import run_after_import
    run_after_import("no_such_library", ["no_such_module"])
    try:
        import no_such_library
    except ModuleNotFoundError as error:
        print(error.name)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "no_such_library"
