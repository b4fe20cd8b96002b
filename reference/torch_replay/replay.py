"""`TorchReplay`: the modes of torch in which its draws are enumerated."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from reference.torch_replay.draws import GRIDS, Draws, States, refuse_grid
from reference.torch_replay.operations import BY_ENTRY, KEEPS, MOVES, SELECTIONS, SHAPES, by_entry
from reference.torch_replay.tags import LAYOUTS, Tags
from spectheory.core.chance import Branch, BranchError
from spectheory.core.coins import Unknown

OURS = tuple(str(Path(file or "").parent) for file in (torch.__file__, sys.modules["spectheory"].__file__, __file__))
"""Folders of files that are not the program's own."""


class TorchReplay:
    """The enumeration of a program that draws with torch. It is a context manager around all branches of the program.

    The default generator has its old state at the end, unless it was seeded; other generators go on as in a real run.
    """

    def __init__(self) -> None:
        self.states = States()
        self.seed, self.state = torch.initial_seed(), torch.get_rng_state()

    def __enter__(self) -> TorchReplay:
        return self

    def __exit__(self, *_: object) -> None:
        if torch.initial_seed() == self.seed:
            torch.set_rng_state(self.state)

    @contextmanager
    def replayed(self, branch: Branch) -> Iterator[None]:
        """Context manager: in it, draws of torch are draws of `branch`, or a BranchError."""
        operations = _Operations(branch, self.states)
        with _uncompiled(), operations, _Functions(operations.tags):
            yield


@contextmanager
def _uncompiled() -> Iterator[None]:
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


class _Operations(TorchDispatchMode):
    """The mode that sees each operation of torch, on tensors."""

    def __init__(self, branch: Branch, states: States) -> None:
        super().__init__()
        self.tags, self.states = Tags(), states
        self.draws = Draws(branch, self.tags)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, so that torch does not import its compiler, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name.removeprefix("aten::")
        is_draw = torch.Tag.nondeterministic_seeded in func.tags
        if self.tags.choices:
            self._look(name, args, kwargs)
        if not is_draw and (not self.tags.known or not any(map(self._is_random, _tensors(args, kwargs)))):
            return func(*args, **kwargs)
        try:
            return self._drawn(name, args, kwargs) if is_draw else self._computed(func, name, args, kwargs)
        except BranchError as error:
            raise BranchError(f"torch.{name.rstrip('_')}: {error}{_place()}") from error
        except (TypeError, AttributeError, OverflowError) as error:
            raise BranchError(f"torch.{name.rstrip('_')} of a random number cannot be enumerated{_place()}") from error

    def _look(self, name: str, args: Any, kwargs: Any) -> None:
        """Draw the choices that an operation looks at."""
        pending = [tensor for tensor in _tensors(args, kwargs) if self.tags.is_pending(tensor)]
        if not pending or name in SHAPES:
            return
        moves = args if name in ("cat", "copy_", "stack") else args[1:] if name == "where" else args[:1]
        moved = list(_tensors(moves, {}))
        keeps = name in KEEPS and all(tensor.dtype == torch.int64 for tensor in moved)
        for tensor in pending:
            if not keeps or all(tensor is not each for each in moved):
                self.tags.settle(tensor)

    def _is_random(self, tensor: Any) -> bool:
        return self.tags.of(tensor) is not None

    def _drawn(self, name: str, args: Any, kwargs: Any) -> Any:
        if not self.draws.can(name):
            raise BranchError("its numbers cannot be enumerated")
        if any(map(self._is_random, _tensors(args, {}))) and not name.endswith("_") and name != "rand_like":
            raise BranchError("its probabilities are random numbers")
        self.states.advance(kwargs.pop("generator", None))
        if "out" in kwargs:
            raise BranchError("it draws into `out`")
        return getattr(self.draws, name)(*args, **kwargs)

    def _computed(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """The result of an operation on tensors that have random entries."""
        if name in SHAPES:
            return func(*args, **kwargs)
        if name == "_to_copy":
            return self._cast(args[0], kwargs.get("dtype") or args[0].dtype)
        if name in MOVES:
            return self._moved(func, name, args, kwargs)
        plain = name.removesuffix("_")
        if plain in ("max", "min") and len(args) == 2 and isinstance(args[1], torch.Tensor):
            plain += "imum"
        if "out" in kwargs or plain not in BY_ENTRY | SELECTIONS:
            raise BranchError("this operation on a random number cannot be enumerated")
        if plain in BY_ENTRY:
            found = by_entry(self.tags, plain, args, kwargs)
        else:
            found = SELECTIONS[plain](self.tags, *args, **kwargs)
        return args[0].copy_(self._cast(found, args[0].dtype)) if name.endswith("_") else found

    def _moved(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """An operation that moves entries, on tensors of one number type."""
        if name.startswith("index_put") and len(args) > 3 and args[3]:
            raise BranchError("random numbers are added up")
        if "fill" in name and self._is_random(args[-1]):
            raise BranchError("a tensor is filled with one random number")
        kinds = {tensor.dtype for tensor in _tensors(args, kwargs) if tensor.dtype in LAYOUTS}
        if len(kinds) > 1 or name == "copy_":
            first, *others = args
            dtype = first.dtype if name.endswith("_") else functools.reduce(torch.promote_types, kinds)
            args = [first if name.endswith("_") else self._cast_all(first, dtype)]
            args += [self._cast_all(arg, dtype) for arg in others]
        return func(*args, **kwargs)

    def _cast_all(self, arg: Any, dtype: torch.dtype) -> Any:
        if isinstance(arg, list | tuple):
            return [self._cast_all(each, dtype) for each in arg]
        return self._cast(arg, dtype) if isinstance(arg, torch.Tensor) else arg

    def _cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if tensor.dtype == dtype or not self._is_random(tensor):
            return tensor if tensor.dtype not in LAYOUTS else tensor.to(dtype)
        if dtype not in GRIDS or tensor.dtype not in GRIDS:
            refuse_grid(dtype, "a random number that is rounded")
        entries = self.tags.entries(tensor)
        if dtype is torch.bool:
            entries = np.array([bool(entry) for entry in entries.flat], dtype=object).reshape(entries.shape)
        return self.tags.tensor(entries, dtype)


class _Functions(TorchFunctionMode):
    """The mode that sees where tensors become Python numbers or arrays, and the other way round."""

    def __init__(self, tags: Tags) -> None:
        super().__init__()
        self.tags = tags

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        read = READS.get(func)
        if read and self.tags.is_pending(args[0]):
            self.tags.settle(args[0])
        if read and self.tags.known and self.tags.of(args[0]) is not None:
            return read(self.tags.entries(args[0]))
        if any(isinstance(arg, Unknown) for arg in (*args, *kwargs.values())):
            args = [self._tensor(arg, args) for arg in args]
            kwargs = {name: self._tensor(arg, args) for name, arg in kwargs.items()}
        return func(*args, **kwargs)

    def _tensor(self, arg: Any, args: Any) -> Any:
        if not isinstance(arg, Unknown):
            return arg
        kinds = [each.dtype for each in args if isinstance(each, torch.Tensor) and each.dtype in LAYOUTS]
        return self.tags.tensor(np.array(arg, dtype=object), kinds[0] if kinds else torch.get_default_dtype())


READS: dict[Any, Callable[[np.ndarray], Any]] = {
    torch.Tensor.item: lambda entries: entries.item(),
    torch.Tensor.tolist: lambda entries: entries.tolist(),
    torch.Tensor.numpy: lambda entries: entries,
    torch.Tensor.__array__: lambda entries: entries,
    torch.Tensor.__bool__: lambda entries: bool(entries.item()),
    torch.Tensor.__float__: lambda entries: float(entries.item()),
    torch.Tensor.__int__: lambda entries: int(entries.item()),
    torch.Tensor.__index__: lambda entries: int(entries.item()),
    torch.Tensor.__repr__: str,
}
"""What reads the entries of a tensor, as a function of the entries."""


def _tensors(args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, torch.Tensor):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from (each for each in arg if isinstance(each, torch.Tensor))


def _place() -> str:
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*OURS, "<")):
            return f", in {frame.f_code.co_name}, {Path(name).name} line {frame.f_lineno}"
        frame = frame.f_back
    return ""
