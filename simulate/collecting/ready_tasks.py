"""Ready tasks: walks of a plan, and certificates of the zoo's steps and verifiers."""

from __future__ import annotations

from types import FunctionType

from simulate.collecting.statistics import Statistics
from simulate.collecting.task import Block, Figure, Task
from simulate.walk import run
from spectheory import Acceptance, Plan, Verdict
from spectheory.core.errors import InputError

TAU = Figure("tau", "emitted", "cycles", "tokens per target call")
LOSSY = Figure("lossy", "lossy", "tests", "share of tests", share=True)


def walk_task(plan: Plan, *, cycles: int = 2_000, world: Acceptance | None = None, seed: int = 0) -> Task:
    """A task that simulates decoding with a plan, see `simulate.run`. Its figure is tau.

    Args:
        plan: plan whose tree is simulated.
        cycles: number of cycles of a block.
        world: true acceptance rates; default: what the plan predicts its tau from.
        seed: seed of the task.
    """
    settings = {"plan": plan, "cycles": cycles, "world": world}
    return Task(_walk, settings, figures=(TAU,), name=f"walk {plan.answer}", seed=seed)


def step_task(name: str, *, alpha: float = 1e-3, tv: float = 0.1, max_samples: int = 20_000, seed: int = 0) -> Task:
    """A task that tests a step of the zoo by `certify_step`, once a block, each time with other random numbers.

    A step with a state of its own starts anew in every block.

    Its figures: `lossy`, the share of tests with the verdict LOSSY, and `samples`, the mean number of runs of the step
    until the verdict.

    Args:
        name: name of one of `spectheory.certify.zoo.STEPS`.
        alpha: see `certify_step`.
        tv: see `certify_step`.
        max_samples: see `certify_step`.
        seed: seed of the task.
    """
    _require_name(name, _steps())
    settings = {"name": name, "alpha": alpha, "tv": tv, "max_samples": max_samples}
    figures = (LOSSY, Figure("samples", "samples", "tests", "runs of the step"))
    return Task(_test_step, settings, figures=figures, name=f"step {name}", seed=seed)


def verifier_task(name: str, *, cases: int = 60, seed: int = 0) -> Task:
    """A task that certifies a verifier of the zoo by `certify_verifier`, once a block, each time in other worlds.

    Its figure is `lossy`, the share of certificates with the verdict LOSSY.

    Args:
        name: name of one of `spectheory.certify.zoo.SPECIMENS`.
        cases: number of worlds of a certificate.
        seed: seed of the task.
    """
    _require_name(name, _specimens())
    return Task(_certify, {"name": name, "cases": cases}, figures=(LOSSY,), name=f"verifier {name}", seed=seed)


def _walk(block: Block, *, plan: Plan, cycles: int, world: Acceptance | None) -> Statistics:
    return Statistics.of_tally(run(plan, cycles=cycles, requests=2, seed=block.seed, world=world))


def _test_step(block: Block, *, name: str, alpha: float, tv: float, max_samples: int) -> Statistics:
    from spectheory.certify import certify_step

    step = _steps()[name]
    fresh = step.step if isinstance(step.step, FunctionType) else type(step.step)()
    found = certify_step(
        fresh, step.target, contexts=((), (1,)), length=2, vocab_size=step.vocab_size, alpha=alpha, tv=tv,
        max_samples=max_samples, seed=block.seed,
    )  # fmt: skip
    return Statistics({**_verdict(found.verdict), "samples": found.samples})


def _certify(block: Block, *, name: str, cases: int) -> Statistics:
    from spectheory.certify import certify_verifier

    specimen = _specimens()[name]
    found = certify_verifier(specimen.given, policies=specimen.policies, cases=cases, seed=block.seed)
    return Statistics(_verdict(found.verdict))


def _verdict(verdict: Verdict) -> dict[str, int]:
    """One test with this verdict, as totals."""
    lossy, undecided = verdict is Verdict.LOSSY, verdict is Verdict.UNDECIDED
    return {"tests": 1, "lossy": int(lossy), "undecided": int(undecided), "passed": int(not lossy and not undecided)}


def _steps() -> dict:
    from spectheory.certify.zoo import STEPS

    return {step.name: step for step in STEPS}


def _specimens() -> dict:
    from spectheory.certify.zoo import SPECIMENS

    return {specimen.name: specimen for specimen in SPECIMENS}


def _require_name(name: str, known: dict) -> None:
    if name not in known:
        raise InputError(f"name must be one of {', '.join(known)}, got {name!r}")
