"""Parts in one file of one's own, as the page of `training.network` says: from flags to serving."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from keras_nplm.io.files import read_json

PROGRAM = """
import json, sys
import tests.training.own_parts  # one import registers all parts of the file
from keras_nplm.cli.main import main
from keras_nplm import KenlmModel, LanguageModel
from keras_nplm.io.files import read_json
from keras_nplm.training.options import read_options
from pathlib import Path
import numpy as np
import tensorflow as tf

text, directory = sys.argv[1:]
command = f"train --train {text} --output {directory}/model --order 4 --epochs 1 --no-interpolated "
command += "--embedding-dim 6 --set context=gated first_gate=0.5 hidden=tanh --hidden-units 8 "
command += "--head sharp --sharpness 1.5 --objective focal --gamma 0.5 --network context"
assert main(command.split()) == 0
assert main(f"train --train {text} --output {directory}/other --gamma 1".split()) == 2
assert main(f"ngram --train {text} --output {directory}/ngrams --order 3".split()) == 0
assert main(f"mix {directory}/model {directory}/ngrams --output {directory}/mixture".split()) == 0
assert main(f"evaluate {directory}/mixture --text {text}".split()) == 0
assert main(f"export {directory}/model {directory}/served".split()) == 0

loaded = LanguageModel.load(f"{directory}/model")
sentence = "w1 w2 w1 w3"
(scored,) = loaded.score([sentence])
score = tf.saved_model.load(str(Path(directory, "served", "1"))).signatures["score"]
scorer = KenlmModel(f"{directory}/model")
forms = {
    "scores of a sentence": scored.log_prob,
    "served": float(score(tf.constant([sentence]))["log_prob"][0]),
    "decoder": scorer.score(sentence) * np.log(10),
}
counted = read_options(read_json(Path(directory, "model", "config.json"))).network
assert counted.count(len(loaded.vocabulary)).parameters == loaded.model.count_params()
layers = [type(layer).__name__ for layer in loaded.model.layers]
print(json.dumps({"forms": forms, "layers": layers}))
"""


@pytest.mark.long
def test_parts_of_ones_own_go_from_flags_to_serving(tmp_path, short_text):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(short_text), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert run.returncode == 0, run.stderr
    assert "`gamma` must be left out without `objective` focal" in run.stderr
    config = read_json(tmp_path / "model" / "config.json")
    assert config["context"] == {"kind": "gated", "first_gate": 0.5}
    assert (config["head"]["sharpness"], config["objective"]["gamma"]) == (1.5, 0.5)
    printed = json.loads(run.stdout.splitlines()[-1])
    assert {"GatedContext", "SharpHead", "FocalLoss"} <= {*printed["layers"]}
    forms = printed["forms"]
    assert forms == pytest.approx(dict.fromkeys(forms, forms["served"]), rel=1e-5)
