"""Draws that do not go through `rng`: of `random`, of `numpy.random`, and of libraries with a replay of their own.

An installed package registers the replay of a library in the entry-point group `spectheory.replays`, under the name of
the module that the library imports as. It is loaded when the code under test has imported this module.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from spectheory.core.chance import Branch, BranchError
from spectheory.core.plugins import entry_names, plugin

GROUP = "spectheory.replays"
"""The entry-point group."""


class Replay(Protocol):
    """The enumeration of a program that draws with some library; a context manager around all its branches."""

    def __enter__(self) -> Any:
        """Begin the enumeration."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """End the enumeration."""
        ...

    def replayed(self, branch: Branch) -> AbstractContextManager[None]:
        """Context manager around one branch: in it, draws of the library are draws of `branch`."""
        ...


class Replays:
    """The replays of all libraries that are imported; a context manager around all branches of a program.

    Attributes:
        libraries: names of these libraries.
    """

    def __init__(self) -> None:
        self.libraries = imported()
        self.each: list[Replay] = [replay() for replay in map(_replay_of, self.libraries) if replay]
        self.stack = ExitStack()

    def __enter__(self) -> Replays:
        for replay in self.each:
            self.stack.enter_context(replay)
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    @contextmanager
    def replayed(self, branch: Branch) -> Iterator[None]:
        """Context manager around one branch: in it, draws of the libraries are draws of `branch`."""
        with _in_place_of(random, _Random(branch)), _in_place_of(np.random, _NumpyRandom(branch)), ExitStack() as stack:
            for replay in self.each:
                stack.enter_context(replay.replayed(branch))
            yield


def imported() -> tuple[str, ...]:
    """The names of the libraries with a registered replay that are imported now."""
    return tuple(name for name in _libraries() if name in sys.modules)


def replaying_modules() -> tuple[str, ...]:
    """The beginnings of the names of modules of libraries that are imported, and of their replays."""
    replays = [replay for replay in map(_replay_of, imported()) if replay]
    return tuple(f"{name}." for name in (*imported(), *(replay.__module__.rpartition(".")[0] for replay in replays)))


@cache
def _libraries() -> tuple[str, ...]:
    return entry_names(GROUP)


@cache
def _replay_of(library: str) -> Callable[[], Replay] | None:
    return plugin(GROUP, library)


@contextmanager
def _in_place_of(module: Any, source: Any) -> Iterator[None]:
    """Context manager: the public methods of `source` replace the functions of a module."""
    names, functions = _public(type(source)), vars(module)
    before = {name: functions[name] for name in names}
    for name in names:
        functions[name] = getattr(source, name)
    try:
        yield
    finally:
        functions.update(before)


@cache
def _public(kind: type) -> tuple[str, ...]:
    """The names of the public methods of a class."""
    return tuple(name for name in vars(kind) if not name.startswith("_"))


class _Random:
    """Functions of the module `random`, as draws of a branch."""

    def __init__(self, branch: Branch) -> None:
        self._branch = branch

    def random(self) -> Any:
        return self._branch.random()

    def uniform(self, a: Any, b: Any) -> Any:
        return self._branch.uniform(a, b)

    def expovariate(self, lambd: Any = 1.0) -> Any:
        return self._branch.exponential() / lambd

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self.choice(range(start) if stop is None else range(start, stop, step))

    def randint(self, a: int, b: int) -> int:
        return self.randrange(a, b + 1)

    def choice(self, seq: Any) -> Any:
        return seq[self._branch.integers(len(seq))]

    def choices(self, population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> list[Any]:
        if cum_weights is not None:
            weights = [high - low for low, high in zip([0, *cum_weights], cum_weights, strict=False)]
        weights = [1] * len(population) if weights is None else list(weights)
        if len(weights) != len(population):
            raise ValueError("The number of weights does not match the population")
        if not sum(weights) > 0:
            raise ValueError("Total of weights must be greater than zero")
        return [population[i] for i in self._branch.picks(weights, k, replace=True)]

    def sample(self, population: Any, k: int) -> list[Any]:
        if not 0 <= k <= len(population):
            raise ValueError("Sample larger than population or is negative")
        return [population[i] for i in self._branch.picks([1] * len(population), k, replace=False)]

    def shuffle(self, x: Any) -> None:
        x[:] = self.sample(list(x), len(x))


class _NumpyRandom:
    """Functions of the module `numpy.random`, as draws of a branch."""

    def __init__(self, branch: Branch) -> None:
        self._branch = branch

    def random(self, size: Any = None) -> Any:
        return self._branch.random(size)

    def random_sample(self, size: Any = None) -> Any:
        return self._branch.random(size)

    def rand(self, *shape: int) -> Any:
        return self._branch.random(shape or None)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return self._branch.uniform(low, high, size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return self._branch.exponential(scale, size)

    def standard_exponential(self, size: Any = None) -> Any:
        return self._branch.exponential(1, size)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._branch.gumbel(loc, scale, size)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        return self._branch.choice(a, size, replace, p)

    def randint(self, low: int, high: int | None = None, size: Any = None, dtype: Any = int) -> Any:
        return self._branch.integers(low, high, size)

    def permutation(self, x: Any) -> Any:
        return self._branch.permutation(x)

    def shuffle(self, x: Any) -> None:
        x[:] = self._branch.permutation(x)

    def default_rng(self, seed: Any = None) -> Any:
        if seed is not None and not isinstance(seed, Branch):
            raise BranchError(f"np.random.default_rng({seed!r:.40}) is called in each run, so its numbers are the same")
        return self._branch
