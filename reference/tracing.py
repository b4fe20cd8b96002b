"""Traces: the rank of the target's token among the draft's candidates, at every position of a text.

The text is the target's own continuation of each prompt, and every position has a row. At temperature 0 the candidates
are the draft's top k. Above it they are drawn without replacement, and the naive solver emits the next token given the
candidates. The solver is lossless, so the text has the target's distribution, and the row has the rank of the token
among the candidates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Generator, Tensor
from transformers import DynamicCache, PreTrainedModel

from reference.candidates import child_tokens
from reference.host_arrays import numpy_on_host
from reference.logits import Peaks, settle
from reference.models import Pair
from reference.part_files import STAMP, claimed, read_part, short_hash, stamp_of, write_part
from reference.sampling import Sampling, require_drawing
from reference.uniforms import Uniforms
from spectheory import Acceptance, DrawRule, Tree
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.otlp import Naive

COLUMNS = pa.schema(
    [
        ("request_id", pa.int32()),
        ("pos", pa.int32()),
        ("target_token", pa.int32()),
        ("draft_topk_ids", pa.list_(pa.int32())),
        ("draft_topk_logprob", pa.list_(pa.float32())),
        ("target_rank", pa.int16()),
        ("target_top_rank", pa.int16()),
        ("target_logprob", pa.float32()),
        ("draft_entropy", pa.float32()),
        ("ctx_len", pa.int32()),
    ]
)
"""One row per position; logarithms are natural. `target_rank` is the rank of the token among the k candidates, and
`target_top_rank` its rank among the draft's k most probable tokens; -1 if it is not one of them."""


PROMPTS = "prompts.json"
"""File of the prompts, a list of token ids for each request."""


@dataclass(frozen=True)
class TraceSettings:
    """Settings of a trace: `dataset` names the prompts, `candidates` is the number of candidates at each position.

    `temperature`, `top_k` and `top_p` are those of `Sampling`. `batch` is the number of prompts that are decoded
    together and written to one file.
    """

    dataset: str
    temperature: float = 0.0
    candidates: int = 16
    new_tokens: int = 128
    batch: int = 8
    seed: int = 0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        for name in ("candidates", "new_tokens", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}")
        require_drawing(self.sampling)

    @property
    def sampling(self) -> Sampling:
        """How the text is sampled."""
        return Sampling(self.temperature, self.top_k, self.top_p)

    def provenance(self, pair: Pair, inputs: dict[str, str]) -> dict[str, Any]:
        """The fields of a provenance that identify a trace of `pair`; `inputs` has hashes of prompts and weights."""
        settings = {**asdict(self), **inputs}
        for name in ("temperature", "top_k", "top_p", "seed"):
            del settings[name]
        return {**pair.stamp, **self.sampling.stamp, "seed": self.seed, "settings": settings}


def record_trace(
    pair: Pair,
    prompts: list[list[int]],
    settings: TraceSettings,
    folder: Path,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> None:
    """Write a trace to files `part-*.parquet` in `folder`, one file for each batch of prompts.

    A file is written whole or not at all, and existing files are kept, so a call after an interruption continues. All
    prompts have one length. `done` is called with the number of tokens that this call has generated for all prompts,
    and of all that it generates.

    Raises:
        InputError: prompts differ in length or do not fit the context, or `folder` holds a trace with other settings,
            prompts or weights, or is in use by another process; or the draft is a draft head.
        LogitsError: a model returns logits that give no probabilities.
    """
    pair.require_draft_model("a trace")
    lengths = {len(prompt) for prompt in prompts}
    if len(lengths) != 1:
        raise InputError(f"prompts must all have the same length, got lengths {sorted(lengths)}")
    need = lengths.pop() + settings.new_tokens
    if need > pair.context:
        raise InputError(
            f"prompts and new tokens need a context of {need}, these models have {pair.context}: shorten one of them"
        )
    if settings.candidates > pair.vocab_size:
        raise InputError(f"candidates must be at most the vocabulary of {pair.vocab_size}, got {settings.candidates}")
    inputs = {"prompts": short_hash(prompts), "weights": pair.fingerprint}
    with claimed(folder, "trace", **settings.provenance(pair, inputs)):
        _write_prompts(folder / PROMPTS, json.dumps(prompts))
        firsts = range(0, len(prompts), settings.batch)
        lacking = [first for first in firsts if not (folder / _part_name(first)).exists()]
        batches = [prompts[first : first + settings.batch] for first in lacking]
        finished, total = 0, settings.new_tokens * sum(map(len, batches))
        for first, rows in zip(lacking, batches, strict=True):
            step = partial(_report, done, finished, len(rows), total)
            write_part(folder / _part_name(first), _rows(pair, rows, settings, first, step), COLUMNS)
            finished += settings.new_tokens * len(rows)


def _report(done: Callable[[int, int], None], finished: int, rows: int, total: int, place: int) -> None:
    """Report that `rows` prompts have `place` tokens each, after `finished` tokens of other batches."""
    done(finished + rows * place, total)


def _write_prompts(file: Path, text: str) -> None:
    """Write the prompts, unless the file holds them."""
    if not file.exists() or file.read_bytes() != text.encode():
        write_whole(file, text)


@torch.inference_mode()
def _rows(
    pair: Pair, prompts: list[list[int]], settings: TraceSettings, first: int, done: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one batch, position by position; its first prompt has the number `first`.

    `done` gets the number of finished positions.
    """
    seeds = np.random.SeedSequence([settings.seed, first]).generate_state(2)
    draft_rng, rng = (Generator(pair.device).manual_seed(int(seed)) for seed in seeds)
    uniforms = Uniforms(draft_rng)
    sampling, scale = settings.sampling, settings.temperature or 1.0
    rule = DrawRule.TOP_K if sampling.greedy else DrawRule.NO_REPLACEMENT
    target, draft = (_Stream(pair, role, first) for role in ("target", "draft"))
    tokens = torch.tensor(prompts, device=pair.device)
    running = list(range(len(prompts)))
    for step in range(settings.new_tokens):
        wanted, offered = target.next(tokens), draft.next(tokens)
        settle(target.peaks, draft.peaks)
        q = sampling.draft_distribution(offered)
        offers = torch.as_tensor(child_tokens(numpy_on_host(q), settings.candidates, rule, uniforms))
        emitted = wanted.argmax(-1) if sampling.greedy else _emit(sampling.distribution(wanted), q, offers, rng)
        columns = _columns(wanted / scale, offered / scale, offers, emitted)
        for row in running:
            place = {"request_id": first + row, "pos": step, "ctx_len": len(prompts[row]) + step}
            yield place | {name: values[row] for name, values in columns.items()}
        running = [row for row in running if columns["target_token"][row] not in pair.stop_tokens]
        tokens = emitted[:, None]
        done(step + 1)


def _columns(wanted: Tensor, offered: Tensor, offers: Tensor, emitted: Tensor) -> dict[str, list[Any]]:
    """The columns of one position, by name; each list has one entry per sequence."""
    among = offers == emitted[:, None]
    above = (offered > offered.gather(1, emitted[:, None])).sum(1)
    offered_log = torch.log_softmax(offered, -1)
    values = {
        "target_token": emitted,
        "draft_topk_ids": offers,
        "draft_topk_logprob": offered_log.gather(1, offers.clamp(min=0)).masked_fill(offers < 0, -torch.inf),
        "target_rank": torch.where(among.any(1), among.int().argmax(1), -1),
        "target_top_rank": torch.where(above < offers.shape[1], above, -1),
        "target_logprob": torch.log_softmax(wanted, -1).gather(1, emitted[:, None])[:, 0],
        "draft_entropy": -(offered_log.exp() * offered_log).nansum(1),
    }
    return {name: value.tolist() for name, value in values.items()}


class _Stream:
    """A batch of B sequences of equal length in one model; the first prompt has the number `first`."""

    def __init__(self, pair: Pair, role: str, first: int) -> None:
        self.model: PreTrainedModel = getattr(pair, role)
        self.vocab_size = pair.vocab_size
        self.cache = DynamicCache()
        self.first = first
        name = pair.names[role == "draft"]
        self.peaks = Peaks(f"{role} {name}", self.model.dtype)

    def next(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (B, n), and return the logits (B, V) of the next tokens, float32."""
        out = self.model(tokens, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        logits, length = out.logits[:, -1, : self.vocab_size].float(), self.cache.get_seq_length()
        self.peaks.see(logits, lambda row: f"after token {length} of request {self.first + row}")
        return logits


def _emit(p: Tensor, q: Tensor, offers: Tensor, rng: Generator) -> Tensor:
    """The next tokens (B,), emitted by the naive solver given the candidates `offers` (B, k)."""
    drafts = [[token for token in row if token >= 0] for row in offers.tolist()]
    rows = [Naive().distribution(*row) for row in zip(p, q, drafts, strict=True)]
    return torch.multinomial(torch.stack(rows), 1, generator=rng)[:, 0]


def acceptance(
    folder: Path,
    *,
    max_depth: int = 16,
    min_trials: int = 100,
    policy: Tree | None = None,
    top: bool = False,
) -> Acceptance:
    """Rates by depth and rank from a recorded trace, with their counts; see `Acceptance.from_ranks`.

    Args:
        folder: folder that holds the trace.
        max_depth: maximum depth with rates of its own.
        min_trials: minimum number of visits that a depth needs to have rates of its own.
        policy: tree whose cycles decide which positions are counted: those where a cycle starts; None counts all.
        top: whether the candidates are the draft's most probable tokens, see `ranks`.

    Raises:
        InputError: the folder holds no trace, or a part of it is damaged.
    """
    texts, stamp = ranks(folder, top=top), stamp_of(folder)
    return Acceptance.from_ranks(
        texts,
        ranks=int(str(stamp.settings["candidates"])),
        max_depth=max_depth,
        min_trials=min_trials,
        policy=policy,
        provenance=stamp.replace(
            settings=stamp.settings
            | {"counted": "at every position" if policy is None else f"where cycles of {policy} start"}
        ),
    )


def ranks(folder: Path, *, top: bool = False) -> list[np.ndarray]:
    """For each request the ranks of the target's tokens among the candidates, one per position; -1 for no candidate.

    With `top` the candidates are the draft's most probable tokens, for the rates of sample and match; else they are the
    drawn tokens. At temperature 0 both are the same. Raises InputError as `acceptance` does.
    """
    return by_request(folder, "target_top_rank" if top else "target_rank")


def by_request(folder: Path, column: str) -> list[np.ndarray]:
    """A column of the trace in a folder, one array for each request. Raises InputError as `acceptance` does."""
    parts = sorted(folder.glob("part-*.parquet"))
    if not parts or not (folder / STAMP).exists():
        raise InputError(f"{folder} holds no trace: record one with `spectheory trace`")
    stamp = stamp_of(folder)
    batch, new_tokens, candidates = (stamp.settings.get(name) for name in ("batch", "new_tokens", "candidates"))
    if not (isinstance(batch, int) and isinstance(new_tokens, int) and isinstance(candidates, int)):
        raise InputError(f"{folder / STAMP} is not of a trace: record the trace again")
    ranks = range(-1, candidates)
    allowed = {"target_rank": ranks, "target_top_rank": ranks, "target_token": range(np.iinfo(np.int32).max)}
    texts: list[np.ndarray] = []
    for part, first in zip(parts, count(0, batch), strict=False):
        if part.name != (name := _part_name(first)):
            raise InputError(f"{folder} lacks {name}: repeat `spectheory trace` to have it recorded")
        found = _texts_of(part, first, column, new_tokens, allowed[column])
        if found is None or len(found) > batch or (len(found) < batch and part is not parts[-1]):
            raise InputError(
                f"{part} does not hold the requests from {first} on, position by position, with values from "
                f"{allowed[column].start} to {allowed[column].stop - 1} as {column}: remove it and record again"
            )
        texts += found
    return texts


def _part_name(first: int) -> str:
    return f"part-{first:06d}.parquet"


def _texts_of(part: Path, first: int, column: str, new_tokens: int, allowed: range) -> list[np.ndarray] | None:
    """A column of one part by request; None if requests, positions or values cannot be those of this part."""
    names = ["request_id", "pos", column]
    table = read_part(part, names)
    if any(table[name].type != COLUMNS.field(name).type or table[name].null_count for name in names):
        return None
    request, positions, values = (table[name].to_numpy() for name in names)
    numbers = np.unique(request)
    if numbers.tolist() != list(range(first, first + len(numbers))) or not len(numbers):
        return None
    if values.min() < allowed.start or values.max() >= allowed.stop:
        return None
    places = [positions[request == number] for number in numbers]
    if any(len(place) > new_tokens or (place != np.arange(len(place))).any() for place in places):
        return None
    return [values[request == number] for number in numbers]
