"""docs/training.md: the comparison as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.training.comparing import BUDGET
from benchmarks.training.decoding import DECODED, NEW_TOKENS
from benchmarks.training.records import FOLDER, Trainings
from benchmarks.training.rows import CHAIN, INDEPENDENT, ROWS, Row
from reference.model_folders import WEIGHTS
from reference.models import DRAFT, HEAD, TARGET
from spectheory import DraftComparison, Schedule, Tally
from spectheory.core.errors import InputError
from spectheory.results.draft_comparison import LEVEL, POWER, DraftRow

Comparisons = Mapping[float, DraftComparison]
"""The comparison at each temperature."""
Timing = Mapping[str, Mapping[str, Any]]
"""What `benchmarks.training.timing` measured."""
Decoded = Mapping[float, Mapping[str, tuple[Schedule, Tally]]]
"""The plan and the tally of each draft at each temperature, which `benchmarks.training.decoding` measured."""
MOST = 12
"""MB that the shipped target and head may take together."""


def document(found: Comparisons, trainings: Trainings, timing: Timing, decoded: Decoded) -> str:
    """The page as Markdown, from what `records` keeps.

    Raises:
        InputError: there is no comparison.
    """
    if not found:
        raise InputError(f"{FOLDER} holds no comparison: train with --work first")
    trained = {name for one in found.values() for name in one.groups}
    rows = [row for row in ROWS if row.name in trained]
    sizes = {place.name: (place / WEIGHTS).stat().st_size / 1e6 for place in (TARGET, HEAD, DRAFT)}
    return _TEXT.format(
        budget=BUDGET,
        lacking=_lacking(rows),
        level=f"{LEVEL:.0%}",
        power=f"{POWER:.0%}",
        taus="\n".join(_taus(found, rows, trainings)),
        pairs="\n".join(_pairs(found, rows)),
        sizes="\n".join(_sizes(found, rows, trainings, timing["drafting"])),
        decoded="\n".join(_decoded(decoded)),
        pair=sizes["target"] + sizes["head"],
        all=sum(sizes.values()),
        most=MOST,
        tokens=NEW_TOKENS,
        prompts=DECODED,
        time="\n".join(_time(timing["shares"], rows)),
        ranks="\n".join(_ranks(found, rows)),
        size="; ".join(
            f"temperature {temperature:g}: {one.roots.sum():,} roots in texts of {len(one.prompts):,} files"
            for temperature, one in found.items()
        ),
        machine="\n".join(f"- temperature {t:g}: {_measured(one)}" for t, one in found.items()),
    )


def _lacking(rows: list[Row]) -> str:
    """The rows that are not trained yet, in a sentence."""
    names = [row.name for row in ROWS if row not in rows]
    return f"\n\n**Not trained yet:** {'; '.join(names)}." if names else ""


def _taus(found: Comparisons, rows: list[Row], trainings: Trainings) -> Iterator[str]:
    """E[tau] of each row, and its difference from the independent draft."""
    titles = [f"E[tau], T={t:g} | over the independent draft | seeds differ by" for t in found]
    yield f"| draft | seeds | CPU s | texts read | {' | '.join(titles)} |"
    yield "|" + " --- |" * (4 + 3 * len(found))
    by_name = {t: {row.group: row for row in one.rows} for t, one in found.items()}
    spent = {row.name: _spent(row, found, trainings) for row in rows}
    for name in [INDEPENDENT, *spent]:
        cells = [name, *spent.get(name, [""] * 3)]
        for one in by_name.values():
            cells += _cells(one[name])
        yield f"| {' | '.join(cells)} |"


def _spent(row: Row, found: Comparisons, trainings: Trainings) -> list[str]:
    """The number of trainings of a row, the mean CPU seconds of one, and the texts that each reads."""
    runs = {run.name for one in found.values() for run in one.groups[row.name]}
    seconds, texts = (np.mean([trainings[run][key] for run in runs]) for key in ("cpu_seconds", "texts"))
    return [str(len(runs)), f"{seconds:.0f}", f"{texts:,.0f}"]


def _cells(row: DraftRow) -> list[str]:
    over = "" if row.difference is None else f"{row.difference:+.1f}% ± {row.half:.1f}"
    spread = "" if row.deviation is None else f"{row.deviation:.3f}"
    return [f"{row.tau:.3f} ± {row.tau_half:.3f}", over, spread]


def _measured(one: DraftComparison) -> str:
    stamp = one.provenance
    versions = ", ".join(f"{name} {version}" for name, version in stamp.versions.items())
    return f"{stamp.machine}; {versions}; {stamp.created}"


def _pairs(found: Comparisons, rows: list[Row]) -> Iterator[str]:
    """Each row against the row that differs from it in one thing."""
    titles = [f"T={t:g} | seen from" for t in found]
    yield f"| draft | against | {' | '.join(titles)} | published |"
    yield "|" + " --- |" * (3 + 2 * len(found))
    names = {row.name for row in rows}
    for row in rows:
        if row.against not in names:
            continue
        cells = [row.name, str(row.against)]
        for one in found.values():
            paired = one.difference(row.name, str(row.against), by_run=_same_seeds(one, row))
            cells += [
                f"{paired.percent:+.2f}% ± {paired.half_width(LEVEL):.2f}",
                f"{paired.minimum_detectable(LEVEL, POWER):.1f}%",
            ]
        yield f"| {' | '.join([*cells, row.published])} |"


def _same_seeds(found: DraftComparison, row: Row) -> bool:
    """Whether a row and the one that it is compared with are trained with the same seeds."""
    mine, theirs = (
        [run.name.rpartition("-")[2] for run in found.groups[name]] for name in (row.name, str(row.against))
    )
    return mine == theirs


def _ranks(found: Comparisons, rows: list[Row]) -> Iterator[str]:
    """How often the draft's tokens of rank 0 to 3 are the target's at the first depth, and their calibration error."""
    temperature, one = max(found.items())
    titles = [f"rank {rank}" for rank in range(4)]
    yield f"| draft, T={temperature:g} | {' | '.join(titles)} | {' | '.join('error ' + title for title in titles)} |"
    yield "|" + " --- |" * 9
    for name in [INDEPENDENT, *(row.name for row in rows)]:
        runs = one.groups[name]
        hits = np.mean([run.hits[0, :4] for run in runs], 0)
        errors = np.mean([run.calibration_error[0, :4] for run in runs], 0)
        yield f"| {name} | {' | '.join(f'{value:.3f}' for value in [*hits, *errors])} |"


def _sizes(found: Comparisons, rows: list[Row], trainings: Trainings, drafting: Mapping[str, float]) -> Iterator[str]:
    """The best chain loss at each width of the MLP: what a head costs and what it gives."""
    yield f"| draft | MB | ms for a chain of 4 | {' | '.join(f'over the independent draft, T={t:g}' for t in found)} |"
    yield "| --- | --- | --- |" + " --- |" * len(found)
    sized = sorted((row for row in rows if row.name.startswith(CHAIN)), key=lambda row: row.intermediate)
    by_name = [{row.group: row for row in one.rows} for one in found.values()]
    sizes = {INDEPENDENT: (DRAFT / WEIGHTS).stat().st_size}
    runs = next(iter(found.values())).groups
    sizes |= {row.name: trainings[runs[row.name][0].name]["bytes"] for row in sized}
    for name, size in sizes.items():
        time = f"{drafting[name]:.2f}" if name in drafting else ""
        over = [_cells(one[name])[1] for one in by_name]
        yield f"| {' | '.join([name, f'{size / 1e6:.2f}', time, *over])} |"


def _decoded(decoded: Decoded) -> Iterator[str]:
    """The speed of decoding with each draft at each temperature, beside plain decoding and beside the prediction."""
    yield "| T | draft | plan | tau predicted | tau | tok/s | speedup predicted | speedup |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for temperature, drafts in decoded.items():
        for name, (plan, tally) in drafts.items():
            low, high = tally.tau_interval()
            assert tally.speedup is not None
            planned = f"{plan.tree.budget} nodes, {plan.tree.max_depth} deep, {plan.verifier}"
            measured = f"{tally.tau:.2f} ({low:.2f} to {high:.2f})"
            speeds = [f"{tally.new_tokens / tally.seconds:.0f}", f"{plan.speedup:.2f}", f"{tally.speedup:.2f}"]
            taus = [f"{plan.tau:.2f}", measured]
            yield f"| {' | '.join([f'{temperature:g}', name, planned, *taus, *speeds])} |"


def _time(shares: Mapping[str, Mapping[str, float]], rows: list[Row]) -> Iterator[str]:
    """Where the time of each row's training goes."""
    yield "| draft | matrix products | attention | the rest |"
    yield "| --- | --- | --- | --- |"
    for row in rows:
        if row.name in shares:
            products, attention = shares[row.name]["products"], shares[row.name]["attention"]
            yield f"| {row.name} | {products:.0%} | {attention:.0%} | {1 - products - attention:.0%} |"


_TEXT = """# Training: do the papers' losses help?

Drafts for the shipped target, trained on its own texts by `spectheory train head`, compared on held-out texts by
`spectheory head evaluate`. Written by `python -m benchmarks.training` from `benchmarks/training/records`; do not edit.

**At equal CPU time, the plain loss is the best.** Cross-entropy along the text (CE) gives the highest E[tau] of the
losses on the same head, at both temperatures. Passes over the head's own states help, but by less than is published for
HASS. TALF's trees and LK are below their baselines. GTO's rewards change less than 1%, and so do rewards dealt at
random. The width of the head decides more than its loss.

EAGLE-1, HASS, CE, LK, TALF and GTO train on the same start, an EAGLE-1 head, each for about the same CPU time, so that
they differ in the loss alone. "CE" is EAGLE-3's loss on that head: cross-entropy along the text, with the head's own
states from the second pass on. EAGLE-3's heads are new; each costs about as much as the start and the training after
it together. Drafts that are trained on have a learning rate of 0.003. The rate of new heads, 0.02, spoils them: after
130 steps of CE the loss was higher than before them. "Texts read" counts texts of 256 tokens, of which the target wrote
192. TALF's trees and GTO's rewards are computed by the target during the training, and their cost is in the CPU time.
So at equal cost TALF and GTO read fewer texts. Heads with another width of the MLP than 512 show what size decides.
The neural selector is judged on a [page of its own](selector.md).

## E[tau]

Tree of {budget} nodes, the best one for the independent draft's measured rates; Greedy at temperature 0, Traversal at
1.
{size}.
All held out: no file of the prompts was used in any training.

{taus}

Intervals of {level}, clustered by the file that a prompt is from: prompts of one file are not independent.
"Seeds differ by" is the standard deviation between the seeds; with one seed the intervals hold for these weights and
leave it out, so that no effect below 5% is claimed from fewer than three seeds.{lacking}

More training gives more. With twice the texts and, for the start and each row, 1.4 to 2 times the steps, one seed of an
earlier run (commit 8de71bd, the same held-out texts) gave over the independent draft +36.3% ± 9.3 and +2.4% ± 2.5 with
EAGLE-1, +41.0% ± 9.8 and +3.7% ± 2.4 with HASS, +44.2% ± 11.0 and +7.8% ± 2.2 with CE, +24.7% ± 9.9 and -21.6% ± 2.2
with EAGLE-3, at temperature 0 and 1.

## One thing at a time

Each row against the row that differs from it in one thing, paired by file and by seed; with several seeds the interval
holds the variation between them. "Seen from": the smallest true difference that is seen with a probability of {power}.

{pairs}

GTO without rewards is the token-level loss of GTO alone, on the same texts; with shuffled rewards the rewards of each
group of positions are dealt to them at random.

## Size

{sizes}

A head becomes the package's default if a forward costs no more than one of the independent draft, if E[tau] is at
least 15% higher at both temperatures, if decoding is measured to be faster, and if the models take at most {most} MB.
The MLP of 1,536 after 1,600 steps fulfils all four, and so it is the shipped head. Target and head take {pair:.2f} MB.
With the independent draft they would take {all:.2f} MB, so it is in a checkout only, in `reference/pair/draft`.

## Decoding

Each draft with the plan that was measured for it, on {prompts} held-out prompts that were not traced, {tokens} tokens
each: both drafts and plain decoding take turns, prompt by prompt (`python -m benchmarks.training.decoding`). The
intervals of tau are over prompts.

{decoded}

## Ranks

How often the draft's token of a rank is the target's token at the first depth, and the expected calibration error.

{ranks}

## Where the time goes

Shares of the time of a training with one thread, by PyTorch's profiler over some steps of each row
(`python -m benchmarks.training.timing`): matrix products, and the fused kernels of attention, which are two matrix
products with a softmax between them. The rest is the softmax of the losses, norms, the optimizer, reading texts, and
for TALF and GTO the search of their trees.

{time}

## Measured by

{machine}
"""
