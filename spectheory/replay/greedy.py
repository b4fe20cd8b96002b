"""Texts on which nothing is left to chance: greedy decoding, and recorded accepted lengths of a chain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, Shaped

from spectheory.core.checks import check_array, check_whole
from spectheory.core.errors import InputError, RecordError
from spectheory.core.files import read_text
from spectheory.core.json_values import parse
from spectheory.core.tree import Tree
from spectheory.replay.text import compiled

FIELD = "acc_len"
"""Field of the lengths in a line of `read_chain_records`: tokens that a cycle emits, one more than it keeps."""


@dataclass(frozen=True, eq=False)
class GreedyText:
    """A text of n tokens that greedy decoding of the target generated, as the draft ranks it.

    Attributes:
        ranks: rank of each token among the draft's candidates at its position, -1 where it is none of them.
            (D, n) for a draft whose ranks depend on how deep in the cycle it is; the last row holds for deeper nodes.

        candidates: number of candidates that were ranked; wider trees cannot be replayed. None if all tokens were.

    Raises:
        InputError: the ranks are not whole numbers, or not between -1 and `candidates` - 1.
    """

    ranks: Int[np.ndarray, "depths n"]
    candidates: int | None = None

    def __post_init__(self) -> None:
        ranks = check_array("ranks", self.ranks)
        if ranks.ndim not in (1, 2) or not len(ranks) or ranks.dtype.kind not in "iu" or (ranks < -1).any():
            raise InputError(f"ranks must be whole numbers >= -1 of shape (n,) or (depths, n), got {ranks!r:.80}")
        if self.candidates is not None:
            check_whole("candidates", self.candidates, 1, ": give the number of ranked candidates, or None for all")
            if ranks.size and ranks.max() >= self.candidates:
                raise InputError(
                    f"ranks must be below candidates={self.candidates}, the number of ranked candidates, and -1 for a "
                    f"token that is none of them, got {ranks.max()}"
                )
        object.__setattr__(self, "ranks", ranks if ranks.ndim == 2 else ranks[None])

    def __len__(self) -> int:
        return self.ranks.shape[1]

    def perfect_at(self, depth: int) -> GreedyText:
        """The text of a draft that ranks every token first where it drafts children of a node at `depth`."""
        rows = np.minimum(np.arange(max(depth + 2, len(self.ranks))), len(self.ranks) - 1)
        ranks = self.ranks[rows]
        ranks[depth] = 0
        return GreedyText(ranks, self.candidates)


@dataclass(frozen=True, eq=False)
class ChainText:
    """A text of n tokens of which only the accepted length of a long chain at each position is known.

    Other people's policy-free records hold this, such as those of SpecDecode-Bench. Chains up to the recorded length
    are replayed exactly, whatever the draft and the verifier were: a shorter chain keeps the beginning of a longer one.

    Attributes:
        accepted: number of drafted tokens that a cycle from each position keeps.
        longest: number of drafted tokens of the recorded chain.

    Raises:
        InputError: the lengths are not whole numbers between 0 and `longest`.
    """

    accepted: Int[np.ndarray, " n"]
    longest: int

    def __post_init__(self) -> None:
        check_whole("longest", self.longest, 0, ": give the number of drafted tokens of the recorded chain")
        accepted = check_array("accepted", self.accepted)
        if accepted.ndim != 1 or accepted.dtype.kind not in "iu" or not len(accepted):
            raise InputError(f"accepted must be a row of whole numbers, one for each position, got {accepted!r:.80}")
        if accepted.min() < 0 or accepted.max() > self.longest:
            raise InputError(
                f"accepted must be between 0 and longest={self.longest}, the length of the recorded chain, got "
                f"{accepted.min()} to {accepted.max()}"
            )
        object.__setattr__(self, "accepted", accepted)

    def __len__(self) -> int:
        return len(self.accepted)


def read_chain_records(path: Path, drafter: str | None = None) -> list[ChainText]:
    """The texts of a JSON Lines file as the simulator of SpecDecode-Bench keeps them, one for each line.

    Each line is an object with the lengths of one request, `{"acc_eagle": {"acc_len": [1, 5, 4, ...]}}`, for one or
    several drafters. The longest length of the file is taken for the recorded chain.

    Args:
        path: the file.
        drafter: name of the field of the drafter, such as `acc_eagle`; None if there is one only.

    Raises:
        InputError: the file is missing, a line is damaged or lacks the drafter, or several drafters are there and none
            is named.
    """
    lines = enumerate(read_text(path).split("\n"), start=1)
    rows = [_lengths(line, f"{path}, line {number}", drafter) - 1 for number, line in lines if line.strip()]
    if not rows:
        raise InputError(f"{path} holds no record: it must have one JSON object on each line")
    longest = max(int(row.max()) for row in rows)
    return [ChainText(row, longest) for row in rows]


def _lengths(line: str, where: str, drafter: str | None) -> np.ndarray:
    """The lengths of a drafter in one line."""
    like = f'{{"acc_eagle": {{"{FIELD}": [1, 3]}}}}'
    try:
        held = parse(line, where)
    except RecordError as error:
        raise InputError(f"{error}; a line must be like {like}") from error
    fields = held.items() if isinstance(held, dict) else ()
    known = {name: value[FIELD] for name, value in fields if isinstance(value, dict) and FIELD in value}
    if drafter not in known and (drafter is not None or len(known) != 1):
        wanted = "one drafter" if drafter is None else f"drafter {drafter!r}"
        raise InputError(f"{where} must have {wanted}, got {', '.join(known) or 'none'}: a line must be like {like}")
    name, lengths = next((name, held) for name, held in known.items() if drafter in (None, name))
    if not (isinstance(lengths, list) and lengths and all(type(one) is int and 1 <= one < 2**31 for one in lengths)):
        raise InputError(
            f"{where}: {name}.{FIELD} must be a list of whole numbers of at least 1, below 2**31, got {lengths!r:.60}"
        )
    return np.array(lengths, np.int64)


def kept_of_chain(text: ChainText, tree: Tree) -> Shaped[np.ndarray, "n lengths"]:
    """1 where a cycle with a chain keeps at least 0..L tokens, 0 where not.

    Raises:
        InputError: the tree is not a chain, or is longer than the recorded chain.
    """
    if not tree.is_chain or tree.budget > text.longest:
        raise InputError(f"tree must be a chain of at most {text.longest}, the recorded length, got {tree}")
    return (text.accepted[:, None] >= np.arange(tree.budget + 1)).astype(np.float64)


def passed_greedily(text: GreedyText, tree: Tree) -> Shaped[np.ndarray, "n nodes"]:
    """1 where a cycle from each position keeps a node of the tree, 0 where not."""
    _require_ranked(text, tree)
    children = np.full((tree.budget + 1, int(tree.rank.max()) + 1), -1)
    drafted = np.arange(1, tree.budget + 1)
    children[tree.parent[drafted], tree.rank[drafted]] = drafted
    return compiled(_passed)(text.ranks, children)


def _passed(ranks: np.ndarray, children: np.ndarray) -> np.ndarray:
    """`passed_greedily` by a walk down the tree from each position; children[node, rank] is a node, or -1."""
    depths, n = ranks.shape
    passed = np.zeros((n, len(children)))
    for start in range(n):
        node, depth = 0, 0
        while node >= 0:
            passed[start, node] = 1
            if start + depth == n:
                break
            rank = ranks[min(depth, depths - 1), start + depth]
            node = children[node, rank] if 0 <= rank < children.shape[1] else -1
            depth += 1
    return passed


def passed_in_expectation(text: GreedyText, tree: Tree, closer: float) -> Shaped[np.ndarray, "n nodes"]:
    """The mean of `passed_greedily` over drafts that rank each token first with probability `closer`.

    They do so independently at each position, and rank it as recorded otherwise. A sequence of cycles reads each
    position once, so the expected number of cycles is exact too.
    """
    _require_ranked(text, tree)
    n = len(text)
    passed = np.zeros((n, tree.budget + 1))
    passed[:, 0] = 1
    for node in range(1, tree.budget + 1):
        parent, rank = tree.parent[node], tree.rank[node]
        above = int(tree.depth[parent])
        if above < n:
            hits = text.ranks[min(above, len(text.ranks) - 1)] == rank
            edge = (1 - closer) * hits + closer * (rank == 0)
            passed[: n - above, node] = passed[: n - above, parent] * edge[above:]
    return passed


def _require_ranked(text: GreedyText, tree: Tree) -> None:
    """Check that as many candidates are ranked as a node of the tree has children. Raises InputError if not."""
    widest = int(tree.rank.max()) + 1
    if text.candidates is not None and widest > text.candidates and tree.budget:
        raise InputError(
            f"tree has {widest} children at a node, but only {text.candidates} candidates are ranked at each position: "
            "record more candidates, or replay a narrower tree"
        )
