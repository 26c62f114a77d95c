"""Mutation testing: change one function of the package at a time, and see if the tests notice.

    python -m tests.mutation.run                     all mutants: more than an hour on two cores
    python -m tests.mutation.run --areas shuffling outputs   some areas
    python -m tests.mutation.run --match discount    mutants whose name or target has this word

For the mutants see `mutants.py`. The named tests run first. If they pass, all fast tests of the
room run, and the doctests of the file. Only a mutant that passes these, too, survives. All named
tests must pass without a mutant before the first mutant runs. Exit status 1: a mutant survived, or
its own code failed.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.pool import ThreadPool

from tests.mutation.mutants import (
    AREAS,
    BROKEN,
    DIRECTORY,
    VARIABLE,
    Mutant,
    describe_variable,
    read_mutants,
)

PROJECT = DIRECTORY.parents[1]
SURVIVED = "survived"
KILLED = "killed"
TIMED_OUT = "timed out"
LIMIT = 900  # seconds for the tests of a mutant


def list_arguments(mutant: Mutant, named_only: bool) -> Iterator[list[str]]:
    """Yield the arguments of pytest: the named tests, then the room's fast tests and the file's
    doctests.
    """
    named = [f"tests/{test}" for test in mutant.tests]
    yield named if mutant.long else ["-m", "not long", *named]
    if not named_only:
        path = mutant.module.replace(".", "/") + ".py"
        room = path.split("/")[1]
        yield ["-m", "not long", path, f"tests/{room}"]


def run_tests(
    arguments: Sequence[str], mutant: Mutant | None = None, limit: float | None = LIMIT
) -> tuple[str, str]:
    """Run pytest with a mutant.

    Return the verdict, and the first failing test or the end of the output.
    """
    shown = ["-x", "-q", "-rfE", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *shown, *arguments]
    environment = os.environ | {"PYTHONPATH": f"{PROJECT}:{DIRECTORY / 'start'}"}
    if mutant is not None:
        environment[VARIABLE] = describe_variable(mutant)
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        run = subprocess.run(command, cwd=PROJECT, env=environment, timeout=limit, **pipes)
    except subprocess.TimeoutExpired:
        return TIMED_OUT, ""
    if run.returncode == 0:
        return SURVIVED, "no test"
    if run.returncode == 1:  # a test failed
        found = re.search(r"^(?:FAILED|ERROR) (.*)", run.stdout, re.MULTILINE)
        return KILLED, found[1] if found else run.stdout[-3000:]
    verdict = "broken" if run.returncode == BROKEN else f"exit status {run.returncode}"
    return verdict, run.stdout[-3000:]


def run_mutant(mutant: Mutant, named_only: bool) -> tuple[str, str]:
    """Run the tests of a mutant; return the verdict and the test that noticed."""
    for arguments in list_arguments(mutant, named_only):
        verdict, by = run_tests(arguments, mutant)
        if verdict != SURVIVED:
            break
    return verdict, by


def check_tests(mutants: Sequence[Mutant]) -> None:
    """Check that the named tests pass without a mutant, and exit otherwise."""
    for long in (False, True):
        chosen = [mutant for mutant in mutants if mutant.long == long]
        named = {f"tests/{test}" for mutant in chosen for test in mutant.tests}
        if not named:
            continue
        print(f"Running {len(named)} tests and files of tests without a mutant", flush=True)
        arguments = sorted(named) if long else ["-m", "not long", *sorted(named)]
        verdict, by = run_tests(arguments, limit=None)
        if verdict != SURVIVED:
            sys.exit(f"Without a mutant the tests must pass. Received: {verdict}: {by}")


def run_mutants(mutants: Sequence[Mutant], workers: int, named_only: bool) -> bool:
    """Run mutants, several at a time, and print each verdict; return whether the tests noticed
    all.
    """
    check_tests(mutants)

    def run(mutant: Mutant) -> str:
        begin = time.monotonic()
        verdict, by = run_mutant(mutant, named_only)
        seconds = time.monotonic() - begin
        print(f"{mutant.area}: {mutant.name}: {verdict} in {seconds:.1f} s by {by}", flush=True)
        return verdict

    with ThreadPool(workers) as pool:
        verdicts = collections.Counter(pool.map(run, mutants, chunksize=1))
    counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    print(f"{len(mutants)} mutants: {counts}")
    return verdicts.keys() <= {KILLED, TIMED_OUT}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--areas", nargs="+", choices=AREAS, default=AREAS, metavar="AREA", help=", ".join(AREAS)
    )
    parser.add_argument(
        "--match", default="", help="a regular expression of names and targets (default: all)"
    )
    parser.add_argument(
        "--named-only", action="store_true", help="run the named tests only: fast, for new mutants"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count() or 1,
        help="mutants at a time (default: cores)",
    )
    options = parser.parse_args()
    mutants = []
    for mutant in read_mutants(options.areas):
        if re.search(options.match, f"{mutant.name} {mutant.target}"):
            mutants.append(mutant)
    return int(not run_mutants(mutants, options.workers, options.named_only))


if __name__ == "__main__":
    sys.exit(main())
