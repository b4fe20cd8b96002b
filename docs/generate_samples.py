"""Makes the sample files of the pages in docs/questions and docs/engines: what simulated servers would have reported.

Run `python docs/generate_samples.py`; it rewrites docs/samples. The servers are simulated by `simulate.serve`, with
times that a roofline computes, so the numbers are made up. The formats are those of the engines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

from simulate import Server, StepTimes, serve
from simulate.load.arrivals import closed
from spectheory import Acceptance, Deployment, ServingRun, Tree

SAMPLES = Path(__file__).parent / "samples"
STARTED = 1.79e9


@dataclass(frozen=True)
class Traffic:
    """What a simulated server did: a closed loop of requests, with chains of `length` drafted tokens.

    Attributes:
        run: the simulated run.
        length: drafted tokens per cycle, 0 without speculation.
        rates: the rate of each position, given that those before it were accepted.
        draft_seconds: seconds of a cycle in which the draft runs, for engines that report it.
    """

    run: ServingRun
    length: int
    rates: tuple[float, ...]
    draft_seconds: float = 0.0

    @property
    def cycles(self) -> int:
        """Cycles or plain steps of all sequences."""
        if self.length:
            return self.run.drafted // self.length
        return int((self.run.output_tokens - 1).sum())

    @property
    def positions(self) -> list[int]:
        """Accepted tokens by position: non-increasing counts with the sum that was accepted, near the rates."""
        shares = list(accumulate(self.rates, mul))
        counts = [int(share * self.run.accepted / sum(shares)) for share in shares]
        counts[0] += self.run.accepted - sum(counts)
        return counts

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return int(self.run.output_tokens.sum())

    @property
    def tau(self) -> float:
        """Tokens per cycle."""
        return 1 + self.run.accepted / self.cycles if self.length else 1.0

    @property
    def step_seconds(self) -> float:
        """Seconds of a cycle or plain step, as each of the sequences in it waits for it."""
        return self.run.batch_seconds / self.cycles


def traffic(
    times: StepTimes,
    batch: int,
    length: int,
    rates: Sequence[float],
    *,
    count: int,
    prompt: int = 64,
    output: int = 256,
    draft_seconds: float = 0.0,
) -> Traffic:
    """Simulate a closed loop of `batch` requests with chains of `length` tokens."""
    load = closed(batch, count, prompt=prompt, output=output, seed=1)
    table = Acceptance.by_depth_and_rank([[rate] for rate in rates]) if length else None
    chosen = Tree.chain(length) if length else None
    found = serve(chosen, load, server=Server(times, max_sequences=batch), rates=table, seed=1)
    return Traffic(found, length, tuple(rates[:length]), draft_seconds)


def vllm_scrape(served: dict[str, Traffic], *, before: int = 0, end: bool = True) -> str:
    """A scrape of vLLM, with a model for each label: after some earlier traffic, or at the end of it and this one."""
    rows = [f"process_start_time_seconds {STARTED:.0f}"]
    for name, one in served.items():
        label = f'{{engine="0",model_name="{name}"}}'
        now = float(end)
        rows += _histogram("vllm:inter_token_latency_seconds", label, before, now * one.cycles, one.step_seconds)
        steps = int(one.run.tier_steps.sum()) + one.run.prompt_steps
        rows += _histogram("vllm:iteration_tokens_total", label, before, now * steps, one.tokens / steps)
        for kind, sizes in (("prompt", one.run.prompt_tokens), ("generation", one.run.output_tokens)):
            rows += _histogram(f"vllm:request_{kind}_tokens", label, before, now * len(sizes), float(sizes.mean()))
        rows.append(f"vllm:num_requests_running{label} {round(one.run.mean_batch or 0)}")
        if one.length:
            totals = {"drafts": one.cycles, "draft_tokens": one.run.drafted, "accepted_tokens": one.run.accepted}
            counts = one.positions
            earlier = {"drafts": before, "draft_tokens": before * one.length, "accepted_tokens": before}
            rows += [
                f"vllm:spec_decode_num_{key}_total{label} {earlier[key] + now * value:.0f}"
                for key, value in totals.items()
            ]
            rows += [
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{label[:-1]},position="{i}"}} '
                f"{(before if i == 0 else 0) + now * value:.0f}"
                for i, value in enumerate(counts)
            ]
    return "\n".join(rows) + "\n"


def _histogram(name: str, label: str, before: float, count: float, mean: float) -> list[str]:
    total = count + before
    return [f"{name}_sum{label} {total * mean:.9g}", f"{name}_count{label} {total:.0f}"]


def vllm_log(one: Traffic) -> str:
    """Lines of vLLM's log about ten seconds of traffic."""
    seconds = one.run.decode_seconds
    batch = one.run.batch_seconds / seconds
    head = "INFO 11-23 12:00:10 [loggers.py:259]"
    rows = [
        f"{head} Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
        f"{batch * one.tau / one.step_seconds:.1f} tokens/s, Running: {round(batch)} reqs, Waiting: 0 reqs, GPU KV "
        "cache usage: 12.0%, Prefix cache hit rate: 0.0%"
    ]
    if one.length:
        rates = ", ".join(f"{count / one.cycles:.3f}" for count in one.positions)
        rows.append(
            f"{head.replace('loggers.py:259', 'metrics.py:100')} SpecDecoding metrics: Mean acceptance length: "
            f"{one.tau:.2f}, Accepted throughput: {one.run.accepted / seconds:.2f} tokens/s, Drafted throughput: "
            f"{one.run.drafted / seconds:.2f} tokens/s, Accepted: {one.run.accepted} tokens, Drafted: "
            f"{one.run.drafted} tokens, Per-position acceptance rate: {rates}, Avg Draft acceptance rate: "
            f"{100 * one.run.accepted / one.run.drafted:.1f}%"
        )
    return "\n".join(rows) + "\n"


def sglang_log(one: Traffic, lines: int = 3) -> str:
    """Lines of SGLang's scheduler."""
    batch = one.run.batch_seconds / one.run.decode_seconds
    accepted = ""
    if one.length:
        accepted = f"accept len: {one.tau:.2f}, accept rate: {one.run.accepted / one.run.drafted:.2f}, "
    rest = (
        f"Decode batch, #running-req: {round(batch)}, #token: {round(batch) * 320}, token usage: 0.05, {accepted}cuda "
        f"graph: True, gen throughput (token/s): {batch * one.tau / one.step_seconds:.2f}, #queue-req: 0"
    )
    return "".join(f"[2026-11-23 12:00:{second:02d} TP0] {rest}\n" for second in range(lines))


def sglang_scrape(one: Traffic) -> str:
    """A scrape of SGLang."""
    label = '{model_name="m"}'
    batch = one.run.batch_seconds / one.run.decode_seconds
    rows = [
        f"sglang:inter_token_latency_seconds_sum{label} {one.run.batch_seconds:.9g}",
        f"sglang:inter_token_latency_seconds_count{label} {one.cycles * one.tau:.0f}",
        f"sglang:num_running_reqs{label} {batch:.6g}",
        f"sglang:spec_accept_length{label} {one.tau if one.length else 0:.6g}",
        f"sglang:spec_num_draft_tokens{label} {one.length + 1 if one.length else 0}",
    ]
    return "\n".join(rows) + "\n"


def trtllm_stats(one: Traffic, iterations: int = 8) -> str:
    """Statistics of some iterations of TensorRT-LLM, one JSON object in a line."""
    batch = round(one.run.batch_seconds / one.run.decode_seconds)
    rows: list[dict[str, Any]] = []
    for i in range(iterations):
        row: dict[str, Any] = {
            "iter": i,
            "iterLatencyMS": 1e3 * one.step_seconds,
            "numActiveRequests": batch,
            "inflightBatchingStats": {"numContextRequests": 0, "numGenRequests": batch},
        }
        if one.length:
            accepted = round((i + 1) * batch * (one.tau - 1)) - round(i * batch * (one.tau - 1))
            row["specDecodingStats"] = {
                "numDraftTokens": batch * one.length,
                "numAcceptedTokens": accepted,
                "numRequestsWithDraftTokens": batch,
                "acceptanceLength": 1 + accepted / batch,
                "iterLatencyMS": 1e3 * one.draft_seconds,
                "draftOverhead": one.draft_seconds / one.step_seconds,
            }
        rows.append(row)
    return "".join(json.dumps(row) + "\n" for row in rows)


def llama_cpp_log(one: Traffic) -> str:
    """The lines of one request in llama.cpp's log, with all the traffic in it."""
    head = "0.31.456.700 I slot print_timing: id  0 | task 0 |"
    tokens = one.cycles + one.run.accepted
    seconds = one.cycles * one.step_seconds
    rows = [
        f"{head} prompt eval time =     120.00 ms /    64 tokens (    1.87 ms per token,   533.33 tokens per second)",
        f"{head}        eval time = {1e3 * seconds:11.2f} ms / {tokens:5d} tokens ({1e3 * seconds / tokens:8.2f} ms "
        f"per token, {tokens / seconds:8.2f} tokens per second)",
    ]
    if one.length:
        rates = ", ".join(f"{count / one.cycles:.3f}" for count in one.positions)
        rows += [
            f"{head} draft acceptance = {one.run.accepted / one.run.drafted:.5f} ({one.run.accepted:5d} accepted / "
            f"{one.run.drafted:5d} generated), mean acceptance length = {one.tau:.2f}, acceptance rate per position = "
            f"({rates})",
            f"0.31.456.725 I statistics draft-simple: #calls(b,g,a) = 1 {one.cycles} {one.cycles}, #gen drafts = "
            f"{one.cycles}, #acc drafts = {one.positions[0]}, #gen tokens = {one.run.drafted}, #acc tokens = "
            f"{one.run.accepted}, dur(b,g,a) = 0.005, {1e3 * one.cycles * one.draft_seconds:.3f}, 0.500 ms",
        ]
    return "\n".join(rows) + "\n"


def samples() -> dict[str, str]:
    """The text of each sample file."""
    small, large = Deployment("h100_sxm", "llama-3.1-8b", "eagle3"), Deployment("h100_sxm", "qwen3-32b", "eagle3")
    good, poor = [0.78, 0.74, 0.71], [0.45, 0.42, 0.4, 0.38, 0.37]
    two = {
        "llama-3.1-8b": traffic(StepTimes.computed(small, most_sequences=8), 8, 3, good, count=16),
        "qwen3-32b": traffic(StepTimes.computed(large, most_sequences=8), 8, 5, poor, count=16),
    }
    plain = {
        "llama-3.1-8b": traffic(StepTimes.computed(small, most_sequences=8), 8, 0, [], count=16),
        "qwen3-32b": traffic(StepTimes.computed(large, most_sequences=8), 8, 0, [], count=16),
    }
    loaded = Deployment("h100_sxm", "llama-3.1-8b", "eagle3", engine="sglang")
    crowded = StepTimes.computed(loaded, most_sequences=192)
    dear = Deployment("h100_sxm", "llama-3.1-8b", "llama-3.2-1b", engine="trtllm")
    levels = dear.latency(4).draft_levels(Tree.chain(6), dear.planned_context)
    desk = Deployment("rtx4090", "llama-3.1-8b", "llama-3.2-1b", quant="q4_k_m", engine="llama.cpp")
    own = desk.latency(1).draft_levels(Tree.chain(8), desk.planned_context)
    rates = [0.7, 0.65, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
    return {
        "vllm-before.prom": vllm_scrape(two, before=500, end=False),
        "vllm-after.prom": vllm_scrape(two, before=500),
        "vllm-off-before.prom": vllm_scrape(plain, before=500, end=False),
        "vllm-off-after.prom": vllm_scrape(plain, before=500),
        "vllm.log": vllm_log(two["qwen3-32b"]),
        "sglang.log": sglang_log(traffic(crowded, 192, 5, rates, count=384)),
        "trtllm-stats.jsonl": trtllm_stats(
            traffic(StepTimes.computed(dear, most_sequences=4), 4, 6, rates, count=16, draft_seconds=levels)
        ),
        "llama-server.log": llama_cpp_log(
            traffic(StepTimes.computed(desk, most_sequences=1), 1, 8, rates, count=8, draft_seconds=own)
        ),
    }


def greedy_texts(tokens: int = 24) -> dict[str, str]:
    """Token ids of greedy texts of the shipped target: in float32, in bfloat16, and with a wrong token."""
    import torch

    from reference.models import load_pair
    from reference.prompts import encode_prompts, load_prompts

    found: dict[str, list[int]] = {}
    for name, dtype in (("plain", torch.float32), ("speculative", torch.bfloat16)):
        pair = load_pair(dtype=dtype)
        (prompt,) = encode_prompts(pair, load_prompts(count=1, skip=5), 32)
        text: list[int] = []
        with torch.inference_mode():
            for _ in range(tokens):
                logits = pair.target(torch.tensor([prompt + text])).logits[0, -1]
                text.append(int(logits.argmax()))
        found |= {"prompt": prompt, name: text}
    wrong = found["plain"].copy()
    wrong[9] = found["plain"][8]
    return {f"{name}.json": json.dumps(ids) + "\n" for name, ids in (found | {"wrong": wrong}).items()}


def write_tiny_head(folder: Path) -> None:
    """Write an EAGLE-3 head of random weights for a tiny target, in the layout of vLLM's speculators."""
    import torch

    from reference.heads import Eagle3Head, HeadConfig, new_head, write_head

    torch.manual_seed(0)
    head = new_head(HeadConfig("eagle3", 32, 48, 40, 4, 2, 8, draft_vocab_size=24))
    if isinstance(head, Eagle3Head):
        head.set_vocabulary(torch.arange(24))
    write_head(head.eval().requires_grad_(False), folder, "speculators", overwrite=True)


def main() -> None:
    """Write the sample files."""
    SAMPLES.mkdir(exist_ok=True)
    for name, text in (samples() | greedy_texts()).items():
        (SAMPLES / name).write_text(text, encoding="utf-8")
    write_tiny_head(SAMPLES / "head")


if __name__ == "__main__":
    main()
