"""The mutants of `run.py` still fit the package: their texts occur once, and the patched files are
Python.
"""

import runpy
from pathlib import Path


def test_every_mutant_can_be_applied():
    run = runpy.run_path(str(Path(__file__).with_name("run.py")))
    mutants = run["read_mutants"]()
    faults = [
        f"{mutant.area}: {mutant.what}: {fault}"
        for mutant in mutants
        if (fault := mutant.find_fault())
    ]
    assert not faults, "\n".join(faults)
    assert len({(mutant.area, mutant.what) for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        source = (run["PROJECT"] / "keras_nplm" / mutant.file).read_text(encoding="utf-8")
        compile(source.replace(mutant.old, mutant.new), mutant.file, "exec")
