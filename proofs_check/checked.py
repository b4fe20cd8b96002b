"""Claims that were checked, and what was found as text, JSON and Markdown, without times where it is Markdown."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from proofs_check.claims import CLAIMS, RULE, WEIGHTS, Claim, Finding, Paper, Status, decide, filled, in_order, papers
from proofs_check.plain import paragraphs, plain, spelled
from proofs_check.sentences import in_words

HEAD = """# The papers' claims, checked

Written by `make claims` from `proofs_check`. `spectheory check` runs them all, `spectheory check ID` one claim, and
`--exhaustive` looks at more cases. All arithmetic is exact.

The formulas below are what the checks evaluate: each is read from the sentence that is printed, and a sentence whose
formula fails on a case of its check fails the build. `For every` and `for some` range over the cases of the check,
which the evidence names; beyond them a statement rests on its proof. The verdict follows from which side broke. A claim
**holds** if no case breaks it, and then has a proof or a second check; or else it is one of two by a rule:

> {rule}.

Each claim opens with the paper's own words, where `[...]` stands for what is left out and for symbols that the text
at hand has lost. A true statement is given in place of a claim where there is one. The counterexample is the smallest
found; what does not hold was gone through a second time by other means, and the evidence names both. The proofs that
the house rests on are on [one page](keystones.md).

What a claim that does not hold costs, least first:

{weights}

{summary}
"""
MISSING = "no true statement is offered in its place"


@dataclass(frozen=True)
class CheckedClaim:
    """A claim whose check was run.

    Attributes:
        claim: the claim that was checked.
        finding: what the check found, confirmed where the claim has a second check; None if the check failed.
        failure: why the check failed; empty if it did not.
        seconds: run time of the check and of its second check.
    """

    claim: Claim
    finding: Finding | None
    failure: str
    seconds: float

    @property
    def status(self) -> Status | Literal["failed"]:
        """The status that was found, or `failed` if the check or its second check raised an error."""
        return self.finding.status if self.finding else "failed"

    def text(self, name: Literal["method", "evidence", "corrected", "second", "size"]) -> str | None:
        """One of the texts with the numbers that were found; None if the claim has none, or the check failed."""
        text = getattr(self.claim, name)
        return filled(text, self.finding.numbers) if self.finding and text is not None else None

    def truth(self, code: str = "") -> str:
        """What is true, its formulas between two `code` marks; empty if the check failed."""
        if self.finding is None:
            return ""
        return "as printed" if self.status == "holds" else in_words(self.text("corrected") or MISSING, code)

    @property
    def evidence(self) -> str:
        """The evidence of the check and of its second check, or why the check failed."""
        again = self.text("second")
        return (self.text("evidence") or self.failure) + (f" Second check: {again}" if again else "")

    def to_json(self) -> dict[str, Any]:
        """The result for programs; fractions are strings such as `2/3`, so that no number is rounded."""
        return {
            "id": self.claim.id,
            "status": self.status,
            "evidence": self.evidence,
            "method": self.text("method"),
            "counterexample": plain(self.finding.counterexample) if self.finding else None,
            "corrected": in_words(self.text("corrected") or "") or None,
            "weight": self.claim.weight if self.finding else None,
            "size": self.text("size"),
            "source": self.claim.place,
            "statement": in_words(self.claim.statement),
            "quotes": dict(self.claim.quotes),
            "terms": dict(self.claim.terms),
            "seconds": round(self.seconds, 3),
        }


def check_claim(name: str, effort: int = 1) -> CheckedClaim:
    """Run the check of one claim; an error of the check is recorded, not raised.

    Raises:
        ModuleNotFoundError: it needs a package that is not installed, so nothing is known.
    """
    start = time.perf_counter()
    finding, failure = None, ""
    try:
        finding = decide(name, effort)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # whatever a check raises, its claim is undecided
        failure = f"{type(error).__name__}: {error}"
    return CheckedClaim(CLAIMS[name], finding, failure, time.perf_counter() - start)


def claims_markdown(found: Sequence[CheckedClaim]) -> str:
    """The whole page."""
    count = ", ".join(
        f"{sum(one.status == status for one in found)} {status}" for status in ("holds", "corrected", "false")
    )
    weights = "\n".join(f"- **{weight}**: {words}." for weight, words in WEIGHTS.items())
    parts = [HEAD.format(rule=RULE, weights=weights, summary=f"{len(found)} claims: {count}.")]
    for paper in papers():
        if own := [one for one in found if one.claim.paper is paper]:
            parts += [introduction(paper), *map(section, own)]
    return "\n".join(parts)


def unchecked_markdown() -> str:
    """The page with the texts and anchors of all claims, for a site that is built where no check has run."""
    reason = "Not checked here: `make claims` runs the checks"
    return claims_markdown([CheckedClaim(CLAIMS[name], None, reason, 0.0) for name in in_order(CLAIMS)])


def introduction(paper: Paper) -> str:
    """The text above a paper's claims: what to do differently, with the recorded numbers of its claims, comes first."""
    told = filled(paper.practice, {name: one.numbers for name, one in CLAIMS.items() if one.paper is paper})
    parts = [f"## {paper.name}", f"*{paper.title}.*", f"**What to do differently.**\n\n{told}" if told else ""]
    entry = f"```bibtex\n{paper.bibtex.strip()}\n```" if paper.bibtex else ""
    return "\n\n".join(part for part in [*parts, _text(paper.notes), entry] if part) + "\n"


def anchor(name: str) -> str:
    """The anchor of a claim, which does not change with its verdict."""
    return re.sub(r"[^a-z0-9-]", "", name.lower())


def section(one: CheckedClaim) -> str:
    """The text of one claim."""
    return "\n".join(_lines(one))


def _lines(one: CheckedClaim) -> Iterator[str]:
    claim, found = one.claim, one.finding
    yield f"({anchor(claim.id)})=\n### {claim.id}\n"
    status = f"{one.status}, {claim.weight}" if found and claim.weight else one.status if found else "no verdict"
    yield f"**{status}**. {claim.place}. Check: `{claim.check.__module__}`.\n"
    yield from (f'> "{_text(words)}" ({place})\n' for place, words in claim.quotes.items())
    yield f"{_text(in_words(claim.statement, '`'))}\n"
    if found is None:
        yield f"{one.failure}.\n"
        return
    if found.status != "holds":
        yield f"**What is true.** {_text(one.truth('`'))}\n"
    if size := one.text("size"):
        yield f"**How much.** {size}\n"
    if claim.terms:
        yield f"Here {_text('; '.join(f'`{name}`: {words}' for name, words in claim.terms.items()))}.\n"
    yield f"**Evidence** ({_text(one.text('method') or '')}). {_text(one.evidence)}\n"
    if claim.proof:
        page, _, place = claim.proof.partition("#")
        yield f"**Proof**: [{place}]({page}.md#{place}).\n" if place else f"**Proof**: in the {claim.proof}.\n"
    if claim.open:
        yield f"**Open.** {_text(claim.open)}\n"
    if found.counterexample is not None:
        yield (
            "```text\n"
            + "\n".join(f"{key}: {spelled(value)}" for key, value in found.counterexample.items())
            + "\n```\n"
        )


def _text(words: str) -> str:
    shown = (f"```text\n{part}\n```" if "\n" in part else _escaped(part) for part in paragraphs(words))
    return "\n\n".join(shown)


def _escaped(part: str) -> str:
    """The part with `<` escaped outside of formulas."""
    return "".join(
        piece if piece[:1] in "`$" else piece.replace("<", "&lt;") for piece in re.split(r"(`[^`]*`|\$[^$]*\$)", part)
    )
