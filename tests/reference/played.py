"""CUDA played on the CPU: tensors that claim to be on a GPU, with the same checks, but are in host memory.

What mixes devices, reads a tensor of the GPU as an array or hands it a generator of the host fails as it would there.
A graph repeats the operators that it captured on the same memory, and what waits for the GPU cannot be captured. Times,
kernels and streams are not played.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, ClassVar
from unittest import mock
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

HOST, GPU, META = torch.device("cpu"), torch.device("cuda", 0), torch.device("meta")
aten = torch.ops.aten
COPIES = {aten.copy_.default, aten._to_copy.default, aten.to.device, aten.to.dtype_layout}
"""Operators that may take tensors of both."""
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
"""Operators whose indices alone may be on the host while the indexed tensor is on the GPU."""


class OnGpu(torch.Tensor):
    """A tensor of the GPU; torch itself takes it for one of the device `meta`, which has no data."""

    held: torch.Tensor
    is_cuda: ClassVar[bool] = True  # type: ignore[assignment]
    is_meta: ClassVar[bool] = False  # type: ignore[assignment]
    device: ClassVar[torch.device] = GPU  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> OnGpu:
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, held.shape, device=META, **layout)  # type: ignore[attr-defined]
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # pyrefly: ignore[bad-override]
        raise RuntimeError(f"{func}: the GPU is no longer there")

    def __getitem__(self, index: Any) -> torch.Tensor:
        return super().__getitem__(_placed(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_placed(index), value)

    def tolist(self) -> Any:
        PlayedGraph.refuse("tolist")
        return self.held.tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        PlayedGraph.refuse("numpy")
        if not force:
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
        return self.held.clone().numpy()

    def __array__(self, dtype: Any = None) -> np.ndarray:
        return self.numpy()

    def __repr__(self, **_: Any) -> str:
        return f"{self.held}, on the GPU"


class PlayedGenerator(torch.Generator):
    """A generator that knows where it is. Operators see another object of the same `_cdata`, so that it is kept."""

    on_gpu: ClassVar[dict[int, torch.Generator]] = {}

    def __new__(cls, device: Any = HOST) -> PlayedGenerator:
        made = super().__new__(cls)
        if torch.device(device).type == "cuda":
            cls.on_gpu[made._cdata] = made  # type: ignore[attr-defined]
        return made

    @classmethod
    def is_on_gpu(cls, generator: Any) -> bool:
        return generator._cdata in cls.on_gpu


class PlayedGraph:
    """The operators of a capture, which `replay` runs again on the same tensors."""

    captures: ClassVar[PlayedGraph | None] = None

    def __init__(self) -> None:
        self.tape: list[tuple[Any, Any, Any, Any]] = []

    @staticmethod
    def refuse(what: object) -> None:
        if PlayedGraph.captures is not None:
            raise RuntimeError(f"{what}: operation not permitted when stream is capturing")

    @contextmanager
    def capture(self) -> Iterator[None]:
        PlayedGraph.captures = self
        try:
            yield
        finally:
            PlayedGraph.captures = None

    def register_generator_state(self, generator: torch.Generator) -> None:
        assert PlayedGenerator.is_on_gpu(generator)

    def replay(self) -> None:
        with _disable_current_modes():
            for func, args, kwargs, found in self.tape:
                for before, now in zip(_leaves([found]), _leaves([func(*args, **kwargs)]), strict=True):
                    if before is not now:
                        before.copy_(now)


class Play(TorchDispatchMode):
    """Every operator runs on what the tensors hold, if it could run where they are."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled: without a word to the compiler each operator takes less time."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten._has_compatible_shallow_copy_type.default:
            return False
        kwargs = kwargs or {}
        given = _leaves([*args, *kwargs.values()])
        tensors = [one for one in given if isinstance(one, torch.Tensor)]
        there = OnGpu in map(type, tensors)
        together = [] if func in COPIES else [args[0], *args[2:3]] if func in INDEXED else tensors
        if there and any(type(one) is not OnGpu and one.dim() for one in together):
            raise RuntimeError(f"{func}: found tensors on cuda:0 and on cpu")
        wanted = next((one for one in given if type(one) is torch.device), None)
        to_gpu = type(args[0]) is OnGpu if func is aten.copy_.default else there
        if wanted is not None:
            to_gpu = wanted.type != "cpu"
        generator = kwargs.get("generator")  # operators take it by this name alone
        if generator is not None and PlayedGenerator.is_on_gpu(generator) != to_gpu:
            raise RuntimeError(f"{func}: the generator is on the other device")
        if func in COPIES and (there != to_gpu or any(type(one) is not OnGpu for one in tensors)):
            PlayedGraph.refuse(func)
        held = [_held(one) for one in args], {name: _held(value) for name, value in kwargs.items()}
        found = func(*held[0], **held[1])
        if PlayedGraph.captures is not None:
            PlayedGraph.captures.tape.append((func, *held, found))
        if wanted is not None and tensors and there != to_gpu:
            found = found.clone()
        return _on_gpu(found) if to_gpu else found


def _placed(index: Any) -> Any:
    """Turn the lists of an index into tensors on the device of the indexed tensor."""
    if isinstance(index, tuple):
        return tuple(map(_placed, index))
    return torch.tensor(index, dtype=None if index else torch.long, device=GPU) if isinstance(index, list) else index


def _leaves(values: Iterable[Any]) -> list[Any]:
    found = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += _leaves(value)
        else:
            found.append(value)
    return found


def _held(value: Any) -> Any:
    if type(value) is OnGpu:
        return value.held
    if isinstance(value, (list, tuple)):
        return type(value)(map(_held, value))
    return HOST if type(value) is torch.device else value


def _on_gpu(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_on_gpu, value))
    return OnGpu(value) if isinstance(value, torch.Tensor) else value


def gpu() -> AbstractContextManager[None]:
    """Run a block with this machine's GPU, or with a played one if it has none."""
    return nullcontext() if torch.cuda.is_available() else gpu_played()


@contextmanager
def gpu_played() -> Iterator[None]:
    """In the block this machine has one GPU, "cuda"."""
    torch._C._ensureCUDADeviceGuardSet()
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda") is then a copy from the host
    with ExitStack() as stack:
        stack.callback(torch._C._set_only_lift_cpu_tensors, before)
        stack.callback(PlayedGenerator.on_gpu.clear)
        for name, played in {
            "torch.cuda._lazy_init": lambda: None,
            "torch.cuda.Stream": mock.MagicMock,
            "torch.cuda.current_stream": mock.MagicMock,
            "torch.cuda.stream": lambda stream: nullcontext(),
            "torch.cuda.CUDAGraph": PlayedGraph,
            "torch.cuda.graph": PlayedGraph.capture,
            "torch.cuda.is_current_stream_capturing": lambda: PlayedGraph.captures is not None,
            "reference.cuda_graphs.Generator": PlayedGenerator,
            "reference.cuda_graphs.FREE": WeakKeyDictionary(),
            "torch.cuda.synchronize": lambda device=None: None,
            "torch.cuda.get_rng_state": lambda device="cuda": torch.get_rng_state(),
            "torch.cuda.set_rng_state": lambda state, device="cuda": torch.set_rng_state(state),
            "reference.random_streams.Generator": PlayedGenerator,
            "reference.tracing.Generator": PlayedGenerator,
        }.items():
            stack.enter_context(mock.patch(name, played))
        stack.enter_context(torch.inference_mode())  # without it autograd asks for CUDA before the play is asked
        stack.enter_context(Play())
        yield
