"""Adapters of samplers that verify trees, of typical and nucleus acceptance, and of single draws."""

from __future__ import annotations

from types import SimpleNamespace as Box
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from examples.gallery.chains import RIGHT
from examples.gallery.copies import Copy
from examples.gallery.drafts import Verify, ended, flat_tree, log_rows, logits_of, paths, residual, tokens_of
from examples.gallery.fakes import Engine, bare, ignored, second, unchanged
from examples.gallery.subjects import subject
from spectheory import Draft, DrawRule
from spectheory.certify import Play

CHILDREN: dict[str, Any] = {"shapes": "children", "rule": DrawRule.NO_REPLACEMENT}
"""Several children of the root, drawn without replacement."""


def _eagle(copy: Copy, drawn: bool = False) -> Verify:
    """`evaluate_posterior` of EAGLE-2 and EAGLE-3, which returns the next token's distribution, or draws the token."""
    posterior = copy.load("evaluate_posterior").evaluate_posterior

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, Any]:
        rows = paths(draft)
        best, kept, rest = posterior(logits_of(p, rows), tokens_of(draft, rows), second)
        return rows[int(best)][int(kept)], rest if drawn else torch.multinomial(rest, 1)

    return verify


@subject(
    "SafeAILab/EAGLE", "eagle/model/utils.py", "evaluate_posterior", shapes="tree", rule=DrawRule.TOP_K, reading=RIGHT
)
def eagle(copy: Copy) -> Verify:
    return _eagle(copy)


@subject(
    "Tencent/AngelSlim",
    "angelslim/compressor/speculative/utils/util.py",
    "evaluate_posterior",
    shapes="tree",
    rule=DrawRule.TOP_K,
    reading=RIGHT,
)
def angelslim(copy: Copy) -> Verify:
    return _eagle(copy, drawn=True)


@subject(
    "hemingkx/Spec-Bench",
    "model/eagle/utils.py",
    "evaluate_posterior",
    **CHILDREN,
    reading=f"EAGLE-1. {RIGHT}",
)
def spec_bench_eagle(copy: Copy) -> Verify:
    posterior = copy.load("evaluate_posterior").evaluate_posterior

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, Any]:
        rows, q = [[0, child] for child in draft.draws[0]], torch.tensor(draft.q[0]).float()
        drafted = tokens_of(draft, rows)
        chances, ones = q[drafted[:, 1]], torch.ones(len(rows))
        cart = torch.stack((ones, chances / (1 - functional.pad(chances.cumsum(0)[:-1], (1, 0)))), 1)
        of_tree = [q[None]], [[0, 0]] * len(rows), functional.pad(drafted[:, 1], (1, 0))[None]
        before = [[[], list(range(1, n + 1))] for n in range(len(rows))]
        best, kept, rest = posterior(logits_of(p, rows), drafted, second, cart, *of_tree, before)
        return rows[int(best)][int(kept)], torch.multinomial(rest, 1)

    return verify


def _medusa(copy: Copy, *settings: float, **options: Any) -> Verify:
    """`evaluate_posterior` of Medusa or REST, whose caller draws the next token from p."""
    masks = ["get_nucleus_posterior_mask", "get_typical_posterior_mask"][: 1 + ("sampling" in options)]
    posterior = copy.load("evaluate_posterior", *masks).evaluate_posterior

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, Any]:
        rows = paths(draft)
        best, kept = posterior(logits_of(p, rows), tokens_of(draft, rows), *settings, **options)
        node = rows[int(best)][int(kept)]
        return node, torch.multinomial(torch.tensor(p[node]), 1)

    return verify


MEDUSA = "FasterDecoding/Medusa", "medusa/model/utils.py", "evaluate_posterior"


@subject(*MEDUSA, reading="`sampling='typical'`, `fast=True`. Lossy by design: typical acceptance.")
def medusa_typical(copy: Copy) -> Verify:
    return _medusa(copy, 0.7, 0.3, 0.09, sampling="typical", fast=True)


@subject(
    *MEDUSA, reading="`sampling='typical'`, `fast=False`. Raises TypeError in every call: see [below](#medusa-typical)."
)
def medusa_typical_not_fast(copy: Copy) -> Verify:
    return _medusa(copy, 1.0, 0.3, 0.09, sampling="typical", fast=False)


@subject(*MEDUSA, reading="`sampling='nucleus'`, top-p 0.8, compared with p itself. Lossy by design: truncation.")
def medusa_nucleus(copy: Copy) -> Verify:
    return _medusa(copy, 1.0, top_p=0.8, sampling="nucleus")


@subject(
    "FasterDecoding/REST",
    "rest/model/utils.py",
    "evaluate_posterior",
    reading="top-p 0.8, compared with p itself. Lossy by design: truncation.",
)
def rest(copy: Copy) -> Verify:
    return _medusa(copy, 1.0, 0.8)


def _sequoia(copy: Copy, name: str) -> Verify:
    """The method `verify` of a tree of Sequoia, with models that return the draft's p. Tokens 0 and 2 end its texts."""
    rest = copy.load("get_residual", file="utils.py").get_residual
    tree = copy.load(name, Tree=object, get_residual=rest, get_sampling_logits=unchanged).space[name]

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
        model, coins = Engine(log_rows(p, first=3)), torch.rand(len(draft.tokens))
        plain = {"temperature": 1.0, "top_p": 1.0, "dtype": torch.float32, "residual_graph": rest, "seq_to_use": [0]}
        state = {"target_model_engine": model, "draft_model_engine": model, "r": coins, **plain}
        state.update(prepare_for_next_iter=ignored, ground_truth_len=1, target_kv_len=0)
        return ended(draft, bare(tree, flat_tree(draft, first=3) | state).verify()[0][1:] - 3)

    return verify


SEQUOIA = "Infini-AI-Lab/Sequoia", "Tree/SpecTree.py"
OVERWRITTEN = "The bonus token replaces an accepted token: see [below](#bonus-before-gather)."


@subject(*SEQUOIA, "SpecTree.verify", **CHILDREN, reading=OVERWRITTEN)
def sequoia(copy: Copy) -> Verify:
    return _sequoia(copy, "SpecTree")


@subject(
    SEQUOIA[0],
    "Tree/SpecInferTree.py",
    "SpecInferTree.verify",
    shapes="children",
    rule=DrawRule.IID_APART,
    reading="The same: see [below](#bonus-before-gather).",
)
def sequoia_specinfer(copy: Copy) -> Verify:
    return _sequoia(copy, "SpecInferTree")


class _Even:
    """A model with a cache for Sequoia, which gives tokens 3 and 4 the probability 1/2 each after every text."""

    dtype = torch.float16
    engine = Box(max_length=16, kv_cache=Box(gather_kv_incremental=lambda *_: None))

    def inference(self, input_ids: torch.Tensor, **_: Any) -> torch.Tensor:
        row = torch.tensor([0.0, 0.0, 0.0, 1.0, 1.0], dtype=torch.float16).log()
        return row.expand(1, input_ids.shape[1], 5).clone()

    graph_inference = inference


@subject(
    *SEQUOIA,
    "SpecTree, two cycles",
    reading="The random numbers of the first cycle are used again: see [below](#noise-once).",
)
def sequoia_two_cycles(copy: Copy) -> Play:
    names = "get_residual", "get_sampling_logits", "sampling_without_replacement", "_make_causal_mask"
    parts = copy.load(*names, file="utils.py")
    base = copy.load("Tree", file="Tree/Tree.py", _make_causal_mask=parts._make_causal_mask).Tree
    given = {"get_residual": parts.get_residual, "get_sampling_logits": parts.get_sampling_logits}
    tree, length = copy.load("SpecTree", Tree=base, **given).SpecTree, _Even.engine.max_length
    one_draft = {"roots": [[0], [1]], "branches": [[1], [0]], "Successors": [[1], []], "size": 2}

    def step(context: Any, rng: Any) -> list[int]:
        grown = tree(
            *(_Even(), _Even(), torch.tensor([1, 3])),
            **{"temperature": 1.0, "top_p": 1.0, "max_length": length, "max_target_seq": length, "vocab_size": 5},
            grow_map={**one_draft, "mask": torch.eye(2), "depth": torch.tensor([0, 1])},
            attn_mask=torch.zeros(length, length, dtype=torch.float16),
            position_ids=torch.zeros(length).long(),
            residual_graph=parts.get_residual,
            sampling_callables={0: lambda logits, noise: parts.sampling_without_replacement(logits, noise, 1, 1.0)},
            sample_gather_indices={0: torch.tensor([0])},
        )
        grown.construct_grow_map()
        grown.verify()
        grown.construct_grow_map()
        return (grown.verify()[0][2:] - 3).tolist()

    return Play("p = q = (1/2, 1/2)", step, lambda context: np.array([0.5, 0.5]), ((),), 3, 2)


@subject("Infini-AI-Lab/TriForce", "utils/SpecTree_TP.py", "accept_step", **CHILDREN, reading=RIGHT)
def triforce(copy: Copy) -> Verify:
    step = copy.load("accept_step").accept_step

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, Any]:
        state = flat_tree(draft) | {"target_logits": torch.tensor(p).float(), "temperature": 1.0, "device": "cpu"}
        tree, node = Box(**state, residual_graph=residual, graph_engine=Box(device="cpu")), 0
        while True:
            child, rest = step(tree, node)
            if child < 0:
                return node, rest.multinomial(1)
            node = int(child)

    return verify


@subject("yandex-research/specexec", "specdec/spec_SI.py", "_inference_step", **CHILDREN, reading=RIGHT)
def specexec(copy: Copy) -> Verify:
    step = copy.load("_inference_step")._inference_step

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, Any]:
        node, target = 0, torch.tensor(p)
        while children := list(draft.draws[node]):
            tokens = [int(draft.tokens[child]) for child in children]
            child, token = step(target[node], torch.tensor(draft.q[node]), children, tokens)
            if child is None:
                return node, token
            node = child
        return node, torch.multinomial(target[node], 1)

    return verify


@subject(
    "apple/ml-recurrent-drafter",
    "recurrent_drafting/recurrent_drafting.py",
    "_choose_from_candidates, _prepare_next_input",
    shapes="children",
    rule=DrawRule.TOP_K,
    reading="The drafts of a beam search are accepted as if they had been drawn: see [below](#beam-not-drawn).",
)
def redrafter(copy: Copy) -> Verify:
    parts = "_choose_from_candidates", "_prepare_next_input", "_select_one_per_row"
    loaded = copy.load(*parts, dist=torch.distributions)

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, Any]:
        rows = [[0, child] for child in draft.draws[0]]
        beams, llm = tokens_of(draft, rows)[None], logits_of(p, rows)[None]
        drafter = torch.tensor(draft.q[0]).float().log().expand(1, len(rows), 1, -1)
        kept, beam = loaded._choose_from_candidates(beams, llm, drafter)
        hidden = torch.zeros(1, len(rows), 2, 1)
        _, token = loaded._prepare_next_input(drafter, llm, hidden, beam, kept)
        return rows[int(beam)][int(kept)], token

    return verify


DRAWS = "A draw from p, as its name says."


@subject(SEQUOIA[0], "utils.py", "sampling_without_replacement", shapes="node", reading=DRAWS)
def sequoia_draw(copy: Copy) -> Verify:
    draw = copy.load("sampling_without_replacement").sampling_without_replacement
    return lambda draft, p, rng: (0, draw(torch.tensor(p[0]).log(), torch.rand(len(p[0])), 1, 1.0))


@subject(
    "lucidrains/speculative-decoding",
    "speculative_decoding/speculative_decoding.py",
    "gumbel_sample",
    shapes="node",
    reading=DRAWS,
)
def lucidrains_draw(copy: Copy) -> Verify:
    draw = copy.load("log", "gumbel_noise", "gumbel_sample").gumbel_sample
    return lambda draft, p, rng: (0, draw(torch.tensor(p[0]).log()))


@subject(
    "Waloid24/AdaSpec",
    "vllm/model_executor/layers/sampler.py",
    "_multinomial",
    shapes="node",
    reading=f"vLLM V0. {DRAWS}",
)
def vllm_v0_draw(copy: Copy) -> Verify:
    draw = copy.load("_multinomial")._multinomial
    return lambda draft, p, rng: (0, draw(torch.tensor(p[:1]).clone(), 1)[0, 0])
