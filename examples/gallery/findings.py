"""What the gallery reports to authors, as short reports that one can send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from examples.gallery import reproductions as own


@dataclass(frozen=True)
class Finding:
    """A report to the authors of a subject.

    Attributes:
        anchor: its name in the page.
        title: its title, as an issue would have it.
        subjects: the subjects that show it.
        what: what the code does, and where.
        expected: what we expected.
        suggestion: a way to mend it.
        reproduction: a function of `reproductions`, whose result is printed.
        shown: the calls of it to print, as text and arguments.
        confirmed: how it was confirmed.
    """

    anchor: str
    title: str
    subjects: tuple[str, ...]
    what: str
    expected: str
    suggestion: str
    reproduction: Callable[..., Any]
    shown: tuple[tuple[Any, ...], ...] = ((),)
    confirmed: str = "by enumeration of the published function, and by reading"


FINDINGS = (
    Finding(
        "bonus-before-gather",
        "Sequoia: the bonus token is written over a drafted token before the accepted ones are gathered",
        ("sequoia", "sequoia-specinfer"),
        "`SpecTree.verify` and `SpecInferTree.verify` write the bonus token to `self.tokens[accept_length]`, and then "
        "run `self.tokens[:accept_length] = self.tokens[accept_list]`. The place `accept_length` still holds a drafted "
        "token. If this token was accepted, as when the second child of the root is the only accepted one, it is lost "
        "and the bonus token is emitted twice.",
        "The accepted tokens, then the bonus token.",
        "Gather first, then write the bonus token. With this change in our copy both methods were LOSSLESS in the same "
        "search.",
        own.bonus_before_gather,
    ),
    Finding(
        "noise-once",
        "Sequoia: the random numbers of a text are drawn once and used in each cycle",
        ("sequoia-two-cycles",),
        "`SpecTree.__init__` draws `self.rand`, the noise of the drafts, with one row per node of the tree. "
        "`collective_grow_static` reads the same rows in each cycle, and `tests/testbed.py` makes one `SpecTree` per "
        "text. So the drafts of later cycles depend on the tokens of earlier ones. `self.r`, the coins, is also drawn "
        "once. It is indexed by absolute position, so a place that held a rejected draft gives its coin again.",
        "Fresh random numbers in each cycle. In the reproduction the third token always equals the first.",
        "Fill `self.rand` and `self.r` again (`uniform_()`) in `prepare_for_next_iter`. With this change in our copy "
        "the same test ended WITHIN 0.05.",
        own.noise_once,
        confirmed="by the black box on two cycles of the published class, and by reading",
    ),
    Finding(
        "ascend-block",
        "vllm-ascend: block verification compares a product of ratios with a product of coins",
        ("ascend-block",),
        "`rejection_random_sample_block_verify_pytorch` compares `cumprod(min(1, p / q))` with `cumprod(u)` and keeps "
        "the longest prefix that passes. A product of k uniform numbers is not uniform: it is at most c with "
        "probability c (1 + L + ...), L = -log c, which is more than c for two or more drafted tokens. (The engine "
        "calls this function for three or more drafted tokens, if `enable_block_verify` is set.)",
        "For one drafted token the rule is right. Block verification (arXiv 2403.10444) compares one uniform number "
        "per position with a threshold from the residual masses.",
        "Use one fresh number per position, the threshold h_i = S_i / (S_i + 1 - p_i) with S_i the sum of "
        "(p_i p - q)+ over the tokens, and p_i = min(1, p_(i-1) p / q); for the last position h = p_i. "
        "`spectheory.verify.Block` has this form. We have not tried it in this code, nor run its Triton kernel.",
        own.products_of_coins,
        ((1,), (2,), (3,)),
        "by the black box on the published function (its draws cannot be enumerated), and by reading",
    ),
    Finding(
        "uncapped-ratio",
        "HSD: the whole path is accepted by the ratio without cap",
        ("hsd-backward",),
        "With `backward=True`, `_speculative_sampling` computes the probabilities to step back with capped ratios "
        "(`previous_max`), but accepts the whole path with `r_i <= probability_ratio`, the product of p / q without "
        "the cap. A ratio above 1 at an earlier token then pays for a later token that should have been rejected. "
        "At this commit `clever` changes nothing, and the file mixes tabs and blanks, so Python refuses it with a "
        "TabError; we read each tab as four blanks.",
        "The capped ratio at the last position too (Definitions 4 and 5 of arXiv 2601.05724). With it the total "
        "variation below is 0.",
        "Divide `probability_ratio` by the running maximum of the ratios of the earlier positions, as is done for "
        "`p_next`. With this change in our copy the same search ended LOSSLESS.",
        own.uncapped_ratio,
        ((False,), (True,)),
    ),
    Finding(
        "beam-not-drawn",
        "ReDrafter: the drafts of a beam search are accepted as if they had been drawn from the drafter",
        ("redrafter",),
        "`_choose_from_candidates` accepts a token with probability min(1, P / Q), which is right for a token that was "
        "drawn from Q. `beam_search_candidates` does not draw: it takes the beams by `topk`, although "
        "`docs/speculative_sampling.md` speaks of samples. Of several beams, the one with the longest accepted prefix "
        "is chosen, which would also be lossy if the beams were drawn: two drafts of the same token are two chances.",
        "A token that a beam search drafts is certain, so Q is 1 there: keep it with probability P, or else draw "
        "from P without this token.",
        "Draw a token from P at each node, and follow the beams that have it, as the greedy path of the code does with "
        "the most probable token.",
        own.beam_not_drawn,
    ),
    Finding(
        "argmax-bonus",
        "Speculative-Decoding (shreyansh26): the bonus token is the most probable one",
        ("shreyansh",),
        "If all drafts are accepted, `probabilistic_verify` emits `argmax` of the last logits. Corrections are drawn.",
        "A draw from the target at the last position, as for the other tokens.",
        "`torch.multinomial(torch.softmax(logits[...], dim=-1), 1, generator=generator)` instead of `torch.argmax`.",
        own.argmax_bonus,
        confirmed="by the black box on the published function (its coins are Python floats), and by reading",
    ),
    Finding(
        "medusa-typical",
        "Medusa: typical acceptance with `fast=False` raises TypeError",
        ("medusa-typical-not-fast",),
        "`evaluate_posterior(..., sampling='typical', fast=False)` passes six arguments to "
        "`get_typical_posterior_mask`, which has five parameters.",
        "A mask. (This is an error, not a question of the distribution: typical acceptance is lossy by design.)",
        "Leave out the last argument, `fast`.",
        own.medusa_typical,
        confirmed="by a call of the published function",
    ),
)

NOT_CONFIRMED = (
    (
        "Sequoia's SpecInfer baseline drafts without replacement and verifies as if drafts were i.i.d.",
        "not so at this commit: `SpecInferTree.collective_grow_static` draws with `replacement=True`. A helper of "
        "`utils.py`, `sampling_with_replacement`, does draw with `replacement=False`, but nothing in the "
        "repository uses it.",
    ),
    (
        "SpecTr-GBV, the authors' code, tries each path with the probability of a path that is alone",
        "no copy was at hand. [The zoo](zoo.md) has our own rewriting from an earlier reading, `spectr-gbv`, which is "
        "LOSSY.",
    ),
    ("SpecHub's EAGLE recursive rejection sampling", "no copy was at hand, and we have not read the code."),
    (
        "subspec's traversal draws the bonus token from p where it needs the residual",
        "no copy was at hand, and we have not read the code.",
    ),
)
"""Claims that were reported to us and that the gallery does not confirm, with the reason."""
