"""Runs killed at random moments resume bit for bit, with every output layer. `kills.py` tries more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_killed_runs_of_every_output_layer_resume_bit_for_bit():
    """Two kills of each; SIGKILL and SIGTERM from the first lock to the report."""
    script = Path(__file__).with_name("kills.py")
    done = subprocess.run([sys.executable, script, "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    reports = json.loads(done.stdout)["outputs"].values()
    assert len(reports) == 6 and all(report["kills"] == 2 and not report["differences"] for report in reports)
