"""Decoding with a planned tree: draft, verify in one target forward, keep the accepted path.

Without speculation the tree is the root alone, and the same loop is plain autoregressive decoding.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from reference.cached import CachedModel, additive_mask
from reference.candidates import check_temperature, draw
from reference.drafter import TreeDrafter
from reference.models import Pair
from spectheory import DrawRule, Tree
from spectheory.otlp import Naive, Solver
from spectheory.verify import walk


@dataclass(frozen=True)
class Generation:
    """One decoded text. `accepted` has one entry a cycle; seconds are wall clock after the prompt was read."""

    tokens: list[int]
    accepted: list[int]
    seconds: float
    target_seconds: float
    draft_seconds: float


@dataclass(frozen=True)
class Decoder:
    """Speculative decoding of one text at a time with one planned tree.

    At temperature 0 the draft proposes its most probable tokens and the target's choice is kept; above it children
    are drawn without replacement and `solver` decides top-down, evaluated only at the nodes on the way.
    """

    pair: Pair
    tree: Tree
    temperature: float = 0.0
    solver: Solver = field(default_factory=Naive)
    stop_tokens: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        if DrawRule.NO_REPLACEMENT not in self.solver.rules:
            raise ValueError(
                f"solver {type(self.solver).__name__} is not lossless for children drawn without replacement, "
                "which is how this decoder draws them"
            )
        widest = int(self.tree.rank.max()) + 1
        if widest > self.pair.vocab_size:
            raise ValueError(f"tree has {widest} children at a node, the vocabulary has {self.pair.vocab_size} tokens")

    @torch.inference_mode()
    def generate(
        self, prompt: list[int], new_tokens: int, draft_rng: Generator | None = None, rng: Generator | None = None
    ) -> Generation:
        """Continue `prompt` by `new_tokens` tokens, fewer where a stop token is emitted.

        `draft_rng` draws the drafts, `rng` decides what is kept: they must not be the same stream.

        Raises:
            ValueError: the prompt is empty, or does not fit the context with the text and one tree behind it.
        """
        need = len(prompt) + new_tokens + self.tree.max_depth
        if not prompt or new_tokens < 1:
            raise ValueError(f"need a prompt and new_tokens >= 1, got {len(prompt)} prompt tokens, {new_tokens} new")
        if need > self.pair.context:
            raise ValueError(
                f"prompt of {len(prompt)} tokens, {new_tokens} new ones and a tree of depth {self.tree.max_depth} "
                f"need a context of {need}, these models have {self.pair.context}: shorten the prompt or the text"
            )
        if self.temperature > 0 and self.tree.budget and _seed(draft_rng) == _seed(rng):
            raise ValueError("draft_rng and rng must be two streams: a verifier that shares noise is not lossless")
        target, draft = (CachedModel(model, self.pair.vocab_size) for model in (self.pair.target, self.pair.draft))
        context = torch.tensor(prompt, device=self.pair.device)
        last = self._emit(target.forward(context)[-1], rng)
        if self.tree.budget:
            draft.forward(context)
        target.seconds = draft.seconds = 0.0
        return self._cycles(target, draft, last, new_tokens, draft_rng, rng)

    def _cycles(
        self,
        target: CachedModel,
        draft: CachedModel,
        last: int,
        new_tokens: int,
        draft_rng: Generator | None,
        rng: Generator | None,
    ) -> Generation:
        drafter = TreeDrafter(draft, self.tree, self.temperature)
        verify = self._verifier(target)
        draws = [self.tree.children(node).tolist() for node in range(self.tree.budget + 1)]
        text, emitted, pending, accepted = [last], [last], [last], []
        started = time.perf_counter()
        while len(text) < new_tokens and not self.stop_tokens.intersection(emitted):
            committed = target.length
            drafted = drafter.grow(pending, draft_rng)
            logits = verify(drafted)
            tokens = drafted.tolist()
            path, following = walk(draws, tokens, self._chooser(logits, drafter, draws, tokens, rng))
            target.keep(committed, [0, *path])
            unseen = drafter.keep(path)
            emitted = [*(tokens[node] for node in path), following]
            pending = emitted[len(path) - unseen :]
            text += emitted
            accepted.append(len(path))
        seconds = time.perf_counter() - started
        return Generation(self._cut(text, new_tokens), accepted, seconds, target.seconds, draft.seconds)

    def _verifier(self, target: CachedModel) -> Callable[[Tensor], Tensor]:
        """One target forward over the root and the tree: tokens (n + 1,) to logits (n + 1, V)."""
        if self.tree.budget == 0:
            return target.forward
        depth = torch.as_tensor(self.tree.depth, dtype=torch.long, device=self.pair.device)
        mask = additive_mask(torch.as_tensor(self.tree.ancestor_mask()), self.pair.target.dtype).to(self.pair.device)
        return lambda tokens: target.forward_tree(tokens, depth, mask, target.length)

    def _chooser(
        self, logits: Tensor, drafter: TreeDrafter, draws: list[list[int]], tokens: list[int], rng: Generator | None
    ) -> Callable[[int], int]:
        """The token emitted at a node."""
        if self.temperature == 0:
            return logits.argmax(-1).tolist().__getitem__

        def emit(node: int) -> int:
            p = torch.softmax(logits[node] / self.temperature, dim=-1)
            if draws[node]:
                p = self.solver.branching(p, drafter.law(node), [tokens[child] for child in draws[node]])
            return draw(p, rng)

        return emit

    def _emit(self, logits: Tensor, rng: Generator | None) -> int:
        if self.temperature == 0:
            return int(logits.argmax())
        return draw(torch.softmax(logits / self.temperature, dim=-1), rng)

    def _cut(self, text: list[int], new_tokens: int) -> list[int]:
        ends = [i + 1 for i, token in enumerate(text) if token in self.stop_tokens]
        return text[: min([new_tokens, *ends])]


def _seed(generator: Generator | None) -> int:
    """What tells random streams apart; torch's global one is that of None."""
    return torch.initial_seed() if generator is None else generator.initial_seed()
