"""Verifiers of one drafted path, written as in engines: functions that draw. Some are lossy, some lossless."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spectheory.certify.zoo.specimen import documented
from spectheory.core.arrays import positive_part
from spectheory.core.chance import draw
from spectheory.core.draft import Draft
from spectheory.core.world import Levels

CHAINS = (Levels((1,)), Levels((1, 1)), Levels((1, 1, 1)))
Coin = Callable[[Any, Any], Any]
"""(sum of (w p - q)+, w) -> probability of stopping at an inner node."""


def _block(draft: Draft, p: Any, rng: Any, coin: Coin, weighted: bool = True, q_known: bool = True) -> tuple[int, int]:
    """Block verification, arXiv 2403.10444, Algorithm 2. The arguments are the parts that ports get wrong."""
    weights: list[Any] = [1]
    for node in range(1, draft.tree.budget + 1):
        token, drawn_from = int(draft.tokens[node]), draft.q[node - 1]
        ratio = p[node - 1][token] / drawn_from[token] if q_known else p[node - 1][token]
        weights.append(min(1, weights[-1] * ratio))
    last = draft.tree.budget
    for node in range(last, -1, -1):
        rest = p[node] if node == last else positive_part(weights[node] * p[node] - draft.q[node])
        chance = weights[node] if node == last else coin(rest.sum(), weights[node])
        if node == 0 or rng.random() < chance:
            if not weighted and node < last:
                rest = positive_part(p[node] - draft.q[node])
            return node, draw(rest if rest.sum() > 0 else p[node], rng)
    raise AssertionError


def published(mass: Any, weight: Any, *_: Any) -> Any:
    """The coin of the paper."""
    left = mass + 1 - weight
    return mass / left if left > 0 else 1


def block(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Block verification. Lossless."""
    return _block(draft, p, rng, published)


def block_stopping_with_weight(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """An inner node is kept with its weight as probability, as the Delayed Tree paper says in Section 3.1."""
    return _block(draft, p, rng, lambda mass, weight: weight)


def block_with_plain_residual(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """The correction is drawn from (p - q)+ instead of (w p - q)+. Seen in vllm-ascend 7807."""
    return _block(draft, p, rng, published, weighted=False)


def block_with_q_one(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """The running product uses 1 in place of the draft probabilities. Seen in vllm-ascend 7603."""
    return _block(draft, p, rng, published, q_known=False)


def _token_by_token(draft: Draft, p: Any, rng: Any, q_row: int = 0, p_row: int = 0, bonus: int = 0) -> tuple[int, int]:
    """Rejection sampling along a path. The arguments shift the rows of q, of p, and of p for the bonus token."""
    for node in range(draft.tree.budget):
        token = int(draft.tokens[node + 1])
        target, drawn_from = p[max(0, node - p_row)], draft.q[max(0, node - q_row)]
        if not rng.random() * drawn_from[token] < target[token]:
            rest = positive_part(target - drawn_from)
            return node, draw(rest if rest.sum() > 0 else target, rng)
    return draft.tree.budget, draw(p[draft.tree.budget - bonus], rng)


def token_by_token(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Rejection sampling along a path. Lossless."""
    return _token_by_token(draft, p, rng)


def stale_draft_distribution(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """The buffer of q still holds the previous row. Seen in SGLang 12561."""
    return _token_by_token(draft, p, rng, q_row=1)


def target_row_off_by_one(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """At each node, the row of p for the node before it is read. Seen in transformers 28166."""
    return _token_by_token(draft, p, rng, p_row=1)


def bonus_row_off_by_one(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """The bonus token is drawn from the row of p before the last one. Seen in vLLM 8320."""
    return _token_by_token(draft, p, rng, bonus=1)


PATHS = (
    documented("block-keeps-with-weight", block_stopping_with_weight, False, CHAINS),
    documented("block-plain-residual", block_with_plain_residual, False, CHAINS),
    documented("block-q-one", block_with_q_one, False, CHAINS),
    documented("stale-q", stale_draft_distribution, False, CHAINS),
    documented("p-row-off-by-one", target_row_off_by_one, False, CHAINS),
    documented("bonus-row-off-by-one", bonus_row_off_by_one, False, CHAINS),
    documented("block", block, True, CHAINS),
    documented("token-by-token", token_by_token, True, CHAINS),
)
