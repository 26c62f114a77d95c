"""The mutants of `run.py` fit the package: what they replace and the tests that they name exist."""

import ast
import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.mutants import (
    MUTANTS,
    at_call,
    constant,
    first,
    list_names,
    read_mutants,
    replace,
    within,
)

TESTS = Path(__file__).parents[1]


@functools.cache
def list_tests(file: str) -> set[str]:
    """Return the names of the tests of a file; none if there is no such file."""
    path = TESTS / file
    if not path.is_file():
        return set()
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found.add(node.name)
    return found


def find_fault(named: str) -> bool:
    """Return whether a file has no tests, or not the one that is named."""
    file, _, name = named.partition("::")
    tests = list_tests(file)
    return not tests or bool(name and name not in tests)


def test_mutants_replace_what_exists_and_name_tests_that_exist():
    faults = []
    for mutant in read_mutants():
        # raises an error that names the mutant
        mutant.find_owner(importlib.import_module(mutant.module))
        missing = [named for named in mutant.tests if find_fault(named)]
        if missing or not mutant.tests:
            faults.append(f"{mutant.name}: `tests` must name tests. Received: {missing}")
    assert not faults, "\n".join(faults)
    names = {(mutant.area, mutant.name) for mutant in MUTANTS}
    assert len(names) == len(MUTANTS)


def list_altered_names(change: Callable) -> set[str]:
    """Return the names that a mutant changes within the function that it replaces.

    These are the keywords of `within(original, …)`, and of `Altered(…)` in their values.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(change)))
    names: set[str] = set()
    for node in ast.walk(tree):
        if is_call(node, "within") and ast.unparse(node.args[0]) == "original":
            for inner in [node, *(keyword.value for keyword in node.keywords)]:
                if inner is node or is_call(inner, "Altered"):
                    names.update(keyword.arg for keyword in inner.keywords)
    return names


def is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == name


def get_function(attribute: Any) -> Callable:
    """Return the function of a method, a property or a wrapped function."""
    if isinstance(attribute, property):
        attribute = attribute.fget
    return inspect.unwrap(getattr(attribute, "__func__", attribute))


def test_mutants_change_names_that_the_function_reads():
    faults = []
    for mutant in read_mutants():
        altered = list_altered_names(mutant.change)
        if altered:
            owner, name = mutant.find_owner(importlib.import_module(mutant.module))
            read = list_names(get_function(vars(owner)[name]).__code__)
            if altered - read:
                faults.append(f"{mutant.name}: {mutant.target} must read {altered - read}")
    assert not faults, "\n".join(faults)


LIMIT = 3


def is_small(number: int) -> bool:
    return number < LIMIT


class Box:
    @property
    def content(self) -> int:
        return 1

    @classmethod
    def name(cls) -> str:
        return cls.__name__

    @staticmethod
    def add(one: int, other: int) -> int:
        return one + other


def double(original, *arguments):
    return original(*arguments) * 2


def make_box() -> type:
    """Return a class of which each attribute gives twice as much."""
    changed = {}
    for name in ("content", "name", "add"):
        changed[name] = replace(vars(Box)[name], double)
    return type("Twice", (), changed)


def test_all_kinds_of_methods_are_replaced():
    box = make_box()()
    assert box.content == 2
    assert box.name() == "TwiceTwice"
    assert box.add(1, 2) == 6


def test_a_constant_is_replaced_by_the_result():
    assert replace(5, double_constant) == 10


def double_constant(original):
    return 2 * original


def test_a_function_sees_other_global_names():
    assert within(is_small, LIMIT=9)(5)
    assert not is_small(5)


def test_a_name_that_a_function_does_not_read_is_refused():
    with pytest.raises(NameError, match="is_small must read OTHER"):
        within(is_small, OTHER=9)


@pytest.mark.parametrize("number, expected", [(1, [0, 7]), (2, [7, 0])])
def test_one_call_is_another(number, expected):
    function = at_call(number, constant(0), first)
    assert [function(7), function(7)] == expected
