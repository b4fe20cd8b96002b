"""Trace, profile, measurement and training on a tiny random pair: results, resuming, bad input."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from reference import tracing
from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.heads import Head
from reference.measuring import measure
from reference.models import Pair, PairError, load_pair, with_draft
from reference.prompts import encode_prompts, load_prompts
from reference.sampling import Sampling
from reference.train import card, loop
from reference.train import pair as training
from reference.train.recipe import HeadSteps, LayerSizes
from reference.train.shipped_head import train_shipped_head
from reference.train.stages import silent
from spectheory import Tree
from tests.command_line import Run, refused
from tests.conftest import TINY
from tests.refusals import refuses

SETTINGS = tracing.TraceSettings(dataset="numbers", candidates=4, new_tokens=40, batch=2)
PROMPTS = [[10 * i + j for j in range(8)] for i in range(1, 6)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_measurement_counts_what_was_decoded(tiny: Pair, temperature: float) -> None:
    tree = Tree.k_ary(2, 2)
    sampling = Sampling(temperature)
    *_, total = measure(tiny, tree, PROMPTS[:3], new_tokens=16, sampling=sampling)
    assert len(total.cycles) == 3
    assert (total.compared, total.identical) == ((3, 3) if temperature == 0 else (0, 0))
    assert total.seconds > total.target_seconds + total.draft_seconds > 0
    assert total.speedup is not None
    assert total.fourgrams > 0
    *_, again = measure(tiny, tree, PROMPTS[:3], new_tokens=16, sampling=sampling)
    assert again.emitted.tolist() == total.emitted.tolist()


def test_folders_that_are_no_pair_are_refused(tiny_folders: Path, tmp_path: Path) -> None:
    target, draft = tiny_folders / "target", tiny_folders / "draft"
    with pytest.raises(PairError, match="target folder .*absent holds no config.json"):
        load_pair(tmp_path / "absent", draft)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(PairError, match="draft folder .*foreign cannot be loaded as a causal model"):
        load_pair(target, foreign)
    shutil.copytree(target, tmp_path / "headless")
    weights = load_file(tmp_path / "headless" / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "mlp" not in name}
    save_file(kept, tmp_path / "headless" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PairError, match="headless lacks the weights model.layers.0.mlp.* and so is damaged"):
        load_pair(target, tmp_path / "headless")
    (foreign / "config.json").write_text("{")
    with pytest.raises(PairError, match="draft folder .*foreign cannot be loaded"):
        load_pair(target, foreign)
    other = tmp_path / "other"
    shutil.copytree(draft, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    vocab["!"], vocab['"'] = vocab['"'], vocab["!"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(PairError, match="vocabularies differ: .* must share one tokenizer"):
        load_pair(target, other)


def test_prompts_that_cannot_be_are_refused(tiny: Pair, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    refuses("prompts.jsonl does not exist", load_prompts, file)
    file.write_text('{"text": "import os"}\n{"txt": 1}\n')
    refuses("line 2 is not a JSON object with a field 'text'", load_prompts, file)
    file.write_text('{"text": "import os"}\n')
    refuses("prompts must be between 1 and 1 .*, got 2 .*: give --count 1$", load_prompts, file, 2)
    repair = r"got 40 \(given, or the default\): give --skip 0 --count 1$"
    refuses(rf"\(.* has 1 prompt\), {repair}", load_prompts, file, 20, 40)
    file.write_text('{"text": "import os"}\n' * 3)
    with pytest.raises(ValueError, match=r"between 1 and 2 \(.* has 3 prompts\), got 40 .*: give --skip 1 --count 2$"):
        load_prompts(file, 20, 40, least_skip=1)
    with pytest.raises(ValueError, match="prompt 0 .* has .* tokens, 500 are needed: lower --prompt-tokens"):
        encode_prompts(tiny, load_prompts(file), 500)
    refuses("prompt tokens must be at least 1, got 0", encode_prompts, tiny, load_prompts(file), 0)
    for wrong in ("5", '""', "null", '["import os"]'):
        file.write_text('{"text": "import os"}\n\n{"text": ' + wrong + "}\n")
        refuses("line 3: 'text' must be a string, not empty, got ", load_prompts, file)
    file.write_text('{"text": "a\u2028b"}\n\n', encoding="utf-8")
    assert load_prompts(file) == ["a\u2028b"]


def test_a_padded_output_layer_is_cut(tiny: Pair, tiny_folders: Path) -> None:
    """A draft whose output layer has more entries than the tokenizer drafts and verifies as before."""
    padded = load_pair(tiny_folders / "target", tiny_folders / "draft", dtype=torch.float64)
    assert isinstance(padded.draft, PreTrainedModel)
    padded.draft.resize_token_embeddings(320)
    assert padded.vocab_size == 300
    tree, prompt = Tree.k_ary(2, 2), PROMPTS[0]
    texts = [Decoder(pair, PlannedTree(tree)).generate(prompt, 30) for pair in (padded, tiny)]
    assert texts[0].accepted == texts[1].accepted


def test_an_update_cut_in_two_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted between the two optimizers, a run keeps the last whole state."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    steps = 0

    def loss(step: int) -> torch.Tensor:
        return model(torch.ones(1, 3)).square().sum()

    def cut(self: torch.optim.AdamW) -> None:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(torch.optim.AdamW, "step", cut)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt):
        loop.fit(model, loss, loop.LearningRates(10), tmp_path / "model.pt")
    assert torch.load(tmp_path / "model.pt")["step"] == 3


SMALL = replace(
    TINY,
    target=LayerSizes(7, 32, 32),
    draft=LayerSizes(1, 32, 32),
    head=HeadSteps(hidden=16, texts=4, rows=2, start_steps=2, steps=2, passes=2),
    rows=2,
    length=32,
    prompts=8,
)


@pytest.fixture
def little_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The json package and three held-out files instead of the whole standard library."""
    from reference.library_sources import standard_library

    everything = standard_library()
    files = [file for file in everything if file.name.startswith("json/")]
    files += [file for file in everything if file.is_held_out][:3]
    for place in ("reference.train.pair", "reference.prompts"):
        monkeypatch.setattr(f"{place}.standard_library", lambda: files)


def test_an_installed_package_says_where_training_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("reference.train")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "reference.train", None)
    found = run("train", "pair", "--out", "pair", "--work", "work")
    refused(found, "training is not part of the installed package: run this command in a checkout")


@pytest.mark.usefixtures("little_corpus")
def test_an_interrupted_training_goes_on_and_equals_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, fewer in {"ROUNDS": 2, "ROWS": 4, "NEW_TOKENS": 32}.items():
        monkeypatch.setattr(card, name, fewer)
    recipe = replace(SMALL, target_steps=6, draft_steps=3)
    training.train_pair(tmp_path / "whole", tmp_path / "work-whole", recipe, say=lambda line: None)
    train_shipped_head(tmp_path / "whole", tmp_path / "work-whole", recipe, silent)
    real, calls = training.batch, []

    def failing(*args: object) -> np.ndarray:
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "batch", failing)
    with pytest.raises(KeyboardInterrupt):
        training.build_pair(tmp_path / "two", tmp_path / "work-two", recipe, say=lambda line: None)
    assert torch.load(tmp_path / "work-two" / "target.pt")["step"] == 3
    training.build_pair(tmp_path / "two", tmp_path / "work-two", recipe, say=lambda line: None)
    for role in ("target", "draft", "head"):
        whole, two = ((tmp_path / name / role / "model.safetensors").read_bytes() for name in ("whole", "two"))
        assert whole == two
    (tmp_path / "work-two" / "draft.pt").write_bytes(b"half a checkpoint")
    with pytest.raises(ValueError, match="draft.pt is damaged: remove it to start this model anew"):
        training.build_pair(tmp_path / "two", tmp_path / "work-two", recipe, say=lambda line: None)
    with pytest.raises(ValueError, match="holds the work of another recipe"):
        training.build_pair(tmp_path / "two", tmp_path / "work-two", replace(recipe, seed=1))
    pair = load_pair(tmp_path / "two" / "target", tmp_path / "two" / "draft")
    assert pair.vocab_size == 300
    assert isinstance(with_draft(pair, tmp_path / "two" / "head").draft, Head)
    split = json.loads((tmp_path / "two" / "split.json").read_text())
    assert not set(split["train"]) & set(split["held_out"])
