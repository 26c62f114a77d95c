"""The name of the processor, which measured figures carry."""

import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def read_processor_name() -> str:
    """Return the name of the processor, with family and model: a virtual machine may report
    its maker alone, such as AMD EPYC.
    """
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    facts: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        # of the first core
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name")
    if name is None:
        return platform.processor() or platform.machine()
    if "cpu family" in facts and "model" in facts:
        name += f" (family {facts['cpu family']}, model {facts['model']})"
    return name
