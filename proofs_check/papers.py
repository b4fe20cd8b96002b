"""The papers, and the claims that the project was asked to check; the checks add those they found missing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile

from spectheory.core.errors import InputError
from spectheory.core.names import unknown


@dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes:
        letter: with which its claim ids begin.
        name: short.
        title: in full, and where it is to be had.
        module: of `proofs_check`, whose docstring says how the paper is read.
        ids: that must have a check, with spaces between.
    """

    letter: str
    name: str
    title: str
    module: str
    ids: str

    @property
    def listed(self) -> list[str]:
        """The ids one by one."""
        return self.ids.split()

    def place(self, name: str) -> tuple[int, str]:
        """Sorts claims: as listed, and one that is not listed behind the last of those with which it shares most."""
        if name in self.listed:
            return self.listed.index(name), ""
        shared = [sum(takewhile(bool, map(str.__eq__, name, one))) for one in self.listed]
        return max(range(len(shared)), key=lambda i: (shared[i], i)), name

    @property
    def notes(self) -> str:
        """How the checks read the paper."""
        return inspect.getdoc(import_module(f"proofs_check.{self.module}")) or ""

    def owns(self, name: str) -> bool:
        """Whether the claim of that id is one of its claims."""
        return name.startswith(f"{self.letter}-")


PAPERS = (
    Paper(
        "G",
        "Goose",
        "Goose: Anisotropic Speculation Trees for Training-Free Speculative Decoding",
        "goose",
        "G-EEXT G-P1-LB G-P1-TIGHT G-P1-EXCL G-P1-CORR G-P1-SPECIAL G-P2-LIN G-P2-INT G-P2-HARM G-SEQ-BAL "
        "G-P3-STEP1 G-P3-DOM G-P3-GAP G-P3-VANISH G-P3-STEP3 G-P4-PLD G-P4-TR G-P4-CYCLES G-SPINE",
    ),
    Paper(
        "S",
        "SALF & TALF",
        "SALF & TALF: Optimized Loss Function and Drafting for Tree-Based Speculative Decoding",
        "salf_talf",
        "S-T1 S-T1-W S-T1-B S-T1-USE S-T2 S-T3",
    ),
    Paper(
        "O",
        "OPT-Tree",
        "OPT-Tree: Speculative Decoding with Adaptive Draft Tree Structure (arXiv 2406.17276)",
        "opt_tree",
        "O-3.1 O-SUB O-ALG1 O-3.2 O-DELTA O-EA O-OFF1",
    ),
    Paper(
        "D",
        "Delayed trees",
        "Dynamic Delayed Tree Expansion for Improved Multi-Path Speculative Decoding",
        "delayed_trees",
        "D-LOSS D-IMPROVES D-NSS D-EQ13 D-UNB D-RHO D-RHO-VALID D-RHO-OPT D-ACC D-BR D-BR14 D-BR15 D-L1 D-NAIVE-OT "
        "D-BV-DESC D-BV-OPT D-TV D-TRAV D-K1 D-KMONO D-EQ11 D-EQ9 D-TABLES",
    ),
    Paper(
        "T",
        "GTO",
        "Bridging Draft Policy Misalignment: Group Tree Optimization for Speculative Decoding",
        "gto",
        "T-EQ3 T-EQ5-ETA T-REWARD T-1A T-1B T-L1 T-BOUND T-ADV",
    ),
)
"""In the order in which they are shown."""


def in_order(names: Iterable[str]) -> list[str]:
    """Those claims, paper by paper."""
    known = list(names)
    return [name for paper in PAPERS for name in sorted(filter(paper.owns, known), key=paper.place)]


def named(name: str, known: Iterable[str]) -> list[str]:
    """The claim of that id, in any case; else those whose ids go on from it, such as all of a paper by its letter.

    Raises:
        InputError: there is none.
    """
    ids, start = list(known), name.upper()
    found = [start] if start in ids else in_order(one for one in ids if one.startswith(f"{start}-"))
    if not found:
        raise InputError(unknown("claim", name, ids))
    return found
