"""Training of a draft head on the target's own texts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from reference.heads import Eagle3Head, Head, HeadConfig, Kind, new_head, write_head
from reference.heads.layouts import layer_sizes
from reference.losses import Loss
from reference.models import Pair, weights_hash
from reference.part_files import claimed
from reference.train.loop import Done, fit
from reference.train.objectives import Batching, objective_of
from reference.train.own_texts import OwnTexts
from spectheory.core.checks import LARGEST_SEED, check_counts, check_number, check_whole
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole

CHECKPOINT, RECORD = "training.pt", "training.json"
NEW_RATE, STARTED_RATE = 0.02, 0.003
"""Learning rates of a new head, and of one that is trained on: the rate of a new head makes a trained one worse."""

LAYOUTS_OF: dict[Kind, str] = {"eagle1": "eagle", "eagle3": "speculators"}
"""The layout in which a trained head of each kind is written; `reference.heads.write_head` writes others."""


@dataclass(frozen=True)
class HeadRecipe:
    """How a draft is trained.

    Attributes:
        loss: the loss with its settings.
        steps: number of updates of the weights.
        rows: texts in a step.
        seed: seed of the weights of a new head, of the order of the texts and of all random choices.
        rate: learning rate of the matrices inside the layer, by Muon. Norms, embeddings and output layers have a tenth
            of it, by AdamW.
    """

    loss: Loss
    steps: int = 1000
    rows: int = 16
    seed: int = 0
    rate: float = NEW_RATE

    def __post_init__(self) -> None:
        check_counts(1, steps=self.steps, rows=self.rows)
        check_whole("seed", self.seed, 0, most=LARGEST_SEED)
        check_number("rate", self.rate, 1e-9)

    @property
    def stamp(self) -> dict[str, Any]:
        """The settings as a provenance holds them."""
        loss = json.dumps({"name": self.loss.name, **asdict(self.loss)})
        return {"steps": self.steps, "rows": self.rows, "rate": self.rate, "loss": loss}


def head_config(
    target: PreTrainedModel, kind: Kind, *, intermediate_size: int, draft_vocab_size: int | None = None, name: str = ""
) -> HeadConfig:
    """The configuration of a new head of one layer for a target, as wide as the target, with the target's embeddings.

    Raises:
        InputError: a size is out of range, or the target is not a model of the Llama kind.
    """
    sizes = layer_sizes(target.config.to_dict()) | {"intermediate_size": intermediate_size}
    return HeadConfig(kind, **sizes, own_embedding=False, draft_vocab_size=draft_vocab_size, target=name or None)


def fresh_head(config: HeadConfig, target: PreTrainedModel, texts: OwnTexts, seed: int) -> Head:
    """A new head, attached to its target; the output layer of an EAGLE-3 head starts as the target's.

    A draft vocabulary holds the tokens that are the most frequent ones in the first 1,024 texts.
    """
    torch.manual_seed(seed)
    head = new_head(config)
    if isinstance(head, Eagle3Head):
        output: Any = target.get_output_embeddings()
        rows = output.weight.data.float().cpu()
        if config.draft_vocab_size is not None:
            kept = frequent_tokens(texts, config.vocab_size, config.draft_vocab_size)
            head.set_vocabulary(kept)
            rows = rows[kept]
        head.lm_head.weight.data.copy_(rows)
    return head.to(target.device, target.dtype).attach(target)


def frequent_tokens(texts: OwnTexts, vocabulary: int, count: int) -> Tensor:
    """The `count` most frequent tokens of the target's own part of the first 1,024 texts, sorted by id."""
    batch = texts.batch(range(min(1024, texts.rows)))
    counts = batch.tokens[batch.own].bincount(minlength=vocabulary)
    return counts.argsort(descending=True, stable=True)[:count].sort().values


def train_head(
    pair: Pair,
    texts: OwnTexts,
    folder: Path,
    recipe: HeadRecipe,
    config: HeadConfig | None = None,
    done: Done = lambda finished, total: None,
) -> None:
    """Train a new head, or with `config` None the head of `pair` from its present weights, and write it to `folder`.

    After an interruption the same call continues; once the head is there, it does nothing.

    The head of `pair` is also the frozen start of GTO. `folder` is empty, or holds the same training.

    Raises:
        InputError: the texts or the head belong to another target, the draft of `pair` is not a head, GTO has no start,
            or `folder` holds something else.
    """
    head = _copy(pair) if config is None else fresh_head(config, pair.target, texts, recipe.seed)
    begin = weights_hash(pair.require_draft()) if config is None else f"new {config.kind} head {config}"
    start = pair.draft if config is None and isinstance(pair.draft, Head) else None
    objective = objective_of(recipe.loss, head, pair.target, Batching(texts, recipe.rows, recipe.seed), start)
    settings = recipe.stamp | {"start": begin, "texts": texts.identity, "weights": weights_hash(pair.target)}
    rates = recipe.rate, recipe.rate / 10
    with claimed(folder, "training of a draft", target=pair.names[0], seed=recipe.seed, settings=settings):
        if (folder / RECORD).exists():
            return
        seconds = fit(head, objective, recipe.steps, rates, folder / CHECKPOINT, done)
        write_head(head.half(), folder, LAYOUTS_OF[head.config.kind], overwrite=True)
        record = {"steps": recipe.steps, "texts": recipe.steps * recipe.rows, "cpu_seconds": round(seconds, 1)}
        write_whole(folder / RECORD, json.dumps(record, indent=1) + "\n")
        (folder / CHECKPOINT).unlink()


def _copy(pair: Pair) -> Head:
    if not isinstance(pair.draft, Head):
        raise InputError(
            f"the draft to train on must be a head, {pair.names[1]} is a draft model: name a head's folder"
        )
    head = new_head(pair.draft.config).to(pair.device, pair.draft.dtype)
    head.load_state_dict(pair.draft.state_dict())
    if head.embed_tokens is not None:
        head.embed_tokens.requires_grad_(False)
    return head.attach(pair.target)
