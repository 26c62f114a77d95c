"""Origins: what a digest of code covers, and the name of a commit."""

import shutil
import subprocess
from pathlib import Path

import pytest

from keras_nplm import __version__
from keras_nplm.experiments.origin import digest_code, name_commit

CODE = '"""Layers."""\n\nRATE = 0.5  # of dropout\n'


@pytest.fixture
def package(tmp_path) -> Path:
    """A package with two rooms."""
    directory = tmp_path / "checkout" / "keras_nplm"
    for room in ("layers", "experiments"):
        (directory / room).mkdir(parents=True)
    (directory / "__init__.py").write_text("")
    (directory / "layers" / "scale.py").write_text(CODE)
    (directory / "experiments" / "record.json").write_text("{}")
    return directory


@pytest.mark.parametrize(
    "path, text, is_other",
    [
        ("layers/scale.py", '"""Scales."""\nRATE = 0.5\n', False),
        ("experiments/paper.py", "ROWS = ()\n", False),
        ("layers/scale.py", "RATE = 0.6\n", True),
        ("layers/shift.py", "SHIFT = 1\n", True),
    ],
)
def test_a_digest_is_of_the_statements_that_make_models(package, path, text, is_other):
    before = digest_code(package)
    (package / path).write_text(text)
    assert (digest_code(package) != before) == is_other


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_commit_is_the_last_that_changed_the_package(package):
    def git(*words: str) -> str:
        author = ["-c", "user.name=A", "-c", "user.email=a@b.example"]
        command = ["git", "-C", str(package.parent), *author, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert name_commit(package) == f"version {__version__}"
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "First")
    commit = git("rev-parse", "--short=10", "HEAD").strip()
    (package.parent / "README.md").write_text("# Front\n")
    (package / "experiments" / "record.json").write_text('{"rows": []}')
    assert name_commit(package) == commit
    git("add", ".")
    git("commit", "-q", "-m", "Figures, and the page that shows them")
    assert name_commit(package) == commit
    (package / "layers" / "scale.py").write_text(f"{CODE}# the end\n")
    assert name_commit(package) == f"{commit}-dirty"
