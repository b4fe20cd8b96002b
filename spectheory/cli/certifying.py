"""The command `certify`: whether a verifier or a decoding step keeps the target's distribution."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from spectheory.cli.options import Json, Seed, numbers
from spectheory.cli.output import console, progress
from spectheory.core.checks import check_number, check_whole
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError

_RULE_NAMES = ", ".join(rule.name for rule in DrawRule)
_OBJECT = (
    "What to certify: a solver, a verifier, a function verify(draft, p, rng), or a spectheory.certify.Play. For a "
    "registered solver or verifier, give its class name alone, such as Traversal."
)
_BLACK_BOX = (
    "Only sample whole decoding steps, or only enumerate. Default: enumerate, and sample if random draws cannot be "
    "enumerated."
)
_RULE = (
    f"Rule by which drafts are drawn, one of {_RULE_NAMES}; may be repeated. Default: the object's own `rules`, else "
    "IID."
)
_SHAPE = "Draft tree as draws per node at each depth, such as 2,1; may be repeated. Default: all small trees."
_CASES = "Number of random worlds to enumerate: one or more for each tree. With a server: number of prompts."
_TOLERANCE = "Enumeration: total variation that passes as WITHIN, for code that computes in low precision."
_TV = "Black-box test: the step passes if its total variation from the target is below this in each world."
_ALPHA = "Maximum probability of a wrong verdict where runs are sampled, 1e-6; of a wrong LOSSY for a server, 1e-3."
_MOST = (
    "Black-box test: maximum number of runs of the step, or of requests to servers, of which there are at most 3,000."
)
_SECONDS = "Maximum processor time of one call of your code, or maximum time of one request, in seconds."
_SERVER = "URL of an OpenAI-compatible server with speculation to certify, instead of MODULE:OBJECT."
_PLAIN = "URL of the same server without speculation. Without --server, its answers are recorded for a later call."
_ANSWERS = "With servers: JSON Lines file that keeps their answers. An interrupted run continues from it."


def _rule(text: str) -> DrawRule:
    try:
        return DrawRule[text.upper().replace("-", "_")]
    except KeyError:
        raise typer.BadParameter(f"must be one of {_RULE_NAMES}, got {text!r}") from None


def certify(
    name: Annotated[str | None, typer.Argument(metavar="MODULE:OBJECT", help=_OBJECT, show_default=False)] = None,
    server: Annotated[str | None, typer.Option(metavar="URL", help=_SERVER, show_default=False)] = None,
    plain: Annotated[str | None, typer.Option(metavar="URL", help=_PLAIN, show_default=False)] = None,
    answers: Annotated[Path, typer.Option(help=_ANSWERS)] = Path("served.jsonl"),
    black_box: Annotated[bool | None, typer.Option("--black-box/--exact", help=_BLACK_BOX, show_default=False)] = None,
    rule: Annotated[list[DrawRule] | None, typer.Option(parser=_rule, metavar="RULE", help=_RULE)] = None,
    shape: Annotated[list[str] | None, typer.Option(metavar="K,K,...", help=_SHAPE)] = None,
    cases: Annotated[int, typer.Option(help=_CASES)] = 40,
    tolerance: Annotated[float, typer.Option(help=_TOLERANCE)] = 0.0,
    alpha: Annotated[float | None, typer.Option(help=_ALPHA, show_default=False)] = None,
    tv: Annotated[float, typer.Option(help=_TV)] = 0.05,
    max_samples: Annotated[int, typer.Option(help=_MOST)] = 1_000_000,
    seconds: Annotated[float, typer.Option(help=_SECONDS)] = 10.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Certify that a verifier or a server keeps the target's distribution: exit 0 if so, 1 if lossy, 2 if undecided."""
    from spectheory.certify import Verdict
    from spectheory.certify.process import answer_of_child
    from spectheory.certify.served import certify_served

    alpha = alpha if alpha is not None else 1e-3 if server or plain else 1e-6
    check_number("--seconds", seconds, 1e-3, 1e6)
    check_number("--tolerance", tolerance, 0, 1 - 1e-12)
    for option, value in (("--alpha", alpha), ("--tv", tv)):
        check_number(option, value, 1e-300, 1 - 1e-12)
    shapes = [numbers("--shape", counts, int) for counts in shape or ()]
    for draws in chain.from_iterable(shapes):
        check_whole("--shape", draws, 1, most=64)
    check_whole("--cases", cases, 1, most=1_000_000)
    check_whole("--max-samples", max_samples, 1, most=10**9)
    options = {"black_box": black_box, "rules": [drawn.name for drawn in rule or ()], "shapes": shapes, "cases": cases}
    options |= {"alpha": alpha, "tv": tv, "max_samples": max_samples, "seconds": seconds, "seed": seed}
    if bool(name) == bool(server or plain):
        raise InputError("name what to certify, or give --server and --plain")
    answer: dict[str, Any]
    if name:
        answer = answer_of_child(name, options | {"tolerance": tolerance})
    else:
        urls = {side: url for side, url in (("server", server), ("plain", plain)) if url}
        with progress("requests") as update:
            found = certify_served(urls, answers, cases, alpha, max_samples, seconds, update)
        answer = {"verdict": found.verdict.name, "json": found.to_json(), "lines": found.lines()}
    if as_json:
        print(json.dumps(answer["json"], indent=1))
    else:
        for line in answer["lines"]:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(Verdict[answer["verdict"]].exit_status)
