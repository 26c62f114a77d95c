"""Commands that need no network, or only its probabilities, load no TensorFlow."""

import shutil
import subprocess
import sys

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
2 train --output {tmp}/m --train {tmp}/text.txt --shortlist-size 3 --background {tmp}/absent
"""  # exit status and arguments
PROGRAM = """
import sys
from keras_nplm.cli.main import main
for line in sys.stdin.read().splitlines():
    _, *command = line.split()
    status = main(command)
    loaded = {"keras", "tensorflow", "tensorflow_datasets", "fsspec"} & {*sys.modules}
    print("RAN", status, *sorted(loaded), *command, file=sys.stderr, flush=True)
"""


def test_commands_that_train_no_network_load_no_tensorflow(tmp_path, text):
    shutil.copy(text, tmp_path)
    (tmp_path / "nbest.txt").write_text(
        "0 ||| the cat sat ||| lm=-3 ||| -3\n0 ||| cat the ||| lm=-2 ||| -2\n"
    )
    commands = COMMANDS.format(tmp=tmp_path, preset=find_preset("starter")).strip()
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=commands, capture_output=True, text=True
    )
    ran = [line.removeprefix("RAN ") for line in run.stderr.splitlines() if line.startswith("RAN ")]
    # a loaded library stands between status and command
    assert ran == commands.splitlines(), run.stderr
