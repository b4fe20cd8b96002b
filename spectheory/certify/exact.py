"""The exact certifier: it sums over all drafts in small worlds, and compares the output with the target by equality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spectheory.certify.certificate import Certificate
from spectheory.certify.guard import ends_are_errors
from spectheory.certify.hunt import Hunt
from spectheory.certify.subject import subject_of
from spectheory.certify.world_sizes import MOST_DRAFTS, MOST_DRAFTS_ASKED, SIZES, most_drafts, sizes_of
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.world import DrawPolicy


@ends_are_errors()
def certify_verifier(
    given: Any,
    *,
    rules: Sequence[DrawRule] | DrawRule | None = None,
    policies: Sequence[DrawPolicy] | None = None,
    sizes: Sequence[int] | None = None,
    cases: int = 300,
    seconds: float = 10.0,
    seed: int = 0,
    zero_coins: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Check by enumeration in exact numbers whether a verifier keeps the target's distribution.

    Hypothesis draws worlds, in which p and q of a context may have zeros, equal each other, have disjoint supports or
    be one-hot. In each world, the distribution of the output is summed over all drafts of a policy, extended by the
    target to a common length, and compared with the target's distribution. They must be equal, or within 1e-6 if the
    verifier computes in floating point. All worlds are compared. The one with the largest total variation is made
    simpler as long as its total variation does not get smaller. The same arguments give the same worlds in the same
    order, and the same certificate; no clock decides, except that a call may take too long, and then the verdict is
    UNDECIDED and says so.

    Outcomes that are as good as impossible do not decide, and are notes in the certificate: a token of probability 0
    that is emitted only if a random number is exactly 0, and an error in branches of a probability up to 1e-6. After an
    error of higher probability, the verdict is LOSSY if another world shows it, else UNDECIDED.

    Args:
        given: a Solver, a Verifier, or a function `verify(draft, p, rng) -> (node, token)`. The function draws from
            `rng`, which has the methods random, uniform, choice, integers, permutation, exponential and gumbel of
            `numpy.random.Generator`, or from `random`, `numpy.random` or a library with a replay, such as PyTorch.
        rules: rules by which drafts are drawn; default: the verifier's own `rules`.
        policies: draft trees to grow; default: all of `spectheory.certify.strategies.shapes`.
        sizes: vocabulary sizes of the worlds; default: 2 and 3, and 6 for policies of depth 1 with up to two draws.
        cases: number of worlds to compare.
        seconds: maximum processor time of one call of `given`, and of all calls on one draft. It is checked when a call
            returns, so a call that never returns is not interrupted. `spectheory certify` does interrupt it.
        seed: seed of the worlds.
        zero_coins: whether the verdict is LOSSY if the verifier emits a token of probability 0 when a random number is
            exactly 0. Half of the published samplers do so, because they accept by `<=`.
        progress: called with the number of worlds compared so far.

    Raises:
        InputError: `given` cannot be certified, cases < 1, a size < 2, or a policy has too many drafts.
        ImportError: Hypothesis is not installed.
        CodeEndedError: `given` raised SystemExit where the certificate cannot report it.
    """
    if cases < 1:
        raise InputError(f"cases must be at least 1, got {cases}")
    if sizes is not None and (not sizes or min(sizes) < 2):
        raise InputError(f"sizes must be vocabulary sizes of at least 2, got {list(sizes)}")
    try:
        from spectheory.certify import strategies
    except ImportError as error:
        raise ImportError(
            "certify_verifier draws its worlds with Hypothesis: pip install 'spectheory[certify]'"
        ) from error
    subject = subject_of(given, rules, seconds)
    wanted = list(policies or [policy for rule in subject.rules for policy in strategies.shapes(rule)])
    fewest = min(sizes or SIZES)
    for policy in wanted:
        if policy.rule not in subject.rules:
            raise InputError(
                f"{policy} draws by {policy.rule.name}, but {subject.name} is certified for "
                f"{list(subject.rules)}: add the rule to rules, or choose another policy"
            )
        if most_drafts(policy, fewest) > MOST_DRAFTS_ASKED:
            raise InputError(
                f"{policy} has up to {most_drafts(policy, fewest):,} drafts with a vocabulary of {fewest} "
                f"tokens; at most {MOST_DRAFTS_ASKED:,} can be enumerated for each world: certify a smaller tree"
            )
    hunt = Hunt(subject, cases, progress, zero_coins)
    refused = hunt.prepare(wanted, fewest)
    settings = [
        (policy, size)
        for policy in wanted
        for size in sizes or sizes_of(policy)
        if policy not in refused and (size == fewest or most_drafts(policy, size) <= MOST_DRAFTS)
    ]
    found = None if hunt.is_over else hunt.search_all(settings, seed)
    return hunt.certificate(found, refused)
