"""The table of engine costs: which row holds for an engine and a version; and the measured curves of kernels."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import spectheory as st
from spectheory.hardware.engine_costs import (
    ANY,
    EngineCosts,
    KernelCurve,
    chosen,
    kernel_curves,
    origin,
    parsed,
    shipped_rows,
    split,
)
from spectheory.hardware.gpus import gpu
from spectheory.hardware.models import model
from spectheory.hardware.roofline import Roofline
from tests.helpers import refuses

TABLE = """engines,name,value,spread,source
*,step_seconds,1,0.5,prior: a guess
*,level_seconds,2,0.5,fitted to A; B (docs/validation.md)
vllm trtllm<1.2,step_seconds,3,0.5,fitted to A (docs/validation.md)
sglang<0.4 vllm<0.13,step_seconds,5,0.5,fitted to D (docs/validation.md)
vllm<0.11,step_seconds,4,0.5,fitted to C (docs/validation.md)
trtllm>=1.2,step_seconds,6,0.5,fitted to E (docs/validation.md)
"""


@pytest.mark.parametrize(
    ("engine", "value"),
    [
        ("vllm", 3),
        ("vllm@0.13", 3),
        ("vllm@0.13.2", 3),
        ("vllm@0.12.5", 5),
        ("vllm@0.11", 5),
        ("vllm@v0.9.1", 4),
        ("vllm@0.11.0rc1", 5),
        ("another", 1),
        ("sglang@0.5", 1),
        ("sglang@0.3.9", 5),
        ("trtllm@1.1", 3),
        ("trtllm", 6),
    ],
)
def test_a_version_selects_its_row(engine: str, value: float) -> None:
    """The last row that holds counts; engines and versions share a row."""
    found = chosen(parsed(TABLE), engine)
    assert found["step_seconds"].value == value
    assert found["level_seconds"].value == 2


def test_a_version_needs_a_number() -> None:
    refuses("the version of vllm must be a number such as 0.11, got 'latest'", split, "vllm@latest")


def test_unknown_engines_and_versions_are_refused() -> None:
    refuses("unknown engine 'vlm': did you mean vllm", EngineCosts.of, "vlm")
    for version in ("0.0.1", "0.34", "11"):
        refuses("known: name a version of vllm from 0.7 to 0.33", EngineCosts.of, f"vllm@{version}")
    assert EngineCosts.of("vllm@0.33.1") == EngineCosts.of("vllm")


def test_the_shipped_table() -> None:
    """Any engine has every number; each number has one row for its engines, and a source; there are few."""
    rows = shipped_rows()
    assert {row.name for row in rows if row.engines == ANY} == {field.name for field in fields(EngineCosts)}
    assert len({(row.engines, row.name) for row in rows}) == len(rows) <= 45
    assert all(row.source.startswith(("fitted to ", "prior: ")) for row in rows)
    assert all(0 <= row.value < np.inf and 0 <= row.spread < np.inf for row in rows)
    assert {"vllm", "sglang", "hf", "gpt-fast", "llama.cpp", "trt-edge"} < {name for row in rows for name in row.names}
    assert EngineCosts.of("mlx-lm") == EngineCosts.of(ANY)
    assert EngineCosts.of("vllm@0.9") != EngineCosts.of("vllm@0.11") == EngineCosts.of("vllm")
    assert EngineCosts.of("eagle") == EngineCosts.of("hf") != EngineCosts.of(ANY)


def test_the_origin_of_costs_is_said() -> None:
    """The sources of published measurements, and that an unknown engine has no costs of its own."""
    assert re.search(r"numbers are fitted to \d\d sources \(see engine_costs.csv\)", origin("vllm@0.11"))
    assert "no costs of" not in origin("vllm")
    assert "no costs of mlx-lm are known: those of any engine are used" in origin("mlx-lm@0.31")


Q4 = "llama-3.1-8b-q4_0"
PLACE: dict[str, Any] = {"gpu": "rtx3090", "target": Q4, "draft": None, "context": 0, "engine": "llama.cpp"}
MADE = KernelCurve("llama.cpp", "q4_0", "rtx3090", (1, 2, 5), (1.0, 1.5, 3.0), "made up")


def seconds(tokens: list[int], curves: tuple[KernelCurve, ...], target: str = Q4, **place: Any) -> np.ndarray:
    whole: dict[str, Any] = {"context": 0, "costs": EngineCosts.of("llama.cpp")} | place
    return Roofline(gpu("rtx3090"), curves=curves, **whole).forward_seconds(model(target), tokens)


def test_the_curve_of_q4_0_on_a_3090() -> None:
    """Issue 16 states 1.12, 1.20, 1.33, 1.54, 1.74, 1.96 and 2.14 for 2 to 8 tokens, of another run on this GPU."""
    (curve,) = [one for one in kernel_curves("llama.cpp@b6000") if one.weight_format == "q4_0"]
    assert (curve.gpu, curve.tokens) == ("rtx3090", (1, 2, 3, 4, 5, 6, 7, 8))
    assert curve.ratios == pytest.approx([1, 1.12, 1.20, 1.33, 1.54, 1.74, 1.96, 2.14], abs=0.006)
    assert MADE.at(np.array([1.5])) == 1.25
    measured = 8 / 583.77 * 156.56
    assert curve.ratios[-1] == pytest.approx(measured, abs=5e-4)


def test_a_forward_follows_its_curve_and_stays_flat_until_the_operations_take_longer() -> None:
    """At context 0, T(n) / T(1) is the ratio, linear in between; after 5 tokens it is the larger of both terms."""
    found = seconds([1, 2, 3, 5, 6, 400], (MADE,))
    assert found[:5] / found[0] == pytest.approx([1, 1.5, 2.0, 3.0, 3.0])
    assert found[5] == pytest.approx(seconds([400], ())[0])
    assert found[0] == seconds([1], ())[0]


def test_the_tokens_of_all_sequences_count_and_the_attention_is_added() -> None:
    """2 tokens of 2 sequences are 4 for the kernel; attention costs 4 n heads d operations for n cached tokens."""
    both = seconds([2], (MADE,), batch=2)
    assert both == pytest.approx(seconds([4], (MADE,)))
    sizes, costs = model(Q4), EngineCosts.of("llama.cpp")
    attention = 4 * (sizes.flops_per_token(5000) - sizes.flops_per_token(0)) / (71e12 * costs.flops_share)
    cache = sizes.kv_bytes(5000) / (costs.cache_share * 936e9)
    longer = seconds([4], (MADE,), context=5000)
    assert gpu("rtx3090").bf16_flops_per_second == 71e12
    assert longer - seconds([4], (MADE,)) == pytest.approx(attention + cache)


def test_a_curve_of_another_gpu_or_format_is_not_used() -> None:
    for other in (dataclasses.replace(MADE, gpu="rtx4090"), dataclasses.replace(MADE, weight_format="q4_1")):
        assert (seconds([1, 2, 8], (other,)) == seconds([1, 2, 8], ())).all()


def test_a_latency_uses_the_shipped_curve_and_says_so() -> None:
    latency = st.Latency.roofline(**PLACE)
    (curve,) = [one for one in kernel_curves("llama.cpp") if one.weight_format == "q4_0"]
    found = [latency.target(n, 0) / latency.target(1, 0) for n in (1, 2, 3, 4, 5, 6, 8)]
    assert found == pytest.approx([curve.ratios[n - 1] for n in (1, 2, 3, 4, 5, 6, 8)])
    said = f"{Q4}: up to 8 tokens, forwards with q4_0 on rtx3090 in llama.cpp follow a measured curve (llama.cpp PR "
    assert any(one.startswith(said) for one in latency.provenance.assumptions)
    assert latency.inputs is not None
    assert latency.inputs.place.curves == (curve,)
    assert st.Latency.from_dict(latency.to_dict()).inputs == latency.inputs


def test_without_a_curve_the_shares_are_used_and_the_provenance_says_so() -> None:
    """If the source is left out, as in its own validation, or on another GPU, or with costs of one's own."""
    left_out = st.Latency.roofline(**PLACE, curves=kernel_curves("llama.cpp", without={"llama.cpp PR 15802"}))
    own = st.Latency.roofline(**PLACE, costs=EngineCosts.of("llama.cpp"))
    elsewhere = st.Latency.roofline(**dict[str, Any](PLACE | {"gpu": "a40"}))
    assert left_out.target(4, 0) == own.target(4, 0) != st.Latency.roofline(**PLACE).target(4, 0)
    share = f"{EngineCosts.of('llama.cpp').packed_flops_share:.0%}"
    for latency, card in ((left_out, "rtx3090"), (own, "rtx3090"), (elsewhere, "a40")):
        said = f"no curve was measured for the kernels of {Q4} on {card}: they reach {share} of the peak"
        assert any(one.startswith(said) for one in latency.provenance.assumptions)
    dense = st.Latency.roofline(**dict[str, Any](PLACE | {"target": "llama-3.1-8b"}))
    assert not any("curve" in one for one in dense.provenance.assumptions)
