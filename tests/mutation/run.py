"""Mutation testing: patch one file of the package at a time, and see whether the tests notice.

    python tests/mutation/run.py                             all mutants: about two hours on two cores
    python tests/mutation/run.py --areas shuffling outputs   some areas
    python tests/mutation/run.py --match discount            mutants whose description has this word

A mutant is a realistic mistake: an exact text of one file, and the text that replaces it. The mutants of an area are
a TOML file in this directory, with a table `[[mutant]]` for each:

    what         the mistake, in a few words
    file         the patched file, within `keras_nplm`
    old, new     the text, which must occur once in the file, and its replacement
    tests        the tests that should notice, within `tests`: files, or `file::test`
    long         true: the tests are marked `long`
    equivalent   why no test can notice; such a mutant should survive

The named tests run first. If they pass, all fast tests of the file's package run, and the doctests of the file. Only
a mutant that passes these, too, survives. All named tests must pass without a mutant before the first mutant runs.

Results are kept in a JSON file, `mutation.json` by default. The same command resumes a run; changed mutants
and survivors run again. Exit status 1: a mutant survived that is not equivalent, or an equivalent one was noticed.

This process imports TensorFlow and Keras once, without running an operation, and forks for each mutant. The child
imports `keras_nplm` and the tests from a copy of the project with the mutant applied. So a mutant costs seconds.
Needs a system with `fork`.
"""

import argparse
import collections
import compileall
import contextlib
import dataclasses
import functools
import hashlib
import importlib
import json
import multiprocessing
import os
import py_compile
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

DIRECTORY = Path(__file__).parent
PROJECT = DIRECTORY.parents[1]
AREAS = tuple(sorted(path.stem for path in DIRECTORY.glob("*.toml")))
IMPORTED = ("numpy", "tensorflow", "keras", "pytest", "hypothesis", "tensorflow_datasets")  # never keras_nplm itself
SURVIVED, KILLED, TIMED_OUT, FAILED = "survived", "killed", "timed out", "error"
LIMIT = 1800  # seconds for the tests of a mutant


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
    equivalent: str = ""

    @property
    def key(self) -> str:
        """A name that changes with the mutant."""
        digest = hashlib.sha256("\0".join([self.file, self.old, self.new, *self.tests]).encode())
        return f"{self.area}: {self.what} [{digest.hexdigest()[:12]}]"

    def find_fault(self) -> str | None:
        """Return why the mutant cannot be applied; None if it can."""
        path = PROJECT / "keras_nplm" / self.file
        occurrences = path.read_text(encoding="utf-8").count(self.old) if path.is_file() else 0
        if occurrences != 1:
            return f"`old` must occur once in keras_nplm/{self.file}. Received: {occurrences} times"
        missing = [test for test in self.tests if not (PROJECT / "tests" / test.partition("::")[0]).is_file()]
        if missing or not self.tests:
            return f"`tests` must name test files. Received: {missing}"
        return "`new` must differ from `old`" if self.old == self.new else None

    def apply(self, project: Path) -> None:
        """Patch the file in a copy of the project."""
        text = (PROJECT / "keras_nplm" / self.file).read_text(encoding="utf-8")
        (project / "keras_nplm" / self.file).write_text(text.replace(self.old, self.new), encoding="utf-8")


def read_mutants(areas: Sequence[str] = AREAS) -> list[Mutant]:
    """Read the mutants of areas."""
    tables = {area: tomllib.loads((DIRECTORY / f"{area}.toml").read_text(encoding="utf-8")) for area in areas}
    return [Mutant(area=area, **table) for area in areas for table in tables[area]["mutant"]]


def copy_project(target: Path) -> None:
    """Copy the package and the tests; link what tests read beside them."""
    for name, skipped in (("keras_nplm", "__pycache__"), ("tests", DIRECTORY.name)):
        shutil.copytree(PROJECT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", skipped))
    for path in PROJECT.iterdir():
        if not path.name.startswith(".") and not (target / path.name).exists():
            (target / path.name).symlink_to(path)
    # Hashes, since a patched file may have the size and the time of the original
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(target / "keras_nplm", quiet=1, invalidation_mode=mode)


def run_tests(project: Path, arguments: Sequence[str], first: Path) -> int:
    """Run pytest in this process on a copy of the project; write the first failing test to the file `first`."""
    import pytest

    class FirstFailure:
        def pytest_runtest_logreport(self, report):
            if report.failed and not first.exists():
                first.write_text(report.nodeid, encoding="utf-8")

        pytest_collectreport = pytest_runtest_logreport

    os.chdir(project)
    os.environ["PYTHONPATH"] = str(project)  # of processes that a test starts
    os.environ["TMPDIR"] = tempfile.tempdir = str(first.parent)
    sys.path[:] = [str(project), *(entry for entry in sys.path if entry not in ("", str(PROJECT), str(DIRECTORY)))]
    importlib.invalidate_caches()
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--rootdir={project}"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # pytest's plugins are imported already
    status = pytest.main([*options, *arguments], plugins=[FirstFailure()])
    package = sys.modules.get("keras_nplm")
    assert package is None or Path(package.__file__).is_relative_to(project), package.__file__
    return int(status)


def fork_tests(project: Path, arguments: Sequence[str], limit: float) -> tuple[int | None, str, str]:
    """Run tests in a fork. Return pytest's exit status (None after the limit), the first failure and the output."""
    with tempfile.TemporaryDirectory(prefix="mutant", ignore_cleanup_errors=True) as temporary:
        report, log = Path(temporary) / "first_failure", Path(temporary) / "output"
        child = os.fork()
        if not child:
            status = 70
            try:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                output = os.open(log, os.O_WRONLY | os.O_CREAT)
                os.dup2(output, 1)
                os.dup2(output, 2)
                status = run_tests(project, arguments, report)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        done, status, end = 0, 0, time.monotonic() + limit
        try:
            while not done and time.monotonic() < end:
                time.sleep(0.05)
                done, status = os.waitpid(child, os.WNOHANG)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # also processes that a test left
            if not done:
                os.waitpid(child, 0)
        first = report.read_text(encoding="utf-8") if report.exists() else ""
        text = log.read_text(encoding="utf-8", errors="replace")[-3000:] if log.exists() else ""
        return (os.waitstatus_to_exitcode(status) if done else None), first, text


def choose_tests(mutant: Mutant, named_only: bool) -> Iterator[list[str]]:
    """Yield the arguments of pytest: the named tests, then the fast tests of the package and the file's doctests."""
    named = [f"tests/{test}" for test in mutant.tests]
    yield named if mutant.long else ["-m", "not long", *named]
    if named_only:
        return
    package, *_ = mutant.file.split("/")
    yield ["-m", "not long", f"keras_nplm/{mutant.file}", *([f"tests/{package}"] if package != mutant.file else [])]


def run_mutant(mutant: Mutant, named_only: bool) -> tuple[Mutant, dict]:
    """Run the tests of a mutant on this process's copy of the project; `by` is the test that noticed."""
    begin, verdict = time.monotonic(), SURVIVED
    mutant.apply(_project)
    for arguments in choose_tests(mutant, named_only):
        status, by, output = fork_tests(_project, arguments, LIMIT)
        if status is None:
            verdict = TIMED_OUT
        elif status in (1, 2):  # a test failed, or could not be imported
            verdict = KILLED
        elif status:
            verdict, by = FAILED, f"exit status {status}: {output[-200:]}"
        if verdict != SURVIVED:
            break
    dataclasses.replace(mutant, new=mutant.old).apply(_project)
    return mutant, {"verdict": verdict, "by": by, "seconds": round(time.monotonic() - begin, 1)}


def check_tests(mutants: Sequence[Mutant], project: Path) -> None:
    """Check that the named tests pass without a mutant, and exit otherwise."""
    for long in (False, True):
        if tests := sorted({f"tests/{test}" for mutant in mutants for test in mutant.tests if mutant.long == long}):
            print(f"Running {len(tests)} tests and files of tests without a mutant", flush=True)
            status, by, output = fork_tests(project, tests if long else ["-m", "not long", *tests], float("inf"))
            if status:
                sys.exit(f"Without a mutant the tests must pass. Received: {by or status}.\n{output}")


def copy_project_of_worker(directory: Path) -> None:
    global _project
    _project = directory / str(os.getpid())
    copy_project(_project)


def run_mutants(mutants: Sequence[Mutant], results: dict, path: Path, workers: int, named_only: bool) -> None:
    """Run mutants, several at a time; keep each result at once."""
    with tempfile.TemporaryDirectory(prefix="mutation", ignore_cleanup_errors=True) as temporary:
        copy_project(Path(temporary) / "unmutated")
        check_tests(mutants, Path(temporary) / "unmutated")
        with multiprocessing.get_context("fork").Pool(workers, copy_project_of_worker, [Path(temporary)]) as pool:
            finished = pool.imap_unordered(functools.partial(run_mutant, named_only=named_only), mutants)
            for number, (mutant, result) in enumerate(finished, start=1):
                results[mutant.key] = result
                path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
                verdict = f"{result['verdict']} in {result['seconds']} s by {result['by'] or 'no test'}"
                print(f"[{number}/{len(mutants)}] {mutant.area}: {mutant.what}: {verdict}", flush=True)


def write_summary(mutants: Sequence[Mutant], results: dict) -> str:
    """Return the number of mutants of each verdict, and the list of unexpected results."""
    verdicts = collections.Counter(results[mutant.key]["verdict"] for mutant in mutants)
    lines = [f"{len(mutants)} mutants: {', '.join(f'{number} {verdict}' for verdict, number in verdicts.items())}"]
    for mutant in mutants:
        if is_unexpected(mutant, results[mutant.key]):
            lines.append(f"{results[mutant.key]['verdict']}: {mutant.area}, keras_nplm/{mutant.file}: {mutant.what}")
    return "\n".join(lines)


def is_unexpected(mutant: Mutant, result: dict) -> bool:
    """Whether a mutant survived that is not equivalent, or the other way round."""
    return (result["verdict"] not in (KILLED, TIMED_OUT)) != bool(mutant.equivalent)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", nargs="+", choices=AREAS, default=AREAS, metavar="AREA", help=", ".join(AREAS))
    parser.add_argument("--match", default="", help="text that the description or the file contains (default: none)")
    parser.add_argument("--named-only", action="store_true", help="run the named tests only: fast, for new mutants")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="mutants at a time (default: cores)")
    parser.add_argument("--results", type=Path, default=Path("mutation.json"), help="default: mutation.json")
    options = parser.parse_args()
    mutants = [m for m in read_mutants(options.areas) if options.match in m.what or options.match in m.file]
    faults = [f"{mutant.key}: {fault}" for mutant in mutants if (fault := mutant.find_fault())]
    if faults:
        sys.exit("\n".join(faults))
    results = json.loads(options.results.read_text(encoding="utf-8")) if options.results.exists() else {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a worker that ends ends the tests that it started
    if pending := [m for m in mutants if m.key not in results or is_unexpected(m, results[m.key])]:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # of processes that a test starts
        sys.dont_write_bytecode = True
        for name in IMPORTED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        run_mutants(pending, results, options.results, options.workers, options.named_only)
    print(write_summary(mutants, results))
    return int(any(is_unexpected(mutant, results[mutant.key]) for mutant in mutants))


if __name__ == "__main__":
    sys.exit(main())
