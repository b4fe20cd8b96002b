"""The claims, their results and the evidence as one self-contained HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from proofs_check.checked import CheckedClaim, leaned_on, practice
from proofs_check.claims import RULE, WEIGHTS, Paper, papers
from proofs_check.drawing import tree_drawings
from proofs_check.plain import paragraphs, plain, spelled
from spectheory.core.provenance import Provenance
from spectheory.report.page import shell

STATUSES = {"holds": "✓", "corrected": "±", "false": "✗", "failed": "?"}
"""Every status and its mark, since not everybody sees the colours."""
MEANING = (
    "Each claim of five papers on trees of drafted tokens, checked by machine in exact arithmetic. It opens with the "
    "paper's own words, where [...] stands for what is left out and for symbols that the text at hand has lost. It "
    "<b>holds</b> as "
    f"printed, or it is corrected or false by this rule: <i>{RULE}</i>. Where there is a true statement to put in its "
    "place, it is given. A claim that does not hold has the smallest counterexample found, confirmed by other means; "
    "both ways are named."
)
FAILED = " A check that <b>failed</b> raised an error, so its claim is undecided."
STYLE = """<style>
.badge { display: inline-block; padding: 0 .5em; border-radius: .7em; font-size: .8rem; font-weight: 600; color: #fff;
  vertical-align: .1em; white-space: nowrap; }
.holds { background: #1f7a52; } .corrected { background: #96610a; } .false { background: #b3364a; }
.failed { background: #57606a; }
article { margin: 1.8rem 0 2.2rem; }
article h3 { margin: 0 0 .3rem; display: flex; gap: .6em; align-items: baseline; flex-wrap: wrap; }
article h3 a { color: inherit; text-decoration: none; }
article h3 small { font-weight: 400; color: var(--muted); }
article p { margin: .4rem 0; } article pre { margin: .4rem 0; }
.weight { border: 1px solid var(--muted); border-radius: .7em; padding: 0 .5em; font-size: .8rem; white-space: nowrap; }
.truth { border-left: 3px solid #1f7a52; padding-left: .7rem; }
.size { border-left: 3px solid #96610a; padding-left: .7rem; margin: .5rem 0; }
.practice { border: 1px solid var(--faint); border-radius: .4rem; padding: .5rem .9rem; margin: .8rem 0; }
.practice ul { margin: .3rem 0 0; padding-left: 1.2rem; }
blockquote { margin: .4rem 0; padding-left: .7rem; border-left: 3px solid var(--faint); font-style: italic; }
blockquote small { font-style: normal; color: var(--muted); }
dl { display: grid; grid-template-columns: 7.5rem 1fr; gap: .25rem .8rem; margin: .6rem 0; font-size: .92rem; }
dt { color: var(--muted); } dd { margin: 0; min-width: 0; }
dd > :first-child { margin-top: 0; }
.case { margin: 0; font-size: .85rem; } .case th, .case td { text-align: left; white-space: normal; }
.case th { font-weight: 400; color: var(--muted); padding-left: 0; white-space: nowrap; }
.case .case { margin: 0 0 .3rem; } .case td { overflow-wrap: anywhere; }
.index td, .index th { text-align: left; white-space: normal; padding: .3rem .6rem .3rem 0; }
.index th { overflow-wrap: normal; white-space: nowrap; }
.index a { white-space: nowrap; margin-right: .7em; color: var(--ink); text-decoration: none; font-size: .85rem; }
.mark { display: inline-block; width: 1.25em; line-height: 1.25em; border-radius: 50%; text-align: center; color: #fff;
  font-size: .7rem; font-weight: 700; }
.trees { display: flex; flex-wrap: wrap; gap: .4rem 2rem; } .trees figure { margin: .3rem 0; flex: 0 1 auto; }
figcaption { color: var(--muted); font-size: .85rem; }
svg.tree { overflow: visible; } svg.tree path { fill: none; stroke: var(--muted); stroke-width: 1.2; }
svg.tree circle { fill: var(--paper); stroke: var(--muted); stroke-width: 1.4; }
svg.tree circle.root { fill: var(--muted); } svg.tree circle.filled { fill: #3a7bd5; stroke: #3a7bd5; }
svg.tree text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
</style>"""


def claims_page(found: Sequence[CheckedClaim], *, exhaustive: bool = False) -> str:
    """The whole HTML page."""
    failed = FAILED if any(one.finding is None for one in found) else ""
    stamp = Provenance.now("spectheory check", packages=("cvxpy", "sympy"))
    versions = ", ".join(f"{package} {version}" for package, version in stamp.versions.items())
    option = " --exhaustive" if exhaustive else ""
    by_paper = [(paper, [one for one in found if one.claim.paper is paper]) for paper in papers()]
    return shell(
        "The papers' claims, checked",
        STYLE,
        f'<p class="lead">{_counts(found)}</p>',
        f"<p>{MEANING}{failed}</p>",
        f"<p>To run all claims again: <code>spectheory check{option}</code> "
        f"({sum(one.seconds for one in found):.0f} s here for {len(found)}).</p>",
        _index(by_paper),
        _weights(found),
        *(_section(paper, own, option) for paper, own in by_paper if own),
        f"<footer>{escape(stamp.created)}; {escape(stamp.machine)}; {escape(versions)}</footer>",
    )


def _counts(found: Sequence[CheckedClaim]) -> str:
    count = {status: sum(one.status == status for one in found) for status in STATUSES}
    badges = " ".join(f"{_badge(status)} {number}" for status, number in count.items() if number)
    apart = leaned_on([one.claim.id for one in found], [one.status for one in found])
    return f"{len(found)} claims: {badges}" + (f" <small>{apart}</small>" if apart else "")


def _badge(status: str) -> str:
    return f'<span class="badge {status}">{status}</span>'


def _index(by_paper: Sequence[tuple[Paper, Sequence[CheckedClaim]]]) -> str:
    rows = []
    for paper, own in by_paper:
        links = " ".join(map(_link, own))
        if own:
            rows.append(f'<tr><th scope="row">{escape(paper.name)}</th><td>{links}</td></tr>')
    return f'<table class="index">{"".join(rows)}</table>'


def _link(one: CheckedClaim) -> str:
    mark = f'<span class="mark {one.status}">{STATUSES[one.status]}</span>'
    return f'<a href="#{one.claim.id}" title="{one.status}">{mark} {one.claim.id}</a>'


def _weights(found: Sequence[CheckedClaim]) -> str:
    """What the claims that do not hold cost, the dearest first, with the claims of each weight; empty if all hold."""
    rows = []
    for weight, words in reversed(WEIGHTS.items()):
        if own := [one for one in found if one.weight == weight]:
            head = f'<th scope="row">{escape(weight)}</th><td>{escape(words.capitalize())}.<br>'
            rows.append(f"<tr>{head}{' '.join(map(_link, own))}</td></tr>")
    told = "<p>What a claim that does not hold costs, and which claims cost that:</p>"
    return f'{told}<table class="index">{"".join(rows)}</table>' if rows else ""


def _section(paper: Paper, own: Sequence[CheckedClaim], option: str) -> str:
    articles = "\n".join(_article(one, option) for one in own)
    head = f"<h2>{escape(paper.name)}</h2>\n<p><i>{escape(paper.title)}</i></p>"
    return f"<section>\n{head}\n{_practice(paper)}{_words(paper.notes)}\n{articles}\n</section>"


def _practice(paper: Paper) -> str:
    items = [" ".join(item.split()) for item in re.split(r"(?m)^- ", practice(paper)) if item.strip()]
    told = "".join(f"<li>{_line(item)}</li>" for item in items)
    return f'<div class="practice"><b>What to do differently.</b><ul>{told}</ul></div>\n' if items else ""


def _article(one: CheckedClaim, option: str) -> str:
    name = escape(one.claim.id)
    weight = f' <span class="weight">{escape(one.weight)}</span>' if one.weight else ""
    return "\n".join(
        [
            f'<article id="{name}">',
            f'<h3><a href="#{name}">{name}</a> {_badge(one.status)}{weight} <small>{escape(one.source)}</small></h3>',
            *_quotes(one),
            _words(one.statement),
            *_finding(one),
            f"<dl><dt>run it again</dt><dd><code>spectheory check {name}{option}</code> ({one.seconds:.2f} s), "
            f"code in <code>{escape(one.claim.check.__module__)}</code></dd></dl>",
            "</article>",
        ]
    )


def _quotes(one: CheckedClaim) -> Iterator[str]:
    for place, words in one.claim.quotes.items():
        yield f"<blockquote>&ldquo;{_line(words)}&rdquo; <small>{escape(place)}</small></blockquote>"


def _finding(one: CheckedClaim) -> Iterator[str]:
    found = one.finding
    if found is None:
        yield f"<p><b>{escape(one.failure)}</b></p>"
        return
    if found.status != "holds":
        yield f'<div class="truth"><b>What is true.</b> {_words(one.truth)}</div>'
    if size := one.text("size"):
        yield f'<div class="size"><b>How much.</b> {_words(size)}</div>'
    evidence, method, again = (one.text(name) for name in ("evidence", "method", "second"))
    yield f"<dl><dt>evidence</dt><dd>{_words(evidence or '')}</dd><dt>method</dt><dd>{_line(method or '')}</dd>"
    if again:
        yield f"<dt>second check</dt><dd>{_words(again)}</dd>"
    if found.counterexample is not None:
        yield f"<dt>counterexample</dt><dd>{_table(found.counterexample)}</dd>"
    yield "</dl>"


def _words(text: str) -> str:
    return "".join(
        f"<pre>{escape(part)}</pre>" if "\n" in part else f"<p>{_line(part)}</p>" for part in paragraphs(text)
    )


def _line(text: str) -> str:
    """One line, with text between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _table(case: Mapping[str, Any]) -> str:
    """A counterexample as a table of exact numbers, nested cases as nested tables; below it the tree, if any."""
    rows = "".join(
        f'<tr><th scope="row">{escape(str(plain(key)))}</th><td>{_cell(value)}</td></tr>' for key, value in case.items()
    )
    trees = "".join(tree_drawings(case)) if isinstance(case.get("parent"), list | tuple) else ""
    drawn = f'<div class="trees">{trees}</div>' if trees else ""
    return f'<table class="case"><tbody>{rows}</tbody></table>{drawn}'


def _cell(value: Any) -> str:
    if isinstance(value, Mapping) and any(isinstance(inner, Mapping | list | tuple) for inner in value.values()):
        return _table(value)
    if isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
        return "".join(map(_cell, value))
    return escape(spelled(value))
