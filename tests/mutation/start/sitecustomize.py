"""Python imports this when it starts, in each process of a run of `run.py`."""

from tests.mutation.mutants import apply_at_import

apply_at_import()
