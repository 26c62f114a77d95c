"""The script for GPUs runs on the device at hand, here with one of its checks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("check.py")


@pytest.mark.long
def test_checks_pass_on_the_device_at_hand():
    run = subprocess.run(
        [sys.executable, SCRIPT, "--only", "log_probs"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    checks = list(map(json.loads, run.stdout.splitlines()))
    assert [check["name"] for check in checks if check["device"]] == ["log_probs"]
