"""Draws that do not go through `rng`: of `random`, of `numpy.random`, and of PyTorch."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from spectheory.core.chance import Branch, BranchError

LIBRARIES = {"torch": ("reference.torch_replay", "TorchReplay")}
"""For each library, the module and the class of its replay: a context manager around all branches of a program, whose
method `replayed(branch)` is a context manager around one branch. It is loaded when the code under test has imported the
library."""


class Replays(ExitStack):
    """The replays of all libraries that are imported; a context manager around all branches of a program.

    Attributes:
        libraries: names of these libraries.
    """

    def __init__(self) -> None:
        super().__init__()
        self.libraries = imported()
        replays = [LIBRARIES[library] for library in self.libraries]
        self.each = [self.enter_context(getattr(importlib.import_module(module), name)()) for module, name in replays]

    @contextmanager
    def replayed(self, branch: Branch) -> Iterator[None]:
        """Context manager around one branch: in it, draws of the libraries are draws of `branch`."""
        with _in_place_of(random, _of_random(branch)), _in_place_of(np.random, _of_numpy(branch)), ExitStack() as stack:
            for replay in self.each:
                stack.enter_context(replay.replayed(branch))
            yield


def imported() -> tuple[str, ...]:
    """The names of the libraries with a replay that are imported now."""
    return tuple(name for name in LIBRARIES if name in sys.modules)


def replaying_modules() -> tuple[str, ...]:
    """The beginnings of the names of modules of libraries that are imported, and of their replays."""
    return tuple(f"{name}." for library in imported() for name in (library, LIBRARIES[library][0]))


@contextmanager
def _in_place_of(module: Any, functions: dict[str, Any]) -> Iterator[None]:
    """Context manager: `functions` replace those of a module."""
    held = vars(module)
    before = {name: held[name] for name in functions}
    held.update(functions)
    try:
        yield
    finally:
        held.update(before)


def _of_random(branch: Branch) -> dict[str, Any]:
    def randrange(start: int, stop: int | None = None, step: int = 1) -> int:
        return choice(range(start) if stop is None else range(start, stop, step))

    def choice(seq: Any) -> Any:
        return seq[branch.integers(len(seq))]

    def choices(population: Any, weights: Any = None, *, k: int = 1) -> list[Any]:
        weights = [1] * len(population) if weights is None else list(weights)
        return [population[i] for i in branch.picks(weights, k, replace=True)]

    def sample(population: Any, k: int) -> list[Any]:
        return [population[i] for i in branch.picks([1] * len(population), k, replace=False)]

    def shuffle(x: Any) -> None:
        x[:] = sample(list(x), len(x))

    return {
        "random": lambda: branch.random(),
        "uniform": lambda a, b: branch.uniform(a, b),
        "expovariate": lambda lambd=1.0: branch.exponential() / lambd,
        "randint": lambda a, b: randrange(a, b + 1),
        **{"randrange": randrange, "choice": choice, "choices": choices, "sample": sample, "shuffle": shuffle},
    }


def _of_numpy(branch: Branch) -> dict[str, Any]:
    def shuffle(x: Any) -> None:
        x[:] = branch.permutation(x)

    def default_rng(seed: Any = None) -> Any:
        if seed is not None and not isinstance(seed, Branch):
            raise BranchError(f"np.random.default_rng({seed!r:.40}) is called in each run, so its numbers are the same")
        return branch

    return {
        "random": branch.random,
        "random_sample": branch.random,
        "rand": lambda *shape: branch.random(shape or None),
        "standard_exponential": lambda size=None: branch.exponential(1, size),
        "randint": lambda low, high=None, size=None, dtype=int: branch.integers(low, high, size),
        **{name: getattr(branch, name) for name in ("uniform", "exponential", "gumbel", "choice", "permutation")},
        **{"shuffle": shuffle, "default_rng": default_rng},
    }
