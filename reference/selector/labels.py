"""Labels of a selector: E[tau] of each tree at roots of recorded texts, kept in files, with the features there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Float64, Int
from torch import Generator, Tensor

from reference.cached_model import CachedModel
from reference.candidates import child_tokens
from reference.forced_logits import normalised
from reference.host_arrays import numpy_on_host
from reference.judging import HeldOutTexts
from reference.models import Pair
from reference.part_files import claimed, read_part, short_hash, stamp_of, write_part
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from reference.selector.actions import ActionSpace
from reference.selector.features import KNOWN, Features, known_scalars
from reference.selector.pair_facts import PairFacts
from reference.selector.shared_draws import SharedDraws, Trie
from spectheory import DrawRule, Provenance
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.verify import TopDown, verifier_of

PART = 8
"""Texts in a file: at most these are computed again after an interruption."""
SOURCE = "selector labels"
COLUMNS = pa.schema(
    [
        ("prompt", pa.string()),
        ("context", pa.int32()),
        ("target", pa.list_(pa.float32())),
        ("draft", pa.list_(pa.float32())),
        ("root", pa.list_(pa.float32())),
        ("scalars", pa.list_(pa.float32())),
        ("tokens", pa.list_(pa.float32())),
    ]
)
"""One row per root: hash of the source of its text or of its prompt, tokens before it, the features, and E[tau] by
verifier, draw and tree."""


@dataclass(frozen=True)
class LabelSettings:
    """At which roots labels are computed, and how.

    Attributes:
        verifiers: names of node solvers that are lossless for i.i.d. draws, such as SpecInfer.
        every: number of tokens of a text between two roots.
        draws: number of independent draws of the paths at each root, at least 2: one can choose and another judge.
        seed: seed of the draws.
        space: the actions.

    Raises:
        InputError: a number is out of range, or a verifier is not such a node solver.
    """

    verifiers: tuple[str, ...] = ("SpecInfer",)
    every: int = 16
    draws: int = 4
    seed: int = 0
    space: ActionSpace = field(default_factory=ActionSpace)

    def __post_init__(self) -> None:
        check_whole("every", self.every, 1)
        check_whole("draws", self.draws, 2)
        check_whole("seed", self.seed, 0)
        if not self.verifiers or len(set(self.verifiers)) < len(self.verifiers):
            raise InputError(f"verifiers must be different names, at least one, got {self.verifiers}")
        for name in self.verifiers:
            self.verifier(name)

    def verifier(self, name: str) -> TopDown:
        """The verifier of this name, after a check."""
        found = verifier_of(name)
        if not isinstance(found, TopDown) or DrawRule.IID not in found.rules:
            raise InputError(
                f"verifier {name} must be a node solver that is lossless for i.i.d. draws, such as SpecInfer: the "
                "expected tokens are exact only for these"
            )
        if found.solver.small_vocabulary_only:
            raise InputError(f"verifier {name} is for small vocabularies only: {found.solver.small_vocabulary_only}")
        return found

    @property
    def stamp(self) -> dict[str, Any]:
        """The settings of a provenance."""
        return {"verifiers": ",".join(self.verifiers), "every": self.every, "draws": self.draws, **asdict(self.space)}


@dataclass(frozen=True, eq=False)
class Labels:
    """E[tau] of each tree at R roots, with the features.

    Attributes:
        space: the actions.
        sampling: temperature, top-k and top-p of texts, target and draft.
        verifiers: names of the verifiers.
        prompts: (R,) hash of the source of each root's text, or of its prompt. Roots of equal hashes are one cluster.
        features: what is known at each root.
        tokens: (verifiers, R, draws, trees) float32, E[tau] given each draw; the mean over the draws is unbiased.
        pair: the pair of the texts.
        provenance: where the labels come from.
    """

    space: ActionSpace
    sampling: Sampling
    verifiers: tuple[str, ...]
    prompts: np.ndarray
    features: Features
    tokens: np.ndarray
    pair: PairFacts
    provenance: Provenance

    @property
    def identity(self) -> str:
        """A hash of all labels and of where they come from."""
        stated = f"{self.provenance.facts} {self.prompts.tolist()}".encode()
        return hashlib.sha256(self.tokens.tobytes() + stated).hexdigest()[:16]

    @property
    def contexts(self) -> Int[np.ndarray, " roots"]:
        """Number of tokens before each root."""
        return self.features.scalars[:, KNOWN - 1].numpy().astype(np.int64)

    def of(self, verifier: str) -> Float[np.ndarray, "roots draws trees"]:
        """E[tau] with one verifier.

        Raises:
            InputError: the labels are not of this verifier.
        """
        if verifier not in self.verifiers:
            raise InputError(f"labels hold {', '.join(self.verifiers)}, not {verifier}: compute labels with {verifier}")
        return self.tokens[self.verifiers.index(verifier)]

    def at(self, roots: np.ndarray) -> Labels:
        """The labels at some of the roots, by number."""
        features = self.features.at(torch.from_numpy(roots))
        return replace(self, prompts=self.prompts[roots], features=features, tokens=self.tokens[:, roots])

    def split(self, share: float, seed: int = 0) -> tuple[Labels, Labels]:
        """The labels of a random share of the prompts, and the labels of the other prompts.

        Raises:
            InputError: one side would have no prompt.
        """
        prompts = np.random.default_rng([seed, 1]).permutation(np.unique(self.prompts))
        first = np.isin(self.prompts, prompts[: round(share * len(prompts))])
        if first.all() or not first.any():
            raise InputError(
                f"share must leave prompts on both sides, got {share:g} of {len(prompts)}: give labels of more prompts"
            )
        return self.at(np.flatnonzero(first)), self.at(np.flatnonzero(~first))


def write_labels(
    texts: HeldOutTexts,
    settings: LabelSettings,
    folder: Path,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> None:
    """Compute labels at roots of texts and write them to `folder`, a file for every `PART` texts.

    A file is written whole or not at all, and existing files are kept, so a call after an interruption continues.

    Args:
        texts: texts of the target, sampled above temperature 0.
        settings: roots, draws, verifiers and actions.
        folder: empty folder, or folder of the same labels.
        done: callback with the number of texts that this call has read, and of all that it reads.

    Raises:
        InputError: the texts are greedy, the draft is a draft head, no text has a root, a tree does not fit the
            context, or `folder` holds something else.
        LogitsError: a model returns logits that give no probabilities.
    """
    _check(texts, settings)
    stamp = {
        "texts": texts.identity,
        "clusters": short_hash(texts.hashes),
        **asdict(PairFacts.of(texts.pair)),
        **settings.stamp,
    }
    total = len(texts.texts)
    sampled = texts.sampling.stamp
    with claimed(folder, SOURCE, **texts.pair.stamp, **sampled, seed=settings.seed, requests=total, settings=stamp):
        names = {first: folder / f"part-{first:06d}.parquet" for first in range(0, total, PART)}
        lacking = {part: range(first, min(first + PART, total)) for first, part in names.items() if not part.exists()}
        ends = list(accumulate(map(len, lacking.values()), initial=0))
        done(0, ends[-1])
        for (part, numbers), end in zip(lacking.items(), ends[1:], strict=True):
            write_part(part, (row for number in numbers for row in _rows(texts, settings, number)), COLUMNS)
            done(end, ends[-1])


def read_labels(folder: Path) -> Labels:
    """The labels in a folder that `write_labels` finished.

    Raises:
        InputError: the folder holds something else, or a file is missing or damaged.
    """
    stamp = stamp_of(folder)
    if stamp.source != f"spectheory {SOURCE}":
        raise InputError(f"{folder} holds a {stamp.source!r:.60}, not {SOURCE}: name the folder of the labels")
    held: dict[str, Any] = stamp.settings
    parts = sorted(folder.glob("part-*.parquet"))
    if len(parts) < (whole := ceil((stamp.requests or 0) / PART)):
        raise InputError(f"{folder} holds {len(parts)} of {whole} parts: compute the labels to the end first")
    rows = [row for part in parts for row in read_part(part).to_pylist()]
    space = ActionSpace(*(int(held[name]) for name in ("paths", "trunk", "length")))
    verifiers = tuple(str(held["verifiers"]).split(","))
    shape = len(rows), len(verifiers), int(held["draws"]), len(space.trees)
    column = {name: torch.tensor([row[name] for row in rows]) for name in ("target", "draft", "root", "scalars")}
    return Labels(
        space=space,
        sampling=Sampling.of(stamp),
        verifiers=verifiers,
        prompts=np.array([row["prompt"] for row in rows]),
        features=Features(**column),
        tokens=np.array([row["tokens"] for row in rows], np.float32).reshape(shape).swapaxes(0, 1),
        pair=PairFacts(**{fact.name: held[fact.name] for fact in fields(PairFacts)}),
        provenance=stamp,
    )


def _check(texts: HeldOutTexts, settings: LabelSettings) -> None:
    """Refuse what has no labels, before any model runs."""
    if texts.sampling.greedy:
        raise InputError("temperature of the texts must be above 0, got 0: i.i.d. paths of greedy drafts are all equal")
    if not any(len(text) >= settings.every for text in texts.texts):
        raise InputError(
            f"every must be at most the longest text of {max(map(len, texts.texts))} tokens, got {settings.every}"
        )
    longest = max(len(prompt) + len(text) for prompt, text in zip(texts.prompts, texts.texts, strict=True))
    if longest + settings.space.deepest > texts.pair.context:
        raise InputError(
            f"texts of {longest} tokens and trees of depth {settings.space.deepest} need a context of "
            f"{longest + settings.space.deepest}, these models have {texts.pair.context}: give shorter texts"
        )


@torch.inference_mode()
def _rows(texts: HeldOutTexts, settings: LabelSettings, number: int) -> Iterator[dict[str, Any]]:
    """The rows of the roots of one text."""
    prompt, text = texts.prompts[number], texts.texts[number]
    roots = [len(prompt) + place for place in range(settings.every - 1, len(text), settings.every)]
    if not roots:
        return
    reader = _Reader(texts.pair, texts.sampling, [*prompt, *text])
    seed = np.random.SeedSequence([settings.seed, number]).generate_state(1)[0]
    rng = Uniforms(Generator().manual_seed(int(seed)))
    found = []
    for root in reversed(roots):
        shared = reader.draws(root, settings, rng)
        p = reader.target_rows(root, shared.trie)
        tokens = [shared.expected_tokens(settings.verifier(name).solver, p) for name in settings.verifiers]
        row = {"prompt": texts.hashes[number], "context": root, **reader.features(root)}
        found.append(row | {"tokens": np.array(tokens, np.float32).ravel()})
    yield from reversed(found)


class _Reader:
    """A text in both models. Roots are read from the last one to the first, so that the caches are only ever cut."""

    def __init__(self, pair: Pair, sampling: Sampling, tokens: list[int]) -> None:
        self.sampling, self.tokens, self.device = sampling, tokens, pair.device
        self.models = [
            CachedModel(model, pair.vocab_size, f"{role} {name}")  # type: ignore[arg-type]
            for role, model, name in zip(("target", "draft"), (pair.target, pair.draft), pair.names, strict=True)
        ]
        for model in self.models:
            model.taps = (model.model.config.num_hidden_layers,)
        logits = [model.forward(torch.tensor([tokens], device=self.device)) for model in self.models]
        self.p, self.q = (sampling.distribution(rows) for rows in logits)
        self.states = [model.states for model in self.models]
        for model in self.models:
            model.taps = ()

    def features(self, root: int) -> dict[str, list[float]]:
        """The features of the root `tokens[root]`, as columns."""
        before, here = slice(root - 1, root), slice(root, root + 1)
        target, draft = self.states
        scalars = known_scalars(self.p[before], self.q[before], self.q[here], [root])
        columns = {"target": target[before], "draft": draft[before], "root": draft[here], "scalars": scalars}
        return {name: rows[0].float().tolist() for name, rows in columns.items()}

    def draws(self, root: int, settings: LabelSettings, rng: Uniforms) -> SharedDraws:
        """Paths that the draft draws after the root."""
        model = self.models[1]
        model.keep(root, [])
        tree, trie = model.rows(), Trie(self.tokens[root])

        def rows(first: int, end: int) -> list[Any]:
            tree.add(trie.parents[first:end], first)
            logits = model.forward_tree(self._fed(trie, first, end), root, tree, first)
            return list(numpy_on_host(self.sampling.distribution(logits)))

        def children(q: Sequence[np.ndarray], counts: Sequence[int]) -> list[list[int]]:
            if not counts:
                return []
            drawn = child_tokens(np.stack(q), max(counts), DrawRule.IID, rng).tolist()
            return [row[:count] for row, count in zip(drawn, counts, strict=True)]

        return SharedDraws.drawn(settings.space, settings.draws, trie, rows, children)

    def target_rows(self, root: int, trie: Trie) -> list[Float64[np.ndarray, " V"]]:
        """The target's distribution at each node, from one forward."""
        model = self.models[0]
        model.keep(root, [])
        tree = model.rows()
        tree.add(trie.parents)
        logits = model.forward_tree(self._fed(trie, 0, len(trie)), root, tree)
        return list(normalised(self.sampling.distribution(logits)))

    def _fed(self, trie: Trie, first: int, end: int) -> Tensor:
        return torch.tensor([trie.tokens[first:end]], device=self.device)
