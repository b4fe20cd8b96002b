"""The claims and their results as Markdown, without times, so that the same checks give the same text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proofs_check.checked import CheckedClaim
from proofs_check.claims import CLAIMS, RULE, WEIGHTS, Paper, filled, in_order, papers
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
        yield "```text\n" + "\n".join(_listing(found.counterexample)) + "\n```\n"


def _listing(case: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for key, value in case.items():
        if isinstance(value, Mapping) and any(isinstance(inner, Mapping | list | tuple) for inner in value.values()):
            yield f"{before}{plain(key)}:"
            yield from _listing(value, f"{before}  ")
        elif isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
            yield f"{before}{plain(key)}:"
            for inner in value:
                first, *rest = _listing(inner, f"{before}    ")
                yield from (f"{before}  - {first.strip()}", *rest)
        else:
            yield f"{before}{plain(key)}: {spelled(value)}"


def _text(words: str) -> str:
    shown = (f"```text\n{part}\n```" if "\n" in part else _escaped(part) for part in paragraphs(words))
    return "\n\n".join(shown)


def _escaped(part: str) -> str:
    """The part with `<` escaped outside of formulas."""
    return "".join(
        piece if piece[:1] in "`$" else piece.replace("<", "&lt;") for piece in re.split(r"(`[^`]*`|\$[^$]*\$)", part)
    )
