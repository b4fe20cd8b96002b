"""The claims and their results as Markdown, without times, so that the same checks give the same text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proofs_check.checked import MISSING, CheckedClaim, leaned_on, practice
from proofs_check.claims import CLAIMS, RULE, WEIGHTS, Claim, Paper, papers
from proofs_check.plain import paragraphs, plain, spelled
from proofs_check.sentences import in_latex
from spectheory import __version__

STATUSES = ("holds", "corrected", "false")
HEAD = """# The papers' claims, checked

Written by `make claims` from `proofs_check`. `spectheory check` runs them all, `spectheory check ID` one claim;
`--report FILE` writes a page with the counterexamples drawn, and `--exhaustive` looks at more cases. All arithmetic is
exact.

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

A claim that changes practice has its size under "How much". A claim of the other three weights costs its follower no
tokens and no time: the numbers below its evidence are the smallest case that breaks it, with what the paper says of
that case beside what is true.

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
    weights = "\n".join(f"- **{weight}**: {words}." for weight, words in WEIGHTS.items())
    return "\n".join([HEAD.format(rule=RULE, weights=weights, summary=summary), *_counts(statuses), *_open(statuses)])


def introduction(paper: Paper) -> str:
    """The text above a paper's claims, what to do differently first."""
    told = practice(paper)
    parts = [f"## {paper.name}", f"*{paper.title}.*", f"**What to do differently.**\n\n{told}" if told else ""]
    return "\n\n".join(part for part in [*parts, _text(paper.notes), _bibtex(paper.bibtex)] if part) + "\n"


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


def _open(statuses: Mapping[str, str]) -> Iterator[str]:
    if problems := {name: CLAIMS[name].open for name in statuses if CLAIMS[name].open}:
        yield "Open problems:\n"
        yield from (f"- [{name}](#{anchor(name)}): {words}" for name, words in problems.items())
        yield ""


def anchor(name: str) -> str:
    """The anchor of a claim, which does not change with its verdict."""
    return re.sub(r"[^a-z0-9-]", "", name.lower())


def _cell(names: Sequence[str], status: str) -> str:
    links = ", ".join(f"[{name}](#{anchor(name)})" for name in names)
    return f"{len(names)}: {links}" if names else "0"


def _lines(one: CheckedClaim) -> Iterator[str]:
    claim, found = one.claim, one.finding
    yield f"({anchor(claim.id)})=\n### {claim.id}\n"
    weight = f", {claim.weight}" if claim.weight else ""
    yield f"**{one.status}**{weight}. {one.source}. {_code(claim)}\n"
    yield from (f'> "{_text(words)}" ({place})\n' for place, words in claim.quotes.items())
    yield f"{_text(in_latex(claim.statement))}\n"
    if found is None:
        yield f"**{one.failure}**\n"
        return
    if found.status != "holds":
        yield f"**What is true.** {_text(in_latex(one.text('corrected') or MISSING))}\n"
    if size := one.text("size"):
        yield f"**How much.** {size}\n"
    if claim.terms:
        meanings = "; ".join(f"*{name.replace('_', ' ')}*: {words}" for name, words in claim.terms.items())
        yield f"Here {_text(meanings)}.\n"
    yield f"**Evidence** ({_text(one.text('method') or '')}). {_text(one.evidence)}\n"
    if claim.proof:
        yield f"**Proof**: {_proof(claim.proof)}.\n"
    if found.counterexample is not None:
        yield "```text\n" + "\n".join(_listing(found.counterexample)) + "\n```\n"
    yield _bibtex(entry(claim)) + "\n"


def _code(claim: Claim) -> str:
    """Links to the check and to the test that runs it."""
    file = claim.check.__module__.replace(".", "/")
    test = f"tests/proofs_check/test_proofs_check.py::test_a_check_comes_out_as_recorded[{claim.id}]"
    return f"Check: [`{claim.check.__module__}`](../{file}.py); test: `{test}`."


def _proof(place: str) -> str:
    page, _, section = place.partition("#")
    return f"[{section.replace('-', ' ')}]({page}.md#{section})" if section else f"in the {place}"


def entry(claim: Claim) -> str:
    """The BibTeX entry of a claim."""
    status = claim.source.replace("{", "").replace("}", "")
    return "\n".join(
        [
            f"@misc{{spectheory-{anchor(claim.id)},",
            f"  title = {{Claim {claim.id}: {status}}},",
            "  author = {{The spectheory developers}},",
            f"  howpublished = {{spectheory {__version__}, docs/claims.md\\#{anchor(claim.id)}}},",
            "}",
        ]
    )


def _bibtex(text: str) -> str:
    return f"<details><summary>BibTeX</summary>\n\n```bibtex\n{text.strip()}\n```\n\n</details>" if text else ""


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
    return "$".join(piece if at % 2 else piece.replace("<", "&lt;") for at, piece in enumerate(part.split("$")))
