"""Certify published samplers in your own copies of their repositories, and print the certificates.

python -m examples.gallery FOLDER                # each subject that FOLDER has a copy of
python -m examples.gallery FOLDER sequoia

FOLDER has the repositories as owner/name, owner+name or name; `transformers` is the installed package. Nothing is
fetched. An adapter turns a draft into the arguments of a published function, which is compiled from its own file.
"""

from __future__ import annotations
import __future__

import ast
import importlib.util
import random
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace as Box
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from spectheory import Draft, DrawRule, Levels
from spectheory.certify import Certificate, certify_verifier

Verify = Callable[..., tuple[int, Any]]
"""A verifier of ours: (draft, p, rng) -> (last accepted node, next token)."""


@dataclass(frozen=True)
class Subject:
    """A published function, and how it is certified.

    Attributes:
        repository: owner/name, or the name of an installed package.
        file: its file in the repository.
        adapter: returns a verifier that calls it, from the root of a copy and the file.
        shapes: number of draws per node at each depth, of the trees that are grown for it.
        rule: how the children of a node are drawn.
    """

    repository: str
    file: str
    adapter: Callable[[Path, str], Verify]
    shapes: tuple[tuple[int, ...], ...]
    rule: DrawRule = DrawRule.IID

    def copy_in(self, folder: Path) -> Path | None:
        """The root of the copy in a folder, or of the installed package; None if there is none with the file."""
        owner, _, name = self.repository.rpartition("/")
        found = None if owner else importlib.util.find_spec(name)
        roots = [folder / owner / name, folder / f"{owner}+{name}", folder / name]
        roots = [Path(found.origin).parent] if found and found.origin else roots
        return next((root for root in roots if (root / self.file).is_file()), None)

    def certify(self, root: Path, cases: int = 30) -> Certificate:
        """The certificate of the function in the copy at `root`."""
        policies = [Levels(counts, self.rule) for counts in self.shapes]
        return certify_verifier(
            self.adapter(root, self.file), rules=[self.rule], policies=policies, cases=cases, seconds=60
        )


def load(path: Path, *names: str, **given: Any) -> Box:
    """The named functions and classes of a file, compiled from its own lines. Nothing else of the file runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    if missing := [name for name in names if name not in named]:
        raise LookupError(f"{path.name} does not define {', '.join(missing)}")
    tree.body = [named[name] for name in names]
    common: dict[str, Any] = {name: getattr(typing, name) for name in typing.__all__}
    common |= {"torch": torch, "F": functional, "nn": torch.nn, "np": np, "random": random}
    space = {"__name__": __name__, **common, "softmax": functional.softmax, **given}
    exec(compile(tree, str(path), "exec", __future__.annotations.compiler_flag), space)
    return Box(**{name: space[name] for name in names})


def transformers(root: Path, file: str) -> Verify:
    """The rejection sampler of transformers, which takes chains."""
    sampler = load(root / file, "_speculative_sampling")._speculative_sampling

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
        tokens = torch.tensor(draft.tokens[1:])
        q, target = (torch.tensor(np.array(rows)).float().log()[None] for rows in (draft.q[: len(tokens)], p))
        emitted = sampler(tokens[None], q, len(tokens), target)[0][0].tolist()
        return len(emitted) - 1, emitted[-1]

    return verify


def eagle(root: Path, file: str) -> Verify:
    """`evaluate_posterior` of EAGLE-2 and EAGLE-3, which takes the paths of a tree of most probable tokens."""
    posterior = load(root / file, "evaluate_posterior").evaluate_posterior

    def path(draft: Draft, node: int) -> list[int]:
        return [*(path(draft, int(draft.tree.parent[node])) if node else []), node]

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, Any]:
        found = [path(draft, node) for node in range(len(draft.tokens)) if not draft.draws[node]]
        rows = [nodes + [-1] * (max(map(len, found)) - len(nodes)) for nodes in found]
        tokens = torch.tensor([[int(draft.tokens[node]) if node >= 0 else -1 for node in row] for row in rows])
        logits = torch.tensor(np.array(p)).float().log()
        at = torch.stack([logits[[max(node, 0) for node in row]] for row in rows])
        best, kept, rest = posterior(at, tokens, lambda _, row: row)
        return rows[int(best)][int(kept)], torch.multinomial(rest, 1)

    return verify


class _Engine:
    """A model with a cache, as Sequoia uses it, which returns these logits for every text."""

    dtype = torch.float32
    engine = Box(kv_cache=Box(gather_kv_incremental=lambda *_: None))

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits

    def inference(self, **_: Any) -> torch.Tensor:
        """The logits."""
        return self.logits[None]


FIRST = 3
"""Number of our token 0 in Sequoia, whose texts end at tokens 0 and 2."""


def sequoia(root: Path, file: str) -> Verify:
    """`SpecTree.verify` of Sequoia."""
    rest = load(root / "utils.py", "get_residual").get_residual
    tree = load(
        root / file, "SpecTree", Tree=object, get_residual=rest, get_sampling_logits=lambda logits, *_, **__: logits
    ).SpecTree

    def log_rows(rows: Any) -> torch.Tensor:
        return functional.pad(torch.tensor(np.array(rows)), (FIRST, 0)).float().log()

    def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
        nodes, tokens, model = len(draft.tokens), torch.tensor(draft.tokens) + FIRST, _Engine(log_rows(p))
        made = object.__new__(tree)
        vars(made).update(
            num_nodes=nodes, tokens=functional.pad(tokens, (0, 2)), verify_tokens=tokens,
            draft_logits=log_rows(draft.q), position_ids=torch.arange(nodes), storage_ids=torch.arange(nodes),
            attn_mask=torch.zeros(nodes, nodes),
            Successors=[list(drawn) for drawn in draft.draws], vocab_size=len(draft.q[0]) + FIRST,
            target_model_engine=model, draft_model_engine=model, r=torch.rand(nodes), temperature=1.0, top_p=1.0,
            dtype=torch.float32, residual_graph=rest, seq_to_use=[0], prepare_for_next_iter=lambda *_: None,
            ground_truth_len=1, target_kv_len=0,
        )  # fmt: skip
        *accepted, last = (made.verify()[0][1:] - FIRST).tolist()
        return next(node for node in range(nodes) if list(draft.context(node)) == accepted), last

    return verify


SUBJECTS = {
    "transformers": Subject("transformers", "generation/utils.py", transformers, ((1,), (1, 1))),
    "eagle": Subject("SafeAILab/EAGLE", "eagle/model/utils.py", eagle, ((1,), (2,), (2, 1)), DrawRule.TOP_K),
    "sequoia": Subject("Infini-AI-Lab/Sequoia", "Tree/SpecTree.py", sequoia, ((1,), (2,)), DrawRule.NO_REPLACEMENT),
}


def main(folder: str = ".", *names: str) -> None:
    """Print the certificates of the named subjects, or of all."""
    torch.set_num_threads(1)
    for name in names or SUBJECTS:
        subject = SUBJECTS[name]
        root = subject.copy_in(Path(folder))
        if root is None:
            print(f"{name}: skipped, there is no copy of {subject.repository} with {subject.file} in {folder}")
        else:
            print(name, *subject.certify(root).lines(), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
