"""Decoding: draft, verify in one target forward, keep the accepted path. This file is the whole loop.

Without speculation the tree is the root alone, and the same loop is plain autoregressive decoding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from numbers import Integral
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from reference.cached import CachedModel
from reference.drafters import Drafter
from reference.fit import unfit
from reference.handed import Handed, handed
from reference.logits import fetch, settle
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Coins, Uniforms
from spectheory import Draft, Tree
from spectheory.core.chance import draw
from spectheory.core.errors import InputError
from spectheory.otlp import NSS, Solver
from spectheory.verify import TopDown, Verifier, walk


@dataclass(frozen=True)
class Generation:
    """One decoded text.

    Attributes:
        tokens: of the text, the prompt not among them.
        accepted: drafted tokens kept in each cycle; in the last one also those behind the end of the text.
        started: when the prompt was read and the first token chosen, by `time.perf_counter`.
        seconds: wall clock from then on.
    """

    tokens: list[int]
    accepted: list[int]
    started: float
    seconds: float


@dataclass(frozen=True)
class Decoder:
    """Speculative decoding of one text at a time.

    At temperature 0 the target's most probable token is emitted at each node, whatever was drafted. Above it `verifier`
    decides by its law; the default, sample and match, is lossless for every draft.

    Raises:
        InputError: the verifier is a node solver, or not lossless for the way in which the drafter draws.
    """

    pair: Pair
    drafter: Drafter
    sampling: Sampling = field(default_factory=Sampling)
    verifier: Verifier = field(default_factory=lambda: TopDown(NSS()))
    stop_tokens: Collection[int] = frozenset()

    def __post_init__(self) -> None:
        if isinstance(self.verifier, Solver):
            raise InputError(f"verifier {self.verifier} solves one node, not a tree: wrap it: TopDown({self.verifier})")
        if not self.sampling.greedy and (why := unfit(self.drafter, self.verifier, self.sampling)):
            raise InputError(f"verifier {self.verifier} does not go with {self.drafter}: it {why}")

    @torch.inference_mode()
    def generate(
        self,
        prompt: list[int],
        new_tokens: int,
        draft_rng: Generator | None = None,
        rng: np.random.Generator | None = None,
        watch: Callable[[Cycle], None] = lambda cycle: None,
    ) -> Generation:
        """Continue `prompt` by `new_tokens` tokens, fewer where a stop token is emitted.

        `draft_rng` draws the drafts, `rng` decides what is kept: generators of two kinds, which cannot be one stream.
        On the host both are read ahead, by the block.
        `watch` sees every cycle.

        Raises:
            InputError: the prompt is empty, no list of the pair's tokens, does not fit the context with the text, or a
                random source is missing.
            LogitsError: a model gives logits that are no distribution.
        """
        _check_tokens(prompt, self.pair.vocab_size)
        if not prompt or new_tokens < 1:
            raise InputError(f"need a prompt and new_tokens >= 1, got {len(prompt)} prompt tokens, {new_tokens} new")
        if (need := len(prompt) + new_tokens) > self.pair.context:
            raise InputError(
                f"prompt of {len(prompt)} tokens and {new_tokens} new ones need a context of {need}, these models have "
                f"{self.pair.context}: shorten the prompt or the text"
            )
        if not self.sampling.greedy and (draft_rng is None or rng is None):
            raise InputError("sampling needs draft_rng, a torch.Generator, and rng, a numpy.random.Generator")
        text = Decoding(self, prompt, draft_rng, rng)
        started, accepted = time.perf_counter(), []
        while len(text.tokens) < new_tokens and not text.ended:
            cycle = text.cycle()
            accepted.append(len(cycle.path))
            watch(cycle)
        seconds = time.perf_counter() - started
        ends = [i + 1 for i, token in enumerate(text.tokens) if token in self.stop_tokens]
        tokens = text.tokens[: min([new_tokens, *ends])]
        return Generation(tokens, accepted, started, seconds)


class Cycle(NamedTuple):
    """What one cycle drafted and kept: the draft, the target's laws at its nodes, the accepted nodes, the new tokens.

    `p` is None where the text is greedy.
    """

    draft: Draft
    p: Laws | None
    path: list[int]
    emitted: list[int]


class Laws:
    """The target's law at each node, computed for the nodes that are asked for."""

    def __init__(self, logits: Tensor, sampling: Sampling) -> None:
        self.logits = logits
        self.sampling = sampling
        self.known: dict[int, Handed] = {}

    def __len__(self) -> int:
        return len(self.logits)

    def __getitem__(self, node: int) -> Handed:
        """(V,) float32; IndexError behind the last node, so that it can be listed."""
        if node not in self.known:
            self.known[node] = handed(self.sampling.law(self.logits[node]))
        return self.known[node]


class Decoding:
    """One text that is being decoded: the prompt is read, and each `cycle` emits at least one token more."""

    def __init__(
        self, decoder: Decoder, prompt: list[int], draft_rng: Generator | None, rng: np.random.Generator | None
    ) -> None:
        pair, self.sampling, self.verifier = decoder.pair, decoder.sampling, decoder.verifier
        self.stop_tokens = frozenset(decoder.stop_tokens)
        self.draft_rng = None if draft_rng is None else Uniforms(draft_rng)
        self.rng = None if rng is None else Coins(rng)
        self.target = CachedModel(pair.target, pair.vocab_size, f"target {pair.names[0]}")
        self.drafting = decoder.drafter.start(pair, self.sampling)
        self.tree, self.rows = Tree.chain(0), self.target.rows()
        self.room = pair.context - len(prompt) - 1
        logits = self.target.forward(torch.tensor([prompt], device=pair.device))
        self.drafting.read(prompt, logits)
        self.peaks = [self.target.peaks, *self.drafting.peaks()]
        settle(*self.peaks)
        first = int(logits[-1].argmax()) if self.sampling.greedy else draw(self.sampling.law(logits[-1]), rng)
        self.drafting.commit([], [first])
        self.tokens = [first]
        self.ended = first in self.stop_tokens

    def cycle(self) -> Cycle:
        """Draft, verify, keep."""
        target, committed = self.target, self.target.length
        draft = self.drafting.grow(self.room, self.draft_rng)
        tokens = torch.as_tensor(draft.tokens, device=target.device)
        if draft.tree is not self.tree:
            self.tree = draft.tree
            self.rows.hang(draft.tree.parent.tolist())
        row = tokens.unsqueeze(0)
        logits = target.forward_tree(row, committed, self.rows) if draft.tree.budget else target.forward(row)
        draft, p, path, following = self._verify(draft, tokens, logits)
        emitted = [*(draft.tokens[node] for node in path), following]
        target.keep(committed, [0, *path])
        self.drafting.commit(path, emitted, logits)
        self.tokens += emitted
        self.room -= len(emitted)
        self.ended = not self.stop_tokens.isdisjoint(emitted)
        return Cycle(draft, p, path, emitted)

    def _verify(self, draft: Draft, tokens: Tensor, logits: Tensor) -> tuple[Draft, Laws | None, list[int], int]:
        """The draft with its tokens on the host, the target's laws, the accepted nodes, the token behind them."""
        if self.sampling.greedy:
            best = handed(logits).argmax(-1).tolist()
            draft = _on_host(draft, fetch(tokens, self.peaks))
            return draft, None, *walk(draft.draws, draft.tokens, best.__getitem__)
        draft, p = _on_host(draft, fetch(tokens, self.peaks)), Laws(logits, self.sampling)
        node, following = self.verifier._sample(draft, p, self.rng)  # type: ignore[arg-type]
        path, parent = [], draft.tree.parent
        while node:
            path.append(node)
            node = parent.item(node)
        return draft, p, path[::-1], following


def _check_tokens(prompt: list[int], vocab_size: int) -> None:
    if not isinstance(prompt, (list, tuple)):
        raise InputError(
            f"prompt must be a list of token ids, got a {type(prompt).__name__}: pass prompt.tolist(), or "
            "what the tokenizer gives as 'input_ids'"
        )
    for place, token in enumerate(prompt):
        if not isinstance(token, Integral) or not 0 <= token < vocab_size:
            raise InputError(
                f"prompt[{place}] is {token!r}: token ids are whole numbers from 0 to {vocab_size - 1}, "
                "encode the prompt with this pair's tokenizer"
            )


def _on_host(draft: Draft, tokens: list[int]) -> Draft:
    return Draft._unchecked(draft.tree, tokens, draft.q, draft.draws, draft.rule)
