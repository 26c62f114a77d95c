"""The Kubernetes recipe matches the schemas, its workers find each other, and its options are those
of `train`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import keras_nplm
from keras_nplm.cli.app import parse

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
pytestmark = pytest.mark.packages
RECIPE = Path(keras_nplm.__file__).parent / "cli" / "recipes" / "kubernetes.yaml"


def test_the_recipe_matches_the_schemas():
    validator = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    for manifest in yaml.safe_load_all(RECIPE.read_text(encoding="utf-8")):
        validator.validate(manifest, validator.latest_version(), strict=True)


def test_each_worker_of_the_job_learns_its_place(tmp_path):
    manifests = {
        manifest["kind"]: manifest
        for manifest in yaml.safe_load_all(RECIPE.read_text(encoding="utf-8"))
    }
    job = manifests["Job"]
    service = manifests["Service"]
    pod = job["spec"]["template"]["spec"]
    name = job["metadata"]["name"]
    (container,) = pod["containers"]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {
        "job-name": name
    }
    assert pod["subdomain"] == service["metadata"]["name"] and pod["restartPolicy"] == "Never"
    assert container["ports"][0]["containerPort"] == service["spec"]["ports"][0]["port"]
    workers = {variable["name"]: variable.get("value") for variable in container["env"]}["WORKERS"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == int(workers)
    rule, _ = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["containerName"] == container["name"]

    command = tmp_path / "keras-nplm"
    program = "import os, sys\nprint(os.environ['TF_CONFIG'], *sys.argv[1:], sep='\\n')\n"
    command.write_text(f"#!{sys.executable}\n{program}")
    command.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "WORKERS": "2",
        "JOB_COMPLETION_INDEX": "1",
    }
    run = [sys.executable, *container["command"][1:], *container["args"]]
    printed = subprocess.run(
        run, env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    cluster = {"worker": [f"{name}-{i}.{pod['subdomain']}:2222" for i in range(2)]}
    assert json.loads(printed[0]) == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    _, bound = parse(printed[1:])
    assert bound.arguments["run"]["strategy"] == "multi-worker"
