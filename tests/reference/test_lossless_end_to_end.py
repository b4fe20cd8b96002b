"""The whole decode step, from the prompt to the tokens kept, certified for each drafter, verifier and sampling.

The models are the shipped pair's, cut to four tokens. `LEVEL` is the level of all certificates together, by Bonferroni;
all seeds are fixed. CI runs each drafter with a verifier, and each verifier with a drafter, at one of the samplings, in
turn, and all of one sampling together, which shows a smaller fault in what they share. `make test-deep` runs each
drafter with each verifier;

    SPECTHEORY_RUNS=3000 pytest tests/reference/test_lossless_end_to_end.py -m ""

runs each of them at every sampling on so many texts.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from examples.certify_decoder import few_tokens
from reference.decode import Decoder
from reference.drafters import ALL, Drafter, Drawn, PlannedTree
from reference.models import DRAFT, Pair, load_pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import otlp, verify
from spectheory.certify import StepCertificate, Verdict, certify_step
from spectheory.certify.certificate import power_of_ten
from spectheory.core.world import Context, Paths
from spectheory.verify import TopDown, Verifier
from tests.enumeration import covering
from tests.reference.faulty import FAULTS, Fault, Overheard, Shared
from tests.reference.remembered import remembered

WORDS, PROMPT = ("n", "-", " is", "#"), [0, 1, 2, 3, 2, 0]
"""Their distributions lean on the token before the last, so that a wrong row of the cache is seen."""
LENGTH = 4
"""Tokens whose joint distribution is compared, enough for a second cycle on what the first one kept."""
SAMPLINGS = (Sampling(1.0), Sampling(0.6), Sampling(1.0, top_k=3), Sampling(0.6, top_p=0.9))
LONG = int(os.environ.get("SPECTHEORY_RUNS", "0"))
RUNS = LONG or 150
TV = 8 / RUNS**0.5
"""The total variation that every combination has to be shown to be below: 0.65 by 150 texts, 0.15 by 3,000."""
LEVEL = 0.01

Step = Callable[[Context, np.random.Generator], list[int]]
DRAFTERS = [drafter for kind in ALL for drafter in kind.small()]


def of_other_rules(solver: otlp.Solver) -> list[otlp.Solver]:
    """Those of its settings that are for draws by other rules."""
    return [other for other in solver.variants() if not set(other.rules) <= set(solver.rules)]


VERIFIERS: tuple[Verifier, ...] = (
    *(TopDown(one) for solver in otlp.ALL for one in (solver, *of_other_rules(solver))),
    *verify.ALL,
)


@dataclass(frozen=True)
class Combination:
    """A drafter and a verifier that is lossless for it."""

    drafter: Drafter
    verifier: Verifier

    def __str__(self) -> str:
        return ", ".join(self.parts())

    def parts(self) -> tuple[str, str]:
        tree = f" {self.drafter.tree.parent.tolist()}" if isinstance(self.drafter, PlannedTree) else ""
        return f"{self.drafter}{tree}", str(self.verifier)


def combinations() -> Iterator[Combination]:
    """All drafters with the verifiers for their draw rule; verifiers of paths only with chains or paths."""
    for drafter, verifier in itertools.product(DRAFTERS, VERIFIERS):
        chain = isinstance(drafter, PlannedTree) and drafter.tree.is_chain
        paths = chain or (isinstance(drafter, Drawn) and isinstance(drafter.policy, Paths))
        if drafter.rule(SAMPLINGS[0]) not in verifier.rules:
            continue
        if not {"chains": chain, "paths": paths, "trees": True}[verifier.takes]:
            continue
        yield Combination(drafter, verifier)


COMBINATIONS = list(combinations())
COVERING = covering(COMBINATIONS, Combination.parts)
OTHERS = [one for one in COMBINATIONS if one not in COVERING]
CHOSEN = [pytest.param(COVERING, id="covering"), pytest.param(OTHERS, id="others", marks=pytest.mark.deep)]
TURNS = range(len(SAMPLINGS))
ALPHA = LEVEL / (len(COMBINATIONS) * (len(SAMPLINGS) if LONG else 1) + len(CHOSEN) * len(SAMPLINGS))


@cache
def real_pair(layers: int | None = None) -> Pair:
    """The shipped pair on four tokens, all layers or the first ones of the target."""
    pair = load_pair(draft=DRAFT)
    return few_tokens(pair, [pair.tokenizer.encode(word)[0] for word in WORDS], layers)


@cache
@torch.inference_mode()
def pair_from_memory() -> Pair:
    pair: Any = remembered(real_pair())
    for model in (pair.target, pair.draft):
        model.learn(torch.tensor([[*PROMPT, *text] for text in itertools.product(range(4), repeat=LENGTH)]))
    return pair


@cache
@torch.inference_mode()
def logits_of_target() -> dict[Context, np.ndarray]:
    """The target's logits after all beginnings of the text, from plain forwards without a cache."""
    cells = list(itertools.product(range(4), repeat=LENGTH - 1))
    rows = real_pair().target(torch.tensor([[*PROMPT, *cell] for cell in cells])).logits[:, len(PROMPT) - 1 :]
    return {cell[:n]: rows[i, n] for i, cell in enumerate(cells) for n in range(LENGTH)}


def target(sampling: Sampling) -> Callable[[Context], np.ndarray]:
    """The target's distribution as transformers' own processors make it."""
    warpers = [TemperatureLogitsWarper(float(sampling.temperature)), TopKLogitsWarper(sampling.top_k or 4)]
    warpers += [TopPLogitsWarper(sampling.top_p)] if sampling.top_p < 1 else []

    def distribution(context: Context) -> np.ndarray:
        scores = logits_of_target()[context][None]
        for warper in warpers:
            scores = warper(torch.empty(0), scores)  # type: ignore[arg-type]
        return scores[0].double().softmax(-1).numpy()

    return distribution


def certified(step: Step, sampling: Sampling, subject: str, seed: int = 0, runs: int = RUNS) -> StepCertificate:
    """The same test for right and for faulty steps; it goes on to the last run, as `tv` is out of reach."""
    found = certify_step(
        step, target(sampling), subject=subject, length=LENGTH, vocab_size=4, alpha=ALPHA, tv=1e-3, max_samples=runs,
        cycles=1, seed=seed,
    )  # fmt: skip
    print(
        f"{power_of_ten(found.log_wealth)}, total variation {found.tv_seen:.3f} seen, < {found.tv_bound:.3f}: {subject}"
    )
    return found


def decoding(pair: Pair, drafter: Drafter, verifier: Verifier, sampling: Sampling, *seed: int) -> Step:
    """One text from the prompt on, as `Decoder.generate` makes it."""
    decoder, draft_rng = Decoder(pair, drafter, sampling, verifier), streams(real_pair(), *seed)[0]
    return lambda context, rng: decoder.generate([*PROMPT, *context], LENGTH, draft_rng, rng).tokens


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("turn", TURNS, ids=[str(sampling) for sampling in SAMPLINGS])
def test_texts_have_the_targets_distribution(turn: int, chosen: list[Combination]) -> None:
    sampling, texts, wrong = SAMPLINGS[turn], list[list[list[int]]](), list[str]()
    for combination in chosen if LONG else chosen[turn :: len(SAMPLINGS)]:
        number = len(SAMPLINGS) * COMBINATIONS.index(combination) + turn  # no two share a stream: all are pooled below
        texts.append([])
        step = decoding(pair_from_memory(), combination.drafter, combination.verifier, sampling, number)
        found = certified(kept(step, texts[-1]), sampling, f"{combination}, {sampling}", number)
        if found.verdict is Verdict.LOSSY or found.tv_bound >= TV:
            wrong += found.lines()
    mixed = itertools.chain.from_iterable(zip(*texts, strict=True))
    runs = min(map(len, texts)) * len(texts)
    together = certified(lambda context, rng: next(mixed), sampling, f"together, {sampling}", runs=runs)
    assert not wrong, "\n".join(wrong)
    assert together.verdict is not Verdict.LOSSY, "\n".join(together.lines())
    assert together.tv_bound < 2 * TV / len(texts) ** 0.5


def kept(step: Step, texts: list[list[int]]) -> Step:
    """The step, which also writes down its texts."""

    def writing(context: Context, rng: np.random.Generator) -> list[int]:
        texts.append(step(context, rng))
        return texts[-1]

    return writing


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("turn", TURNS, ids=[str(sampling) for sampling in SAMPLINGS])
def test_the_models_decode_what_they_do_from_memory(turn: int, chosen: list[Combination]) -> None:
    """Token by token from the same seeds, so that what is certified of the one holds of the other."""
    real = real_pair(layers=2)
    pairs = real, remembered(real)
    for combination in chosen[turn :: len(SAMPLINGS)]:
        texts = []
        for pair in pairs:
            step = decoding(pair, combination.drafter, combination.verifier, SAMPLINGS[turn], 1)
            rng = np.random.default_rng(2)
            texts.append([step((), rng) for _ in range(2)])
        assert texts[0] == texts[1], combination


def faulty(fault: Fault, pair: Pair, seed: int = 0) -> Step:
    draft_rng, verifying = streams(real_pair(), seed, 0)[0], streams(real_pair(), seed, 1)[0]
    drafter = Overheard(fault.drafter, verifying) if fault.shares else fault.drafter
    decoder = Decoder(pair, drafter, fault.sampling, fault.verifier)

    def step(context: Context, rng: np.random.Generator) -> list[int]:
        source: Any = Shared(verifying) if fault.shares else rng
        with fault.broken():
            return decoder.generate([*PROMPT, *context], LENGTH, draft_rng, source).tokens

    return step


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_step_is_found(name: str) -> None:
    """By the same test, on as many texts as the fault says, or more."""
    fault = FAULTS[name]
    found = certified(faulty(fault, pair_from_memory()), fault.sampling, name, runs=max(RUNS, fault.texts))
    assert found.verdict is Verdict.LOSSY, "\n".join(found.lines())
