"""The target's own continuations of training prompts, with its hidden states: what draft heads are trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Generator, Tensor
from transformers import DynamicCache, PreTrainedModel

from reference.heads import Head
from reference.logits import Peaks, settle
from reference.models import Pair, weights_hash
from reference.part_files import STAMP, claim, short_hash, stamp_of
from reference.sampling import Sampling
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.core.files import owned, whole_file

WHAT = "texts of a target"
RUN = "spectheory.run"
"""Key in the metadata of a file: what its run depends on."""
STORED = torch.float16
"""Type of the stored hidden states."""


@dataclass(frozen=True)
class TextSettings:
    """What the target generates.

    Attributes:
        rows: number of texts.
        prompt_tokens: number of tokens of the corpus with which each text starts.
        new_tokens: number of tokens that the target generates after them.
        temperatures: sampling temperatures; file i has temperature i modulo their number.
        batch: number of texts in a file; they are generated together.
        layers: layers of the target whose inputs are stored in addition to the last hidden state; None means the layers
            of EAGLE-3: 2, n // 2 and n - 3 of n.
        seed: seed of the choice of prompts and of sampling.

    Raises:
        InputError: a number is out of range.
    """

    rows: int = 10_240
    prompt_tokens: int = 64
    new_tokens: int = 192
    temperatures: tuple[float, ...] = (0.0, 1.0)
    batch: int = 64
    layers: tuple[int, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rows", "prompt_tokens", "new_tokens", "batch"):
            check_whole(name, getattr(self, name), 1)
        check_whole("seed", self.seed, 0)
        if not self.temperatures:
            raise InputError("temperatures must be at least one, got none")
        for temperature in self.temperatures:
            Sampling(temperature)
        for layer in self.layers or ():
            check_whole("a number in layers", layer, 0)

    def states(self, layers: int) -> tuple[int, ...]:
        """The numbers of the stored hidden states of a target with `layers` layers; the last one is after its norm."""
        inner = self.layers or (2, layers // 2, layers - 3)
        if len(set(inner)) < len(inner) or not 0 <= min(inner) <= max(inner) < layers:
            raise InputError(
                f"layers must be different layers of the target, which has {layers}, got {inner}: set layers"
            )
        return (*inner, layers)

    def part(self, first: int) -> str:
        """Name of the file whose first text has this number."""
        return f"part-{first:06d}.safetensors"


class TextBatch(NamedTuple):
    """Some texts of B x L tokens with the target's hidden states.

    Attributes:
        tokens: (B, L) int64, prompts and continuations.
        lengths: (B,) int64, number of tokens up to the token that ends the text, that token included.
        states: (B, L, S, D) float32, the stored hidden states at each token; the last of S is after the target's norm.
        prompt: number of tokens of a prompt.
    """

    tokens: Tensor
    lengths: Tensor
    states: Tensor
    prompt: int


def write_own_texts(
    pair: Pair,
    corpus: Sequence[list[int]],
    settings: TextSettings,
    folder: Path,
    done: Callable[[int, int], None] = lambda finished, total: None,
    share: tuple[int, int] = (0, 1),
) -> None:
    """Let the target continue pieces of `corpus`, and write texts and hidden states to `folder`, file by file.

    A file is written whole or not at all, and existing files are kept: after an interruption the same call continues.
    Each file depends on nothing but the settings and its number, so that processes may divide the work.

    Args:
        pair: the target; its draft is not used.
        corpus: token ids of texts from which prompts are cut. No held-out text may be among them.
        settings: what is generated.
        folder: empty folder, or folder of the same texts.
        done: callback with the number of tokens that this call has generated, and of all that it generates.
        share: (k, n): write every n-th file, from file k on.

    Raises:
        InputError: `folder` holds something else, no text of the corpus is long enough, or a text does not fit the
            target's context.
        LogitsError: the target's logits are not distributions, or its hidden states overflow half precision.
    """
    states = stored_states(pair.target, settings)
    prompts = _prompts(corpus, settings)
    numbers = {name: getattr(settings, name) for name in ("rows", "prompt_tokens", "new_tokens", "batch")}
    lists = {"temperatures": _listed(settings.temperatures), "states": _listed(states)}
    hashes = {"corpus": short_hash(corpus), "weights": weights_hash(pair.target)}
    stated = {"target": pair.names[0], "dtype": str(pair.target.dtype), "seed": settings.seed}
    claim(folder, WHAT, **stated, settings=numbers | lists | hashes)
    firsts = list(enumerate(range(0, settings.rows, settings.batch)))[share[0] :: share[1]]
    with owned(folder, folder / f"writer-{share[0]}-of-{share[1]}.lock", "name another folder or share"):
        lacking = [(number, first) for number, first in firsts if not (folder / settings.part(first)).exists()]
        pieces = [prompts[first : first + settings.batch] for _, first in lacking]
        finished, total = 0, settings.new_tokens * sum(map(len, pieces))
        for (number, first), rows in zip(lacking, pieces, strict=True):
            temperature = settings.temperatures[number % len(settings.temperatures)]
            step = partial(_report, done, finished, len(rows), total)
            tensors = _generate(pair, rows, settings, states, Sampling(temperature), first, step)
            with whole_file(folder / settings.part(first)) as place:
                save_file(tensors, place, {RUN: _identity(folder)})
            finished += settings.new_tokens * len(rows)


def stored_states(target: PreTrainedModel, settings: TextSettings) -> tuple[int, ...]:
    """The numbers of the hidden states that are stored, see `TextSettings.states`.

    Raises:
        InputError: the target lacks one of the layers, or a text does not fit its context.
    """
    states = settings.states(target.config.num_hidden_layers)
    context = getattr(target.config, "max_position_embeddings", None) or 2**31
    if (length := settings.prompt_tokens + settings.new_tokens) > context:
        raise InputError(
            f"prompts and new tokens need a context of {length}, the target has {context}: shorten one of them"
        )
    return states


def _identity(folder: Path) -> str:
    """A hash of everything that the texts in a folder depend on."""
    stamp = stamp_of(folder)
    return short_hash([dict(stamp.settings), stamp.seed])


def _report(done: Callable[[int, int], None], finished: int, rows: int, total: int, place: int) -> None:
    """Report that `rows` texts have `place` new tokens each, after `finished` tokens of other files."""
    done(finished + rows * place, total)


def _listed(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:g}" for number in numbers)


def _prompts(corpus: Sequence[list[int]], settings: TextSettings) -> Tensor:
    """(rows, prompt tokens) pieces of the corpus, each position equally likely."""
    length = settings.prompt_tokens
    texts = [np.asarray(text) for text in corpus if len(text) >= length]
    if not texts:
        raise InputError(f"corpus has no text of {length} tokens: lower prompt_tokens, or add longer texts")
    starts = np.array([len(text) - length + 1 for text in texts])
    rng = np.random.default_rng([settings.seed, 0])
    chosen = rng.choice(len(texts), size=settings.rows, p=starts / starts.sum())
    places = rng.integers(0, starts[chosen])
    rows = [texts[text][place : place + length] for text, place in zip(chosen, places, strict=True)]
    return torch.from_numpy(np.stack(rows).astype(np.int64))


@torch.inference_mode()
def _generate(
    pair: Pair,
    prompts: Tensor,
    settings: TextSettings,
    states: tuple[int, ...],
    sampling: Sampling,
    first: int,
    step: Callable[[int], None],
) -> dict[str, Tensor]:
    """The tensors of one file; its first text has the number `first`. `step` gets the number of new tokens per text."""
    model: Any = pair.target
    rng = Generator(pair.device).manual_seed(
        int(np.random.SeedSequence([settings.seed, 1, first]).generate_state(1)[0])
    )
    rows, width = len(prompts), settings.prompt_tokens + settings.new_tokens
    tokens = torch.zeros((rows, width), dtype=torch.int64)
    stored = torch.zeros((rows, width, len(states), model.config.hidden_size), dtype=STORED)
    tokens[:, : settings.prompt_tokens] = prompts
    cache, peaks, fed, place = DynamicCache(), Peaks(f"target {pair.names[0]}", model.dtype), prompts, 0
    while place < width:
        out = model(fed.to(pair.device), past_key_values=cache, output_hidden_states=True, logits_to_keep=1)
        reached = place + fed.shape[1]
        stored[:, place:reached] = torch.stack([out.hidden_states[state] for state in states], 2).to(STORED)
        logits, place = out.logits[:, -1, : pair.vocab_size].float(), reached
        step(place - settings.prompt_tokens)
        peaks.see(logits, lambda row, after=reached: f"after token {after} of text {first + row}")
        settle(peaks)
        if place < width:
            chosen = sampling.draft_distribution(logits)
            fed = chosen.argmax(-1, keepdim=True) if sampling.greedy else torch.multinomial(chosen, 1, generator=rng)
            tokens[:, place] = fed[:, 0]
    if not stored.isfinite().all():
        raise InputError(
            f"the target's hidden states after prompt {first} and the following overflow half precision: leave out "
            "layers with large states (layers)"
        )
    return {"tokens": tokens.int(), "lengths": _lengths(tokens, settings.prompt_tokens, pair), "states": stored}


def _lengths(tokens: Tensor, prompt: int, pair: Pair) -> Tensor:
    """(B,) number of tokens up to the first stop token after the prompt, that token included."""
    ends = torch.isin(tokens[:, prompt:], torch.tensor(sorted(pair.stop_tokens), dtype=torch.int64))
    first = torch.where(ends.any(1), ends.int().argmax(1) + 1, ends.shape[1])
    return (prompt + first).int()


@dataclass(frozen=True, eq=False)
class OwnTexts:
    """The texts in a folder that `write_own_texts` filled; they are read from disk batch by batch.

    Attributes:
        folder: the folder.

    Raises:
        InputError: the folder holds no such texts, or files are missing or damaged.
    """

    folder: Path

    def __post_init__(self) -> None:
        if not (self.folder / STAMP).exists():
            raise InputError(f"{self.folder} holds no texts of a target: write them with `spectheory train texts`")
        if (source := stamp_of(self.folder).source) != f"spectheory {WHAT}":
            raise InputError(
                f"{self.folder} holds a {source.removeprefix('spectheory ')}, not {WHAT}: name another folder"
            )
        lacking = [part for part in self._parts if not part.exists()]
        if lacking:
            raise InputError(
                f"{self.folder} lacks {len(lacking)} of {len(self._parts)} files, such as {lacking[0].name}: repeat "
                "the command that writes it"
            )

    @cached_property
    def _held(self) -> dict[str, Any]:
        return dict(stamp_of(self.folder).settings)

    @cached_property
    def _parts(self) -> list[Path]:
        rows, batch = self._held["rows"], self._held["batch"]
        return [self.folder / TextSettings().part(first) for first in range(0, rows, batch)]

    @property
    def rows(self) -> int:
        """Number of texts."""
        return self._held["rows"]

    @property
    def prompt(self) -> int:
        """Number of tokens of a prompt."""
        return self._held["prompt_tokens"]

    @property
    def length(self) -> int:
        """Number of tokens of a text, prompt included."""
        return self.prompt + self._held["new_tokens"]

    @property
    def identity(self) -> str:
        """A hash of everything that the texts depend on."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        return _identity(self.folder)

    def require_target(self, target: PreTrainedModel) -> None:
        """Raise InputError if another target generated the texts."""
        if weights_hash(target) != self._held["weights"]:
            raise InputError(
                f"{self.folder} holds texts of another target, {stamp_of(self.folder).target}: name the texts of this "
                "target, or write them with `spectheory train texts`"
            )

    def columns(self, head: Head) -> list[int]:
        """The places of the hidden states that a head reads among the stored ones.

        Raises:
            InputError: one of them is not stored.
        """
        stored = [int(state) for state in self._held["states"].split()]
        if lacking := [tap for tap in head.taps if tap not in stored]:
            raise InputError(
                f"{self.folder} holds the hidden states {stored}, the head reads {lacking} as well: write texts with "
                "these layers"
            )
        return [stored.index(tap) for tap in head.taps]

    def batch(self, numbers: Sequence[int]) -> TextBatch:
        """The texts of these numbers.

        Raises:
            InputError: a file is damaged, belongs to another run, or its hidden states have another precision.
        """
        rows = [self._row(number) for number in numbers]
        tokens, lengths, states = (torch.cat(parts) for parts in zip(*rows, strict=True))
        return TextBatch(tokens.long(), lengths.long(), states.float(), self.prompt)

    def _row(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        part, place = self._parts[number // self._held["batch"]], number % self._held["batch"]
        try:
            with safe_open(part, "pt") as file:
                found = [file.get_slice(name)[place : place + 1] for name in ("tokens", "lengths", "states")]
                run = (file.metadata() or {}).get(RUN, self.identity)
        except (SafetensorError, OSError) as error:
            raise InputError(f"{part} is damaged: remove it and repeat the command that writes it") from error
        if run != self.identity:
            raise InputError(
                f"{part} does not belong to the run that {STAMP} describes: remove {part.name} and repeat the command "
                "that writes it"
            )
        if found[2].dtype != STORED:
            raise InputError(f"{part} holds hidden states in {found[2].dtype}, {STORED} is needed: remove the folder")
        return found[0], found[1], found[2]
