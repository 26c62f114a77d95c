"""The name of a processor tells its generation, also where the maker alone is named."""

import platform
from pathlib import Path

import pytest

from keras_nplm.io.processor import read_processor_name


@pytest.mark.parametrize(
    "content, expected",
    [
        (
            "cpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\nmodel\t\t: 2\n",
            "AMD EPYC (family 25, model 1)",
        ),
        ("model name\t: Fast: 3 GHz\n", "Fast: 3 GHz"),
        ("processor\t: 0\n", "arm"),
    ],
)
def test_name_of_the_processor(content, expected, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(content)
    monkeypatch.setattr(platform, "processor", lambda: "arm")
    assert read_processor_name(tmp_path / "cpuinfo") == expected
    assert read_processor_name(Path("/absent")) == "arm"
