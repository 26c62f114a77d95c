"""Origins: what a digest of code covers, the name of a commit, and which models are refused."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from keras_nplm import InputError, __version__
from keras_nplm.experiments.origin import (
    check_is_committed,
    check_origins,
    describe_origin,
    digest_code,
    format_origin,
    list_peer_libraries,
    merge_origins,
    name_commit,
)
from tests.origins import HERE

CODE = '''"""Layers."""

RATE = 0.5  # of dropout


def scale(x):
    """Return x, scaled."""
    return RATE * x
'''


PEERS = ("log_probs.py", "benchmark/quality.py", "benchmark/torch_models.py")


@pytest.fixture
def package(tmp_path) -> Path:
    """A package with three rooms."""
    directory = tmp_path / "checkout" / "keras_nplm"
    for room in ("layers", "experiments/records", "experiments/benchmark"):
        (directory / room).mkdir(parents=True)
    for module in PEERS:
        (directory / "experiments" / module).write_text(CODE)
    (directory / "__init__.py").write_text("")
    (directory / "layers" / "scale.py").write_text(CODE)
    (directory / "experiments" / "records" / "paper.json").write_text("{}")
    return directory


def test_a_digest_is_of_statements(package):
    before = digest_code(package)
    text = '"""Layers that scale."""\n\nRATE = 0.5\n\n\ndef scale(x): return RATE * x\n'
    (package / "layers" / "scale.py").write_text(text)
    (package / "experiments" / "claims.py").write_text("CLAIMS = ()\n")
    assert digest_code(package) == before
    (package / "layers" / "scale.py").write_text(text.replace("0.5", "0.6"))
    assert digest_code(package) != before


def test_a_digest_covers_new_files(package):
    before = digest_code(package)
    (package / "layers" / "shift.py").write_text("SHIFT = 1\n")
    assert digest_code(package) != before


@pytest.mark.parametrize("module", PEERS)
def test_a_digest_covers_what_trains_and_mixes_peers(package, module):
    before = digest_code(package)
    (package / "experiments" / module).write_text(CODE.replace("0.5", "0.6"))
    assert digest_code(package) != before


def test_peers_have_the_version_of_their_library():
    assert "numpy" not in describe_origin()
    here = describe_origin(["numpy", "absent-library"])
    assert (here["numpy"], here["absent-library"]) == (np.__version__, "not installed")


def test_a_peer_of_another_library_is_not_comparable():
    peer = {**HERE, "torch": "2.1"}
    origins = {"paper/rows/mlp1": [HERE], "paper/quality/LSTM-300.json": [peer]}
    assert list_peer_libraries(origins) == ["torch"]
    assert list_peer_libraries({"paper/rows/mlp1": [HERE]}) == []
    check_origins(origins, peer)
    with pytest.raises(InputError, match=r"Received: LSTM-300 \(commit 0123456789: torch 2.1\)"):
        check_origins(origins, {**HERE, "torch": "2.2"})


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
    (package / "experiments" / "records" / "paper.json").write_text('{"rows": []}')
    assert name_commit(package) == commit
    git("add", ".")
    git("commit", "-q", "-m", "Figures, and the page that shows them")
    assert name_commit(package) == commit
    (package / "layers" / "scale.py").write_text(f"{CODE}# the end\n")
    assert name_commit(package) == f"{commit}-dirty"
    git("commit", "-q", "-a", "-m", "Code")
    assert name_commit(package) == git("rev-parse", "--short=10", "HEAD").strip()


def test_models_of_this_code_and_processor_are_accepted():
    earlier = {**HERE, "commit": "abcdef0123", "date": "2026-11-27"}
    check_origins({"paper/rows/mlp1": [earlier, HERE], "paper/rows/mlp3": [HERE]}, HERE)


def test_models_of_other_origins_are_named_with_what_makes_them_again():
    origins = {
        "paper/rows/mlp1": [HERE],
        "paper/rows/mlp3": [HERE, {**HERE, "processor": "Intel"}],
        "paper/rows/mlp5": [{**HERE, "commit": "abcdef0123", "code": "01d"}],
        "paper/rows/trigram": [],
    }
    with pytest.raises(InputError) as caught:
        check_origins(origins, HERE)
    message = str(caught.value)
    assert "(commit 0123456789, AMD EPYC)" in message
    assert (
        "Received: mlp3 (commit 0123456789: processor Intel), mlp5 (commit abcdef0123: code 01d), "
        "trigram (not recorded)." in message
    )
    assert "`rm -r paper/rows/mlp3 paper/rows/mlp5 paper/rows/trigram`" in message


def test_changes_that_are_not_committed_are_refused():
    check_is_committed(HERE)
    with pytest.raises(InputError, match="Received: 0123456789-dirty. Fix: commit or stash"):
        check_is_committed({**HERE, "commit": "0123456789-dirty"})


def test_a_report_has_the_first_and_the_last_date_of_its_models():
    earlier = {**HERE, "date": "2026-11-26"}
    merged = merge_origins({"a": [HERE], "b": [earlier]}, HERE)
    assert merged == {**HERE, "date": "2026-11-26 to 2026-11-28"}
    assert merge_origins({}, HERE) == merge_origins({"a": [HERE]}, HERE) == HERE


def test_a_report_has_the_commits_of_its_models():
    here = {**HERE, "commit": "3"}
    recorded = {**HERE, "commit": "1, 2"}
    made = {**HERE, "commit": "1"}
    assert merge_origins({"a": [made], "b": [recorded]}, here)["commit"] == "1, 2"


def test_a_line_says_what_was_not_recorded():
    assert format_origin(HERE) == (
        "Measured: 2026-11-28, AMD EPYC, commit 0123456789, python 3.11.7, tensorflow 2.21.0, "
        "keras 3.15.1."
    )
    line = format_origin({"processor": "AMD EPYC", "keras": "3.15"})
    assert line == "Measured: date not recorded, AMD EPYC, commit not recorded, keras 3.15."
