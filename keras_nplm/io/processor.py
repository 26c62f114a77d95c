"""The name of the processor, which measured figures carry."""

import platform
from pathlib import Path


def read_processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the processor, with family and model: a virtual machine may report
    its maker alone, such as AMD EPYC.
    """
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    parts = (line.partition(":") for line in reversed(lines))  # the first core is read last
    facts = {key.strip(): value.strip() for key, _, value in parts}
    name = facts.get("model name")
    if name is None:
        return platform.processor() or platform.machine()
    if "cpu family" in facts and "model" in facts:
        name += f" (family {facts['cpu family']}, model {facts['model']})"
    return name
