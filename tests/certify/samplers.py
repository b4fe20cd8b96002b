"""Steps and samplers of batches, right ones and ones with a planted fault each, and their certifiers in one world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import spectheory as st
from spectheory.certify import (
    EagleInputs,
    Play,
    SglangInputs,
    StepCertificate,
    VllmInputs,
    certify_in_worlds,
    certify_step,
    markov_world,
    vllm_play,
)
from spectheory.certify.rows import drawn

V = 4
WORLD = markov_world(V, 3)
TREE = st.Tree([-1, 0, 0, 1, 1, 2])
LARGE = 9_001
SMALL_LEVEL = {"alpha": 1e-2, "tv": 0.1, "cycles": 2}
"""A right step is called lossy with probability at most 1e-2; the seeds are fixed."""


def certified(plays: list[Play], max_samples: int, **options: Any) -> StepCertificate:
    given: dict[str, Any] = {"tv": 0.05, **options}
    return certify_in_worlds(plays, max_samples=max_samples, **given)


def plain(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two tokens of the target of `WORLD` for each context."""
    first = drawn(MATRIX[contexts[:, -1]], rng)
    return np.stack([first, drawn(MATRIX[first], rng)], axis=1)


MATRIX = np.array([*(WORLD.p((token,)) for token in range(V)), WORLD.p(())])
"""Row t is the target after token t, the last row at the start: -1 is the placeholder of an empty context."""


def in_batches(step: Any, most: int, **options: Any) -> StepCertificate:
    given: dict[str, Any] = {"vocab_size": V, "batch": 64, "tv": 0.05, "length": 2, **options}
    return certify_step(step, WORLD.p, max_samples=most, **given)


BLOCK = 4096


@dataclass(frozen=True)
class Rejection:
    """A rejection sampler in vLLM's layout. `fault` names what is wrong with it; "" for nothing."""

    fault: str = ""
    processing: Callable[[Any], Any] | None = None

    def __call__(self, x: VllmInputs, rng: np.random.Generator) -> np.ndarray:
        if self.processing:
            x = replace(x, target_probs=np.array([self.processing(p) for p in x.target_probs], np.float32))
        rows, starts = len(x.num_draft_tokens), self._starts(x)
        out = np.full((rows, x.max_spec_len + 1), -1, np.int32)
        coins = rng.random((rows, x.max_spec_len))
        if self.fault == "noise shared between rows":
            coins[:] = coins[0]
        going = np.ones(rows, bool)
        counts = np.array(x.num_draft_tokens)
        for place in range(x.max_spec_len):
            here = np.flatnonzero(going & (place < counts))
            at = starts[here] + place
            token = x.draft_token_ids[at]
            p, q = x.target_probs[at].astype(float), self._draft_probs(x, at, token)
            is_accepted = coins[here, place] * q[np.arange(len(at)), token] < p[np.arange(len(at)), token]
            left = np.maximum(p - q, 0)
            if self.fault == "second block of ids" and p.shape[1] > BLOCK:
                left[:, BLOCK:] /= 4
            left += left.sum(axis=1, keepdims=True) == 0
            out[here, place] = np.where(is_accepted, token, drawn(left, rng))
            going[here] = is_accepted
        everything = np.flatnonzero(going)
        out[everything, counts[everything]] = x.bonus_token_ids[everything, 0]
        if self.fault == "placeholder read as token":
            last = np.where(out[:, -1] < 0, x.bonus_token_ids[:, 0], out[:, -1])
            out = np.where(out < 0, last[:, None], out)
        if self.fault == "ragged rows mixed up":
            order = np.argsort(counts, kind="stable")
            out = out[order]
        return out

    def _starts(self, x: VllmInputs) -> np.ndarray:
        """Where the tokens of each row begin in the flat arrays."""
        sums = np.asarray(x.cu_num_draft_tokens)
        if self.fault == "wrong offset":
            return np.minimum(sums - sums[0], len(x.draft_token_ids) - x.max_spec_len).clip(0)
        return np.concatenate([[0], sums[:-1]])

    def _draft_probs(self, x: VllmInputs, at: np.ndarray, token: np.ndarray) -> np.ndarray:
        if x.draft_probs is not None:
            return x.draft_probs[at].astype(float)
        return (np.arange(x.target_probs.shape[1]) == token[:, None]).astype(float)


def tree_sampler(x: SglangInputs, rng: np.random.Generator, *, fault: str = "") -> tuple[Any, Any]:
    """Draws from the target at each node and follows the child with this token, in SGLang's layout."""
    rows, width = x.candidates.shape
    predict = np.full(rows * width, -1)
    accepted = np.full((rows, x.num_speculative_tokens), -1)
    for row in range(rows):
        node, place, coin = 0, 0, x.uniform_samples[row, 0]
        while True:
            accepted[row, place] = x.retrieve_index[row, node]
            p, child, edge = x.target_probs[row, node], x.retrieve_next_token[row, node], 0.0
            rest = p.astype(float)
            while child >= 0:
                token = x.candidates[row, child]
                edge += p[token]
                rest[token] = 0
                if coin < edge:
                    break
                child = x.retrieve_next_sibling[row, child]
            if child < 0:
                rest = p.astype(float) if fault == "correction from p" else rest
                point = x.uniform_samples_for_final_sampling[row] * rest.sum()
                predict[x.retrieve_index[row, node]] = min((np.cumsum(rest) <= point).sum(), len(p) - 1)
                break
            predict[x.retrieve_index[row, node]] = x.candidates[row, child]
            node, place = int(child), place + 1
            coin = x.uniform_samples[row, node] if fault != "coin reused" else coin
    return predict, accepted


def evaluate(x: EagleInputs, rng: np.random.Generator, *, fault: str = "") -> tuple[int, int, np.ndarray]:
    """Verifies the children of each node one by one as one-hot drafts, in EAGLE's layout."""
    best, accepted = 0, 0
    depth = x.candidates.shape[1]
    while True:
        on_path = (x.candidates[:, : accepted + 1] == x.candidates[best, : accepted + 1]).all(axis=1)
        p, seen = np.exp(x.logits[best, accepted]).astype(float), set()
        for path in np.flatnonzero(on_path) if accepted + 1 < depth else []:
            token = int(x.candidates[path, accepted + 1])
            if token < 0 or token in seen:
                continue
            seen.add(token)
            if rng.random() < p[token]:
                best, accepted = int(path), accepted + 1
                break
            if fault != "rejected token kept":
                p[token] = 0
                p /= p.sum()
        else:
            return best, accepted, p


PLAYS = vllm_play(Rejection("wrong offset"), size=50)
