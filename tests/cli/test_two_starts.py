"""Two processes start with the same --output: one works, the other is refused, and no file is of both."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_nplm.cli.main import main

pytestmark = pytest.mark.long

STARTS = int(os.environ.get("KERAS_NPLM_STARTS", "4"))
OPTIONS = "--order 3 --min-count 1 --boundary sentence --json".split()
NETWORK = "--embedding-dim 4 --hidden-units 4 --epochs 1 --batch-size 64".split()
_PROGRAM = """
import sys, time
from pathlib import Path
import keras_nplm.training.prepare as prepare
from keras_nplm.cli.main import main
if sys.argv[2] == "train":
    import keras_nplm.training.train
at, count = Path(sys.argv[1]), prepare.count_vocabulary

def count_vocabulary(*arguments, **options):  # ends when the other process does, or when that one counts, too
    counting = at.with_name(f"counting.{len(list(at.parent.glob('counting.*')))}")
    counting.touch()
    while not (at.with_name("go").exists() or at.with_name("counting.1").exists()):
        time.sleep(0.01)
    return count(*arguments, **options)

prepare.count_vocabulary = count_vocabulary
print("ready", flush=True)
sys.stdin.readline()
sys.exit(main(sys.argv[2:]))
"""


def _write_text(path: Path, letter: str) -> Path:
    """A text whose words begin with a letter."""
    rng = random.Random(letter)
    lines = (" ".join(f"{letter}{rng.randrange(30)}" for _ in range(rng.randrange(3, 9))) for _ in range(200))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _prepared(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "vocabulary.txt", *(directory / "corpus").iterdir())}


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[Path, dict[str, bytes]]:
    """Two texts, and what each becomes in a directory of its own."""
    root = tmp_path_factory.mktemp("texts")
    texts = [_write_text(root / f"{letter}.txt", letter) for letter in "ab"]
    for text in texts:
        assert main(["ngram", "--train", str(text), "--output", str(text.with_suffix("")), *OPTIONS]) == 0
    return {text: _prepared(text.with_suffix("")) for text in texts}


@pytest.mark.parametrize("start", range(STARTS))
def test_one_of_two_starts_is_refused_and_nothing_is_mixed(tmp_path, alone, start):
    output = tmp_path / "model"
    command = ["train", *NETWORK] if start % 4 == 3 else ["ngram"]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started = {
        text: subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, output, *command, "--train", text, "--output", output, *OPTIONS], **pipes
        )
        for text in alone
    }
    try:
        for process in started.values():
            assert process.stdout.readline() == "ready\n"
        for process in started.values():
            process.stdin.write("start\n")
            process.stdin.flush()
        while all(process.poll() is None for process in started.values()):
            time.sleep(0.01)
        (tmp_path / "go").touch()
        errors = {text: process.communicate()[1] for text, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
            process.wait()
    refused, worked = sorted(started, key=lambda text: started[text].returncode, reverse=True)
    assert (started[refused].returncode, started[worked].returncode) == (1, 0), errors
    assert f"{output} is in use by process {started[worked].pid} on " in errors[refused].splitlines()[-1]
    assert "Traceback" not in errors[refused]
    assert _prepared(output) == alone[worked]
    assert not (output / ".lock").exists() and (output / "metrics.json").exists()
