"""The claims and their results as Markdown, without times, so that the same checks give the same text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proofs_check.checked import CheckedClaim, leaned_on
from proofs_check.claims import CLAIMS, RULE, Paper, papers
from proofs_check.plain import paragraphs, plain, spelled

STATUSES = ("holds", "corrected", "false")
HEAD = """# The papers' claims, checked

Written by `make claims` from `proofs_check`. `spectheory check` runs them all, `spectheory check ID` one claim;
`--report FILE` writes a page with the counterexamples drawn, and `--exhaustive` looks at more cases. All arithmetic is
exact.

A claim **holds** as printed, or else is one of two by a rule:

> {rule}.

A true statement is given in its place where there is one. The counterexample is the smallest found; what does not hold
was gone through a second time by other means, and the evidence names both.

{summary}
"""


def claims_markdown(found: Sequence[CheckedClaim]) -> str:
    """The whole page."""
    statuses: dict[str, str] = {one.claim.id: one.status for one in found}
    parts = [head(statuses)]
    for paper in papers():
        if own := [one for one in found if one.claim.paper is paper]:
            parts.append(introduction(paper))
            parts += map(section, own)
    return "\n".join(parts)


def head(statuses: Mapping[str, str]) -> str:
    """The page above the first paper, by the status of each claim."""
    count = ", ".join(f"{list(statuses.values()).count(status)} {status}" for status in STATUSES)
    apart = leaned_on(statuses, statuses.values())
    summary = f"{len(statuses)} claims: {count}." + (f" {apart}." if apart else "")
    return "\n".join([HEAD.format(rule=RULE, summary=summary), *_counts(statuses)])


def introduction(paper: Paper) -> str:
    """The text above a paper's claims."""
    return f"## {paper.name}\n\n*{paper.title}.*\n\n{_text(paper.notes)}\n"


def section(one: CheckedClaim) -> str:
    """The text of one claim."""
    return "\n".join(_lines(one))


def _counts(statuses: Mapping[str, str]) -> Iterator[str]:
    yield "| paper | claims | holds | corrected | false |\n| --- | --- | --- | --- | --- |"
    for paper in papers():
        own = {name: status for name, status in statuses.items() if CLAIMS[name].paper is paper}
        if own:
            cells = (_cell([name for name in own if own[name] == status], status) for status in STATUSES)
            yield f"| {paper.name} | {len(own)} | {' | '.join(cells)} |"
    yield ""


def _cell(names: Sequence[str], status: str) -> str:
    links = ", ".join(f"[{name}](#{re.sub(r'[^a-z0-9-]', '', name.lower())}-{status})" for name in names)
    return f"{len(names)}: {links}" if names else "0"


def _lines(one: CheckedClaim) -> Iterator[str]:
    found = one.finding
    yield f"### {one.claim.id}: {one.status}\n\n{one.source}, `{one.claim.check.__module__}`.\n"
    yield f"{_text(one.claim.statement)}\n"
    if found is None:
        yield f"**{one.failure}**\n"
        return
    if found.status != "holds":
        yield f"**What is true.** {_text(one.truth)}\n"
    yield f"**Evidence** ({_text(one.text('method') or '')}). {_text(one.evidence)}\n"
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
    shown = (f"```text\n{part}\n```" if "\n" in part else part.replace("<", "&lt;") for part in paragraphs(words))
    return "\n\n".join(shown)
