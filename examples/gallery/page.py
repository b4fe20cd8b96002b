"""The page, from the rows of a record."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping

from examples.gallery.findings import FINDINGS, NOT_CONFIRMED, Finding
from examples.gallery.running import Row
from examples.gallery.subjects import SUBJECTS

HEAD = """# A gallery of published verifiers

Samplers of public repositories, certified as they are: `spectheory` compiles the named function from your own copy of
the file, and an adapter of at most 12 lines turns a draft into its arguments (without decorators, docstrings and blank
lines, and with all that it uses of its own file; what all adapters share is in `copies`, `drafts` and `fakes`). Nothing
is fetched or copied. The table says what was measured, in small worlds, for these commits and settings. It says nothing
about other parts of a repository, and a commit may be old: please look at the current code before you report anything.

`python -m examples.gallery` writes this page from `examples/gallery/measured.json`. With your own copies,

```bash
python -m examples.gallery --copies FOLDER
```

runs every subject that `FOLDER` has, as `owner/name`, `owner+name` or `name`, and names those that it skips. The commit
of a folder that is not a checkout is read from `FOLDER/commits.json`.

Exact mode enumerates all random draws in the given number of worlds; see [certify](certify.md). LOSSLESS covers these
worlds and the trees that were tried. The black box plays two cycles at level 1e-6, in six worlds (in one world for
whole steps), and its total variation is an estimate. TV is the largest total variation that was found; a report of
exact mode shows a world with this total variation, and a run in it. Seconds are processor time on one core, without the
import of PyTorch. A token of probability 0 that is accepted only if a random number is exactly 0 is not counted.

| subject | file, function | version | mode | verdict | TV | size | seconds | our reading |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
REPORTS = """
## Reports

Drafts of reports to the authors, none of which has been sent. We thank all authors for publishing their code: a fault
can only be found in code that can be read. We may be wrong, and are glad to be corrected.

Each reproduction is ours and stands in `examples/gallery/reproductions.py`; it needs no model and no PyTorch.
"""


def page(rows: Mapping[str, Row]) -> str:
    """The whole page."""
    table = "".join(_row(rows[name]) for name in SUBJECTS if name in rows)
    return f"{HEAD}{table}{_missing(rows)}{REPORTS}{''.join(_report(one, rows) for one in FINDINGS)}{_not_confirmed()}"


def _row(row: Row) -> str:
    subject = SUBJECTS[row.subject]
    reading = (
        f"{subject.reading} {row.failure}" if row.verdict == "UNDECIDED" and not subject.reading else subject.reading
    )
    cells = (
        f"`{row.subject}`: {subject.repository}",
        f"`{subject.file}`, `{subject.function}`",
        row.version or "unknown",
        row.mode,
        row.verdict,
        row.tv,
        row.size,
        f"{row.seconds:.1f}",
        reading,
    )
    return f"| {' | '.join(cells)} |\n"


def _missing(rows: Mapping[str, Row]) -> str:
    days = "; ".join(sorted({row.measured for row in rows.values()}))
    left = [f"`{name}` ({SUBJECTS[name].repository})" for name in SUBJECTS if name not in rows]
    without = f" Not run, for want of a copy: {', '.join(left)}." if left else ""
    return f"\n{_wrapped(f'Measured: {days}.{without}' if rows else f'Nothing was measured.{without}')}\n"


def _report(finding: Finding, rows: Mapping[str, Row]) -> str:
    code = inspect.getsource(finding.reproduction).strip()
    name = finding.reproduction.__name__
    results = "\n".join(f"{name}{_given(given)} = {_shown(finding.reproduction(*given))}" for given in finding.shown)
    return f"""
<a id="{finding.anchor}"></a>

### {finding.title}

{_wrapped(f"What: {finding.what}")}

{_wrapped(f"Expected: {finding.expected}")}

{_wrapped(f"Confirmed {finding.confirmed}.")}{_measured(finding, rows)}

```python
{code}
```

```text
{results}
```

{_wrapped(f"Suggestion: {finding.suggestion}")}
"""


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _given(given: tuple[object, ...]) -> str:
    return f"({', '.join(map(repr, given))})"


def _shown(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _measured(finding: Finding, rows: Mapping[str, Row]) -> str:
    """The rows that show it, and the evidence of the first in full."""
    shown = [rows[name] for name in finding.subjects if name in rows]
    text = ""
    for row in shown:
        off = f", total variation {row.tv}" if row.tv else ""
        of = SUBJECTS[row.subject]
        line = f"Measured, `{of.file}` at {row.version or 'an unknown version'}: {row.verdict}{off}, {row.size}."
        text += f"\n\n{_wrapped(f'{line} The call {row.failure}.' if row.failure else line)}"
    evidence = next((row.evidence for row in shown if row.evidence and row.mode == "exact"), ())
    return text + ("\n\n```text\n" + "\n".join(evidence) + "\n```" if evidence else "")


def _not_confirmed() -> str:
    text = "\n## Reported, not confirmed here\n\n| claim | why it is not confirmed |\n| --- | --- |\n"
    return text + "".join(f"| {claim} | {why} |\n" for claim, why in NOT_CONFIRMED)
