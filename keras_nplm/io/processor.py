"""The name of the processor, which measured figures carry."""

import platform
from pathlib import Path


def read_processor_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
