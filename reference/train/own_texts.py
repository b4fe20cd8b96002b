"""The target's own texts, on which heads are trained: its tokens, and its hidden states in half precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Generator, Tensor
from transformers import DynamicCache, PreTrainedModel

from reference.heads import Head
from reference.heads.config import tapped_layers
from reference.models import Pair, weights_hash
from reference.part_files import claimed, require_kind, short_hash, stamp_of
from reference.sampling import Sampling
from spectheory.core.checks import check_counts, check_whole
from spectheory.core.errors import InputError
from spectheory.core.files import whole_file

WHAT = "texts of a target"


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
    """

    rows: int = 10_240
    prompt_tokens: int = 64
    new_tokens: int = 192
    temperatures: tuple[float, ...] = (0.0, 1.0)
    batch: int = 64
    layers: tuple[int, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts(1, prompt_tokens=self.prompt_tokens, new_tokens=self.new_tokens, batch=self.batch)
        check_whole("rows", self.rows, 1)
        check_whole("seed", self.seed, 0)
        if not self.temperatures:
            raise InputError("temperatures must be at least one, got none")


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
) -> None:
    """Let the target continue pieces of `corpus`, and write texts and hidden states to `folder`, file by file.

    A file is written whole or not at all, and existing files are kept: after an interruption the same call continues.

    Args:
        pair: the target; its draft is not used.
        corpus: token ids of texts from which prompts are cut. No held-out text may be among them.
        settings: what is generated.
        folder: empty folder, or folder of the same texts.
        done: callback with the number of texts that are finished, and of all.

    Raises:
        InputError: `folder` holds something else, no text of the corpus is long enough, a text does not fit the
            target's context, or hidden states overflow half precision.
    """
    layers = pair.target.config.num_hidden_layers
    states, prompts = (*tapped_layers(settings.layers, layers), layers), _prompts(corpus, settings)
    context = getattr(pair.target.config, "max_position_embeddings", None) or 2**31
    if (length := settings.prompt_tokens + settings.new_tokens) > context:
        raise InputError(f"prompts and new tokens need a context of {length}, the target has {context}")
    stated = {name: value for name, value in asdict(settings).items() if name not in ("seed", "layers")}
    stated |= {"temperatures": str(settings.temperatures), "states": " ".join(map(str, states))}
    stated |= {"corpus": short_hash(corpus), "weights": weights_hash(pair.target)}
    target = {"target": pair.names[0], "dtype": str(pair.target.dtype)}
    with claimed(folder, WHAT, **target, seed=settings.seed, settings=stated):
        for number, first in enumerate(range(0, settings.rows, settings.batch)):
            part, these = _part(folder, first), prompts[first : first + settings.batch]
            if not part.exists():
                sampling = Sampling(settings.temperatures[number % len(settings.temperatures)])
                seed = np.random.SeedSequence([settings.seed, 1, first]).generate_state(1)[0]
                written = _generate(pair, these, settings.new_tokens, states, sampling, int(seed))
                with whole_file(part) as partial:
                    save_file(written, partial)
            done(first + len(these), settings.rows)


def _part(folder: Path, first: int) -> Path:
    """The file whose first text has this number."""
    return folder / f"part-{first:06d}.safetensors"


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
    pair: Pair, prompts: Tensor, new_tokens: int, states: tuple[int, ...], sampling: Sampling, seed: int
) -> dict[str, Tensor]:
    """The tensors of one file: the hidden states are of one forward of the whole texts."""
    model: Any = pair.target
    rng = Generator(pair.device).manual_seed(seed)
    tokens, prompt, cache = prompts.to(pair.device), prompts.shape[1], DynamicCache()
    fed = tokens
    for _ in range(new_tokens):
        logits = model(fed, past_key_values=cache, logits_to_keep=1).logits[:, -1, : pair.vocab_size].float()
        chosen = sampling.draft_distribution(logits)
        fed = chosen.argmax(-1, keepdim=True) if sampling.greedy else torch.multinomial(chosen, 1, generator=rng)
        tokens = torch.cat([tokens, fed], 1)
    hidden = model(tokens, output_hidden_states=True, logits_to_keep=1).hidden_states
    stored = torch.stack([hidden[state] for state in states], 2).half().cpu()
    if not stored.isfinite().all():
        raise InputError("hidden states of these texts overflow half precision: set layers")
    tokens = tokens.cpu()
    ends = torch.isin(tokens[:, prompt:], torch.tensor(sorted(pair.stop_tokens), dtype=torch.int64))
    lengths = prompt + torch.where(ends.any(1), ends.int().argmax(1) + 1, new_tokens)
    return {"tokens": tokens.int(), "lengths": lengths.int(), "states": stored}


class OwnTexts:
    """The texts in a folder that `write_own_texts` filled; they are read from disk batch by batch.

    Attributes:
        folder: the folder.
        rows: number of texts.
        identity: a hash of everything that the texts depend on.

    Raises:
        InputError: the folder holds no such texts.
    """

    def __init__(self, folder: Path) -> None:
        require_kind(folder, WHAT)
        stamp, self.folder = stamp_of(folder), folder
        self._held: dict[str, Any] = dict(stamp.settings)
        self.rows: int = self._held["rows"]
        self.identity = short_hash([self._held, stamp.seed])

    def columns(self, head: Head, target: PreTrainedModel) -> list[int]:
        """The places of the hidden states that a head of a target reads among the stored ones.

        Raises:
            InputError: another target generated the texts, or a state is not stored.
        """
        if weights_hash(target) != self._held["weights"]:
            raise InputError(f"{self.folder} holds texts of another target: write texts of this target")
        stored = [int(state) for state in self._held["states"].split()]
        if lacking := [tap for tap in head.taps if tap not in stored]:
            raise InputError(
                f"{self.folder} holds the hidden states {stored}, the head reads {lacking} as well: write texts with "
                "these layers"
            )
        return [stored.index(tap) for tap in head.taps]

    def batch(self, numbers: Sequence[int], device: torch.device | str = "cpu") -> TextBatch:
        """The texts of these numbers.

        Raises:
            InputError: a file is damaged.
        """
        rows = [self._row(number) for number in numbers]
        tokens, lengths, states = (torch.cat(parts).to(device) for parts in zip(*rows, strict=True))
        return TextBatch(tokens.long(), lengths.long(), states.float(), self._held["prompt_tokens"])

    def _row(self, number: int) -> list[Tensor]:
        place = number % self._held["batch"]
        part = _part(self.folder, number - place)
        try:
            with safe_open(part, "pt") as file:
                return [file.get_slice(name)[place : place + 1] for name in ("tokens", "lengths", "states")]
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"{part} is missing or damaged: remove it and repeat the command that writes it"
            ) from error
