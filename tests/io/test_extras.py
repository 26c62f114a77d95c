"""Optional libraries: a missing one is named with the command that installs it."""

import importlib.metadata
import sys

import pytest

from keras_nplm import InputError
from keras_nplm.io.extras import DISTRIBUTION, EXTRA_OF, format_install_command, import_extra


@pytest.mark.parametrize("library", EXTRA_OF)
def test_a_missing_library_is_named_with_its_command(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(importlib.metadata, "version", str)
    extra = EXTRA_OF[library]
    with pytest.raises(InputError) as error:
        import_extra(library, "This test")
    message = str(error.value)
    assert message.startswith(f"This test needs the extra {extra} (")
    assert library in message
    assert message.endswith(f"). Fix: `pip install 'keras-nplm[{extra}]'`.")


def test_in_a_checkout_that_is_not_installed_the_command_is_run_there(monkeypatch):
    def find_nothing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", find_nothing)
    command = "`pip install '.[onnx]'` in the checkout of keras-nplm"
    assert format_install_command("onnx") == command


def test_each_extra_exists():
    try:
        metadata = importlib.metadata.metadata(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("keras-nplm is not installed")
    assert {*EXTRA_OF.values()} <= {*metadata.get_all("Provides-Extra")}


def test_a_library_that_is_there_is_returned():
    assert import_extra("backports", "This test").__name__ == "backports"
