"""Traces, written and read: the text of the target, and the rank of each of its tokens among the draft's candidates.

The text is the target's own continuation of each prompt. The target writes the texts
first, then one forward of each model reads them. At temperature 0 the candidates are the draft's top k. Above it they
are drawn without replacement, given that the naive solver emitted the token of the text: see `candidates_given`. The
candidates of a draft head depend on how many of the last tokens the cycle has drafted, so a trace of a head has ranks
for each depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from reference.candidates import child_tokens
from reference.forced_logits import DEPTHS, draft_ranks, forced_rows, forced_texts
from reference.heads import Head
from reference.host_arrays import to_host
from reference.logits import Peaks, settle
from reference.models import Attention, Pair, load_pair
from reference.part_files import STAMP, claimed, require_kind, short_hash, stamp_of
from reference.random_streams import Uniforms
from reference.row_cache import RowCache
from reference.sampling import Sampling, require_drawing
from reference.token_checks import check_context
from spectheory import Acceptance, DrawRule
from spectheory.core.arrays import as_distributions
from spectheory.core.errors import InputError
from spectheory.core.files import whole_file
from spectheory.core.machine import available_bytes
from spectheory.core.ratios import check_sources
from spectheory.replay import GreedyText, Replays

TRACE_FILE = "trace.parquet"
"""File of a trace in its folder."""
COLUMNS = pa.schema(
    {"prompt": pa.list_(pa.int32()), "text": pa.list_(pa.int32()), "ranks": pa.list_(pa.list_(pa.int16()))}
)
"""One row for each request: its prompt, the target's text after it, and the ranks of the tokens of the text among the k
candidates, -1 where a token is none of them. Row d of the ranks holds where the cycle has drafted the last d tokens;
there is one row for a draft model, whose candidates do not depend on d."""


@dataclass(frozen=True)
class TraceSettings:
    """Settings of a trace: `dataset` names the prompts, `candidates` is the number of candidates at each position.

    `temperature`, `top_k` and `top_p` are those of `Sampling`. `batch` is the number of prompts that are decoded
    together. `depths` is the number of depths of a cycle at which a draft head's candidates are
    recorded; it has no effect on a draft model, whose candidates do not depend on the depth.
    """

    dataset: str
    temperature: float = 0.0
    candidates: int = 16
    new_tokens: int = 128
    batch: int = 8
    seed: int = 0
    top_k: int | None = None
    top_p: float = 1.0
    depths: int = DEPTHS

    def __post_init__(self) -> None:
        for name in ("candidates", "new_tokens", "batch", "depths"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        require_drawing(self.sampling)

    @property
    def sampling(self) -> Sampling:
        """How the text is sampled."""
        return Sampling(self.temperature, self.top_k, self.top_p)

    def provenance(self, pair: Pair, prompts: list[list[int]], sources: Sequence[str]) -> dict[str, Any]:
        """The fields of a provenance that identify a trace of `pair` after these prompts of these sources."""
        settings = {name: getattr(self, name) for name in ("dataset", "candidates", "new_tokens", "batch")}
        settings |= {"prompts": short_hash(prompts), "weights": pair.fingerprint}
        settings |= {"clusters": short_hash(sources)} if sources else {}
        if isinstance(pair.draft, Head):
            settings["depths"] = self.depths
        return {**pair.stamp, **self.sampling.stamp, "seed": self.seed, "settings": settings}


def record_trace(
    pair: Pair,
    prompts: list[list[int]],
    settings: TraceSettings,
    folder: Path,
    done: Callable[[int, int], None] = lambda finished, total: None,
    sources: Sequence[str] = (),
) -> None:
    """Write a trace to `folder`.

    The file is written whole after each batch of prompts, so a call after an interruption continues. `done` is called
    with the number of tokens that this call has generated for all prompts, and of all that it generates. Without a
    draft the trace has the texts alone: every rank is -1. With `sources`, such as a category of each prompt, the trace
    keeps them in a column `source`, and prompts of one source are one cluster of the intervals of its readers.

    Raises:
        InputError: there are no prompts, they are too short for a head or do not fit the context, or `folder` holds a
            trace with other settings, prompts or weights, or is in use by another process.
        LogitsError: a model returns logits that give no probabilities.
    """
    lengths = [len(prompt) for prompt in prompts]
    least = 1 + isinstance(pair.draft, Head)
    if min(lengths, default=0) < least:
        raise InputError(
            f"need at least one prompt, each of at least {least} tokens (a draft head drafts nothing after the first), "
            f"got lengths {lengths!s:.80}"
        )
    check_sources(sources, len(prompts))
    check_context(pair, prompts, settings.new_tokens)
    if settings.candidates > pair.vocab_size:
        raise InputError(f"candidates must be at most the vocabulary of {pair.vocab_size}, got {settings.candidates}")
    with claimed(folder, "trace", **settings.provenance(pair, prompts, sources)):
        rows = read_trace(folder) if (folder / TRACE_FILE).exists() else []
        started, new = len(rows), settings.new_tokens
        for first in range(started, len(prompts), settings.batch):
            rows += _rows(pair, prompts[first : first + settings.batch], settings, first)
            table = pa.Table.from_pylist(rows, schema=COLUMNS)
            if sources:
                table = table.append_column("source", pa.array(sources[: len(rows)]))
            with whole_file(folder / TRACE_FILE) as partial:
                pq.write_table(table, partial, write_page_checksum=True)
            done(new * (len(rows) - started), new * (len(prompts) - started))


@torch.inference_mode()
def _rows(pair: Pair, prompts: list[list[int]], settings: TraceSettings, first: int) -> Iterator[dict[str, Any]]:
    seeds = map(int, np.random.SeedSequence([settings.seed, first]).generate_state(2))
    candidates, rng = (
        Generator(place).manual_seed(seed) for place, seed in zip(("cpu", pair.device), seeds, strict=True)
    )
    texts = _continued(pair, prompts, settings, first, rng)
    requests, uniforms = list(zip(prompts, texts, strict=True)), Uniforms(candidates)
    read = iter(()) if pair.draft is None else forced_rows(pair, requests, settings.sampling, settings.depths, first)
    for prompt, text in requests:
        ranks = np.full((1, len(text)), -1)
        if pair.draft is not None:
            ranks = _ranks(*next(read), text, settings.candidates, uniforms)
        yield {"prompt": prompt, "text": text, "ranks": ranks.tolist()}


def _continued(
    pair: Pair, prompts: list[list[int]], settings: TraceSettings, first: int, rng: Generator
) -> list[list[int]]:
    """The target's own text after each prompt, up to its first stop token. Prompts are padded on the left."""
    model: Any = pair.target
    pads = [max(map(len, prompts)) - len(prompt) for prompt in prompts]
    cache = RowCache(model.config.num_hidden_layers, len(prompts[0]) + pads[0] + settings.new_tokens)
    peaks = Peaks(f"target {pair.names[0]}", model.dtype)
    tokens = torch.tensor([[0] * pad + prompt for pad, prompt in zip(pads, prompts, strict=True)], device=pair.device)
    seen = (torch.arange(tokens.shape[1] + settings.new_tokens) >= torch.tensor(pads)[:, None]).long().to(pair.device)
    places = (seen.cumsum(1) - 1).clamp_min(0)
    stops, columns = torch.tensor(sorted(pair.stop_tokens), dtype=torch.int64, device=pair.device), []
    for step in range(settings.new_tokens):
        read = len(prompts[0]) + pads[0] + step
        where = {"attention_mask": seen[:, :read], "position_ids": places[:, read - tokens.shape[1] : read]}
        out = model(tokens, **where, past_key_values=cache, use_cache=True, logits_to_keep=1)
        logits = out.logits[:, -1, : pair.vocab_size].float()
        peaks.see(logits, lambda row, read=read: f"after token {read - pads[row]} of request {first + row}")
        settle(peaks)
        tokens = logits.argmax(-1, keepdim=True)
        if not settings.sampling.greedy:
            tokens = torch.multinomial(settings.sampling.distribution(logits), 1, generator=rng)
        columns.append(tokens[:, 0])
        stopped = torch.isin(torch.stack(columns, 1), stops)
        if stopped.any(1).all():
            break
    lengths = (stopped.cumsum(1) - stopped.long() == 0).sum(1).tolist()
    return [text[:length] for text, length in zip(torch.stack(columns, 1).tolist(), lengths, strict=True)]


def _ranks(
    p: Float[np.ndarray, "n V"] | None, q: Float[Tensor, "depths n V"], text: list[int], k: int, rng: Uniforms
) -> Int[np.ndarray, "depths n"]:
    """The ranks of the tokens of a text among k candidates of the draft; `p` is None at temperature 0."""
    if p is None:
        ranks = draft_ranks(q, text)
        return np.where(ranks < k, ranks, -1)
    tokens = np.array(text)
    drawn = np.array([candidates_given(p, rows, tokens, k, rng) for rows in as_distributions("q", to_host(q))])
    among = drawn == tokens[:, None]
    return np.where(among.any(-1), among.argmax(-1), -1)


def candidates_given(
    p: Float[np.ndarray, "n V"],
    q: Float[np.ndarray, "n V"],
    emitted: Int[np.ndarray, " n"],
    candidates: int,
    uniforms: Uniforms,
) -> Int[np.ndarray, "n candidates"]:
    """Candidates drawn from q without replacement, given that the naive solver emitted these tokens of p.

    The solver emits its first candidate x with probability min(1, p(x) / q(x)). So it emits token t as its first
    candidate with probability min(p(t), q(t)), which is a share min(1, q(t) / p(t)) of p(t). Else it rejected the first
    candidate, which then has the distribution N((q - p)+), whatever t is. In both cases the other candidates are drawn
    from q without the first one, and t does not depend on them.

    Returns:
        Tokens in draw order; a row ends with -1 where fewer tokens have a probability above 0.
    """
    rows, excess = np.arange(len(q)), np.maximum(q - p, 0)
    accepted = (uniforms.take(len(q)) * p[rows, emitted] < q[rows, emitted]) | ~excess.any(1)
    rejected = child_tokens(excess, 1, DrawRule.IID, uniforms)[:, 0]
    first = np.where(accepted, emitted, rejected)
    rest = q.copy()
    rest[rows, first] = 0
    others = child_tokens(rest, max(1, candidates - 1), DrawRule.NO_REPLACEMENT, uniforms)
    return np.column_stack([first, others])[:, :candidates]


def acceptance(folder: Path, *, min_trials: int = 100) -> Acceptance:
    """Rates by depth and rank from a recorded trace, with their counts; see `Acceptance.from_ranks`.

    Args:
        folder: the trace.
        min_trials: minimum number of visits that a depth needs to have rates of its own.

    Raises:
        InputError: the folder holds no trace, or a part of it is damaged.
    """
    texts, stamp = ranks(folder), stamp_of(folder)
    candidates = int(str(stamp.settings["candidates"]))
    return Acceptance.from_ranks(texts, ranks=candidates, min_trials=min_trials, provenance=stamp)


def ranks(folder: Path) -> list[Int[np.ndarray, "*depths n"]]:
    """For each request the ranks of the target's tokens among the candidates, one per position; -1 for no candidate.

    A trace of a draft head has a row of ranks for each depth. Raises InputError as `acceptance` does.
    """
    found = [np.array(row["ranks"]) for row in read_trace(folder)]
    return [rows if len(rows) > 1 else rows[0] for rows in found]


def read_trace(folder: Path) -> list[dict[str, Any]]:
    """The rows of the trace in a folder, see `COLUMNS`. Raises InputError as `acceptance` does."""
    if not (folder / TRACE_FILE).exists() or not (folder / STAMP).exists():
        raise InputError(f"{folder} holds no trace: record one with `spectheory trace`")
    require_kind(folder, "trace")
    try:
        return pq.read_table(folder / TRACE_FILE, page_checksum_verification=True).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{folder / TRACE_FILE} is damaged: remove it and record again") from error


def sources_of(folder: Path) -> tuple[str, ...]:
    """The source of each text of a trace that has them. Raises InputError as `acceptance` does."""
    return tuple(row["source"] for row in read_trace(folder) if "source" in row)


def replays(folder: Path, pair: Pair | None = None, *, seed: int = 0) -> Replays:
    """The texts of a trace, ready to replay any tree and verifier on them.

    At temperature 0 they are replayed by their ranks, otherwise by p and q from one forward of each text.

    Args:
        folder: folder of the trace.
        pair: the pair that the trace was recorded with. If None, it is loaded as it was recorded where it is needed.
        seed: seed of the drafts that are drawn in addition to the tokens of a text.

    Raises:
        InputError: the folder holds no trace or a damaged one; or above temperature 0, `pair` is another pair, the
            pair is no longer where the trace names it, or p and q do not fit into the memory.
    """
    found, stamp = ranks(folder), stamp_of(folder)
    if stamp.temperature:
        depths = int(str(stamp.settings.get("depths", 1)))
        pair, prompts, written = traced_texts(folder, pair)
        need, available = 8 * pair.vocab_size * (1 + depths) * sum(map(len, written)), available_bytes()
        if available is not None and need > available:
            raise InputError(
                f"p and q of the texts in {folder} need {need / 1e9:,.1f} GB of memory, {available / 1e9:,.1f} GB are "
                "available: record fewer prompts or tokens"
            )
        texts = forced_texts(pair, prompts, written, Sampling.of(stamp), depths)
    else:
        texts = (GreedyText(one, int(str(stamp.settings["candidates"]))) for one in found)
    return Replays(texts, seed=seed, sampling=stamp.sampling, sources=sources_of(folder))


def traced_texts(folder: Path, pair: Pair | None = None) -> tuple[Pair, list[list[int]], list[list[int]]]:
    """The pair of a trace, which is loaded as it was recorded if it is None, the prompts, and the texts.

    Raises:
        InputError: the trace was recorded with another pair, or the pair is no longer where the trace names it.
    """
    rows, stamp = read_trace(folder), stamp_of(folder)
    if pair is None:
        pair = load_pair(
            str(stamp.target),
            stamp.draft,
            device=stamp.device or "cpu",
            dtype=getattr(torch, (stamp.dtype or "float32").removeprefix("torch.")),
            attention=cast(Attention, stamp.attention or "sdpa"),
        )
    if (recorded := stamp.settings["weights"]) != pair.fingerprint:
        raise InputError(
            f"pair has weights {pair.fingerprint}, the trace in {folder} was recorded with {recorded} "
            f"({stamp.target} with {stamp.draft}): p and q must come from the same models"
        )
    return pair, [row["prompt"] for row in rows], [row["text"] for row in rows]
