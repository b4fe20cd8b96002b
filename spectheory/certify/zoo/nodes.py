"""Node solvers, written as in engines: functions that draw. Some are lossy, and some look lossy but are not."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any

from spectheory.certify.zoo.specimen import Emit, Specimen, top_down
from spectheory.core.arrays import Vector, copy_of, positive_part, residual, set_zero, without
from spectheory.core.chance import draw
from spectheory.core.draft import DrawRule, top_tokens


def naive(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """Rejection sampling of the first drafted token. Lossless."""
    first = drafts[0]
    return first if rng.random() * q[first] < p[first] else draw(residual(p, q), rng)


def accepts_on_zero_coin(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """The test `u * q <= p` accepts a token with p = 0 if the random number u is exactly 0."""
    first = drafts[0]
    return first if rng.random() * q[first] <= p[first] else draw(residual(p, q), rng)


def corrects_from_target(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """The correction token is drawn from p, not from the residual."""
    first = drafts[0]
    return first if rng.random() * q[first] < p[first] else draw(p, rng)


def corrupts_target(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """The rejected token is removed from p in place, before the residual is computed."""
    first = drafts[0]
    if rng.random() * q[first] < p[first]:
        return first
    set_zero(p, first)
    return draw(residual(p / p.sum(), q) if p.sum() > 0 else q, rng)


def first_of_sorted(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """Rejection sampling of the drafted token with the smallest id, which is not a draw from q."""
    return naive(p, q, sorted(drafts), rng)


def recursive_rejection(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """A rejection replaces p by the residual and removes the token from q. Lossless for draws without replacement."""
    for token in drafts:
        if rng.random() * q[token] < p[token]:
            return token
        p, q = residual(p, q), without(q, token)
    return draw(p, rng)


def rejection_sorted_by_token(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """Recursive rejection of drafted tokens that are sorted by token id."""
    return recursive_rejection(p, q, sorted(drafts), rng)


def rejection_with_q_unchanged(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """Recursive rejection in which q keeps rejected tokens, and each token is tried only once."""
    for token in dict.fromkeys(drafts):
        if rng.random() * q[token] < p[token]:
            return token
        p = residual(p, q)
    return draw(p, rng)


def multi_round_residual(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """SpecInfer: drafted tokens are tried in random order, repeated tokens again. Lossless for independent draws."""
    for token in rng.permutation(drafts):
        if rng.random() * q[token] < p[token]:
            return int(token)
        p = residual(p, q)
    return draw(p, rng)


def multi_round_skipping_repeats(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """SpecInfer that does not try a rejected token again, as the public SpecHub code in its RRS mode."""
    return rejection_with_q_unchanged(p, q, [int(t) for t in rng.permutation(drafts)], rng)


def k_seq_with_factor_one(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """SpecTr's K-SEQ with rho = 1, which is below rho*. The residual has negative entries, which are set to 0."""
    for token in drafts:
        if rng.random() * q[token] < p[token]:
            return token
    kept = p - positive_part(p - q)
    overlap = kept.sum()
    gamma = (1 - (1 - overlap) ** len(drafts)) / (overlap + (overlap == 0))
    rest = positive_part(p - gamma * kept)
    return draw(rest if rest.sum() > 0 else p, rng)


def typical_acceptance(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """Medusa: a drafted token is accepted if its target probability exceeds a threshold."""
    for token in drafts:
        if p[token] * 4 > 1:
            return token
    return draw(p, rng)


def typical_entropy(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """Medusa: a drafted token is accepted if p(x) > min(1/4, exp(-H)), where H is the entropy of p in nats."""
    threshold = min(0.25, exp(sum(share * log(share) for share in map(float, p) if share > 0)))
    accepted = next((token for token in drafts if p[token] > threshold), None)
    return draw(p, rng) if accepted is None else accepted


def acceptance_threshold(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """SGLang with --speculative-accept-threshold-acc 0.75: one coin below p(drafts so far) / (3/4) accepts a draft."""
    coin, total, rest = rng.random(), 0, copy_of(p)
    for token in dict.fromkeys(drafts):
        total = total + p[token]
        if coin * 3 < total * 4:
            return token
        set_zero(rest, token)
    return draw(rest if rest.sum() > 0 else p, rng)


def relaxed_acceptance(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """TensorRT-LLM's relaxed acceptance: a draft of the top 2 tokens with p(x) >= max p - 1/4, else the argmax of p."""
    first, *others = top_tokens(p, 2)
    near = [first, *(token for token in others if p[token] * 4 >= p[first] * 4 - 1)]
    return next((token for token in drafts if token in near), first)


def match_own_sample(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """Draw a token from the target, and accept the drafted token that equals it. Lossless, but keeps few tokens."""
    return draw(p, rng)


def accept_with_target_probability(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """EAGLE: accept each drafted token with probability p, or else remove it from p. Lossless for any drafts."""
    for token in dict.fromkeys(drafts):
        if rng.random() < p[token]:
            return token
        p = without(p, token)
    return draw(p, rng)


def top_then_one_draw(p: Vector, q: Vector, drafts: list[int], rng: Any) -> int:
    """Greedy top-(k - 1) + 1: only the last drafted token is random, and q is its distribution. Lossless."""
    for token in top_tokens(q, len(drafts) - 1):
        q = without(q, token)
    return naive(p, q, drafts[-1:], rng)


def _node(name: str, emit: Emit, rule: DrawRule, seen: str = "", *, right: bool = False) -> Specimen:
    return Specimen(name, f"{emit.__doc__} {seen}".strip(), top_down(emit, rule), right)


IID, SWOR, TOP = DrawRule.IID, DrawRule.NO_REPLACEMENT, DrawRule.TOP_K

SORTED = top_down(rejection_sorted_by_token, SWOR)

NODES = (
    replace(
        _node("zero-coin", accepts_on_zero_coin, IID, "Seen in SGLang 35771 and transformers 5.23."), zero_coins=True
    ),
    _node("correction-from-p", corrects_from_target, IID, "A wrong residual."),
    _node("corrupted-p", corrupts_target, IID, "Seen in vllm-ascend 2881."),
    _node("sorted-naive", first_of_sorted, IID, "Order is part of a draft."),
    _node("sorted-by-token", rejection_sorted_by_token, SWOR, "Order is part of a draft."),
    _node("q-unchanged", rejection_with_q_unchanged, SWOR, "Draws without replacement are treated as independent."),
    _node("merged-q-unchanged", rejection_with_q_unchanged, IID, "Repeated draws are merged."),
    _node("skips-repeats", multi_round_skipping_repeats, IID, "Repeated draws are part of a draft."),
    Specimen(
        "top-k-as-samples",
        "Beam or top-k candidates are treated as draws from q.",
        top_down(recursive_rejection, TOP),
        False,
    ),
    Specimen(
        "greedy-draft-softmax-q",
        "The drafted token is the argmax, but q is the softmax. Seen in transformers 32867.",
        top_down(naive, TOP),
        False,
    ),
    _node("k-seq-factor-one", k_seq_with_factor_one, IID, "SpecTr below rho*."),
    _node("typical-acceptance", typical_acceptance, IID, "Lossy by design: Medusa, arXiv 2401.10774, Section 2.3."),
    _node("typical-entropy", typical_entropy, IID, "Lossy by design: arXiv 2401.10774, Section 2.3."),
    _node("acceptance-threshold", acceptance_threshold, IID, "Lossy by design; with 1 it is lossless for any drafts."),
    _node("relaxed-acceptance", relaxed_acceptance, IID, "Lossy by design: `use_relaxed_acceptance_for_thinking`."),
    _node("naive", naive, IID, right=True),
    _node("recursive-rejection", recursive_rejection, SWOR, right=True),
    _node("multi-round-residual", multi_round_residual, IID, right=True),
    _node("sampler-match", match_own_sample, IID, right=True),
    _node("sampler-match-top-k", match_own_sample, TOP, right=True),
    _node("eagle-top-k", accept_with_target_probability, TOP, right=True),
    _node("eagle-iid", accept_with_target_probability, IID, right=True),
    _node("greedy-top-k-plus-one", top_then_one_draw, DrawRule.TOP_K_THEN_ONE, right=True),
)
