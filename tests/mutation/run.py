"""Mutation testing: patch one file of the package at a time, and see whether the tests notice.

    python tests/mutation/run.py                     all mutants: more than two hours on two cores
    python tests/mutation/run.py --areas shuffling outputs   some areas
    python tests/mutation/run.py --match discount    mutants whose description or file has this word

A mutant is a realistic mistake: an exact text of one file, and the text that replaces it. The
mutants of an area are a TOML file in this directory, with a table `[[mutant]]` for each:

    what         the mistake, in a few words
    file         the patched file, within `keras_nplm`
    old, new     the text, which must occur once in the file, and its replacement
    tests        the tests that should notice, within `tests`: files, or `file::test`
    long         true: the tests are marked `long`

The named tests run first. If they pass, all fast tests of the file's package run, and the doctests
of the file. Only a mutant that passes these, too, survives. All named tests must pass without a
mutant before the first mutant runs. Exit status 1: a mutant survived.
"""

import argparse
import collections
import compileall
import dataclasses
import os
import py_compile
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path

DIRECTORY = Path(__file__).parent
PROJECT = DIRECTORY.parents[1]
AREAS = tuple(sorted(path.stem for path in DIRECTORY.glob("*.toml")))
SURVIVED = "survived"
KILLED = "killed"
TIMED_OUT = "timed out"
LIMIT = 900  # seconds for the tests of a mutant


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A mistake in one file of the package; for the fields see the docstring of this module."""

    area: str
    what: str
    file: str
    old: str
    new: str
    tests: list[str]
    long: bool = False

    def find_fault(self) -> str | None:
        """Return why the mutant cannot be applied; None if it can."""
        path = PROJECT / "keras_nplm" / self.file
        occurrences = path.read_text(encoding="utf-8").count(self.old) if path.is_file() else 0
        if occurrences != 1:
            return f"`old` must occur once in keras_nplm/{self.file}. Received: {occurrences} times"
        missing = [
            test
            for test in self.tests
            if not (PROJECT / "tests" / test.partition("::")[0]).is_file()
        ]
        if missing or not self.tests:
            return f"`tests` must name test files. Received: {missing}"
        return "`new` must differ from `old`" if self.old == self.new else None

    def list_arguments(self, named_only: bool) -> Iterator[list[str]]:
        """Yield the arguments of pytest: the named tests, then the package's fast tests and the
        file's doctests.
        """
        named = [f"tests/{test}" for test in self.tests]
        yield named if self.long else ["-m", "not long", *named]
        package, *_ = self.file.split("/")
        if not named_only:
            tests = [f"tests/{package}"] if package != self.file else []
            yield ["-m", "not long", f"keras_nplm/{self.file}", *tests]


def read_mutants(areas: Sequence[str] = AREAS) -> list[Mutant]:
    """Read the mutants of areas."""
    tables = {
        area: tomllib.loads((DIRECTORY / f"{area}.toml").read_text(encoding="utf-8"))
        for area in areas
    }
    return [Mutant(area=area, **table) for area in areas for table in tables[area]["mutant"]]


def copy_project(target: Path) -> Path:
    """Copy the package and the tests; link what tests read beside them."""
    for name, skipped in (("keras_nplm", "__pycache__"), ("tests", DIRECTORY.name)):
        shutil.copytree(
            PROJECT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", skipped)
        )
    for path in PROJECT.iterdir():
        if not path.name.startswith(".") and not (target / path.name).exists():
            (target / path.name).symlink_to(path)
    # Hashes, since a patched file may have the size and the time of the original
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(target / "keras_nplm", quiet=1, invalidation_mode=mode)
    return target


def run_tests(
    project: Path, arguments: Sequence[str], limit: float | None = LIMIT
) -> tuple[str, str]:
    """Run pytest on a copy of the project.

    Return the verdict, and the first failing test or the end of the output.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        run = subprocess.run(command, cwd=project, env=environment, timeout=limit, **pipes)
    except subprocess.TimeoutExpired:
        return TIMED_OUT, ""
    if run.returncode in (1, 2):  # a test failed, or could not be imported
        return KILLED, " ".join(re.findall(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE))
    return (
        (f"exit status {run.returncode}", run.stdout[-3000:])
        if run.returncode
        else (SURVIVED, "no test")
    )


def run_mutant(mutant: Mutant, project: Path, named_only: bool) -> tuple[str, str]:
    """Run the tests of a mutant on a copy of the project.

    Return the verdict and the test that noticed.
    """
    original = (PROJECT / "keras_nplm" / mutant.file).read_text(encoding="utf-8")
    patched = project / "keras_nplm" / mutant.file
    patched.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
    for arguments in mutant.list_arguments(named_only):
        verdict, by = run_tests(project, arguments)
        if verdict != SURVIVED:
            break
    patched.write_text(original, encoding="utf-8")
    return verdict, by


def check_tests(mutants: Sequence[Mutant], project: Path) -> None:
    """Check that the named tests pass without a mutant, and exit otherwise."""
    for long in (False, True):
        if tests := sorted(
            {f"tests/{test}" for mutant in mutants for test in mutant.tests if mutant.long == long}
        ):
            print(f"Running {len(tests)} tests and files of tests without a mutant", flush=True)
            verdict, by = run_tests(
                project, tests if long else ["-m", "not long", *tests], limit=None
            )
            if verdict != SURVIVED:
                sys.exit(f"Without a mutant the tests must pass. Received: {verdict}: {by}")


def run_mutants(mutants: Sequence[Mutant], workers: int, named_only: bool) -> bool:
    """Run mutants, several at a time, and print each verdict; return whether the tests noticed
    all.
    """
    with tempfile.TemporaryDirectory(prefix="mutation", ignore_cleanup_errors=True) as temporary:
        projects: queue.Queue[Path] = queue.Queue()
        for number in range(workers):
            projects.put(copy_project(Path(temporary, str(number))))
        check_tests(mutants, Path(temporary, "0"))

        def run(mutant: Mutant) -> str:
            project = projects.get()
            begin = time.monotonic()
            verdict, by = run_mutant(mutant, project, named_only)
            projects.put(project)
            seconds = time.monotonic() - begin
            print(f"{mutant.area}: {mutant.what}: {verdict} in {seconds:.1f} s by {by}", flush=True)
            return verdict

        with ThreadPool(workers) as pool:
            verdicts = collections.Counter(pool.map(run, mutants, chunksize=1))
    print(
        f"{len(mutants)} mutants: "
        f"{', '.join(f'{number} {verdict}' for verdict, number in verdicts.items())}"
    )
    return verdicts.keys() <= {KILLED, TIMED_OUT}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--areas", nargs="+", choices=AREAS, default=AREAS, metavar="AREA", help=", ".join(AREAS)
    )
    parser.add_argument(
        "--match", default="", help="text that the description or the file contains (default: none)"
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
    mutants = [
        m for m in read_mutants(options.areas) if options.match in m.what or options.match in m.file
    ]
    if faults := [
        f"{mutant.area}: {mutant.what}: {fault}"
        for mutant in mutants
        if (fault := mutant.find_fault())
    ]:
        sys.exit("\n".join(faults))
    return int(not run_mutants(mutants, options.workers, options.named_only))


if __name__ == "__main__":
    sys.exit(main())
