"""Adapters of samplers that verify one drafted path."""

from __future__ import annotations

from types import SimpleNamespace as Box
from typing import Any

import torch

from examples.gallery.copies import Copy
from examples.gallery.drafts import Chain, Verify, on_chains
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


def _vllm(copy: Copy, sampler: Any) -> Verify:
    """A sampler of vLLM V0, which gets the bonus token from the caller."""
    sampler.init_gpu_tensors("cpu")

    def emitted(chain: Chain) -> list[int]:
        bonus = torch.multinomial(chain.p[-1], 1)
        rows = sampler.forward(chain.p[None], bonus[None], chain.q[None], chain.tokens[None])
        return [token for token in rows[0].tolist() if token != -1]

    return on_chains(emitted)


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
    return _vllm(copy, copy.load("RejectionSampler", "_multinomial", **given).RejectionSampler(use_flashinfer=False))


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
    return _vllm(copy, loaded.TypicalAcceptanceSampler(0.09, 0.3))


class _Unpinned:
    """The module torch without pinned memory, which a machine without an accelerator lacks."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch, name)
        if name not in ("tensor", "arange", "full", "ones"):
            return found
        return lambda *given, pin_memory=False, **options: found(*given, **options)


def _ascend(copy: Copy, sampler: str, recovery: str, **options: Any) -> Verify:
    """A sampler of vllm-ascend for one request, with the corrections that it takes from another function."""
    given = {"PLACEHOLDER_TOKEN_ID": -1, "HAS_TRITON": False, "torch": _Unpinned()}
    loaded = copy.load(sampler, "sample_recovered_tokens", recovery, **given)

    def emitted(c: Chain) -> list[int]:
        ends, coins, plain = torch.tensor([c.k]), torch.rand(c.k, dtype=torch.float64), Box(generators={})
        bonus, out = torch.multinomial(c.p[-1], 1), torch.full((1, c.k + 1), -1)
        device, target = torch.device("cpu"), c.p[:-1]
        correct = loaded.sample_recovered_tokens
        corrections = correct(c.k, [c.k], ends, c.tokens, c.q, target, plain, device, **options)
        sampling, vocabulary = torch.tensor([False]), c.p.shape[1]
        whole = (out, ends, c.tokens, c.q, target, bonus, corrections, coins, sampling, c.k, vocabulary)
        getattr(loaded, sampler)(*whole)
        return [token for token in out[0].tolist() if token != -1]

    return on_chains(emitted)


ASCEND = "vllm_ascend/sample/rejection_sampler.py"


@subject("vllm-project/vllm-ascend", ASCEND, "rejection_random_sample_pytorch", reading=RIGHT)
def ascend(copy: Copy) -> Verify:
    return _ascend(copy, "rejection_random_sample_pytorch", "sample_recovered_tokens_pytorch")


@subject(
    "vllm-project/vllm-ascend",
    ASCEND,
    "rejection_random_sample_block_verify_pytorch",
    reading="A product of ratios is compared with a product of coins: see [below](#ascend-block).",
)
def ascend_block(copy: Copy) -> Verify:
    names = "rejection_random_sample_block_verify_pytorch", "sample_recovered_tokens_blockwise_pytorch"
    return _ascend(copy, *names, use_block_verify=True)


@subject("pytorch-labs/gpt-fast", "generate.py", "speculative_decode", reading=RIGHT)
def gpt_fast(copy: Copy) -> Verify:
    loaded = copy.load("speculative_decode", "multinomial_sample_one_no_sync", "logits_to_probs")

    def emitted(c: Chain) -> Any:
        loaded.space["decode_n_tokens"] = lambda *_, **__: (list(c.tokens[:, None]), list(c.q))
        loaded.space["model_forward"] = lambda *_: c.p.log()[None]
        return loaded.speculative_decode(None, None, torch.tensor([0]), 0, c.k)

    return on_chains(emitted)


class _Cache:
    """A model with a cache, as feifeibear's code and PEARL use it."""

    def __init__(self, model: Any, *_: Any) -> None:
        self.model = model
        self._prob_history = None

    def generate(self, ids: Any, _: int) -> Any:
        self._prob_history = self.model.probs[None]
        return None if self.model.tokens is None else torch.cat((ids, self.model.tokens[None]), 1)

    def rollback(self, kept: int) -> None:
        self._prob_history = self._prob_history[:, :kept]  # pyright: ignore[reportOptionalSubscript]


def _models(c: Chain) -> tuple[Box, Box]:
    return Box(probs=c.q, tokens=c.tokens, device="cpu"), Box(probs=c.p, tokens=None, device="cpu")


FEIFEIBEAR = "feifeibear/LLMSpeculativeSampling", "sampling/speculative_sampling.py"


@subject(*FEIFEIBEAR, "speculative_sampling", cases=25, reading=RIGHT)
def feifeibear(copy: Copy) -> Verify:
    parts = copy.load("sample", "max_fn", file="sampling/utils.py")
    given = {"KVCacheModel": _Cache, "sample": parts.sample, "max_fn": parts.max_fn}
    sampler = copy.load("speculative_sampling", **given).speculative_sampling
    return on_chains(lambda c: sampler(torch.tensor([[0]]), *_models(c), max_len=1, gamma=c.k)[0, 1:], first=1)


class _Bar:
    """A progress bar that shows nothing."""

    n = 0

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, n: int) -> None: ...


@subject(*FEIFEIBEAR, "speculative_sampling_v2", cases=25, reading=RIGHT)
def feifeibear_v2(copy: Copy) -> Verify:
    parts = copy.load("sample", "max_fn", file="sampling/utils.py")
    given = {"max_fn": parts.max_fn, "norm_logits": lambda probs, *_: probs, "tqdm": _Bar}
    loaded = copy.load("speculative_sampling_v2", **given)

    def emitted(c: Chain) -> Any:
        left = list(c.tokens[:, None, None])
        loaded.space["sample"] = lambda probs: left.pop(0) if left else parts.sample(probs)
        models = (lambda ids: Box(logits=c.q[None, : ids.shape[1]].clone()), lambda _: Box(logits=c.p[None].clone()))
        return loaded.speculative_sampling_v2(torch.tensor([[0]]), *models, max_len=1, gamma=c.k)[0, 1:]

    return on_chains(emitted, first=1)


@subject("smart-lty/ParallelSpeculativeDecoding", "src/engine.py", "speculative_decoding", reading=f"PEARL. {RIGHT}")
def pearl(copy: Copy) -> Verify:
    parts = copy.load("sample", "max_fn", file="src/util.py")
    given = {"KVCacheModel": _Cache, "sample": parts.sample, "max_fn": parts.max_fn}
    sampler = copy.load("speculative_decoding", **given).speculative_decoding

    def emitted(c: Chain) -> Any:
        drafter, target = _models(c)
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
        left = list(zip(c.tokens[:, None], c.q, strict=True))
        loaded.space["sample"] = lambda logits, **o: left.pop(0) if left else loaded.sample(logits, **o)
        models = (lambda **_: torch.zeros(1), lambda **_: c.p.log()[None])
        return loaded.speculative_decoding(*models, torch.tensor([0]), torch.tensor([0]), 1, c.k)

    return on_chains(emitted)


class _DoneError(Exception):
    """The sampler asks for a second draft: the first cycle is over."""


@subject(
    "romsto/Speculative-Decoding", "sampling/speculative_decoding.py", "speculative_generate", cases=25, reading=RIGHT
)
def romsto(copy: Copy) -> Verify:
    given = {"prune_cache": lambda *_: None, "GreedyProcessor": lambda: None}
    sampler = copy.load("speculative_generate", "max_fn", **given).speculative_generate

    def emitted(c: Chain) -> Any:
        left = list(c.tokens)

        def drafter(input_ids: Any, **_: Any) -> Box:
            if not left:
                raise _DoneError(input_ids[0, 1:])
            return Box(logits=c.q[None, : input_ids.shape[1]], past_key_values=None)

        drafter.device = "cpu"  # pyright: ignore[reportFunctionMemberAccess]
        processor: Any = type("Plain", (), {"__call__": lambda _, probs: probs})()
        processor.sample = lambda probs: left.pop(0) if left else torch.multinomial(probs, 1).squeeze(-1)
        target: Any = type("Target", (), {"__call__": lambda *_, **__: Box(logits=c.p[None], past_key_values=None)})()
        target.device, target.config = "cpu", Box(vocab_size=c.p.shape[1])
        places = (c.k, processor, c.k + 5, 99, 98, False)
        try:
            return sampler([0], drafter, target, None, *places, first_target=False)[0]
        except _DoneError as done:
            return done.args[0]

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
