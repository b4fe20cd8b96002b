"""Adapters of samplers that verify one drafted path."""

from __future__ import annotations

from types import SimpleNamespace as Box
from typing import Any

import torch

from examples.gallery.copies import Copy
from examples.gallery.drafts import Chain, Verify, on_chains
from examples.gallery.fakes import (
    Bar,
    Cache,
    Model,
    Processor,
    Unpinned,
    cached_models,
    drafted_first,
    ignored,
    unchanged,
)
from examples.gallery.subjects import subject

RIGHT = "Keeps the target's distribution."


@subject("transformers", "generation/utils.py", "_speculative_sampling", reading=RIGHT)
def transformers(copy: Copy) -> Verify:
    sampler = copy.load("_speculative_sampling")._speculative_sampling
    return on_chains(lambda c: sampler(c.tokens[None], c.q.log()[None], c.k, c.p.log()[None])[0][0])


@subject("hemingkx/Spec-Bench", "model/sps/decoding.py", "_speculative_sampling", reading=RIGHT)
def spec_bench_sps(copy: Copy) -> Verify:
    sampler = copy.load("_speculative_sampling")._speculative_sampling
    return on_chains(lambda c: sampler(c.tokens[None], c.q.log()[None], c.k, c.p.log()[None], False, c.k)[0][0])


LAYERS = "vllm/model_executor/layers"


def _vllm(sampler: Any) -> Verify:
    """A sampler of vLLM V0, which gets the bonus token from the caller."""
    sampler.init_gpu_tensors("cpu")
    return on_chains(lambda c: sampler.forward(c.p[None], c.bonus()[None], c.q[None], c.tokens[None])[0])


@subject(
    "Waloid24/AdaSpec",
    f"{LAYERS}/rejection_sampler.py",
    "RejectionSampler.forward",
    cases=20,
    reading=f"vLLM V0. {RIGHT}",
)
def vllm_v0(copy: Copy) -> Verify:
    name = "SpecDecodeStochasticBaseSampler"
    base = copy.load("SpecDecodeBaseSampler", name, file=f"{LAYERS}/spec_decode_base_sampler.py")
    off = {"flashinfer_chain_speculative_sampling": None, "chain_speculative_sampling": None}
    given = {**off, name: base.space[name], "logger": Box(info=print)}
    return _vllm(copy.load("RejectionSampler", "_multinomial", **given).RejectionSampler(use_flashinfer=False))


@subject(
    "Waloid24/AdaSpec",
    f"{LAYERS}/typical_acceptance_sampler.py",
    "TypicalAcceptanceSampler.forward",
    reading="vLLM V0. Lossy by design: typical acceptance.",
)
def vllm_v0_typical(copy: Copy) -> Verify:
    name = "SpecDecodeDeterministicBaseSampler"
    base = copy.load("SpecDecodeBaseSampler", name, file=f"{LAYERS}/spec_decode_base_sampler.py")
    loaded = copy.load("TypicalAcceptanceSampler", **{name: base.space[name]})
    return _vllm(loaded.TypicalAcceptanceSampler(0.09, 0.3))


def _ascend(copy: Copy, kind: str = "", by: str = "", **options: Any) -> Verify:
    """A sampler of vllm-ascend for one request, with the corrections that it takes from another function."""
    sampler, given = f"rejection_random_sample{kind}_pytorch", {"PLACEHOLDER_TOKEN_ID": -1, "HAS_TRITON": False}
    names = sampler, "sample_recovered_tokens", f"sample_recovered_tokens{by}_pytorch"
    loaded = copy.load(*names, torch=Unpinned(), **given)

    def emitted(c: Chain) -> Any:
        chain, out = (torch.tensor([c.k]), c.tokens, c.q, c.p[:-1]), torch.full((1, c.k + 1), -1)
        rest = loaded.sample_recovered_tokens(c.k, [c.k], *chain, Box(generators={}), torch.device("cpu"), **options)
        coins, end = torch.rand(c.k, dtype=torch.float64), (torch.tensor([False]), c.k, c.p.shape[1])
        return getattr(loaded, sampler)(out, *chain, c.bonus(), rest, coins, *end) or out[0]

    return on_chains(emitted)


ASCEND = "vllm_ascend/sample/rejection_sampler.py"


@subject("vllm-project/vllm-ascend", ASCEND, "rejection_random_sample_pytorch", reading=RIGHT)
def ascend(copy: Copy) -> Verify:
    return _ascend(copy)


@subject(
    "vllm-project/vllm-ascend",
    ASCEND,
    "rejection_random_sample_block_verify_pytorch",
    reading="A product of ratios is compared with a product of coins: see [below](#ascend-block).",
)
def ascend_block(copy: Copy) -> Verify:
    return _ascend(copy, "_block_verify", "_blockwise", use_block_verify=True)


@subject("pytorch-labs/gpt-fast", "generate.py", "speculative_decode", reading=RIGHT)
def gpt_fast(copy: Copy) -> Verify:
    loaded = copy.load("speculative_decode", "multinomial_sample_one_no_sync", "logits_to_probs")

    def emitted(c: Chain) -> Any:
        loaded.space["decode_n_tokens"] = lambda *_, **__: (list(c.tokens[:, None]), list(c.q))
        loaded.space["model_forward"] = lambda *_: c.p.log()[None]
        return loaded.speculative_decode(None, None, torch.tensor([0]), 0, c.k)

    return on_chains(emitted)


FEIFEIBEAR = "feifeibear/LLMSpeculativeSampling", "sampling/speculative_sampling.py"


@subject(*FEIFEIBEAR, "speculative_sampling", cases=25, reading=RIGHT)
def feifeibear(copy: Copy) -> Verify:
    parts = copy.load("sample", "max_fn", file="sampling/utils.py")
    given = {"KVCacheModel": Cache, "sample": parts.sample, "max_fn": parts.max_fn}
    sampler = copy.load("speculative_sampling", **given).speculative_sampling
    return on_chains(lambda c: sampler(torch.tensor([[0]]), *cached_models(c), max_len=1, gamma=c.k)[0, 1:], first=1)


@subject(*FEIFEIBEAR, "speculative_sampling_v2", cases=25, reading=RIGHT)
def feifeibear_v2(copy: Copy) -> Verify:
    parts = copy.load("sample", "max_fn", file="sampling/utils.py")
    given = {"max_fn": parts.max_fn, "norm_logits": unchanged, "tqdm": Bar}
    loaded = copy.load("speculative_sampling_v2", **given)

    def emitted(c: Chain) -> Any:
        loaded.space["sample"] = drafted_first(c.tokens[:, None, None], parts.sample)
        return loaded.speculative_sampling_v2(torch.tensor([[0]]), Model(c.q), Model(c.p), max_len=1, gamma=c.k)[0, 1:]

    return on_chains(emitted, first=1)


@subject("smart-lty/ParallelSpeculativeDecoding", "src/engine.py", "speculative_decoding", reading=f"PEARL. {RIGHT}")
def pearl(copy: Copy) -> Verify:
    parts = copy.load("sample", "max_fn", file="src/util.py")
    given = {"KVCacheModel": Cache, "sample": parts.sample, "max_fn": parts.max_fn}
    sampler = copy.load("speculative_decoding", **given).speculative_decoding

    def emitted(c: Chain) -> Any:
        drafter, target = cached_models(c)
        settings = Box(max_tokens=1, gamma=c.k, temp=1, top_k=0, top_p=0)
        host = {"accelerator": Box(is_main_process=False), "num_acc_tokens": [], "vocab_size": c.p.shape[1]}
        return sampler(Box(args=settings, draft_model=drafter, target_model=target, **host), torch.tensor([[0]]))[0, 1:]

    return on_chains(emitted)


@subject("Lightning-AI/litgpt", "litgpt/generate/speculative_decoding.py", "speculative_decoding", reading=RIGHT)
def litgpt(copy: Copy) -> Verify:
    name = "multinomial_num_samples_1"
    draw = copy.load(name, file="litgpt/generate/base.py").space[name]
    loaded = copy.load("speculative_decoding", "sample", **{name: draw})

    def emitted(c: Chain) -> Any:
        loaded.space["sample"] = drafted_first(zip(c.tokens[:, None], c.q, strict=True), loaded.sample)
        models = (lambda **_: torch.zeros(1), lambda **_: c.p.log()[None])
        return loaded.speculative_decoding(*models, torch.tensor([0]), torch.tensor([0]), 1, c.k)

    return on_chains(emitted)


@subject(
    "romsto/Speculative-Decoding", "sampling/speculative_decoding.py", "speculative_generate", cases=25, reading=RIGHT
)
def romsto(copy: Copy) -> Verify:
    sampler = copy.load("speculative_generate", "max_fn", prune_cache=ignored, GreedyProcessor=ignored)

    def emitted(c: Chain) -> Any:
        drawn = Processor(drafted_first(c.tokens, lambda probs: torch.multinomial(probs, 1).squeeze(-1)))
        given = [0], Model(c.q, once=True), Model(c.p), None, c.k, drawn, c.k + 5, 99, 98, False
        return sampler.speculative_generate(*given, first_target=False)[0]

    return on_chains(emitted)


@subject(
    "shreyansh26/Speculative-Decoding",
    "common/verification.py",
    "probabilistic_verify",
    reading="The bonus token is the most probable one, not a draw: see [below](#argmax-bonus).",
)
def shreyansh(copy: Copy) -> Verify:
    verify = copy.load("_as_batch_tensor", "VerificationResult", "probabilistic_verify").probabilistic_verify
    return on_chains(lambda c: verify(lambda _: Box(logits=c.p.log()[None]), [0], c.tokens.tolist(), c.q).emitted_ids)


HSD = "ZhouYuxuanYX/Hierarchical-Speculative-Decoding", "transformers/generation/utils.py", "_speculative_sampling"


def _hsd(copy: Copy, **mode: bool) -> Verify:
    sampler = copy.load("_speculative_sampling", expand_tabs=True)._speculative_sampling
    unfinished, never = torch.tensor([False]), lambda *_, **__: False

    def emitted(c: Chain) -> Any:
        return sampler(c.tokens[None], c.q.log()[None], c.k, c.p.log()[None], unfinished, stop=never, **mode)[0][0]

    return on_chains(emitted)


@subject(*HSD, reading="`backward=True`. The ratio of the whole path has no cap: see [below](#uncapped-ratio).")
def hsd_backward(copy: Copy) -> Verify:
    return _hsd(copy, backward=True, clever=True)


@subject(*HSD, cases=20, reading=f"The token-wise branch. {RIGHT}")
def hsd_tokenwise(copy: Copy) -> Verify:
    return _hsd(copy)


@subject(*HSD, cases=20, reading=f"`blockwise=True`. {RIGHT}")
def hsd_blockwise(copy: Copy) -> Verify:
    return _hsd(copy, blockwise=True)
