"""Task: a function with settings, cut in numbered blocks that have random numbers of their own."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

import spectheory
from simulate.collecting.identity import canonical, identity_of
from simulate.collecting.statistics import Statistics
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

SCHEMA = 1
"""Version of the way in which a block gets its random numbers."""


@dataclass(frozen=True)
class Figure:
    """A number of interest: one total divided by another, over all blocks.

    Attributes:
        name: such as "tau".
        numerator: name of a total.
        denominator: name of a total; "" divides by the number of blocks.
        unit: shown on axes, such as "tokens per target call".
        share: whether the numerator counts those of `denominator` independent trials that succeeded. Its interval is
            then Clopper and Pearson's, which has a width even where all trials agree.
    """

    name: str
    numerator: str
    denominator: str = ""
    unit: str = ""
    share: bool = False

    def __post_init__(self) -> None:
        if self.share and not self.denominator:
            raise InputError(f"the share {self.name!r} needs a denominator: name the total that counts the trials")


@dataclass(frozen=True)
class Block:
    """One numbered part of a task, with random numbers that depend on nothing but the task and the number.

    Attributes:
        number: number of the block, from 0.
        entropy: of the task; see `rng`.
    """

    number: int
    entropy: tuple[int, ...]

    @property
    def sequence(self) -> np.random.SeedSequence:
        """The seed sequence of the block. Spawn it for several independent streams."""
        return np.random.SeedSequence(self.entropy, spawn_key=(self.number,))

    @property
    def seed(self) -> int:
        """A seed from 0 to 2**63 - 1, for functions that take a number."""
        return int(self.sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))

    def rng(self) -> np.random.Generator:
        """The random source of the block, from its start."""
        return np.random.default_rng(self.sequence)


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """What to count: `function(block, **settings)`, which returns the `Statistics` of one block.

    Two tasks are equal if their identities are. Blocks of one task add, blocks of different tasks never do.

    Attributes:
        function: function at the top level of a module, or an instance of a frozen dataclass with `__call__`. All its
            random numbers must come from the block.
        settings: its keyword arguments. They are copied.
        figures: the figures of interest. The stop rule and `plot` take the first one unless told otherwise.
        name: shown in tables and messages; default: function and settings.
        seed: seed of all blocks.
        stream: tasks with the same stream and seed get the same random numbers in blocks of the same number, for
            paired comparisons; default: every task has its own.
        version: increase it when a change of the function's code changes its results.
        identity: hash of function, settings, seed, stream, version and the version of spectheory.

    Raises:
        InputError: the function cannot be called so, or a part of the task has no identity.
    """

    function: Callable[..., Statistics]
    settings: Mapping[str, Any] = field(default_factory=dict)
    figures: Sequence[Figure] = ()
    name: str = ""
    seed: int = 0
    stream: str = ""
    version: int = 1
    identity: str = field(init=False)

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, 0)
        check_whole("version", self.version, 1)
        if not isinstance(self.function, FunctionType) and not _is_callable(self.function):
            raise InputError(
                f"function must be a function of a module or a callable frozen dataclass, got {self.function!r:.80}: "
                "put bound arguments into settings"
            )
        object.__setattr__(self, "settings", copy.deepcopy(dict(self.settings)))
        object.__setattr__(self, "figures", tuple(self.figures))
        try:
            inspect.signature(self.function).bind(None, **self.settings)
        except TypeError as error:
            raise InputError(f"function cannot be called as function(block, **settings): {error}") from error
        object.__setattr__(self, "identity", identity_of(self.description))
        object.__setattr__(self, "name", self.name or self._default_name())

    @property
    def description(self) -> dict[str, Any]:
        """Everything that determines the results, as plain JSON values."""
        return {
            "schema": SCHEMA,
            "spectheory": spectheory.__version__,
            "function": canonical(self.function, "function"),
            "settings": {name: canonical(value, f"settings[{name!r}]") for name, value in self.settings.items()},
            "seed": self.seed,
            "stream": self.stream,
            "version": self.version,
        }

    def block(self, number: int) -> Block:
        """The block of this number."""
        source = identity_of(self.stream) if self.stream else self.identity
        return Block(number, (self.seed, int(source, 16)))

    def run(self, number: int) -> Statistics:
        """Count one block.

        Raises:
            InputError: the function returned something else than Statistics.
        """
        found = self.function(self.block(number), **self.settings)
        if not isinstance(found, Statistics):
            raise InputError(f"function must return simulate.Statistics, got {found!r:.80}")
        return found

    def _default_name(self) -> str:
        """The name of the function, and the settings that are numbers or short texts."""
        named = self.function if isinstance(self.function, FunctionType) else type(self.function)
        own = self.settings or _fields(self.function)
        shown = [f"{name}={value}" for name, value in own.items() if isinstance(value, bool | int | float | str)]
        return " ".join([named.__name__.strip("_"), *shown])[:120]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<Task: {self.name}, {self.identity[:12]}>"


def _fields(function: Any) -> dict[str, Any]:
    """The fields of a callable dataclass; none of a function."""
    return {f.name: getattr(function, f.name) for f in dataclasses.fields(function)} if _is_callable(function) else {}


def _is_callable(function: Any) -> bool:
    """Whether this is a callable instance of a frozen dataclass."""
    parameters = getattr(type(function), "__dataclass_params__", None)
    return callable(function) and parameters is not None and parameters.frozen
