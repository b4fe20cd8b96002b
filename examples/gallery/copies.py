"""Copies of repositories: where they are, which commit they have, and definitions from their files."""

from __future__ import annotations
import __future__

import abc
import ast
import dataclasses
import functools
import importlib.metadata
import importlib.util
import json
import math
import random
import subprocess
import typing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.nn import functional

COMMITS = "commits.json"
"""A file in the folder of copies: the commit of each repository that is not a checkout, by its name owner/name."""
SHOWN = 8
"""Digits of a commit that the page shows."""


@dataclass(frozen=True)
class Copy:
    """A copy of a repository, or an installed package.

    Attributes:
        root: its folder.
        file: the file of the subject, relative to `root`.
        version: the commit or the installed version; "" if it is unknown.
    """

    root: Path
    file: str
    version: str = ""

    def load(self, *names: str, file: str | None = None, expand_tabs: bool = False, **given: Any) -> SimpleNamespace:
        """The named functions, classes or methods of a file, compiled from its own lines.

        Nothing else of the file runs, so that its imports are not needed.

        Args:
            names: what to compile. A name that is not at the top level is searched in the classes of the file.
            file: a file relative to the root; the file of the subject by default.
            expand_tabs: whether each tab becomes four blanks first.
            given: further global names of the code.
        """
        path = self.root / (file or self.file)
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source.replace("\t", "    ") if expand_tabs else source)
        tree.body = [_definition(tree, name, path) for name in names]
        space = {"__name__": __name__, **_COMMON, **given}
        exec(compile(tree, str(path), "exec", __future__.annotations.compiler_flag), space)
        return SimpleNamespace(space=space, **{name: space[name] for name in names})


_COMMON: dict[str, Any] = {
    **{name: getattr(typing, name) for name in typing.__all__},
    "torch": torch,
    "nn": torch.nn,
    "Tensor": torch.Tensor,
    "F": functional,
    "softmax": functional.softmax,
    "np": np,
    "math": math,
    "random": random,
    "functools": functools,
    "cached_property": functools.cached_property,
    "dataclass": dataclasses.dataclass,
    "abstractmethod": abc.abstractmethod,
    "ABC": abc.ABC,
}


def _definition(tree: ast.Module, name: str, path: Path) -> Any:
    nodes = [*tree.body, *ast.walk(tree)]
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return node
    raise LookupError(f"{path.name} does not define {name}")


def find_copy(folder: Path, repository: str, file: str) -> Copy | None:
    """The copy of `repository` in `folder`, or the installed package of this name; None if there is none.

    A copy is in `folder/name`, `folder/owner/name` or `folder/owner+name`. It has the file of the subject.
    """
    if "/" not in repository:
        found = importlib.util.find_spec(repository)
        if found is None or found.origin is None:
            return None
        return Copy(Path(found.origin).parent, file, importlib.metadata.version(repository))
    owner, name = repository.split("/")
    for root in (folder / owner / name, folder / f"{owner}+{name}", folder / name):
        if (root / file).is_file():
            return Copy(root, file, _commit(root, folder, repository))
    return None


def _commit(root: Path, folder: Path, repository: str) -> str:
    if (root / ".git").exists():
        asked = ["git", "-C", str(root), "rev-parse", f"--short={SHOWN}", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    listed = folder / COMMITS
    return json.loads(listed.read_text(encoding="utf-8")).get(repository, "")[:SHOWN] if listed.is_file() else ""
