"""Files of benchmarks, vllm bench serve, SGLang's bench_serving and llama-bench, and the runs that they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as hs

import spectheory as st
from spectheory.engines import Conditions, Run, read_runs
from spectheory.engines.benchmark_file import Entry
from spectheory.engines.llama_cpp import LAST_LOGITS
from spectheory.engines.serving_run import ASSUMED, served_run
from tests.engines.examples import BENCH, SERVE, SERVING, read, require_refused
from tests.helpers import refuses

DRAFTS = {
    "mean_itl_ms": 39.0,
    "spec_decode_acceptance_length": 2.5,
    "spec_decode_num_drafts": 5120,
    "spec_decode_draft_tokens": 15300,
    "spec_decode_accepted_tokens": 7680,
}
EAGLE = {
    "speculative_algorithm": "EAGLE3",
    "speculative_draft_model_path": "owner/draft",
    "speculative_num_steps": 3,
    "speculative_num_draft_tokens": 8,
}
SERVED = SERVING | {"server_info": SERVING["server_info"] | EAGLE}  # pyrefly: ignore[unsupported-operation]
PROMPT = {"n_prompt": 8, "n_gen": 0, "avg_ns": 16_000_000, "avg_ts": 500.0, "samples_ns": [16_000_000]}
EXAMPLES: dict[str, dict[str, Any]] = {"vllm-serve": SERVE, "sglang-serving": SERVING, "llama.cpp-bench": BENCH}


def test_vllm_bench_serve(tmp_path: Path) -> None:
    step: dict[str, Any] = {"batch": 4, "context": 575.5, "model": "owner/target", "engine": "vllm"}
    cycle: dict[str, Any] = {"tokens": 4, "depth": 3, "tau": 2.5, "prefill_tokens": 40}
    found, where = read(tmp_path, [SERVE, SERVE | DRAFTS]), f"{tmp_path / 'bench'}, line "
    assert found.runs == (
        Run("plain", seconds=0.015625, prefill_tokens=16, source=f"{where}1", **step),
        Run("speculative", seconds=0.0390625, source=f"{where}2", **cycle, **step),
    )
    assert found.assumed == (ASSUMED,)
    counts = {"spec_decode_num_drafts": 2560, "spec_decode_draft_tokens": 7680, "spec_decode_accepted_tokens": 3840}
    (lookup,) = read(tmp_path, [SERVE | DRAFTS | counts]).runs  # 12,900 tokens are 100 first ones and 8,960 steps
    assert (lookup.drafted_share, lookup.tau) == (2560 / 8960, 1 + 1.5 * 2560 / 8960)
    assert lookup.seconds == pytest.approx(0.015625 * 12_800 / 8960)
    for change, engine in (({}, None), (DRAFTS, "vllm")):
        assert read(tmp_path, [SERVE | change | {"backend": "openai"}]).runs[0].engine == engine
    for change, batch in (({"max_concurrency": None}, 4), ({"max_concurrency": 3.9}, 3.9), ({"mean_tpot_ms": 1.5}, 1)):
        assert read(tmp_path, [SERVE | {"mean_itl_ms": None} | change]).runs[0].batch == batch
    older = SERVE | {"mean_itl_ms": 39.0}
    (tree,) = read(tmp_path, [older], tau=2.5, nodes=8, depth=3).runs
    assert (tree.kind, tree.seconds, tree.tokens, tree.depth, tree.batch) == ("speculative", 0.0390625, 9, 3, 4)


def test_sglang_bench_serving(tmp_path: Path) -> None:
    file = str(tmp_path / "bench")
    names: dict[str, Any] = {"gpus": 2, "engine": "sglang", "version": "0.5.15", "source": file}
    names["model"] = "owner/target"
    assert read(tmp_path, [SERVING]).runs == (Run("plain", 4, 575.5, 0.015625, prefill_tokens=16, **names),)
    shape: dict[str, Any] = {"tokens": 8, "depth": 3, "tau": 2.5}
    cycle = Run("speculative", 4, 575.5, 0.0390625, prefill_tokens=40, **shape, **names)
    speculative = SERVED | {"accept_length": 2.5}
    assert read(tmp_path, [speculative]).runs == (cycle,), "SGLang counts the root"
    apart = speculative | {"server_info": {"prefill": [{}], "decode": [SERVED["server_info"]]}}
    assert read(tmp_path, [apart]).runs == (cycle,)
    assert read(tmp_path, [SERVED], tau=2.5).runs == (cycle,)
    assert read(tmp_path, [SERVED | {"accept_length": 4.1}]).runs[0].tau == 4, "the token of the prefill is cut off"


def test_llama_bench(tmp_path: Path) -> None:
    names: dict[str, Any] = {"model": "models/m-q4_k_m.gguf", "gpu": "NVIDIA GeForce RTX 3090", "gpus": 1}
    names |= {"engine": "llama.cpp", "version": "b9300"}
    found = read(tmp_path, json.dumps([BENCH, BENCH | PROMPT, BENCH | PROMPT | {"n_prompt": 512, "avg_ts": 32000.0}]))
    where = f"{tmp_path / 'bench'}, entry "
    assert found.runs == (
        Run("plain", 1, 450, 0.01, source=f"{where}1 (tg101)", **names),
        Run("forward", 1, 400, 0.016, tokens=8, source=f"{where}2 (pp8)", **names),
    )
    assert found.ignored == (f"{where}3 (pp512) is a prefill of more than 256 tokens",)
    assert found.assumed == (LAST_LOGITS,)
    slow = {"samples_ns": [1e9, 1e9, 4e9], "avg_ns": 2_000_000_000, "avg_ts": (101 + 101 + 25.25) / 3}
    assert read(tmp_path, [BENCH | slow]).runs[0].seconds == pytest.approx(1 / 101, rel=1e-12), "the median counts"
    old = {name: value for name, value in BENCH.items() if name not in ("n_depth", "samples_ns", "devices")}
    (run,) = read(tmp_path, [old]).runs
    assert (run.context, run.seconds) == (50, 0.01)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"gpu_info": "A, A", "split_mode": "none"}, {"gpu": "A", "gpus": 1}),
        ({"gpu_info": "A, A, A", "devices": "CUDA0/CUDA1"}, {"gpu": "A", "gpus": 2}),
        ({"gpu_info": "", "backends": "CPU", "n_gpu_layers": 0}, {"gpu": None, "gpus": None}),
    ],
)
def test_llama_bench_names_the_deployment(tmp_path: Path, change: dict[str, Any], names: dict[str, Any]) -> None:
    (run,) = read(tmp_path, [BENCH | change]).runs
    assert {name: getattr(run, name) for name in names} == names


UNUSED = [
    ({"n_prompt": 8}, r"\(pp8\+tg101\) times a prompt and generated tokens together"),
    ({"n_gen": 0}, "processes no tokens"),
    (PROMPT | {"n_ubatch": 4}, "splits its prompt into forwards of n_ubatch=4 tokens"),
    ({"n_gpu_layers": 0}, r"has no layer on the GPU \(n_gpu_layers=0\)"),
]
REFUSED = [
    *((BENCH, change, {}, f"has no run that can be used: .*{reason}") for change, reason in UNUSED),
    (SERVE, {}, {"nodes": 3}, r"tau of a speculative run is missing, .* batch \* tau / throughput"),
    (SERVE, {}, {"tau": 2.0}, "does not say how many nodes are drafted per cycle, .* give nodes, and depth unless"),
    (SERVE, DRAFTS, {"tau": 2.0}, "tau is 2.5 in the file, but 2 was given: leave it out"),
    (SERVE, DRAFTS | {"spec_decode_draft_tokens": 12800}, {}, "drafts had several sizes: give nodes"),
    (SERVE, {"output_throughput": 300.0}, {}, "output_throughput is 300, but tokens / duration makes it 258: these"),
    (SERVED, {}, {}, "tau of a speculative run is missing"),
    (BENCH, {"avg_ts": float("nan")}, {}, r"\(tg101\): avg_ts must be a number of at least 0, got nan: pass the file"),
    (BENCH, {"avg_ts": 120.0}, {}, "avg_ts is 120, but 101 tokens and the times makes it 100: these contradict"),
    (BENCH, {"n_gen": 1.5}, {}, "n_gen must be a whole number, got 1.5"),
    (BENCH, {}, {"tau": 2.0}, "tau cannot be given for llama.cpp-bench: leave it out"),
]


@pytest.mark.parametrize(("entry", "change", "given", "message"), REFUSED)
def test_results_that_cannot_be_used_are_refused(
    tmp_path: Path, entry: dict[str, Any], change: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    require_refused(tmp_path, [entry | change], message, **given)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_format_is_recognised_by_its_fields_alone(tmp_path: Path, name: str) -> None:
    formats = {key: form for engine in st.engines.ALL for key, form in engine.benchmarks.items()}
    assert list(formats) == list(EXAMPLES)
    assert [key for key, form in formats.items() if all(field in EXAMPLES[name] for field in form.fields)] == [name]
    (run,) = read(tmp_path, f"a line of a log\n{json.dumps(EXAMPLES[name])}\n\n").runs
    assert ", line 2" in run.source
    require_refused(tmp_path, json.dumps(EXAMPLES[name])[:-5], "damaged or cut off")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (" \n ", "bench must be JSON or JSON Lines, and has no object: pass the file as it was written"),
        ("[{}, 3]", "entry 2 must be a JSON object, got int"),
        ("tokens per second: 3", "must be JSON or JSON Lines, and has no object"),
        ("{}", "is in no known format: pass the file .* Known are vllm-serve .fields model_id, mean_tpot_ms"),
        (json.dumps([BENCH, {"a": 1}]), "entry 2 is in no known format"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: str, message: str) -> None:
    require_refused(tmp_path, content, message)
    refuses("there is no file .*x.json: check the path", read_runs, tmp_path / "x.json")


@given(
    rate=hs.floats(0.01, 100),
    seconds=hs.floats(1e-4, 1),
    prompt=hs.integers(0, 10**5),
    answer=hs.integers(2, 10**5),
    tau=hs.floats(1, 5),
)
def test_speculation_scales_the_seconds_of_a_run_and_nothing_that_was_counted(
    rate: float, seconds: float, prompt: int, answer: int, tau: float
) -> None:
    counted = {"completed": 1, "total_input_tokens": prompt, "total_output_tokens": answer}
    times = {"duration": 1 / rate, "output_throughput": answer * rate, "mean_tpot_ms": 1e3 * seconds}
    entry = Entry("a", counted | times)
    plain, cycle = (served_run(entry, found, Conditions()) for found in (None, Conditions(tau, 4, 4)))
    assert (plain.batch, plain.context) == (cycle.batch, cycle.context)
    assert cycle.seconds == pytest.approx(tau * plain.seconds, rel=1e-12)
    assert plain.tokens_per_second == pytest.approx(cycle.tokens_per_second, rel=1e-12)
    if plain.batch > 1:
        assert plain.tokens_per_second == pytest.approx(rate * (answer - 1), rel=1e-9)
        steps = plain.tokens_per_second / plain.batch
        assert plain.prefill_tokens * steps == pytest.approx(rate * prompt, rel=1e-9), "all prompts are prefilled"


CYCLE: dict[str, Any] = {"kind": "speculative", "batch": 4, "context": 512.0, "tokens": 4, "depth": 3}


def test_a_throughput_becomes_seconds_of_a_step_a_forward_and_a_cycle() -> None:
    assert Run.from_throughput(200.0, batch=4, context=10) == Run("plain", 4, 10, 0.02)
    forward = Run.from_throughput(400.0, kind="forward", batch=2, context=0, tokens=8)
    assert forward == Run("forward", 2, 0, 0.04, tokens=8)
    cycle = Run.from_throughput(400.0, tau=2.5, model="m", gpus=2, source="a, line 1", **CYCLE)
    assert cycle == Run(seconds=0.025, tau=2.5, model="m", gpus=2, source="a, line 1", **CYCLE)


def test_impossible_runs_and_conditions_are_refused() -> None:
    for change, message in (
        ({"batch": True}, "batch must be a number of at least 1, got True"),
        ({"seconds": 0}, "seconds must be a number from 1e-30 to 1e.30, got 0"),
        ({"tokens": 2}, "tokens must be between 1 and 1, got 2"),
        ({"depth": 1}, "depth must be between 0 and 0, got 1"),
        (CYCLE, r"tau of a speculative run is missing, .* batch \* tau / throughput are unknown: give the mean number"),
        (CYCLE | {"tau": 2.5, "depth": 4}, "depth must be between 1 and 3, got 4"),
    ):
        given: dict[str, Any] = {"kind": "plain", "batch": 1, "context": 8, "seconds": 0.01, "source": "a.json"}
        refuses(f"a.json: {message}", Run, **(given | change))
    refuses("b: tokens_per_second must be a number from", Run.from_throughput, 0, context=1, source="b")
    refuses("^tau must be a number of at least 1, got nan", Conditions, tau=float("nan"))
    refuses("^nodes must be at least 1, got 0: for plain decoding leave it out", Conditions, nodes=0)
