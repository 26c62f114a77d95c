"""The notebooks run from top to bottom without the repository, and their outputs are from one such
run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.short_text import SHORT_TEXT

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_in_an_empty_directory(path, tmp_path):
    pytest.importorskip("nbclient", reason="needs the extra develop")
    directory = tmp_path / "downloads"
    directory.mkdir()
    copy = shutil.copy(path, directory)
    repeat_less(Path(copy))
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "short_text.py").write_text(SHORT_TEXT, encoding="utf-8")
    execute = Path(sys.executable).parent / "jupyter-execute"
    environment = os.environ | {
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    command = [execute, "--timeout=-1", "--startup_timeout=1800", "--inplace", copy]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=directory)
    assert run.returncode == 0, run.stderr
    assert not list_messages(Path(copy))


# n-gram tables take most of the time of an export; .ci/oldest exports a mixture
_NETWORK_ALONE = """
language_model = language_model.replace_model(language_model.network)
from keras_nplm.serving import signatures
signatures.FUNCTIONS = (signatures.PredictNext, signatures.Score)
language_model"""

# by the number of a notebook: passages, and their replacements in the test
SHORTER = {
    "03": {
        'from_preset("starter")\nlanguage_model': f'from_preset("starter"){_NETWORK_ALONE}',
        "range(50)": "range(2)",
    },
    "04": {
        # the options of all steps are made; the first and the last are trained
        "\nnetworks = {name: fit_network(": "\n[default.replace(**changes) for changes in steps."
        "values()]\nnetworks = {name: fit_network(",
        "in steps.items()}": "in [*steps.items()][::3]}",
        "in own_parts.items()": "in [*own_parts.items()][:1]",
    },
    "05": {
        "width: int = 32": "width: int = 8",  # of the search
        "min_count=5": "min_count=1",  # of a new word
        "in enumerate(sentences)}": "in enumerate(sentences[:9])}",
        "sentences[:300]": "sentences[:60]",
        "sentences[300:]": "sentences[60:]",
    },
}


def repeat_less(path: Path) -> None:
    """Write smaller numbers of epochs, lists and requests in a notebook, which runs alike."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    shorter = SHORTER.get(path.name[:2], {})
    replaced = set()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            code = re.sub(r"\b(epochs(?:: int)? ?= ?)\d+", r"\g<1>1", code)
            code = re.sub(r"(simulate_lists\(\"\w+\", )200\)", r"\g<1>20)", code)
            for passage, short in shorter.items():
                if passage in code:
                    replaced.add(passage)
                    code = code.replace(passage, short)
            cell["source"] = code
    assert replaced == {*shorter}, {*shorter} - replaced
    path.write_text(json.dumps(notebook), encoding="utf-8")


def list_messages(path: Path) -> list[str]:
    """Return the messages in the outputs of a notebook, such as TensorFlow's at its start."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return ["".join(output["text"]) for output in outputs if output.get("name") == "stderr"]


def test_the_objective_of_notebook_04_has_a_gradient_where_a_target_is_sure():
    import keras
    import numpy as np
    import tensorflow as tf

    from keras_nplm.layers.objectives.base import Losses, Objective
    from keras_nplm.layers.scores import StoredScores

    cells = json.loads((ROOT / "notebooks" / "04_modern.ipynb").read_text("utf-8"))["cells"]
    [cell] = [cell for cell in cells if cell.get("id") == "own-objective"]
    names = {"keras": keras, "ops": keras.ops, "Losses": Losses, "Objective": Objective}
    exec("".join(cell["source"]), names)
    y = tf.constant(np.diag([0.0, 17.0, 40.0]), "float32")
    with tf.GradientTape() as tape:
        tape.watch(y)
        losses = names["FocalLikelihood"](0.5).losses(StoredScores(y), np.array([0, 1, 2]))
        loss = tf.reduce_sum(losses.loss)
    assert np.isfinite(loss) and np.isfinite(tape.gradient(loss, y)).all()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_saved_notebook_is_of_one_clean_run(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    first, *_ = notebook["cells"]
    text = " ".join("".join(first["source"]).split())
    assert re.search(r"It takes (about|less than) .* minutes? on two cores", text)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert notebook["metadata"] == {"kernelspec": kernel, "language_info": {"name": "python"}}
    assert all(cell["metadata"] == {} for cell in notebook["cells"])
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    code = "\n".join("".join(cell["source"]) for cell in cells[:2])
    hiding = code.index('os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"')
    assert hiding < code.index("from keras_nplm import") < code.index("clear_output()")
    assert not list_messages(path)
    unwanted = re.compile(
        r"^[IWEF]\d{4} |Warning: |^(INFO|WARNING):"
        r"|(?<![\w.])/(home|opt|private|root|tmp|Users|usr|var|work)/",
        re.MULTILINE,
    )
    for output in (output for cell in cells for output in cell["outputs"]):
        assert output["output_type"] != "error"
        shown = {"text": output.get("text", "")} | output.get("data", {})
        for kind, text in shown.items():
            assert kind.startswith("image/") or not unwanted.search("".join(text))
