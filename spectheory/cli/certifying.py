"""The command that certifies somebody's verifier."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from spectheory.cli.output import PAGE, Json, Output, Seed, console, errors, progress, require_free
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.core.world import DrawPolicy, Levels, Paths, World

if TYPE_CHECKING:
    from spectheory.certify import Certificate, StepCertificate

CONTEXTS = ((), (1,), (2,))
"""Where a black box is tested in a world of `MARKOV_TOKENS` tokens."""
MARKOV_TOKENS = 5
_RULE_NAMES = ", ".join(rule.name for rule in DrawRule)
_OBJECT = "A solver, a verifier, a function verify(draft, p, rng), or an object with step, target and vocab_size."
_RULE = f"Draw rule to hold it to, one of {_RULE_NAMES}; may be repeated. Default: its own `rules`, else IID."
_SHAPE = "Draws at each depth, such as 2,1; may be repeated. Default: all small shapes."


def _rule(text: str) -> DrawRule:
    try:
        return DrawRule[text.upper().replace("-", "_")]
    except KeyError:
        raise typer.BadParameter(f"{text!r} is none of {_RULE_NAMES}") from None


def certify(
    name: Annotated[str, typer.Argument(metavar="MODULE:OBJECT", help=_OBJECT)],
    exact: Annotated[bool, typer.Option("--exact", help="Enumerate only; never fall back to sampling.")] = False,
    black_box: Annotated[bool, typer.Option("--black-box", help="Sample whole steps only.")] = False,
    rule: Annotated[list[DrawRule] | None, typer.Option(parser=_rule, metavar="RULE", help=_RULE)] = None,
    shape: Annotated[list[str] | None, typer.Option(metavar="K,K,...", help=_SHAPE)] = None,
    cases: Annotated[int, typer.Option(help="Worlds to draw; those drawn twice are compared once.")] = 300,
    alpha: Annotated[float, typer.Option(help="Error level of the black-box test.")] = 1e-6,
    tv: Annotated[float, typer.Option(help="Total variation below which a black box is passed.")] = 0.01,
    max_samples: Annotated[int, typer.Option(help="Most runs of a black box.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(help="Time limit of one call of your code.")] = 10.0,
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option("--report", help="File for an HTML page.")] = None,
    as_json: Json = False,
) -> None:
    """Certify that a verifier keeps the target's distribution: exit status 0, 1 (lossy), 2 (undecided)."""
    import json

    if exact and black_box:
        raise InputError("--exact and --black-box exclude each other: name one, or neither to let the object decide")
    if not 0 < seconds < float("inf"):
        raise InputError(f"--seconds must be finite and above 0, got {seconds}")
    if black_box and len(shape or []) > 1:
        raise InputError(f"--black-box tests one --shape, got {', '.join(shape or [])}")
    require_free([], Output(report, PAGE))
    given = _load(name)
    if exact and hasattr(given, "step"):
        raise InputError(f"{name} is a step, which can only be sampled: leave --exact out")
    policies = [Levels(_counts(text), drawn) for text in shape or [] for drawn in _rules(given, rule)] or None
    certificate: Certificate | StepCertificate | None = None
    if not black_box and not hasattr(given, "step"):
        certificate = _exact(given, rule, policies, cases, seconds, seed)
    if certificate is None or (certificate.cannot_replay and not exact):
        if certificate is not None:
            reason = (certificate.failure or "").splitlines()[0]
            errors.print(f"{reason}; so whole steps are tested as a black box", highlight=False)
        certificate = _black_box(name, given, policies, rule, alpha, tv, max_samples, seconds, seed)
    if report is not None:
        from spectheory.report.certificate import certificate_page

        write_whole(report, certificate_page(name, certificate))
    if as_json:
        print(json.dumps(certificate.to_json(), indent=1))
    else:
        for line in certificate.lines():
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        if report is not None:
            print(f"wrote {report}")
    raise typer.Exit(certificate.verdict.exit_status)


def _exact(given: Any, rules: Any, policies: Any, cases: int, seconds: float, seed: int) -> Certificate:
    import tempfile

    from hypothesis.configuration import set_hypothesis_home_dir

    from spectheory.certify import certify_verifier as exactly

    set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "spectheory-hypothesis")
    with progress("worlds") as tell:
        return exactly(
            given,
            rules=rules,
            policies=policies,
            cases=cases,
            seconds=seconds,
            seed=seed,
            progress=lambda done: tell(done, cases),
        )


def _black_box(
    name: str, given: Any, policies: Any, rules: Any, alpha: float, tv: float, most: int, seconds: float, seed: int
) -> StepCertificate:
    from spectheory.certify import as_step, certify_step, markov_world

    if hasattr(given, "step"):
        missing = [part for part in ("target", "vocab_size") if not hasattr(given, part)]
        if missing:
            raise InputError(f"{name} has a step but no {' and no '.join(missing)}: certify needs all three")
        step, target, size, contexts = given.step, given.target, given.vocab_size, getattr(given, "contexts", ((),))
        subject = name
    else:
        world = markov_world(MARKOV_TOKENS, seed)
        policy = policies[0] if policies else _shape_for(given, _rules(given, rules)[0], world)
        step, target, size, contexts = as_step(given, policy, world), world.p, MARKOV_TOKENS, CONTEXTS
        subject = (
            f"{name} on {policy.name} by {policy.rule.name} in a Markov world of {MARKOV_TOKENS} tokens, seed {seed}"
        )
    try:
        with progress("runs") as tell:
            return certify_step(
                step,
                target,
                subject=subject,
                contexts=contexts,
                vocab_size=size,
                alpha=alpha,
                tv=tv,
                max_samples=most,
                seconds=seconds,
                seed=seed,
                progress=lambda done, *_: tell(done, most),
            )
    except (ValueError, KeyboardInterrupt):
        raise
    except Exception as error:  # of the target: what the step does wrong is in the certificate
        raise InputError(f"the target of {name} raised {type(error).__name__}: {error}") from error


def _shape_for(given: Any, rule: DrawRule, world: World) -> DrawPolicy:
    """The first of a few shapes that the object does not refuse."""
    from spectheory.certify import as_step

    shapes = [Levels((2, 1), rule), Levels((1, 1), rule), Paths(2, 2, rule=rule)]
    for policy in shapes:
        try:
            for seed in range(20):
                as_step(given, policy, world)((), np.random.default_rng(seed))
        except ValueError:
            continue
        return policy
    return shapes[0]


def _load(name: str) -> Any:
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise InputError(f"name an object as package.module:object, got {name!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:
        hint = f" (name the module {module[:-3]}, not its file)" if module.endswith(".py") else ""
        raise InputError(f"cannot load {path} of {module}: {type(error).__name__}: {error}{hint}") from error
    return found() if isinstance(found, type) else found


def _rules(given: Any, named: list[DrawRule] | None) -> tuple[DrawRule, ...]:
    return tuple(named or getattr(given, "rules", ()) or (DrawRule.IID,))


def _counts(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--shape must be whole numbers such as 2,1, got {text!r}") from None
