"""Commands that need no network, or only its probabilities, load no TensorFlow; the others load it
without the libraries that it would find, and they would not use.
"""

import shutil
import subprocess
import sys

import pytest

from keras_nplm.language_model.presets import find_preset

COMMANDS = """
0 --version
0 export --help
0 size --vocabulary-size 20000
2 train --output {tmp}/m --dropout 1.5
2 complete {tmp}/absent the
2 nearest {preset} zzzz
0 complete {preset} value_of
0 complete {preset} val --prefix
0 generate {preset} --num-words 3
0 score {preset} {tmp}/text.txt
0 score {preset} {tmp}/text.txt --tokens
0 ngram --train {tmp}/text.txt --output {tmp}/ngrams --min-count 1
0 prepare --train {tmp}/text.txt --output {tmp}/prepared --min-count 1
0 ngram --train {tmp}/text.txt --output {tmp}/classes --min-count 1 --method class-based --num-classes 3
0 mix {tmp}/ngrams {tmp}/classes --output {tmp}/mixture
0 mix {tmp}/ngrams --unigram-cache --output {tmp}/cached
2 mix {tmp}/ngrams --continuous-cache --output {tmp}/neural
0 evaluate {tmp}/mixture
0 complete {tmp}/ngrams the
0 generate {tmp}/ngrams --num-words 3
0 rescore {tmp}/ngrams {tmp}/nbest.txt --output {tmp}/rescored.txt
0 export {tmp}/ngrams {tmp}/m.arpa
2 nearest {tmp}/ngrams the
2 adapt {tmp}/ngrams --text {tmp}/text.txt --output {tmp}/adapted
2 train --output {tmp}/m --train {tmp}/text.txt --set shortlist_size=3 --background {tmp}/absent
"""  # exit status and arguments
PROGRAM = """
import sys
from keras_nplm.cli.main import main
WATCHED = {"keras", "tensorflow", "tensorflow_datasets", "fsspec", "matplotlib", "scipy", "sklearn"}
for line in sys.stdin.read().splitlines():
    _, *command = line.split()
    status = main(command)
    print("RAN", status, *sorted(WATCHED & {*sys.modules}), *command, file=sys.stderr, flush=True)
"""


def _run_commands(commands: str) -> list[str]:
    """Run commands in one new process; return status, the libraries loaded until then, command."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=commands, capture_output=True, text=True
    )
    ran = [line.removeprefix("RAN ") for line in run.stderr.splitlines() if line.startswith("RAN ")]
    assert len(ran) == len(commands.splitlines()), run.stderr
    return ran


def test_commands_that_train_no_network_load_no_tensorflow(tmp_path, text):
    shutil.copy(text, tmp_path)
    (tmp_path / "nbest.txt").write_text(
        "0 ||| the cat sat ||| lm=-3 ||| -3\n0 ||| cat the ||| lm=-2 ||| -2\n"
    )
    commands = COMMANDS.format(tmp=tmp_path, preset=find_preset("starter")).strip()
    # a loaded library would stand between status and command
    assert _run_commands(commands) == commands.splitlines()


@pytest.mark.long
def test_keras_leaves_out_libraries_until_a_command_uses_them(tmp_path, text):
    preset = find_preset("starter")
    evaluation = f"evaluate {preset} --text {text}"
    drawing = f"map {preset} {tmp_path}/words.svg --num-words 20"
    ran = _run_commands(f"0 {evaluation}\n0 {drawing}")
    assert ran == [
        f"0 keras tensorflow {evaluation}",
        f"0 keras matplotlib scipy sklearn tensorflow {drawing}",
    ]
