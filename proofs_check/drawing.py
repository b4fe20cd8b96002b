"""A counterexample that is a tree, as an inline SVG in the colours of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from spectheory import Tree

ACROSS, DOWN, RADIUS = 132, 46, 6
"""Pixels from a parent to its children, from a leaf to the next leaf, and of a node's radius."""
NAMES = ("node", "nodes", "name", "names", "token", "tokens")
"""Keys of a case whose list, with one entry per node, names the nodes."""
NUMBERS = ("p_hat", "p", "q", "rate", "rates", "reach", "score", "scores", "value", "values", "weight", "weights")
"""Keys of a case whose values give each node a number."""


def tree_drawings(case: Mapping[str, Any]) -> Iterator[str]:
    """One figure for each choice of nodes in the tree of `case`; without choices one figure of the tree."""
    names = _names(case)
    for key, nodes in (dict(_choices(case, names)) or {"": set[int]()}).items():
        words = f"<figcaption>filled: {escape(key.replace('_', ' '))}</figcaption>" if key else ""
        yield f"<figure>{words}{_svg(list(case['parent']), _labels(case, names), nodes)}</figure>"


def _choices(case: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, set[int]]]:
    """The lists of a case that choose nodes: by name, or by number under a key that ends in `nodes`."""
    for key, value in case.items():
        if not isinstance(value, list | tuple) or not value or key in ("parent", *NAMES):
            continue
        if all(isinstance(one, str) and one in names for one in value):
            yield key, {names.index(one) for one in value}
        elif key.endswith("nodes") and all(isinstance(one, int) and one < len(names) for one in value):
            yield key, set(value)


def _names(case: Mapping[str, Any]) -> list[str]:
    size = len(case["parent"])
    for key in NAMES:
        named = case.get(key)
        if isinstance(named, list | tuple) and len(named) == size and len(set(map(str, named))) == size:
            return [str(name) for name in named]
    return [str(node) for node in range(size)]


def _labels(case: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    numbers: list[str] = [""] * len(names)
    for key in NUMBERS:
        value = case.get(key)
        if isinstance(value, Mapping):
            numbers = [str(value.get(name, "")) for name in names]
        elif isinstance(value, list | tuple) and len(value) == len(names):
            numbers = ["" if one is None else str(one) for one in value]
        else:
            continue
        break
    return [f"{name or 'root'} {number}".strip() for name, number in zip(names, numbers, strict=True)]


def _svg(parent: Sequence[int], labels: Sequence[str], filled: set[int]) -> str:
    tree = Tree(parent)
    x, y = tree.depth.tolist(), tree.rows.tolist()
    width, height = ACROSS * (max(x) + 1) + RADIUS, DOWN * (max(y) + 1)
    parts = [f'<svg class="tree" viewBox="0 0 {width} {height:g}" style="width:{width}px;max-width:100%" role="img">']
    parts[0] += f"<title>tree of {len(parent) - 1} nodes, {max(x)} deep</title>"
    places = [(RADIUS + 2 + ACROSS * a, DOWN * (b + 0.62)) for a, b in zip(x, y, strict=True)]
    for node, above in enumerate(parent):
        if node:
            (x1, y1), (x2, y2) = places[above], places[node]
            middle = (x1 + x2) / 2
            parts.append(f'<path d="M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2:g} {y2:g}"/>')
    for node, (a, b) in enumerate(places):
        kind = "filled" if node in filled else "root" if not node else ""
        parts.append(f'<circle class="{kind}" cx="{a:g}" cy="{b:g}" r="{RADIUS}"/>')
        parts.append(f'<text x="{a - 2:g}" y="{b - 11:g}">{escape(labels[node])}</text>')
    return "".join([*parts, "</svg>"])
