"""The page of each package, the docstring of its `__init__`, names the files that it has."""

import ast
import re
from pathlib import Path

import pytest

import keras_nplm

ROOT = Path(keras_nplm.__file__).parent
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def _list_parts(directory: Path) -> set[str]:
    """Return the modules and the folders of a package."""
    modules = {path.stem for path in directory.glob("[a-z]*.py")}
    folders = {path.parent.name for path in directory.glob("[a-z]*/*") if path.is_file()}
    return modules | folders


def _read_page(room: str) -> str:
    tree = ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))
    return ast.get_docstring(tree) or ""


@pytest.mark.parametrize("room", ROOMS)
def test_a_page_names_every_file(room):
    assert _list_parts(ROOT / room) - {*re.findall(r"\w+", _read_page(room))} == set()


@pytest.mark.parametrize("room", ROOMS)
def test_a_page_says_what_to_read_first(room):
    (first,) = re.findall(r"^Read first: (.*?)\n\n", _read_page(room), re.DOTALL | re.MULTILINE)
    assert {*re.findall(r"\w+", first)} & _list_parts(ROOT / room)
