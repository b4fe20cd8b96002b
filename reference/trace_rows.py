"""The rows of a trace: the target's text, and the rank of each of its tokens among the draft's candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from transformers import DynamicCache, PreTrainedModel

from reference.candidates import child_tokens
from reference.forced_logits import BATCH, ForcedBatch, draft_logits
from reference.heads import Head
from reference.host_arrays import numpy_on_host
from reference.logits import Peaks, settle
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling, require_drawing
from reference.teacher_forcing import DEPTHS, normalised, target_rows
from spectheory import DrawRule
from spectheory.core.errors import InputError
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
DEEPER = {"target_rank": "deeper_ranks", "target_top_rank": "deeper_top_ranks"}
"""Columns of draft heads only: the same ranks where the cycle has drafted the last 1, 2, ... tokens."""


@dataclass(frozen=True)
class TraceSettings:
    """Settings of a trace: `dataset` names the prompts, `candidates` is the number of candidates at each position.

    `temperature`, `top_k` and `top_p` are those of `Sampling`. `batch` is the number of prompts that are decoded
    together and written to one file. `depths` is the number of depths of a cycle at which a draft head's candidates are
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

    def provenance(self, pair: Pair, inputs: dict[str, str]) -> dict[str, Any]:
        """The fields of a provenance that identify a trace of `pair`; `inputs` has hashes of prompts and weights."""
        settings = {**asdict(self), **inputs, "depths": pair.depths_of(self.depths)}
        if pair.deepest is not None:
            settings["deepest"] = pair.deepest
        for name in ("temperature", "top_k", "top_p", "seed", *(() if isinstance(pair.draft, Head) else ("depths",))):
            del settings[name]
        return {**pair.stamp, **self.sampling.stamp, "seed": self.seed, "settings": settings}

    def columns(self, pair: Pair) -> pa.Schema:
        """The columns of a trace of `pair`."""
        return columns_of(pair.depths_of(self.depths))


def columns_of(depths: int) -> pa.Schema:
    """The columns of a trace with candidates at some depths."""
    deeper = pa.list_(pa.int16(), depths - 1)
    return pa.schema([*COLUMNS, *((name, deeper) for name in DEEPER.values())]) if depths > 1 else COLUMNS


def trace_rows(
    pair: Pair, prompts: list[list[int]], settings: TraceSettings, first: int, done: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one batch of prompts; its first prompt has the number `first`.

    `done` gets the number of finished positions.

    Raises:
        LogitsError: a model returns logits that give no probabilities.
    """
    return (_head_rows if isinstance(pair.draft, Head) else _model_rows)(pair, prompts, settings, first, done)


@torch.inference_mode()
def _model_rows(
    pair: Pair, prompts: list[list[int]], settings: TraceSettings, first: int, done: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    """`trace_rows` of a draft model, position by position: the naive solver emits each token given the candidates."""
    draft_rng, rng = _generators(pair, settings, first, pair.device)
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


@torch.inference_mode()
def _head_rows(
    pair: Pair, prompts: list[list[int]], settings: TraceSettings, first: int, done: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    """`trace_rows` of a draft head, request by request: the target writes the texts, and then the head reads them.

    At each depth the candidates are drawn given the text, as the naive solver would have seen them.
    """
    draft_rng, rng = _generators(pair, settings, first, "cpu")
    uniforms = Uniforms(draft_rng)
    texts = _continued(pair, prompts, settings, first, rng, lambda step: done(step // 2))
    requests, half = list(zip(prompts, texts, strict=True)), settings.new_tokens // 2
    for start in range(0, len(requests), BATCH):
        batch = ForcedBatch(pair, requests[start : start + BATCH], first + start, features=True)
        offered = draft_logits(pair, batch, settings.depths)
        for place, (prompt, text) in enumerate(batch.requests):
            span = batch.span(place)
            wanted = batch.target_logits[place, span]
            columns = _head_columns(pair, wanted, offered[:, place, span], text, settings, uniforms)
            for step in range(len(text)):
                where = {"request_id": first + start + place, "pos": step, "ctx_len": len(prompt) + step}
                yield where | {name: values[step] for name, values in columns.items()}
        done(half + (settings.new_tokens - half) * (start + len(batch.requests)) // len(requests))


def _generators(
    pair: Pair, settings: TraceSettings, first: int, candidates: str | torch.device
) -> tuple[Generator, Generator]:
    """The random numbers of the candidates, on a device, and of the text, for the batch that starts with `first`."""
    seeds = map(int, np.random.SeedSequence([settings.seed, first]).generate_state(2))
    places = torch.device(candidates), pair.device
    draft, text = (Generator(place).manual_seed(seed) for place, seed in zip(places, seeds, strict=True))
    return draft, text


def _continued(
    pair: Pair,
    prompts: list[list[int]],
    settings: TraceSettings,
    first: int,
    rng: Generator,
    done: Callable[[int], None],
) -> list[list[int]]:
    """The target's own text after each prompt, up to its first stop token."""
    target, sampling, tokens = _Stream(pair, "target", first), settings.sampling, torch.tensor(prompts)
    texts: list[list[int]] = [[] for _ in prompts]
    tokens = tokens.to(pair.device)
    for step in range(settings.new_tokens):
        wanted = target.next(tokens)
        settle(target.peaks)
        tokens = wanted.argmax(-1, keepdim=True)
        if not sampling.greedy:
            tokens = torch.multinomial(sampling.distribution(wanted), 1, generator=rng)
        for text, token in zip(texts, tokens[:, 0].tolist(), strict=True):
            if not text or text[-1] not in pair.stop_tokens:
                text.append(token)
        done(step + 1)
    return texts


def _head_columns(
    pair: Pair,
    wanted: Float[Tensor, "n V"],
    offered: Float[Tensor, "D n V"],
    text: list[int],
    settings: TraceSettings,
    uniforms: Uniforms,
) -> dict[str, Any]:
    """The columns of one text, by name; each has one entry per position."""
    sampling, scale, emitted = settings.sampling, settings.temperature or 1.0, torch.tensor(text, device=pair.device)
    p = None if sampling.greedy else target_rows(wanted, text, sampling, pair.target.dtype)
    found: dict[str, Any] = {}
    ranks: dict[str, list[list[int]]] = {name: [] for name in DEEPER}
    for depth, logits in enumerate(offered):
        q = normalised(sampling.draft_distribution(logits))
        if p is None:
            drawn = child_tokens(q, settings.candidates, DrawRule.TOP_K, None)
        else:
            drawn = candidates_given(p, q, np.array(text), settings.candidates, uniforms)
        offers = torch.as_tensor(drawn, device=pair.device)
        if depth == 0:
            found = _columns(wanted / scale, logits / scale, offers, emitted)
        else:
            for name, values in _ranks(logits, offers, emitted).items():
                ranks[name].append(values)
    deeper = {DEEPER[name]: list(zip(*values, strict=True)) for name, values in ranks.items() if values}
    return found | deeper


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


def _columns(wanted: Tensor, offered: Tensor, offers: Tensor, emitted: Tensor) -> dict[str, list[Any]]:
    """The columns of one position or of one text, by name; each list has one entry per row."""
    offered_log = torch.log_softmax(offered, -1)
    values = {
        "target_token": emitted,
        "draft_topk_ids": offers,
        "draft_topk_logprob": offered_log.gather(1, offers.clamp(min=0)).masked_fill(offers < 0, -torch.inf),
        "target_logprob": torch.log_softmax(wanted, -1).gather(1, emitted[:, None])[:, 0],
        "draft_entropy": -(offered_log.exp() * offered_log).nansum(1),
    }
    return {name: value.tolist() for name, value in values.items()} | _ranks(offered, offers, emitted)


def _ranks(offered: Float[Tensor, "n V"], offers: Int[Tensor, "n k"], emitted: Int[Tensor, " n"]) -> dict[str, Any]:
    """Ranks of the emitted tokens among the candidates, and among as many of the draft's most probable tokens."""
    among, own = offers == emitted[:, None], offered.gather(1, emitted[:, None])
    above = (offered > own).sum(1)
    return {
        "target_rank": torch.where(among.any(1), among.int().argmax(1), -1).tolist(),
        "target_top_rank": torch.where((above < offers.shape[1]) & own[:, 0].isfinite(), above, -1).tolist(),
    }


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
