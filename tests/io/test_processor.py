"""The name of a processor tells its generation, also where the maker alone is named."""

import platform
from pathlib import Path
from unittest.mock import Mock

import pytest

from keras_nplm.io import processor

OF_TWO_CORES = (
    "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\n"
)


@pytest.mark.parametrize(
    "content, expected",
    [
        pytest.param(OF_TWO_CORES, "AMD EPYC (family 25, model 1)", id="x86"),
        pytest.param("model name\t: Fast: 3 GHz\n", "Fast: 3 GHz", id="name alone"),
        pytest.param("processor\t: 0\n", "arm", id="no name"),
        pytest.param(None, "arm", id="no file"),
    ],
)
def test_name_of_the_processor(content, expected, tmp_path, monkeypatch):
    path = Path(tmp_path / "cpuinfo")
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr(processor, "_CPUINFO", path)
    monkeypatch.setattr(platform, "processor", Mock(return_value="arm"))
    assert processor.read_processor_name() == expected
