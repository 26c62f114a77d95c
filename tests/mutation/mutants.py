"""Mutants: realistic mistakes, each a change of one named function or constant of the package.

A mutant is a function of `areas`. Its name says the mistake, and `changes` names what it replaces:

    @changes("models.evaluation:compute_exp", "models/test_evaluation.py")
    def a_large_perplexity_overflows(original, x):
        return math.exp(x)

It is called in place of the function, with the original before its arguments. `within` gives the
original other values of the global names that it reads. In place of a constant a mutant returns
the new value.

A process applies the mutant that the environment variable `KERAS_NPLM_MUTANT` names, as soon as
its module is imported; see `start/sitecustomize.py`.
"""

import contextlib
import dataclasses
import functools
import importlib
import importlib.abc
import importlib.machinery
import inspect
import os
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent
AREAS = tuple(sorted(path.stem for path in (DIRECTORY / "areas").glob("*.py")))
VARIABLE = "KERAS_NPLM_MUTANT"
BROKEN = 70  # exit status
MUTANTS: list["Mutant"] = []


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A mistake.

    Attributes:
        change: what stands in place of the function or constant.
        target: its module within `keras_nplm` and its name, `"io.text:decode"`.
        tests: the tests that should notice, within `tests`: files, or `file::test`.
        long: the tests are marked `long`.
    """

    change: Callable
    target: str
    tests: tuple[str, ...]
    long: bool

    @property
    def area(self) -> str:
        return self.change.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        return self.change.__name__

    @property
    def module(self) -> str:
        return f"keras_nplm.{self.target.partition(':')[0]}"

    def find_owner(self, module: types.ModuleType) -> tuple[Any, str]:
        """Return the module or class whose attribute the mutant replaces, and its name."""
        *classes, name = self.target.partition(":")[2].split(".")
        owner: Any = module
        for part in classes:
            owner = getattr(owner, part)
        if name not in vars(owner):
            raise AttributeError(f"{self.target} must be defined there; see {self.name}")
        return owner, name

    def apply(self, module: types.ModuleType) -> None:
        """Replace the function or constant in its module."""
        owner, name = self.find_owner(module)
        setattr(owner, name, replace(vars(owner)[name], self.change))


def changes(target: str, *tests: str, long: bool = False) -> Callable:
    """Return a decorator that registers a mutant; see `Mutant`."""

    def register(change: Callable) -> Callable:
        MUTANTS.append(Mutant(change, target, tests, long))
        return change

    return register


def replace(original: Any, change: Callable) -> Any:
    """Return what stands in place of a function, a method, a property or a constant."""
    if isinstance(original, classmethod | staticmethod):
        return type(original)(wrap(original.__func__, change))
    if isinstance(original, property):
        return property(wrap(original.fget, change), original.fset)
    if callable(original):
        return wrap(original, change)
    return change(original)


def wrap(original: Callable, change: Callable) -> Callable:
    """Return a function that calls the mutant, with the signature of the original."""

    @functools.wraps(original)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return change(original, *arguments, **options)
        except (TypeError, AttributeError, NameError) as error:
            *_, innermost = traceback.extract_tb(error.__traceback__)
            if Path(innermost.filename).is_relative_to(DIRECTORY):
                end_as_broken(error)
            raise

    return call


def end_as_broken(error: Exception) -> None:
    """End the process: the mutant itself is wrong, and its death would prove nothing."""
    traceback.print_exception(error, file=sys.__stderr__)
    os._exit(BROKEN)


# What mutants are made of


class Altered:
    """An object with other values of some attributes."""

    def __init__(self, _original: Any, **attributes: Any):
        vars(self).update(attributes, _original=_original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def within(original: Callable, **names: Any) -> Callable:
    """Return a function, or a context manager of a generator, with other values of global names.

    Raises:
        NameError: the function does not read such a name, so that the mutant changes nothing.
    """
    plain = inspect.unwrap(original)
    unread = names.keys() - list_names(plain.__code__)
    if unread:
        raise NameError(f"{plain.__qualname__} must read {', '.join(sorted(unread))}")
    changed = types.FunctionType(
        plain.__code__,
        {**plain.__globals__, **names},
        plain.__name__,
        plain.__defaults__,
        plain.__closure__,
    )
    changed.__kwdefaults__ = plain.__kwdefaults__
    return changed if plain is original else contextlib.contextmanager(changed)


def list_names(code: types.CodeType) -> set[str]:
    """Return the names of globals and attributes that a function and those within it read."""
    names = {*code.co_names}
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            names |= list_names(value)
    return names


def read_global(original: Callable, name: str) -> Any:
    """Return a global name as a function sees it."""
    return inspect.unwrap(original).__globals__[name]


def nothing(*_: Any, **__: Any) -> None:
    """Stand in place of a function that has an effect."""


def first(value: Any, *_: Any, **__: Any) -> Any:
    """Return the first argument."""
    return value


def second(_: Any, value: Any, *__: Any) -> Any:
    """Return the second argument."""
    return value


def constant(value: Any) -> Callable:
    """Return a function that returns a value, whatever its arguments are."""

    def function(*_: Any, **__: Any) -> Any:
        return value

    return function


def at_call(number: int, other: Callable, function: Callable) -> Callable:
    """Return a function that is `other` at its call `number`, from 1 on, and `function` else."""
    calls: list[int] = []

    def chosen(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return (other if len(calls) == number else function)(*arguments, **options)

    return chosen


# Reading and applying


def read_mutants(areas: Sequence[str] = AREAS) -> list[Mutant]:
    """Read the mutants of areas."""
    for area in areas:
        importlib.import_module(f"tests.mutation.areas.{area}")
    return [mutant for mutant in MUTANTS if mutant.area in areas]


class MutantFinder(importlib.abc.MetaPathFinder):
    """Applies a mutant as soon as its module has been executed."""

    def __init__(self, area: str, name: str, module: str):
        self._area = area
        self._name = name
        self._module = module

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_apply(module: types.ModuleType) -> None:
            execute(module)
            for mutant in read_mutants([self._area]):
                if mutant.name == self._name:
                    mutant.apply(module)

        spec.loader.exec_module = execute_and_apply
        return spec


def describe_variable(mutant: Mutant) -> str:
    """Return the value of `KERAS_NPLM_MUTANT` that names a mutant."""
    return f"{mutant.area} {mutant.name} {mutant.module}"


def apply_at_import() -> None:
    """Apply the mutant that the environment names when its module is imported."""
    named = os.environ.get(VARIABLE)
    if named:
        sys.meta_path.insert(0, MutantFinder(*named.split()))
