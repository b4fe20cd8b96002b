"""`RecordedWorld`, recorded texts of a target, on which the cycles of any lossless decoder are replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from simulate.worlds.emitted import EmittedTokens
from simulate.worlds.simulated_world import SimulatedWorld
from simulate.worlds.walks import Walks
from spectheory import DrawPolicy, DrawRule, InputError, Replays, Tree, Verifier
from spectheory.replay import CycleChain

ROUNDING = 1e-9
"""How far below 0 a chance may be by rounding."""


@dataclass(frozen=True, eq=False)
class RecordedWorld(SimulatedWorld):
    """Recorded texts. Given a text, the ends of the cycles form a Markov chain; `walks` draws its steps.

    Request 0 has the first text, request 1 the second, and so on; after the last text the first follows again. A
    request ends where no whole cycle fits into the rest of its text.

    Each text is a class of its own in `emitted_tokens`, and so a simulation of serving keeps what differs between
    requests.

    Attributes:
        replays: the texts.
    """

    replays: Replays

    def walks(
        self,
        shape: Tree | DrawPolicy,
        verifier: Verifier | None = None,
        rule: DrawRule | None = None,
        *,
        requests: int,
        cycles: int = 2**31,
        rng: np.random.Generator,
    ) -> Walks:
        """See SimulatedWorld.walks.

        Raises:
            InputError: see `Replays.replay`; or `requests` is not a multiple of the number of texts; or siblings are
                sampled, and the chances of some cycle are estimates outside 0 to 1.
        """
        return super().walks(shape, verifier, rule, requests=requests, cycles=cycles, rng=rng)

    def _walks(
        self, shape: Any, verifier: Any, rule: DrawRule | None, requests: int, cycles: int, rng: np.random.Generator
    ) -> Walks:
        chains = self._chains(shape, verifier, rule)
        if requests % len(chains):
            raise InputError(
                f"requests must be a multiple of {len(chains)}, the number of texts, so that each is played equally "
                f"often, got {requests}"
            )
        accepted, request = [], []
        for number, chain in enumerate(chains):
            ends = _require_chances(chain, verifier).cumsum(1)
            at = np.full(requests // len(chains), chain.first)
            for _ in range(min(cycles, len(ends))):
                playing = np.flatnonzero(at < len(ends))
                if not len(playing):
                    break
                kept = (ends[at[playing], :-1] <= rng.random(len(playing))[:, None]).sum(1)
                at[playing] += kept + 1
                accepted.append(kept)
                request.append(playing * len(chains) + number)
        order = np.argsort(np.concatenate(request), kind="stable")
        return Walks(np.concatenate(accepted)[order], np.concatenate(request)[order], chains[0].kept.shape[1] - 1)

    def block_efficiency(
        self, shape: Tree | DrawPolicy, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> float:
        """See SimulatedWorld.block_efficiency. Raises InputError as `Replays.replay` does."""
        return self.replays.replay(shape, _given(verifier), rule).tau

    def emitted_tokens(
        self, shape: Tree | DrawPolicy, verifier: Verifier | None = None, rule: DrawRule | None = None
    ) -> EmittedTokens:
        """See SimulatedWorld.emitted_tokens. Texts that are too short for a cycle are left out."""
        chains = [chain for chain in self._chains(shape, verifier, rule) if chain.first < len(chain.kept)]
        counted = np.array([chain.starts @ _require_chances(chain, verifier) for chain in chains])
        tokens = counted @ np.arange(1, counted.shape[1] + 1)
        return EmittedTokens(tokens / tokens.sum(), counted / counted.sum(1, keepdims=True))

    def _chains(self, shape: Tree | DrawPolicy, verifier: Verifier | None, rule: DrawRule | None) -> list[CycleChain]:
        """For each text the chain of the cycles that fit into it whole."""
        verifier = _given(verifier)
        starts = self.replays.starts(shape, verifier, rule)
        kept = self.replays.kept(shape, verifier, rule)
        return [
            CycleChain(rows[: len(started)], self.replays.first) for rows, started in zip(kept, starts, strict=True)
        ]


def _given(verifier: Verifier | None) -> Verifier:
    if verifier is None:
        raise InputError(
            "verifier must be given in a RecordedWorld, such as verify.Block(), or verify.Greedy() for text "
            "of temperature 0, got None"
        )
    return verifier


def _require_chances(chain: CycleChain, verifier: Verifier | None) -> Shaped[np.ndarray, "n lengths"]:
    """The chances that a cycle from each position keeps exactly 0..L tokens, if they are between 0 and 1."""
    if len(chain.ends) and not chain.ends.min() >= -ROUNDING:
        raise InputError(
            f"the chances of {verifier} must be at least 0 at every position, so that cycles can be drawn, got "
            f"{chain.ends.min():.3g}: siblings are sampled here, and single chances are estimates; make the Replays "
            "with more samples, draft a chain, or use Replays.replay for the expected number of cycles"
        )
    return np.maximum(chain.ends, 0)
