"""The decoding loop: draft, verify in one target forward, keep the accepted path.

With a tree that is the root alone, the same loop is plain autoregressive decoding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from reference.cuda_graphs import cached
from reference.device_verification import chosen_at_nodes
from reference.drafters import Drafter, incompatibility
from reference.drafters.static import pruned
from reference.host_arrays import Array, numpy_on_host
from reference.logits import fetch, settle
from reference.models import Pair
from reference.random_streams import Coins, Uniforms
from reference.sampling import Sampling
from reference.token_checks import check_context, check_tokens
from spectheory import Draft, DrawRule, Tree
from spectheory.core.chance import draw
from spectheory.core.errors import InputError
from spectheory.otlp import NSS, Solver
from spectheory.verify import TopDown, Verifier, walk


@dataclass(frozen=True)
class Generation:
    """One decoded text.

    Attributes:
        tokens: token ids of the text, without the prompt.
        accepted: number of drafted tokens kept in each cycle. The last cycle may keep tokens after the end of the text.
        started: time at which the first token was chosen, after the prompt was read, by `time.perf_counter`.
        seconds: wall-clock seconds from `started` to the end of the text.
    """

    tokens: list[int]
    accepted: list[int]
    started: float
    seconds: float


@dataclass(frozen=True)
class Decoder:
    """Speculative decoding of one text at a time.

    At temperature 0 the text is the target's most probable tokens, whatever was drafted. Above it `verifier` decides
    which tokens are kept; the default, sample and match, is lossless for every drafter. A text ends at the first of
    `stop_tokens`: by default the target's; an empty set never ends it.

    Raises:
        InputError: the verifier is a node solver, or is not lossless for the drafter's draw rule.
    """

    pair: Pair
    drafter: Drafter
    sampling: Sampling = field(default_factory=Sampling)
    verifier: Verifier = field(default_factory=lambda: TopDown(NSS()))
    stop_tokens: Collection[int] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.verifier, Solver):
            raise InputError(f"verifier {self.verifier} solves one node, not a tree: wrap it: TopDown({self.verifier})")
        if not self.sampling.greedy and (why := incompatibility(self.drafter, self.verifier, self.sampling)):
            raise InputError(f"verifier {self.verifier} does not suit {self.drafter}: it {why}")

    @torch.inference_mode()
    def generate(
        self,
        prompt: list[int],
        new_tokens: int,
        draft_rng: Generator | None = None,
        rng: np.random.Generator | None = None,
        watch: Callable[[Cycle], None] = lambda cycle: None,
    ) -> Generation:
        """Continue `prompt` by `new_tokens` tokens, or up to the first stop token.

        Args:
            prompt: token ids.
            new_tokens: maximum number of tokens of the text, at least 1.
            draft_rng: random numbers for the drafter; needed above temperature 0.
            rng: random numbers for the verifier; needed above temperature 0. It has another type than `draft_rng`, so
                that one stream cannot be passed for both. Both generators are advanced by whole blocks of numbers.
            watch: callback, called with every cycle.

        Raises:
            InputError: the prompt is empty or is not a list of the pair's tokens, prompt and text do not fit the
                context, or a random source is missing.
            LogitsError: a model returns logits that give no probabilities.
        """
        check_tokens("prompt", prompt, self.pair.vocab_size)
        if not prompt or new_tokens < 1:
            raise InputError(f"need a prompt and new_tokens >= 1, got {len(prompt)} prompt tokens, {new_tokens} new")
        check_context(self.pair, [prompt], new_tokens)
        if not self.sampling.greedy and (draft_rng is None or rng is None):
            raise InputError("sampling needs draft_rng, a torch.Generator, and rng, a numpy.random.Generator")
        text = Decoding(self, prompt, draft_rng, rng)
        started, accepted = time.perf_counter(), []
        while len(text.tokens) < new_tokens and not text.ended:
            cycle = text.cycle()
            accepted.append(len(cycle.path))
            watch(cycle)
        seconds = time.perf_counter() - started
        ends = [i + 1 for i, token in enumerate(text.tokens) if token in text.stop_tokens]
        tokens = text.tokens[: min([new_tokens, *ends])]
        return Generation(tokens, accepted, started, seconds)


class Cycle(NamedTuple):
    """One cycle: draft, target's distributions (None at temperature 0), accepted nodes and emitted tokens."""

    draft: Draft
    p: TargetDistributions | None
    path: list[int]
    emitted: list[int]


class TargetDistributions:
    """The target's distribution at each node of a draft; each is computed at its first use."""

    def __init__(self, logits: Tensor, sampling: Sampling) -> None:
        self.logits = logits
        self.sampling = sampling
        self.known: dict[int, Array] = {}

    def __len__(self) -> int:
        return len(self.logits)

    def __getitem__(self, node: int) -> Array:
        """Distribution (V,) at a node, float32; raises IndexError after the last node, so that iteration ends there."""
        if node not in self.known:
            self.known[node] = numpy_on_host(self.sampling.distribution(self.logits[node]))
        return self.known[node]


class Decoding:
    """A text while it is decoded. The constructor reads the prompt; each `cycle` emits at least one token."""

    def __init__(
        self, decoder: Decoder, prompt: list[int], draft_rng: Generator | None, rng: np.random.Generator | None
    ) -> None:
        pair, self.sampling, self.verifier = decoder.pair, decoder.sampling, decoder.verifier
        self.stop_tokens = pair.stop_tokens if decoder.stop_tokens is None else frozenset(decoder.stop_tokens)
        self.draft_rng = None if draft_rng is None else Uniforms(draft_rng)
        self.rng = None if rng is None else Coins(rng)
        self.target = cached(pair.target, pair.vocab_size, f"target {pair.names[0]}")
        self.drafting = decoder.drafter.start(pair, self.sampling)
        self.target.taps = self.drafting.taps
        self.tree, self.rows = Tree.chain(0), self.target.rows()
        self.room = pair.context - len(prompt) - 1
        logits = self.target.forward(torch.tensor([prompt], device=pair.device))
        if self.target.taps:
            self.drafting.observe(self.target.states)
        self.drafting.read(prompt, logits)
        self.peaks = [self.target.peaks, *self.drafting.peaks()]
        settle(*self.peaks)
        if self.sampling.greedy or rng is None:
            first = int(logits[-1].argmax())
        else:
            first = draw(self.sampling.distribution(logits[-1]), rng)
        self.drafting.commit([], [first])
        self.tokens = [first]
        self.ended = first in self.stop_tokens

    def cycle(self) -> Cycle:
        """Draft, verify, and keep the accepted path."""
        target, committed = self.target, self.target.length
        draft = self.drafting.grow(self.room, self.draft_rng)
        tokens = torch.as_tensor(draft.tokens)
        if draft.tree is not self.tree:
            self.tree = draft.tree
            self.rows.add(draft.tree.parent.tolist())
        row = tokens[None].clamp_min(0) if draft.rule is DrawRule.NO_REPLACEMENT else tokens[None]
        logits = target.forward_tree(row, committed, self.rows) if draft.tree.budget else target.forward(row)
        if self.sampling.greedy:
            chosen = [target.most_probable(logits)]
        else:
            chosen = chosen_at_nodes(self.verifier, draft, logits, self.sampling, self.rng)  # type: ignore[arg-type]
        listed, *chosen = fetch([numpy_on_host(tokens), *chosen], self.peaks)
        draft, nodes = _on_host(draft, listed)
        p = None if self.sampling.greedy else TargetDistributions(logits[nodes] if nodes else logits, self.sampling)
        if chosen:
            at_node = [chosen[0][node] for node in nodes] if nodes else chosen[0]
            path, following = walk(draft.draws, draft.tokens, at_node.__getitem__)
        else:
            node, following = self.verifier._sample(draft, p, self.rng)  # type: ignore[arg-type]
            path, parent = [], draft.tree.parent
            while node:
                path.insert(0, node)
                node = parent.item(node)
        emitted = [*(draft.tokens[node] for node in path), following]
        kept = [nodes[node] for node in path] if nodes else path
        target.keep(committed, [0, *kept])
        if target.taps:
            self.drafting.observe(target.states[[0, *kept]])
        self.drafting.commit(kept, emitted, logits)
        self.tokens += emitted
        self.room -= len(emitted)
        self.ended = not self.stop_tokens.isdisjoint(emitted)
        return Cycle(draft, p, path, emitted)


def _on_host(draft: Draft, tokens: list[int]) -> tuple[Draft, list[int] | None]:
    """The draft with its tokens on the host, and if it lost nodes without a token, the numbers of those it kept."""
    nodes = None
    if min(tokens) < 0:
        whole = Draft._unchecked(draft.tree, np.array(tokens), draft.q, draft.draws, draft.rule)
        draft, nodes = pruned(whole, [token >= 0 for token in tokens])
        tokens = draft.tokens.tolist()  # type: ignore[union-attr]
    return Draft._unchecked(draft.tree, tokens, draft.q, draft.draws, draft.rule), nodes
