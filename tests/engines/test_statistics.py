"""Statistics of engines: checks that all readers share."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as hs

from spectheory.engines import sglang, tensorrt_llm, vllm
from spectheory.engines.statistics import from_histograms
from tests.refusals import refuses


def wrong(data: Any) -> Any:
    """`data`, its type hidden from the type checker."""
    return data


def test_what_is_not_a_dictionary_is_refused() -> None:
    refuses("data must be a dictionary, got str: parse the JSON first", sglang.from_meta_info, wrong(["a"]))
    refuses("meta_info must be a dictionary, got int", sglang.from_meta_info, {"meta_info": 3})
    refuses("data must be a dictionary, got list", vllm.from_request_metrics, wrong([[{}]]))
    refuses("data must be a dictionary, got int", tensorrt_llm.from_iteration_stats, wrong([3]))
    refuses("line 1 must be JSON, got '{'", sglang.from_bench_speculative, "{")
    refuses("line 2 must be a dictionary, got int", sglang.from_bench_speculative, "\n3")


@given(hs.dictionaries(hs.integers(1, 5), hs.lists(hs.integers(0, 50), min_size=6, max_size=6), min_size=1))
def test_histograms_count_every_cycle_at_every_position_it_drafted(rows: dict[int, list[int]]) -> None:
    by_length = {k: row[: k + 1] for k, row in rows.items()}
    hits, trials = from_histograms(by_length)
    for d in range(max(by_length)):
        cycles = [(k, j) for k, row in by_length.items() for j, n in enumerate(row) for _ in range(n)]
        assert trials[d] == sum(k > d and j >= d for k, j in cycles)
        assert hits[d] == sum(k > d and j > d for k, j in cycles)
