"""Optional libraries: a missing one is named with the command that installs it."""

import importlib.metadata
import sys

import pytest

from keras_nplm import InputError
from keras_nplm.io.extras import DISTRIBUTION, EXTRA_OF, import_extra


@pytest.mark.parametrize("library", EXTRA_OF)
def test_a_missing_library_is_named_with_its_command(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    extra = EXTRA_OF[library]
    with pytest.raises(InputError) as error:
        import_extra(library, "This test")
    message = str(error.value)
    assert message.startswith(f"This test needs the extra {extra} (")
    assert library in message
    assert message.endswith(f"). Fix: `pip install 'keras-nplm[{extra}]'`.")


def test_each_extra_exists():
    try:
        metadata = importlib.metadata.metadata(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("keras-nplm is not installed")
    assert {*EXTRA_OF.values()} <= {*metadata.get_all("Provides-Extra")}
