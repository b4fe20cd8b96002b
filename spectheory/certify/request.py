"""The request of `spectheory certify`: load an object, and certify it by enumeration or by sampling whole steps."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spectheory.certify.as_step import as_step
from spectheory.certify.black_box_worlds import length_of_two_cycles, plays_of, worlds_of
from spectheory.certify.certificate import Certificate
from spectheory.certify.exact import certify_verifier
from spectheory.certify.guard import IMPORT, within
from spectheory.certify.play import Play
from spectheory.certify.step import certify_in_worlds
from spectheory.certify.step_certificate import StepCertificate
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.plugins import require_usable
from spectheory.core.world import DrawPolicy, Levels, Paths
from spectheory.otlp import Solver, solvers
from spectheory.verify import Verifier, verifiers

CYCLES = 2
"""Calls of a step in one run of the black-box test: noise that is reused in the second one is detected."""
FIRST_RUNS = 50
"""Runs of a step in each context that tell how many tokens it emits."""

Report = Callable[[dict[str, Any]], None]
"""Called with {"worlds": done} or {"runs": done} as progress, and with {"note": line} to show a line to the user."""


@dataclass(frozen=True)
class Request:
    """The arguments of `spectheory certify`.

    Attributes:
        name: the object as package.module:object, or the class name of a registered solver or verifier.
        exact: whether to only enumerate, and not fall back to sampling.
        black_box: whether to only sample whole decoding steps.
        rules: names of the rules by which drafts are drawn; () for the object's own rules.
        shapes: for each draft tree, its number of draws per node at each depth; () for all small trees.
        cases: number of worlds to compare.
        alpha: maximum probability of a wrong verdict of the black-box test.
        tv: a step passes the black-box test if its total variation from the target is below this.
        max_samples: maximum number of runs in the black-box test.
        seconds: maximum processor time of one call of the code under test.
        zero_coins: whether emitting a token of probability 0 when a random number is exactly 0 counts as a fault.
        seed: seed of the worlds and the runs.
        page: whether to make an HTML page.
    """

    name: str
    exact: bool
    black_box: bool
    rules: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    cases: int
    alpha: float
    tv: float
    max_samples: int
    seconds: float
    zero_coins: bool
    seed: int
    page: bool

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Request:
        """The request with these fields, which may be values read from JSON."""
        lists: dict[str, Any] = {"rules": tuple(given["rules"]), "shapes": tuple(map(tuple, given["shapes"]))}
        return cls(**(given | lists))

    def answer(self, report: Report) -> dict[str, Any]:
        """The name of the verdict, the lines and JSON values of the certificate, and the page or None.

        Raises:
            InputError: the object cannot be loaded, or cannot be certified in the requested way.
        """
        certificate = self._certificate(report)
        page = None
        if self.page:
            from spectheory.report.certificate import certificate_page

            page = certificate_page(self.name, certificate)
        return {
            "verdict": certificate.verdict.name,
            "lines": certificate.lines(),
            "json": certificate.to_json(),
            "page": page,
        }

    def _certificate(self, report: Report) -> Certificate | StepCertificate:
        given = _load(self.name, IMPORT * self.seconds)
        if self.exact and hasattr(given, "step"):
            raise InputError(f"{self.name} is a step, which can only be sampled: leave out --exact")
        if self.black_box or hasattr(given, "step"):
            return self._black_box(given, report)
        certificate = self._exact(given, report)
        if not certificate.cannot_replay or self.exact:
            return certificate
        reason = (certificate.failure or "").splitlines()[0]
        report({"note": f"{reason}; whole steps are tested as a black box instead"})
        return self._black_box(given, report)

    def _exact(self, given: Any, report: Report) -> Certificate:
        from hypothesis.configuration import set_hypothesis_home_dir

        set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "spectheory-hypothesis")
        return certify_verifier(
            given,
            rules=[DrawRule[rule] for rule in self.rules] or None,
            policies=self._policies(given) or None,
            cases=self.cases,
            seconds=self.seconds,
            seed=self.seed,
            zero_coins=self.zero_coins,
            progress=lambda done: report({"worlds": done}),
        )

    def _black_box(self, given: Any, report: Report) -> StepCertificate:
        subject = self.name
        if isinstance(given, Play):
            plays: Sequence[Play] = [given]
        elif hasattr(given, "step"):
            missing = [part for part in ("target", "vocab_size") if not hasattr(given, part)]
            if missing:
                raise InputError(f"{subject} has a step but no {' and no '.join(missing)}: add what is missing")
            plays = [self._play(given)]
        else:
            policy = next(iter(self._policies(given)), None) or self._shape_for(given)
            plays = plays_of(given, policy, self.seed)
            subject += f" on {policy.name} by {policy.rule.name}"
        try:
            return certify_in_worlds(
                plays,
                subject=subject,
                cycles=CYCLES,
                alpha=self.alpha,
                tv=self.tv,
                max_samples=self.max_samples,
                seconds=self.seconds,
                seed=self.seed,
                progress=lambda done, *_: report({"runs": done}),
            )
        except ValueError:
            raise
        except Exception as error:  # from the target; the certificate reports errors of the step
            raise InputError(f"the target of {self.name} raised {type(error).__name__}: {error}") from error

    def _play(self, given: Any) -> Play:
        """The play of an object with a step, a target and a vocab_size, and what else of a `Play` it has."""
        contexts = [tuple(context) for context in getattr(given, "contexts", ((),))]
        batch, size, length = getattr(given, "batch", None), given.vocab_size, getattr(given, "length", None)
        if batch is not None and length is None:
            raise InputError(f"{self.name} has a batch but no length: add the number of tokens to compare")
        length = length or length_of_two_cycles(self._longest(given.step, contexts), size)
        ids, stop_tokens = getattr(given, "ids", None), getattr(given, "stop_tokens", ())
        return Play("", given.step, given.target, contexts, length, size, batch, ids, stop_tokens)

    def _longest(self, step: Any, contexts: Any) -> int:
        """The largest number of tokens that the step emits in some runs; 1 if it fails, which the test will report."""
        rng, longest = np.random.default_rng(self.seed), 1
        with suppress(Exception):
            for _ in range(FIRST_RUNS):
                longest = max(longest, *(len(within(self.seconds, step, c, rng)) for c in contexts))
        return longest

    def _policies(self, given: Any) -> list[DrawPolicy]:
        return [Levels(counts, rule) for counts in self.shapes for rule in self._rules(given)]

    def _rules(self, given: Any) -> tuple[DrawRule, ...]:
        return tuple(DrawRule[rule] for rule in self.rules) or tuple(getattr(given, "rules", ())) or (DrawRule.IID,)

    def _shape_for(self, given: Any) -> DrawPolicy:
        """The first of three draft trees that the object does not refuse. The test will report its other errors."""
        rule, world = self._rules(given)[0], next(iter(worlds_of(self.seed).values()))
        shapes = [Levels((2, 1), rule), Levels((1, 1), rule), Paths(2, 2, rule=rule)]
        for policy in shapes:
            try:
                for seed in range(20):
                    within(self.seconds, as_step(given, policy, world), (), np.random.default_rng(seed))
            except ValueError:
                continue
            except Exception:
                return policy
            return policy
        return shapes[0]


def _load(name: str, seconds: float) -> Any:
    """The object that `name` refers to: a registered solver or verifier, or an object of a module.

    The import and the constructor may take `seconds` of processor time.
    """
    module, colon, path = name.partition(":")
    if not colon:
        return within(seconds, _registered, name)
    if not (module and path):
        raise InputError(f"name an object as package.module:object, got {name!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return within(seconds, _imported, module, path)
    except Exception as error:
        hint = f" (name the module {module[:-3]}, not its file)" if module.endswith(".py") else ""
        raise InputError(f"cannot load {path} of {module}: {type(error).__name__}: {error}{hint}") from error


def _registered(name: str) -> Solver | Verifier:
    """The solver or the verifier with this class name."""
    known = {type(one).__name__: one for one in (*solvers(), *verifiers())}
    if name not in known:
        require_usable(name, {"spectheory.solvers": Solver, "spectheory.verifiers": Verifier})
        raise InputError(f"name an object as package.module:object, or one of {', '.join(known)}, got {name!r}")
    return known[name]


def _imported(module: str, path: str) -> Any:
    """The object at `path` of a module; a class is called without arguments."""
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found() if isinstance(found, type) else found
