"""Mutation testing of core modules with cosmic-ray: which small changes of the code does no test
notice?

    .venv/bin/python -m pip install cosmic-ray
    .venv/bin/python -m tests.mutation                    all modules, 36 mutants each: two hours
    .venv/bin/python -m tests.mutation softmax jackknife --sample 100 --seed 1

A mutant changes one operator, comparison, condition or number. The sample is random, with at most
one mutant of a place. Mutants are made in a copy of the working tree, `build/mutation`. The same
command resumes an interrupted run, and runs mutants that survived again, with the tests of today.

Left out are mutants that no test can notice or every test does: in annotations, decorators, errors,
module constants (sizes that only cost time), `strict=True`, code of other backends; the sign of an
`axis`, since -1 is 1 in a matrix; `is` in place of `==`; operators of bits in place of those of
numbers.
"""

import argparse
import ast
import compileall
import contextlib
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

# each mutant is tried in a fork of this process, which takes ten seconds less with these imports
import hypothesis
import pytest
import tensorflow  # noqa: F401
import tensorflow_datasets  # noqa: F401
from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_code, use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult

NETWORKS = "models/networks/test_every_network.py"
# files of the package; their tests, and which of them (`-k` of pytest); long tests for mutants that
# survive these
MODULES = {
    "softmax": ("layers/softmax.py", "layers/test_softmax.py", "", ""),
    "scores": (
        "layers/scores.py layers/pointer.py",
        f"layers/test_scores.py layers/test_pointer.py {NETWORKS}",
        "scores or pointer",
        "",
    ),
    "objectives": (
        "layers/objectives/base.py layers/objectives/likelihood.py layers/objectives/sampled.py",
        f"layers/objectives models/networks/test_growth.py {NETWORKS}",
        "objectives or growth or loss or starts",
        "",
    ),
    "windows": (
        "data/ngram_arrays.py data/segments.py data/shuffling.py",
        "data/test_ngram_arrays.py data/test_segments.py data/test_refusals.py "
        "data/test_dataset.py data/test_source.py",
        "",
        "",
    ),
    "kneser-ney": (
        "models/ngrams/kneser_ney.py",
        "models/ngrams/test_kneser_ney.py models/ngrams/test_orders.py",
        "kneser",
        "",
    ),
    "mixture": (
        "models/mixture.py",
        "models/test_mixture.py models/ngrams/test_orders.py models/test_refusals.py "
        "models/test_used_contexts.py models/test_contract.py",
        "mix or uniform or refuse or whole",
        "",
    ),
    "shortlist": (
        "models/shortlist.py models/ngrams/mass.py",
        "models/test_shortlist.py training/test_shortlist_training.py models/test_contract.py",
        "shortlist",
        "models/test_shortlist.py",
    ),
    "jackknife": (
        "models/jackknife.py",
        "models/test_jackknife.py",
        "",
        "models/test_jackknife.py",
    ),
    "checkpoint": (
        "training/checkpoint.py",
        "training/test_checkpoint.py",
        "",
        "training/test_checkpoint.py",
    ),
    "served-text": (
        "serving/text.py",
        "serving/test_text.py",
        "ids or tokens or padded or scores or markers or own",
        "",
    ),
}
LEFT_OUT = re.compile(
    r"_(Is|IsNot)$|Operator_(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)_(Pow|RShift|LShift|Bit\w+)$"
    r"|Operator_(RShift|LShift|Bit\w+)_(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)$"
)
ROOT = Path(__file__).parents[1]
DIRECTORY = ROOT / "build" / "mutation"


def copy_tree() -> None:
    """Copy the working tree, and go there."""
    tree = DIRECTORY / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    listed = subprocess.check_output(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT)
    for name in listed.decode().split("\0"):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    compileall.compile_dir(tree, quiet=1)
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)


def list_behaviour(source: str) -> str:
    """Return the syntax of a module without what is left out."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            node.exc = None
        elif isinstance(node, ast.keyword) and node.arg == "strict":
            node.value = ast.Constant(True)
        elif isinstance(node, ast.keyword) and node.arg == "axis":
            node.value = ast.Constant(ast.unparse(node.value).strip("+-"))
        elif isinstance(node, ast.If) and "backend.backend()" in ast.unparse(node.test):
            node.test, node.body = ast.Constant(True), []
        for name in {"annotation", "returns", "decorator_list"} & {*node._fields}:
            setattr(node, name, None)
    return ast.dump(tree)


def mutate(mutation: MutationSpec) -> tuple[str, str]:
    """Return the source of a module without and with a mutation."""
    source = mutation.module_path.read_text(encoding="utf-8")
    operator = get_operator(mutation.operator_name)()
    return source, mutate_code(source, operator, mutation.occurrence)


def is_useful(mutation: MutationSpec) -> bool:
    if LEFT_OUT.search(mutation.operator_name):
        return False
    try:
        source, mutated = map(list_behaviour, mutate(mutation))
    except (SyntaxError, AttributeError):  # cosmic-ray cannot replace `zipfile.BadZipFile`
        return False
    return source != mutated


def choose(work: WorkDB, number: int, seed: int) -> list[WorkItem]:
    """Choose mutants at random, at most one of a place."""
    items = sorted(work.work_items, key=lambda item: str(item.mutations))
    random.Random(seed).shuffle(items)
    chosen: dict[tuple, WorkItem] = {}
    for item in items:
        mutation = item.mutations[0]
        place = (mutation.module_path, mutation.start_pos)
        if len(chosen) < number and place not in chosen and is_useful(mutation):
            chosen[place] = item
    return [*chosen.values()]


def pass_tests(stages: list[list[str]], seconds: float | None = None) -> bool:
    """Return whether all tests pass, in forks of this process, which has not read the package."""
    for arguments in stages:
        process = multiprocessing.get_context("fork").Process(target=run_tests, args=(arguments,))
        process.start()
        process.join(seconds)
        with contextlib.suppress(ProcessLookupError):  # also processes that a test has left
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
        if process.exitcode:
            return False
    return True


def run_tests(arguments: list[str]) -> None:
    """Run pytest in a session of its own, with its output in a file."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    with open("../output", "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    # the smallest text that fails is not asked for: it may take minutes
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutation", deadline=None, phases=phases)
    fast = ["-p", "no:cacheprovider", "--hypothesis-profile", "mutation"]
    ignored = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported already
    sys.exit(pytest.main(["-xq", *fast, *ignored, *arguments]))


def run_module(name: str, number: int, seed: int) -> None:
    """Run the mutants of a module that no test has killed, and print those that survive."""
    files, fast, keywords, long = MODULES[name]
    paths = [f"keras_nplm/{file}" for file in files.split()]
    checksum = zlib.crc32(b"".join(Path(path).read_bytes() for path in paths))
    tests = [["-m", "not long", "-k", keywords, *(f"tests/{file}" for file in fast.split())]]
    if long:
        tests.append(["-m", "long", f"tests/{long}"])
    with use_db(DIRECTORY / f"{name}-{checksum:08x}.sqlite") as work:
        if not work.num_work_items:
            init(paths, work, {})
        killed = {job for job, result in work.results if result.is_killed}
        begin = time.monotonic()
        if not pass_tests(tests):
            sys.exit(f"{name}: tests must pass without a mutant. See {DIRECTORY}/output.")
        limit = 30 + 3 * (time.monotonic() - begin)
        items = choose(work, number, seed)
        survivors = 0
        for item in items:
            if item.job_id in killed:
                continue
            mutation = item.mutations[0]
            source, mutated = mutate(mutation)
            operator = get_operator(mutation.operator_name)()
            with use_mutation(mutation.module_path, operator, mutation.occurrence):
                survives = pass_tests(tests, limit)
            outcome = TestOutcome.SURVIVED if survives else TestOutcome.KILLED
            work.set_result(item.job_id, WorkResult(WorkerOutcome.NORMAL, test_outcome=outcome))
            if survives:
                survivors += 1
                row = mutation.start_pos[0]
                lines = (text.splitlines()[row - 1].strip() for text in (source, mutated))
                print(f"{mutation.module_path}:{row}:", *lines, sep="\n    ", flush=True)
        print(f"{name}: {len(items)} mutants, {len(items) - survivors} killed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(MODULES))
    parser.add_argument("--sample", type=int, default=36, help="mutants of a module (default: 36)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    options = parser.parse_args()
    copy_tree()
    for name in options.modules or MODULES:
        run_module(name, options.sample, options.seed)


if __name__ == "__main__":
    main()
