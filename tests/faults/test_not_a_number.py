"""Models whose logits give no probabilities: every command and function names model, position and repair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

import spectheory as st
from reference.compare import CompareSettings, compare, entrants
from reference.decode import Decoder
from reference.drafters import Drafter, Drawn, Goose, PlannedTree, Searched, SuffixArray
from reference.logits import LogitsError, Peaks, fetch, settle
from reference.measuring import measure
from reference.models import Pair, load_pair
from reference.profiling import profile
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
PLAN = st.plan(st.Acceptance.by_rank([0.6, 0.2, 0.1]), st.Latency.constant(draft_seconds=0.05), max_budget=6)
CORPUS = SuffixArray.build(PROMPTS)
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


@pytest.fixture
def broken(tiny_folders: Path, role: str, value: float) -> Pair:
    """A pair of which one model breaks in the middle of a text."""
    return broken_pair(tiny_folders, role, value)


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
MODEL_FREE: list[Drafter] = [PlannedTree(Tree.chain(0)), Goose()]


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


@pytest.mark.parametrize("drafter", MODEL_FREE, ids=lambda drafter: type(drafter).__name__)
def test_only_a_model_that_is_used_is_refused(
    broken: Pair, tiny_folders: Path, role: str, value: float, drafter: Drafter
) -> None:
    decoder = Decoder(broken, drafter, Sampling(1.0))
    with refused(role, value, tiny_folders, f"after token {FROM + 1}") if role == "target" else nullcontext():
        assert len(decoder.generate(PROMPTS[0], 12, *streams(broken, 0)).tokens) == 12


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_trace_names_the_request(
    tiny_folders: Path, tmp_path: Path, role: str, value: float, device: str, temperature: float
) -> None:
    """The trace also writes no part, so that no rates are counted from it."""
    pair = broken_pair(tiny_folders, role, value, device)
    settings = TraceSettings("test", temperature=temperature, new_tokens=20, batch=2)
    with refused(role, value, tiny_folders, f"after token {FROM + 1} of request 0"):
        record_trace(pair, PROMPTS, settings, tmp_path / "trace")
    assert not list((tmp_path / "trace").glob("part-*"))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_measures_by_decoding_says_so(
    broken: Pair, tiny_folders: Path, tmp_path: Path, role: str, value: float, temperature: float
) -> None:
    """Measured tallies, the profile, and comparisons."""
    chain = next(one for one in entrants(broken, PLAN, Sampling(temperature), CORPUS) if one.name == "chain of 5")
    settings = CompareSettings((temperature,), new_tokens=20)
    ways: list[Callable[[], object]] = [
        lambda: list(measure(broken, Tree.k_ary(2, 2), PROMPTS[:1], new_tokens=20, sampling=chain.sampling)),
        lambda: compare(tmp_path, broken, PROMPTS[:2], PROMPTS[2:], settings, corpus=CORPUS),
        lambda: profile(broken, tokens=(1, 2), contexts=(32,), rounds=1, temperature=temperature),
        lambda: chain.decode(PROMPTS[0], 12, 0),
    ]
    for way in ways:
        with refused(role, value, tiny_folders, "after token [0-9]+.*"):
            way()


@pytest.mark.parametrize(
    ("dtype", "repair"),
    [
        (
            torch.float16,
            "float16 gives no probabilities after token 1 .*load it with --dtype bfloat16 or --dtype float32$",
        ),
        (
            torch.bfloat16,
            "bfloat16 gives no probabilities after token 1 .*load it with --dtype float32; if that gives the",
        ),
        (torch.float32, "float32 gives no probabilities after token 1 .*its weights are damaged, or too large"),
    ],
    ids=str,
)
def test_weights_that_are_no_numbers(tiny_folders: Path, role: str, dtype: torch.dtype, repair: str) -> None:
    pair = load_pair(tiny_folders / "target", tiny_folders / "draft", dtype=dtype)
    getattr(pair, role).model.layers[1].mlp.down_proj.weight.data[0, 0] = torch.nan
    with pytest.raises(LogitsError, match=f"^{role} .* in {repair}"):
        Decoder(pair, PlannedTree(Tree.chain(2))).generate(PROMPTS[0], 4)


@pytest.mark.parametrize("value", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("place", [(0, 0), (2, 3), (4, 6)])
def test_every_row_and_column_is_looked_at(
    value: float, place: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the host at once, on a device when tokens are fetched, which come back whole, or when the models settle."""
    logits = torch.randn(5, 7)
    logits[place if value != -torch.inf else place[0]] = value
    match = f"^some model in bfloat16 gives no probabilities at {place[0]}: load it with|at {place[0]} "
    with pytest.raises(LogitsError, match=match):
        Peaks("some model", torch.bfloat16).see(logits, lambda row: f"at {row}")
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)
    sound, other = Peaks("other", torch.float32), Peaks("some model", torch.bfloat16)
    for look in (lambda: settle(sound, other), lambda: fetch(torch.tensor([3]), [sound, other])):
        sound.see(torch.randn(3, 7), str)
        other.see(logits, lambda row: f"at {row}")
        with pytest.raises(LogitsError, match=match):
            look()
        assert fetch(torch.tensor([2**40, 0]), [sound, other]) == [2**40, 0]
    sound.see(torch.full((3, 7), 3e38), str)
    assert fetch(torch.tensor([2**40, 5]), [sound, other]) == [2**40, 5]
