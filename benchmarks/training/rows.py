"""The rows of the comparison: which draft is trained by which loss, from which start, for how long."""

from __future__ import annotations

from dataclasses import dataclass, field

from reference.heads import Kind
from reference.losses import Eagle, Eagle3, Gto, Hass, LkLambda, Loss, Talf, Tv
from reference.train.head import NEW_RATE, STARTED_RATE
from reference.train.objectives import DraftTrees

INDEPENDENT = "independent draft"
"""The row that is not trained: the draft model in `reference/pair/draft`, the baseline of all."""


@dataclass(frozen=True)
class Row:
    """One row: a draft that is trained once for each seed.

    Attributes:
        name: name in the table.
        loss: the loss with its settings.
        steps: number of steps, chosen so that rows that are compared cost about the same CPU time.
        start: the row from whose draft of the same seed training starts; None for a new head, `INDEPENDENT` for the
            independent draft.
        kind: kind of a new head.
        intermediate: width of the MLP of a new head; at 512 a forward of one token costs less than one of the
            independent draft.
        rows: number of texts in a step.
        roots: number of roots in each text at which TALF builds trees.
        trees: how GTO grows draft trees.
        against: the row that this row is compared with, in addition to the independent draft.
        published: what the source reports.
    """

    name: str
    loss: Loss
    steps: int
    start: str | None
    kind: Kind = "eagle3"
    intermediate: int = 512
    rows: int = 16
    roots: int = 64
    trees: DraftTrees = field(default_factory=DraftTrees)
    against: str | None = None
    published: str = ""

    @property
    def rate(self) -> float:
        """Learning rate of the matrices: lower for a draft that is trained on."""
        return NEW_RATE if self.start is None else STARTED_RATE

    @property
    def folder(self) -> str:
        """Name of the row's folders."""
        return self.name.lower().replace(" ", "-").replace("=", "").replace(",", "")


GROUPS = DraftTrees(groups=2)
CONTROL = DraftTrees(groups=2, shuffled=True)
GTO = Gto(token_loss=Eagle3(passes=4))
START, CHAIN = "EAGLE-1 start", "CE, 3 passes"
SIZES = (160, 1536)
"""Widths of the MLP at which the best chain loss is trained in addition to 512, from a start of the same width."""
LONG = f"{CHAIN}, MLP of 1536"
"""The row that is also trained for longer, with more steps from the same start."""
ROWS: tuple[Row, ...] = (
    Row(START, Eagle(), 1000, None, kind="eagle1"),
    Row("draft trained on", Tv(), 600, INDEPENDENT),
    Row("EAGLE-1", Eagle(), 700, START),
    Row("HASS", Hass(), 215, START, against="EAGLE-1", published="+3.9 to +8.1% over EAGLE-2's loss"),
    Row(CHAIN, Eagle3(passes=3), 245, START, against="EAGLE-1"),
    Row("LK, 3 passes", LkLambda(passes=3), 220, START, against=CHAIN),
    Row("TALF k=4", Talf(k=4), 88, START, rows=8, roots=96, against="HASS", published="+3.5 to +7.3% over HASS"),
    Row(
        "GTO", GTO, 65, START, rows=8, trees=GROUPS, against="GTO without rewards",
        published="speed +7.7% (T=0) and +5.6% (T=1) over EAGLE-3",
    ),
    Row("GTO without rewards", Eagle3(passes=4), 65, START, rows=8, against=CHAIN),
    Row("GTO, shuffled rewards", GTO, 65, START, rows=8, trees=CONTROL, against="GTO without rewards"),
    Row("TALF k=1", Talf(k=1), 265, START, rows=8, roots=96, against=CHAIN),
    Row("TALF k=2", Talf(k=2), 170, START, rows=8, roots=96, against="TALF k=1"),
    Row("EAGLE-3, 3 passes", Eagle3(passes=3), 540, None, against="EAGLE-3, 1 pass"),
    Row("EAGLE-3, 7 passes", Eagle3(passes=7), 205, None, against="EAGLE-3, 3 passes"),
    Row("EAGLE-3, 1 pass", Eagle3(passes=1), 1650, None),
    *(Row(f"{START}, MLP of {size}", Eagle(), 1000, None, kind="eagle1", intermediate=size) for size in SIZES),
    *(
        Row(f"{CHAIN}, MLP of {size}", Eagle3(passes=3), 245, f"{START}, MLP of {size}", against=CHAIN)
        for size in SIZES
    ),
    Row(f"{LONG}, 1,600 steps", Eagle3(passes=3), 1600, f"{START}, MLP of 1536", against=LONG),
)  # fmt: skip
"""All rows, in the order of their training; a start comes before the rows that train it on."""
