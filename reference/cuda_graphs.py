"""Forwards of a model as CUDA graphs: the same as `CachedModel`, replayed on a GPU instead of launched from Python.

Launched from Python a layer takes half a millisecond or more, whatever the GPU could do. A CUDA graph repeats the
kernels of one run on the same memory, so everything that changes from run to run is in tensors of a fixed place: the
cache, the tokens, where they follow, and the tree. Numbers of tokens are rounded up to `SIZES`; tokens that are added
write rows of the cache that nobody reads and that the next tokens overwrite.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Generator, Tensor, nn
from transformers import PreTrainedModel

from reference.cached_model import CachedModel
from reference.fused_forward import fused, groups_attention
from reference.heads import Head
from reference.random_streams import Uniforms
from reference.row_cache import RowCache
from reference.tree_rows import TreeRows

SIZES = (*range(1, 10), 13, 17, 25, 33, 49, 65, 97, 129, 193, 257)
"""Numbers of tokens of the graphs. More tokens in one forward are launched from Python."""
FEWEST_ROWS = 512
"""Room of the smallest cache; each larger one has twice as much."""
MOST_TEXT = 9
"""The most tokens of a text in one graph. Longer pieces are prompts, which are read once."""
WARM_UPS = 2
"""Runs before a graph is captured, in which libraries choose their kernels and take their memory."""


def cached(model: PreTrainedModel | Head, vocab_size: int, name: str) -> CachedModel:
    """A model with an empty cache: a `GraphedModel` on a GPU."""
    if isinstance(model, Head) or model.device.type != "cuda":
        return CachedModel(model, vocab_size, name)
    return GraphedModel(model, vocab_size, name)


class Space:
    """A cache of fixed size with the graphs over it. One text uses it at a time.

    Attributes:
        inputs: `where`, the numbers of tokens before a tree and before the next tokens; and `tokens`, the next ones.
        depth: depths of these tokens in the tree, (1, n).
        mask: 0 where token i attends to node j of the tree, else the lowest number, (n, n).
        tree: the mask that was copied to `mask`.
        graphs: by what they run: the graph, what it returns, and the tensors that it reads.
    """

    def __init__(self, model: PreTrainedModel, room: int) -> None:
        most, device = SIZES[-1], model.device
        self.room, self.cache = room, RowCache(model.config.num_hidden_layers, room)
        self.inputs = torch.zeros(2 + most, dtype=torch.int64, device=device)
        self.where, self.tokens = self.inputs[:2], self.inputs[None, 2:]
        self.depth = torch.zeros((1, most), dtype=torch.int64, device=device)
        self.mask = torch.zeros((most, most), dtype=model.dtype, device=device)
        self.tree: Tensor | None = None
        self.generator = Generator(device)
        self.graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Any, object]] = {}


FREE: WeakKeyDictionary[nn.Module, dict[int, list[Space]]] = WeakKeyDictionary()
"""Spaces of each model that no text uses, by their room: the next text finds its graphs there."""


class GraphedModel(CachedModel):
    """One model on a GPU and the cache of one text; see `CachedModel`.

    Logits, and what `run` returns, are valid until the next forward of the same number of tokens.
    """

    def __init__(self, model: PreTrainedModel, vocab_size: int, name: str = "the model") -> None:
        super().__init__(model, vocab_size, name)
        self.stock = model
        config = model.config
        self.lowest = torch.finfo(self.dtype).min
        heads = config.num_attention_heads
        self.mask_rows = heads // getattr(config, "num_key_value_heads", heads) if groups_attention(config) else 1
        self.positions = getattr(config, "max_position_embeddings", None) or 2**31
        self.best: Tensor | None = None
        self.run_base: int | None = None
        self.run_highest: list[Tensor] = []
        self.run_read: list[int] = []
        self._use(FEWEST_ROWS)
        self.cache.rows = 0

    def __del__(self) -> None:
        self._free(self.space.room).append(self.space)

    def _free(self, room: int) -> list[Space]:
        return FREE.setdefault(self.stock, {}).setdefault(room, [])

    def _use(self, room: int) -> None:
        free = self._free(room)
        self.space = free.pop() if free else Space(self.stock, room)
        self.cache = self.space.cache

    def _make_room(self, count: int) -> None:
        before = self.space
        room = max(before.room, 2 ** (self.length + count - 1).bit_length())
        if room > before.room:
            self._use(room)
            self.cache.take_over(before.cache)
            self._free(before.room).append(before)

    def fed(self, tokens: Sequence[int]) -> Tensor:
        return torch.from_numpy(np.array([tokens]))

    def forward(self, tokens: Tensor) -> Tensor:
        return self._forward(tokens, self.length, None, 0)

    def forward_tree(self, tokens: Tensor, committed: int, rows: TreeRows, first: int = 0) -> Tensor:
        return self._forward(tokens, committed, rows, first)

    def most_probable(self, logits: Tensor) -> Tensor:
        return logits.argmax(-1) if self.best is None else self.best

    def keep(self, committed: int, offsets: list[int]) -> int:
        if offsets != [*range(len(offsets))]:
            rows = torch.tensor(offsets, device=self.device) + committed
            for stack in self.cache.stacks:
                stack[:, :, :, :, committed : committed + len(offsets)] = stack.index_select(4, rows)
        self.cache.rows = committed + len(offsets)
        return len(offsets)

    def run(
        self,
        key: tuple[Hashable, ...],
        tokens: Sequence[int],
        rows: int,
        rng: Uniforms | None,
        work: Callable[[Tensor, Uniforms | None], Any],
        kept: object,
    ) -> Any:
        self._make_room(rows)
        space, base = self.space, self.length
        fed = space.tokens[:, : len(tokens)]
        drawn_from = None if rng is None else Uniforms(space.generator)

        def repeated() -> tuple[Any, Tensor, list[int]]:
            self.cache.rows = self.run_base = base
            self.run_highest, self.run_read = [], []
            return work(fed, drawn_from), torch.cat(self.run_highest), self.run_read

        space.inputs[: 2 + len(tokens)].copy_(torch.tensor([base, base, *tokens]))
        try:
            graph = self._graph((*key, len(tokens), self.vocab_size), repeated, kept)
        finally:
            self.run_base = None
        if rng is not None:
            space.generator.set_state(rng.generator.get_state())
        found, highest, read = self._replay(graph)
        if rng is not None:
            rng.generator.set_state(space.generator.get_state())
        self.cache.rows = base + rows
        self.peaks.waiting.append((highest.clone(), lambda row: f"after token {base + read[row]}"))
        return found

    def _forward(self, tokens: Tensor, base: int, rows: TreeRows | None, first: int) -> Tensor:
        if (run := self.run_base) is not None:
            return self._in_a_run(tokens, base - run, self.length - run, rows, first)
        count, end = tokens.shape[1], first + tokens.shape[1]
        size, width = (next((size for size in SIZES if size >= least), 0) for least in (count, end))
        self._make_room(max(size, count))
        if not width or not self.cache.stacks or (rows is None and count > MOST_TEXT):
            places = () if rows is None else rows.after(base, first, end)
            return self._call(tokens, **dict(zip(("position_ids", "attention_mask"), places, strict=False)))
        return self._replayed(tokens, base, rows, first, size, width)

    def _in_a_run(self, tokens: Tensor, before: int, cached: int, rows: TreeRows | None, first: int) -> Tensor:
        """A forward while `run` captures its work; its places are relative to the tokens before the run."""
        count, where = tokens.shape[1], self.space.where[0]
        depth, mask = (None, None) if rows is None else rows.nodes(first, first + count)
        logits, highest, *_ = self._compute(tokens, where + before, where + cached, depth, mask)
        self.run_highest.append(highest)
        self.run_read += _read(count, before, cached, rows, first)
        self.cache.rows += count
        return logits

    def _replayed(self, tokens: Tensor, base: int, rows: TreeRows | None, first: int, size: int, width: int) -> Tensor:
        """A forward by the graph of `size` tokens, after `width` nodes of a tree at most."""
        space, count, start = self.space, tokens.shape[1], self.length
        if tokens.is_cpu:
            space.inputs[: 2 + count].copy_(torch.tensor([base, start, *tokens[0].tolist()]))
        else:
            space.where.copy_(torch.tensor([base, start]))
            space.tokens[:, :count].copy_(tokens)
        depth = mask = None
        if rows is not None:
            depth, mask = self._tree(rows, first, first + count, size, width)
        key = size, width if rows is not None else 0, self.taps, self.vocab_size
        work = partial(self._compute, space.tokens[:, :size], space.where[0], space.where[1], depth, mask)
        logits, highest, best, states = self._replay(self._graph(key, work, None))
        if states is not None:
            self.states = states[:count]
        self.best = best[:count]
        self.cache.rows += count
        read = _read(count, base, start, rows, first)
        self.peaks.waiting.append((highest[:count].clone(), lambda row: f"after token {read[row]}"))
        return logits[:count]

    def _tree(self, rows: TreeRows, first: int, end: int, size: int, width: int) -> tuple[Tensor, Tensor]:
        """Depths and mask of the nodes from `first` to `end`, at the places that the graph reads."""
        space, count = self.space, end - first
        own_depth, own_mask = rows.nodes(first, end)
        depth, mask = space.depth[:, :size], space.mask[:size, :width]
        if space.tree is not own_mask:
            depth[:, :count].copy_(own_depth)
            mask[:count, :end].copy_(own_mask)
            mask[:count, end:] = self.lowest
            space.tree = own_mask
        return depth, mask

    def _compute(
        self, tokens: Tensor, base: Tensor, start: Tensor, depth: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Logits of `tokens`, the largest of each row and its token, and taps; `start` tokens are in the cache."""
        steps = torch.arange(tokens.shape[1], device=self.device)
        columns = torch.arange(self.space.room, device=self.device)
        rows = start + steps
        if depth is None or mask is None:
            positions = rows[None]
            seen = torch.zeros((len(rows), len(columns)), dtype=self.dtype, device=self.device)
            seen = seen.masked_fill(columns > rows[:, None], self.lowest)
        else:
            positions, nodes = base + depth, columns - base
            seen = mask[:, nodes.clamp(0, mask.shape[1] - 1)]
            seen = seen.masked_fill(nodes < 0, 0).masked_fill(nodes >= mask.shape[1], self.lowest)
        self.cache.slots = rows
        try:
            with fused(self.stock):
                logits = self._model_logits(
                    tokens,
                    position_ids=positions.clamp_max(self.positions - 1),
                    attention_mask=seen.repeat(self.mask_rows, 1)[None, None],
                )
        finally:
            self.cache.slots = None
        highest, best = logits.max(1)
        return logits, highest, best, self.states if self.taps else None

    def _graph(self, key: Hashable, work: Callable[[], Any], kept: object) -> tuple[torch.cuda.CUDAGraph, Any, object]:
        graphs = self.space.graphs
        if key not in graphs:
            graphs[key] = *captured(work, self.space.generator), kept
        return graphs[key]

    def _replay(self, graph: tuple[torch.cuda.CUDAGraph, Any, object]) -> Any:
        getattr(self.stock, "replay", torch.cuda.CUDAGraph.replay)(graph[0])
        return graph[1]


def _read(count: int, base: int, start: int, rows: TreeRows | None, first: int) -> list[int]:
    """The number of tokens that each of `count` new tokens has read: those before it on its path, and itself."""
    if rows is None:
        return [*range(start + 1, start + count + 1)]
    return [base + depth + 1 for depth in rows.depth[0, first : first + count].tolist()]


def captured(work: Callable[[], Any], generator: Generator) -> tuple[torch.cuda.CUDAGraph, Any]:
    """`work`, which draws from `generator`, as a graph, and what it returns: tensors that each replay overwrites."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        return graph, work()
