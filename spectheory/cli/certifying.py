"""The command `certify`: whether a verifier or a decoding step keeps the target's distribution."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectheory.cli.options import Json, Seed, numbers
from spectheory.cli.output import console, errors, progress, require_free
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole

if TYPE_CHECKING:
    from spectheory.certify.request import Request

_RULE_NAMES = ", ".join(rule.name for rule in DrawRule)
_OBJECT = (
    "What to certify: a solver, a verifier, a function verify(draft, p, rng), or an object with step, target and "
    "vocab_size. For a registered solver or verifier, give its class name alone, such as Traversal."
)
_RULE = (
    f"Rule by which drafts are drawn, one of {_RULE_NAMES}; may be repeated. Default: the object's own `rules`, else "
    "IID."
)
_SHAPE = (
    "Draft tree as the number of draws per node at each depth, such as 2,1; may be repeated. Default: all small trees."
)
_EXACT = (
    "Only enumerate: a verifier whose random draws cannot be enumerated is UNDECIDED. Without this option, it gets the "
    "black-box test."
)
_CASES = (
    "Number of random worlds to compare. A world holds p and q, the distributions of target and draft, per context."
)
_TV = "Black-box test: the step passes if its total variation from the target is below this in each world."
_ZERO = (
    "Exact test: the verdict is LOSSY if the verifier emits a token of target probability 0 when a random number is "
    "exactly 0. Without this option, that is only noted."
)

STAGES = {"worlds": "worlds", "runs": "runs, at most"}
"""For each kind of progress, the name of the stage."""


def _rule(text: str) -> DrawRule:
    try:
        return DrawRule[text.upper().replace("-", "_")]
    except KeyError:
        raise typer.BadParameter(f"must be one of {_RULE_NAMES}, got {text!r}") from None


def certify(
    name: Annotated[str, typer.Argument(metavar="MODULE:OBJECT", help=_OBJECT)],
    exact: Annotated[bool, typer.Option("--exact", help=_EXACT)] = False,
    black_box: Annotated[bool, typer.Option("--black-box", help="Only sample whole decoding steps.")] = False,
    rule: Annotated[list[DrawRule] | None, typer.Option(parser=_rule, metavar="RULE", help=_RULE)] = None,
    shape: Annotated[list[str] | None, typer.Option(metavar="K,K,...", help=_SHAPE)] = None,
    cases: Annotated[int, typer.Option(help=_CASES)] = 300,
    alpha: Annotated[float, typer.Option(help="Black-box test: maximum probability of a wrong verdict.")] = 1e-6,
    tv: Annotated[float, typer.Option(help=_TV)] = 0.02,
    max_samples: Annotated[int, typer.Option(help="Black-box test: maximum number of runs of the step.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(help="Maximum processor time of one call of your code, in seconds.")] = 10.0,
    zero_coins: Annotated[bool, typer.Option("--zero-coins", help=_ZERO)] = False,
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option(help="File for a report as an HTML page.")] = None,
    as_json: Json = False,
) -> None:
    """Certify that a verifier keeps the target's distribution. Exit status: 0 if so, 1 if lossy, 2 if undecided."""
    import json

    from spectheory.certify.process import answer_of_child
    from spectheory.certify.request import Request
    from spectheory.certify.verdict import Verdict

    if exact and black_box:
        raise InputError("--exact and --black-box cannot be combined: give only one of them, or neither")
    if not 0 < seconds < float("inf"):
        raise InputError(f"--seconds must be finite and above 0, got {seconds}")
    if black_box and len(shape or []) > 1:
        raise InputError(f"--black-box takes only one --shape, got {' and '.join(shape or [])}")
    require_free([], report)
    request = Request(
        name=name,
        exact=exact,
        black_box=black_box,
        rules=tuple(drawn.name for drawn in rule or ()),
        shapes=tuple(tuple(numbers("--shape", counts, int)) for counts in shape or ()),
        cases=cases,
        alpha=alpha,
        tv=tv,
        max_samples=max_samples,
        seconds=seconds,
        zero_coins=zero_coins,
        seed=seed,
        page=report is not None,
    )
    with _Stages(request) as stages:
        answer = answer_of_child(request, stages.report)
    if report is not None:
        write_whole(report, answer["page"])
    if as_json:
        print(json.dumps(answer["json"], indent=1))
    else:
        for line in answer["lines"]:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        if report is not None:
            print(f"wrote {report}")
    raise typer.Exit(Verdict[answer["verdict"]].exit_status)


class _Stages(ExitStack):
    """The stages of a request: worlds, runs of whole steps, or both. Each reports its progress from its first message.

    The number of runs is the maximum: a test ends earlier where the verdict is clear earlier.
    """

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.totals = {"worlds": request.cases, "runs": request.max_samples}
        self.tell: dict[str, Callable[[int, int], None]] = {}

    def report(self, message: dict[str, Any]) -> None:
        """Print a note, or report progress."""
        if "note" in message:
            errors.print(message["note"], highlight=False, markup=False, soft_wrap=True)
            return
        ((stage, finished),) = message.items()
        if stage not in self.tell:
            self.close()
            self.tell[stage] = self.enter_context(progress(STAGES[stage]))
        self.tell[stage](finished, self.totals[stage])
