"""Files that name a tree: a plan, which may name its verifier and draw rule too, or a parent array."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.core.json_values import parse
from spectheory.core.tree import Tree
from spectheory.planning.schedule_record import Schedule


class TreeFile(NamedTuple):
    """What a file says of a tree.

    Attributes:
        tree: the tree.
        verifier: the name of the verifier that a plan chose for sampled text; None if the file names none.
        rule: the rule by which the plan draws children; None without a verifier.
    """

    tree: Tree
    verifier: str | None = None
    rule: DrawRule | None = None


def tree_file(file: Path) -> TreeFile:
    """The contents of a file with a tree: a plan, or JSON with a parent array such as [-1, 0, 0].

    Raises:
        InputError: the file cannot be read or holds no tree.
    """
    held = parse(read_text(file), str(file))
    if isinstance(held, dict):
        option = Schedule.from_dict(held, str(file)).option()
        if option.verifier in (None, "Greedy"):
            return TreeFile(option.tree)
        return TreeFile(option.tree, option.verifier, DrawRule[option.rule] if option.rule else None)
    try:
        return TreeFile(Tree(held))
    except (TypeError, ValueError) as error:
        raise InputError(f"{file} must hold a parent array such as [-1, 0, 0], or a plan: {error}") from error
