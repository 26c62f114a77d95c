"""The script for GPUs runs on the device at hand, here with one of its checks."""

import importlib
import json
import sys

import pytest


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_checks_pass_on_the_device_at_hand(monkeypatch, capsys):
    script = importlib.import_module("tests.gpu.check")
    monkeypatch.setattr(sys, "argv", ["check.py", "--only", "log_probs"])
    assert script.main() == 0
    checks = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [check["name"] for check in checks if check["device"]] == ["log_probs"]
