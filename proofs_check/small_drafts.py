"""Draft models small enough to enumerate all of them, in rational arithmetic.

A model is given by p-hat, the product of its probabilities on the path, of every node of a full tree. A node is its
path of tokens; the root is left out. Each distribution has its tokens in order of probability, as names do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from heapq import nlargest
from itertools import combinations, combinations_with_replacement, product
from math import lcm
from typing import Any

Path = tuple[int, ...]
Law = tuple[Fraction, ...]
Hat = dict[Path, Fraction]
Nodes = frozenset[Path]


def laws(tokens: int, largest: int) -> list[Law]:
    """The non-increasing distributions on `tokens` tokens with a common denominator up to `largest`, simplest first."""
    found = {}
    for denominator in range(1, largest + 1):
        for counts in combinations_with_replacement(range(denominator, -1, -1), tokens):
            if sum(counts) == denominator:
                found[tuple(Fraction(count, denominator) for count in counts)] = None
    return list(found)


def positive_laws(tokens: int, largest: int) -> list[Law]:
    """The distributions of `laws` without a zero."""
    return [law for law in laws(tokens, largest) if min(law) > 0]


def drafts(depth: int, tokens: int, largest: int) -> Iterator[Hat]:
    """Every model with one of `laws` at each inner node of the full tree."""
    inner = [path for length in range(depth) for path in product(range(tokens), repeat=length)]
    for chosen in product(laws(tokens, largest), repeat=len(inner)):
        yield grown(dict(zip(inner, chosen, strict=True)))


def same_law(law: Law, depth: int) -> Hat:
    """The model with one distribution at every node."""
    return grown({path: law for length in range(depth) for path in product(range(len(law)), repeat=length)})


def grown(laws: dict[Path, Law]) -> Hat:
    """The model with these distributions at the inner nodes, parents before children."""
    hat: Hat = {(): Fraction(1)}
    for path, law in laws.items():
        hat |= {(*path, token): hat[path] * probability for token, probability in enumerate(law)}
    del hat[()]
    return hat


def is_tree(nodes: Iterable[Path]) -> bool:
    """Whether every node's parent is the root or among the nodes."""
    return {node[:-1] for node in nodes} <= {(), *nodes}


@cache
def trees(nodes: Nodes, n: int) -> list[Nodes]:
    """Every tree of the root and n of `nodes`; of all nodes where there are fewer than n."""
    grown = {frozenset[Path]()}
    for _ in range(min(n, len(nodes))):
        grown = {tree | {node} for tree in grown for node in nodes - tree if is_tree(tree | {node})}
    return sorted(grown, key=sorted)


def total(values: Iterable[Fraction]) -> Fraction:
    """The sum, by one common denominator."""
    parts = [value.as_integer_ratio() for value in values]
    common = lcm(*(denominator for _, denominator in parts))
    return Fraction(sum(numerator * (common // denominator) for numerator, denominator in parts), common)


def worth(nodes: Iterable[Path], hat: Hat) -> Fraction:
    """The sum of p-hat."""
    return total(hat[node] for node in nodes)


def best_worth(nodes: Nodes, n: int, hat: Hat) -> Fraction:
    """The largest sum of p-hat, by looking at every tree."""
    common = lcm(*(hat[node].denominator for node in nodes))
    parts = {node: hat[node].numerator * (common // hat[node].denominator) for node in nodes}
    return Fraction(max(sum(parts[node] for node in tree) for tree in trees(nodes, n)), common)


def texts(target: Hat) -> list[tuple[Path, Fraction]]:
    """Every text of the target, as long as its paths are, with its probability."""
    depth = max(map(len, target))
    return [(path, p) for path, p in target.items() if len(path) == depth]


def kept(tree: Nodes, text: Path) -> int:
    """Tokens at the start of the text that are a path of the tree."""
    return sum(text[:length] in tree for length in range(1, len(text) + 1))


def accepted(tree: Nodes, target: Hat) -> Fraction:
    """Expected drafted tokens accepted: for every text of the target its longest prefix in the tree, averaged."""
    return total(p * kept(tree, text) for text, p in texts(target) if p)


def named(nodes: Iterable[Path]) -> list[str]:
    """The nodes written in letters: `AB` is token B after token A."""
    return [letters(node) for node in sorted(nodes, key=lambda node: (len(node), node))]


def letters(path: Path) -> str:
    """`AB` is token B after token A; the root is empty."""
    return "".join("ABCDEFGH"[token] for token in path)


def select(nodes: Nodes, n: int, hat: Hat) -> Nodes:
    """The n nodes with the largest p-hat; among equal ones the smaller depth first."""
    in_order = sorted(nodes, key=lambda node: (len(node), node))
    return frozenset(sorted(in_order, key=hat.__getitem__, reverse=True)[:n])


def selections(nodes: Nodes, n: int, hat: Hat) -> Iterator[Nodes]:
    """Every choice of the n nodes with the largest p-hat: more than one choice where there are ties."""
    last = nlargest(n, (hat[node] for node in nodes))[-1]
    sure = frozenset(node for node in nodes if hat[node] > last)
    tied = sorted(node for node in nodes if hat[node] == last)
    return (sure | set(rest) for rest in combinations(tied, min(n, len(nodes)) - len(sure)))


def parents(nodes: Iterable[Path]) -> dict[str, list[Any]]:
    """A tree as a parent array, the root first, and its nodes by name."""
    order = ["", *named(nodes)]
    return {"parent": [-1, *[order.index(name[:-1]) for name in order[1:]]], "node": order}


def shown(hat: Hat, nodes: Nodes | None = None, **more: Any) -> dict[str, Any]:
    """A counterexample as data: p-hat of the whole full tree, and the nodes chosen from it."""
    data = {"p_hat": dict(zip(named(hat), (hat[node] for node in sorted(hat, key=lambda v: (len(v), v))), strict=True))}
    return parents(hat) | data | ({} if nodes is None else {"chosen": named(nodes)}) | more
