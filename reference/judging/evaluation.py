"""`judge`: drafts compared on the same texts, with results kept in files as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int

from reference.forced_logits import BATCH, ForcedBatch, normalised, rounding_errors, target_rows
from reference.judging.drafts import ForcedDraft
from reference.judging.policies import ForcedRows, JudgedPolicy
from reference.judging.texts import HeldOutTexts
from reference.part_files import claimed, only_writer, read_part, write_part
from reference.sampling import Sampling
from spectheory import Provenance, TargetText
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.replay.reliability import BINS, RANKS
from spectheory.results.draft_comparison import DraftComparison, check_groups
from spectheory.results.draft_run import DraftRun

PART = 16
"""Texts in a file: at most these are computed again after an interruption."""
COLUMNS = pa.schema(
    [
        ("text", pa.int32()),
        ("emitted", pa.float64()),
        ("cycles", pa.float64()),
        ("accepted", pa.list_(pa.float64())),
        ("by_root", pa.list_(pa.float64())),
        ("reliability", pa.list_(pa.float64())),
    ]
)
"""One row per text, with the fields of `DraftedText`; `reliability` in C order."""
Groups = Mapping[str, Sequence[ForcedDraft]]
"""The runs of each group by its name: drafts that differ in the seed of training only."""


@dataclass(frozen=True)
class JudgeSettings:
    """How the drafts are compared.

    Attributes:
        policy: what is drafted in each cycle, and the verifier.
        baseline: group that the others are compared with; None means the first.
        seed: seed of the drawn siblings of the tokens of a text. All drafts share the random numbers.
        samples: number of such draws over which each probability is averaged.

    Raises:
        InputError: a number is out of range.
    """

    policy: JudgedPolicy
    baseline: str | None = None
    seed: int = 0
    samples: int = 1

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, 0)
        check_whole("samples", self.samples, 1)

    def base(self, groups: Groups) -> str:
        """The baseline among some groups."""
        return next(iter(groups)) if self.baseline is None else self.baseline


def judge(
    texts: HeldOutTexts,
    groups: Groups,
    settings: JudgeSettings,
    folder: Path,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> DraftComparison:
    """E[tau], acceptance and calibration of drafts on the same texts.

    What each draft does on a text is written to `folder`, so that a call after an interruption continues, and further
    drafts can be added later. Only the distributions of one text and the logits of a few texts are in memory at a time.

    Args:
        texts: texts of the target on which no draft was trained.
        groups: at least two groups; runs of one group differ in the seed of training only.
        settings: policy, verifier, baseline and seed.
        folder: empty folder, or folder of the same comparison.
        done: callback with the number of texts that this call has read, and of all that it reads.

    Raises:
        InputError: there are fewer than two groups, or they cannot be compared (see `DraftComparison`); a draft has
            another vocabulary, its context is too short, or the static tree is deeper than its drafts; the target
            cannot have generated a text, or no whole cycle fits into the texts; the policy does not suit their
            sampling; or `folder` holds something else, or another process writes to it.
        LogitsError: a model returns logits that are not distributions.
    """
    _check(texts, groups, settings)
    drafts = {draft.weights: draft for runs in groups.values() for draft in runs}
    with only_writer(folder):
        files = {weights: _Files(folder, weights, texts, settings) for weights in drafts}
        total = len(texts.texts)
        lacking = {
            first: {weights: draft for weights, draft in drafts.items() if not files[weights].part(first).exists()}
            for first in range(0, total, PART)
        }
        parts = [(range(first, min(first + PART, total)), left) for first, left in lacking.items() if left]
        ends = list(accumulate((len(part) for part, _ in parts), initial=0))
        done(0, ends[-1])
        for (part, left), end in zip(parts, ends[1:], strict=True):
            _write(texts, left, files, settings, part)
            done(end, ends[-1])
    read = {weights: one.read(texts, settings.policy.deepest) for weights, one in files.items()}
    return DraftComparison(
        policy=settings.policy.name,
        verifier=settings.policy.verifying,
        baseline=settings.base(groups),
        prompts=tuple(texts.clusters),
        roots=_roots(texts, settings.policy.deepest),
        runs=tuple(
            DraftRun(name, draft.name, draft.weights, **read[draft.weights])
            for name, runs in groups.items()
            for draft in runs
        ),
        provenance=_provenance(texts, settings),
    )


def _check(texts: HeldOutTexts, groups: Groups, settings: JudgeSettings) -> None:
    """Refuse what cannot be compared, before any model runs."""
    if len(groups) < 2 or not all(groups.values()):
        raise InputError(
            f"groups must hold at least two groups, each with at least one draft, got "
            f"{ {name: len(runs) for name, runs in groups.items()} }: give the drafts to compare"
        )
    check_groups({name: [run.weights for run in runs] for name, runs in groups.items()}, settings.base(groups))
    settings.policy.check(texts.sampling)
    longest = max(len(prompt) + len(text) for prompt, text in zip(texts.prompts, texts.texts, strict=True))
    largest = max(max(prompt + text) for prompt, text in zip(texts.prompts, texts.texts, strict=True))
    for draft in (one for runs in groups.values() for one in runs):
        if longest > draft.context:
            raise InputError(
                f"{draft.name} has a context of {draft.context}, a prompt with its text has {longest} tokens: "
                "give shorter texts"
            )
        if (tree := settings.policy.tree) is not None and tree.max_depth > draft.deepest:
            raise InputError(
                f"tree is {tree.max_depth} deep, {draft.name} drafts {draft.deepest} tokens: use a shallower tree"
            )
        if largest >= draft.vocab_size:
            raise InputError(f"{draft.name} has {draft.vocab_size} tokens, the texts hold token {largest}")
    if _roots(texts, settings.policy.deepest).sum() == 0:
        raise InputError(
            f"texts must be longer than a cycle of depth {settings.policy.deepest} and one token, the longest has "
            f"{max(map(len, texts.texts))}: record more tokens per prompt, or evaluate a shallower tree"
        )


def _roots(texts: HeldOutTexts, deepest: int) -> Int[np.ndarray, " prompts"]:
    """Number of positions, by prompt, at which a whole cycle fits after the first token."""
    fitting = [max(0, len(text) - deepest - 1) for text in texts.texts]
    return _by_prompt(texts, fitting).astype(np.int64)


def _by_prompt(texts: HeldOutTexts, values: Sequence[float]) -> Float[np.ndarray, " prompts"]:
    """Sums of one value per text, by prompt."""
    places = {cluster: place for place, cluster in enumerate(texts.clusters)}
    return np.bincount([places[one] for one in texts.hashes], values, len(places))


class _Files:
    """The results of one draft, in a folder of its own."""

    def __init__(self, folder: Path, weights: str, texts: HeldOutTexts, settings: JudgeSettings) -> None:
        self.folder, self.count = folder / f"draft-{weights}", len(texts.texts)
        with claimed(self.folder, "draft comparison", **_facts(texts, settings, draft=weights)):
            pass

    def part(self, first: int) -> Path:
        """The file of the texts from `first` on."""
        return self.folder / f"part-{first:06d}.parquet"

    def read(self, texts: HeldOutTexts, deepest: int) -> dict[str, Any]:
        """The fields of a `DraftRun` that its texts decide."""
        rows = [row for first in range(0, self.count, PART) for row in read_part(self.part(first)).to_pylist()]
        everywhere = all(row["by_root"] is not None for row in rows)
        return {
            "emitted": _by_prompt(texts, [row["emitted"] for row in rows]),
            "cycles": _by_prompt(texts, [row["cycles"] for row in rows]),
            "root_tokens": _by_prompt(texts, [sum(row["by_root"]) for row in rows]) if everywhere else None,
            "accepted": np.sum([row["accepted"] for row in rows], 0),
            "reliability": np.sum([row["reliability"] for row in rows], 0).reshape(deepest, RANKS, BINS, 3),
        }


@torch.inference_mode()
def _write(
    texts: HeldOutTexts,
    lacking: Mapping[str, ForcedDraft],
    files: dict[str, _Files],
    settings: JudgeSettings,
    part: range,
) -> None:
    """Write the files of some texts for the drafts that lack them. The target reads each text once."""
    found: dict[str, list[dict[str, Any]]] = {weights: [] for weights in lacking}
    for first in part[::BATCH]:
        numbers = range(first, min(first + BATCH, part.stop))
        requests = [(texts.prompts[i], texts.texts[i]) for i in numbers]
        batch = ForcedBatch(texts.pair, requests, first, features=any(one.reads_features for one in lacking.values()))
        for weights, draft in lacking.items():
            for rows in _forced_rows(batch, draft, texts.sampling):
                one = settings.policy.drafted(draft, rows, texts.sampling, settings.seed, settings.samples)
                found[weights].append({"text": rows.number, **vars(one), "reliability": one.reliability.ravel()})
    for weights, rows in found.items():
        write_part(files[weights].part(part.start), rows, COLUMNS)


def _forced_rows(batch: ForcedBatch, draft: ForcedDraft, sampling: Sampling) -> Iterator[ForcedRows]:
    """Each text of a batch with p and q."""
    size = min(batch.pair.vocab_size, draft.vocab_size)
    offered = draft.logits(batch)[..., :size]
    for place, (prompt, text) in enumerate(batch.requests):
        number, span = batch.first + place, batch.span(place)
        wanted = batch.target_logits[place, span, :size]
        if sampling.greedy:
            p = _chosen(wanted, text, number, batch.pair.target.dtype)
        else:
            p = target_rows(wanted, text, sampling, batch.pair.target.dtype)
        q = normalised(sampling.draft_distribution(offered[:, place, span]))
        yield ForcedRows(number, prompt, TargetText(np.array(text), p, q))


def _chosen(logits: torch.Tensor, text: list[int], number: int, dtype: torch.dtype) -> Float[np.ndarray, "n V"]:
    """Rows with 1 at the tokens of a greedy text.

    Raises:
        InputError: a token of the text is not the most probable one, even after rounding.
    """
    tokens = torch.tensor(text, device=logits.device)
    behind = logits.amax(-1) - logits.gather(1, tokens[:, None])[:, 0]
    wrong = (behind > 2 * rounding_errors(logits, dtype)).nonzero()[:, 0].tolist()
    if wrong:
        position = wrong[0]
        raise InputError(
            f"texts[{number}][{position}] is {text[position]}, whose logit is {behind[position]:.3g} below the "
            "target's largest logit: the target cannot have generated this text by greedy decoding; give texts of "
            "this target"
        )
    rows = np.zeros(logits.shape)
    rows[np.arange(len(text)), text] = 1
    return rows


def _facts(texts: HeldOutTexts, settings: JudgeSettings, **further: str) -> dict[str, Any]:
    """The fields of a provenance that decide the results."""
    pair, policy = texts.pair, settings.policy
    stamp = {name: value for name, value in pair.stamp.items() if name != "draft"}
    held = {"policy": policy.identity, "deepest": policy.deepest, "texts": texts.identity, "samples": settings.samples}
    return {
        **stamp,
        **texts.sampling.stamp,
        "seed": settings.seed,
        "tree": None if policy.tree is None else policy.tree.identity,
        "verifier": policy.verifying,
        "settings": held | further,
    }


def _provenance(texts: HeldOutTexts, settings: JudgeSettings) -> Provenance:
    stated = _facts(texts, settings, clusters="prompts" if texts.sources is None else "sources")
    return Provenance.now(
        "spectheory head evaluate", packages=("torch", "transformers"), requests=len(texts.texts), **stated
    )
