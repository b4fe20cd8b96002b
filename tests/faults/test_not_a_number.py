"""Models whose logits give no probabilities: every command and function names model, position and repair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from reference.decode import Decoder
from reference.drafters import Drafter, Drawn, PlannedTree, Searched
from reference.logits import LogitsError
from reference.models import Pair, load_pair
from reference.random_streams import streams
from reference.sampling import Sampling
from reference.tracing import TraceSettings, record_trace
from spectheory import Tree
from spectheory.core.world import Levels
from spectheory.otlp import NSS, RRS
from spectheory.search import Eagle2
from spectheory.verify import TopDown, Verifier
from tests.reference.played import gpu

PROMPTS = [[10 * i + j for j in range(8)] for i in range(4)]
FROM = 10
"""Tokens that a broken model reads before it breaks."""
ROLES = ["target", "draft"]
ROWS = {"nan": torch.nan, "inf": torch.inf, "-inf": -torch.inf}


class Broken:
    """A model's forward whose logits are `value` from position `FROM` on: at one token, or for -inf at all."""

    def __init__(self, model: Any, value: float) -> None:
        self.forward, self.value = model.forward, value
        self.__signature__ = signature(model.forward)

    def __call__(self, *inputs: Tensor, **options: Any) -> Any:
        tokens = inputs[0] if inputs else options["input_ids"]
        before = options["past_key_values"].get_seq_length() if options.get("past_key_values") is not None else 0
        positions = options.get("position_ids")
        out = self.forward(*inputs, **options)
        if positions is None:
            positions = torch.arange(before, before + tokens.shape[1], device=tokens.device)[None]
        late = (positions >= FROM)[:, -out.logits.shape[1] :, None]
        broken = torch.full_like(out.logits, self.value)
        if self.value > -torch.inf or self.value != self.value:
            broken = torch.cat([broken[..., :1], out.logits[..., 1:]], -1)
        out.logits = torch.where(late, broken, out.logits)
        return out


@pytest.fixture
def value(request: pytest.FixtureRequest) -> float:
    """One of the values, which the test's name chooses."""
    return list(ROWS.values())[sum(request.node.name.encode()) % len(ROWS)]


@pytest.fixture(params=ROLES)
def role(request: pytest.FixtureRequest) -> str:
    return request.param


def broken_pair(folders: Path, role: str, value: float, device: str = "cpu") -> Pair:
    pair = whole_pair(folders, device)
    model = copy(getattr(pair, role))
    model.forward = Broken(model, value)
    return replace(pair, **{role: model})


@cache
def whole_pair(folders: Path, device: str) -> Pair:
    return load_pair(folders / "target", folders / "draft", device=device)


DECODERS: list[tuple[Drafter, Verifier, Sampling]] = [
    (Searched(Eagle2(2, 3, 6)), TopDown(NSS()), Sampling()),
    (PlannedTree(Tree.k_ary(2, 2)), TopDown(RRS()), Sampling(0.7, top_k=20, top_p=0.9)),
    (Drawn(Levels((2, 1))), TopDown(RRS()), Sampling(1.0)),
]
"""One of each way to draft with a model."""


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The host, then the GPU; a machine without a GPU plays one."""
    with gpu() if request.param == "cuda" else nullcontext():
        yield request.param


def refused(role: str, value: float, folder: Path, where: str) -> Any:
    what = {"nan": "(NaN)", "inf": "(infinity)", "-inf": "(-infinity for every token)"}[str(value)]
    message = (
        rf"^{role} {folder / role} in float32 gives no probabilities {where} \{what[:-1]}\): its weights are damaged"
    )
    return pytest.raises(LogitsError, match=message)


@pytest.mark.parametrize(("drafter", "verifier", "sampling"), DECODERS, ids=repr)
def test_decoding_names_the_model_and_the_position(
    tiny_folders: Path, role: str, value: float, device: str, drafter: Drafter, verifier: Verifier, sampling: Sampling
) -> None:
    """Position 11 is the first after FROM, or a later node of the tree that reaches it."""
    pair = broken_pair(tiny_folders, role, value, device)
    with refused(role, value, tiny_folders, f"after token {FROM + 1}"):
        Decoder(pair, drafter, sampling, verifier).generate(PROMPTS[0], 20, *streams(pair, 0))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_trace_names_the_request(
    tiny_folders: Path, tmp_path: Path, role: str, value: float, device: str, temperature: float
) -> None:
    """The trace also writes no part, so that no rates are counted from it."""
    pair = broken_pair(tiny_folders, role, value, device)
    settings = TraceSettings("test", temperature=temperature, new_tokens=20, batch=2)
    with refused(role, value, tiny_folders, f"after token {FROM + 1} of request 0"):
        record_trace(pair, PROMPTS, settings, tmp_path / "trace")
    assert not list((tmp_path / "trace").glob("*.parquet"))
