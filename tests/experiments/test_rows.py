"""Rows are made once by their command, and again if command or text has changed."""

import shlex
from unittest.mock import Mock

import pytest

from keras_nplm.experiments.rows import Row, is_made, make_rows, read_origins, read_row
from keras_nplm.io.errors import RunError
from keras_nplm.io.files import write_json

pytestmark = pytest.mark.long  # processes


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "my text.txt"
    path.write_text("the cat sat on the mat\nthe dog sat\n" * 20)
    return path


def declare(text, order: int, name: str = "first") -> Row:
    return Row(name, "title", f"ngram --train {shlex.quote(str(text))} --order {order}")


def test_a_row_is_made_again_if_its_command_or_text_has_changed(text, tmp_path, capsys):
    row, changed = declare(text, 2), declare(text, 3)
    metrics = tmp_path / "rows" / "first" / "metrics.json"
    make_rows([row], tmp_path)
    made = metrics.stat().st_mtime_ns
    make_rows([row], tmp_path)
    assert metrics.stat().st_mtime_ns == made
    assert capsys.readouterr().err == "[1/1] first: made\n"
    assert not is_made(changed, tmp_path)
    make_rows([changed], tmp_path)
    assert is_made(changed, tmp_path) and metrics.stat().st_mtime_ns > made
    text.write_text("the dog sat on the mat\n" * 40)
    assert not is_made(changed, tmp_path)
    make_rows([changed], tmp_path)
    assert is_made(changed, tmp_path)
    figures = read_row(changed, tmp_path)
    assert figures["command"] == f"keras-nplm {changed.command} --output runs/first"
    assert figures["test"] > 1


def test_a_failed_row_is_named_and_others_are_kept(text, tmp_path):
    rows = [declare(text, 0, "broken"), declare(text, 2)]
    message = r"1 row\(s\) failed: broken. Other rows are kept. See .*broken.log: .*order"
    with pytest.raises(RunError, match=message):
        make_rows(rows, tmp_path, jobs=2)
    assert [is_made(row, tmp_path) for row in rows] == [False, True]


def test_a_resumed_row_has_the_origins_of_all_code_that_made_it(text, tmp_path, monkeypatch):
    row = declare(text, 2)
    with monkeypatch.context() as context, pytest.raises(RunError):
        context.setattr("subprocess.run", Mock(return_value=Mock(returncode=1)))
        make_rows([row], tmp_path)
    model = tmp_path / "rows" / "first"
    write_json(f"{model}.json", {"origins": [{"code": "before"}]})
    make_rows([row], tmp_path)
    ((path, (before, here)),) = read_origins([row], tmp_path).items()
    assert (path, before) == (str(model), {"code": "before"})
    assert here.keys() >= {"date", "processor", "commit", "code", "python", "tensorflow", "keras"}
