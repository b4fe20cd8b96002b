"""Stock architectures with tiny random weights, eager and SDPA, in each precision, on each device; those refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Generator
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BloomConfig,
    FalconConfig,
    Gemma2Config,
    Gemma3Config,
    Gemma3TextConfig,
    Gemma4TextConfig,
    GPT2Config,
    GPTNeoConfig,
    LlamaConfig,
    MistralConfig,
    MptConfig,
    Phi3Config,
    PreTrainedConfig,
    Qwen3Config,
)

from reference.cached_model import CachedModel
from reference.decode import Cycle, Decoder
from reference.divergence import first_divergence
from reference.drafters import ALL, Drafter, PlannedTree, Searched
from reference.model_folders import read_windows
from reference.models import Pair, load_pair
from spectheory import Tree
from spectheory.search import SpecExec
from tests.helpers import refuses
from tests.reference.played import gpu
from tests.reference.sampled_text import generated, restless

VOCABULARY, CONTEXT, NEW_TOKENS = 300, 128, 16
TIE = 1e-4
"""As in test_shipped_pair: float32 logits closer than this tie."""
PLAYED = not torch.cuda.is_available()
PROMPTS = ([7], [int(token) for token in np.random.default_rng(0).integers(VOCABULARY, size=30)])

GREEDY = [drafter for kind in ALL for drafter in kind.greedy()]
ARCHITECTURES = ("llama", "qwen3", "gpt2")
WINDOWED = ("gemma3", "mistral")
KINDS = ["sliding_attention", "full_attention"]
SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}
ROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}


@dataclass(frozen=True)
class Place:
    """Where and how a pair runs."""

    architecture: str
    attention: str = "sdpa"
    dtype: torch.dtype = torch.float64
    device: str = "cpu"

    def __str__(self) -> str:
        played = ", played" if PLAYED and self.device == "cuda" else ""
        return f"{self.architecture}, {self.attention}, {self.dtype}, {self.device}{played}"


HOST = [Place(*kind) for kind in product(ARCHITECTURES, ("eager", "sdpa"))]
PLACES = HOST + [Place(name, device="cuda") for name in ARCHITECTURES]
"""In float64 equal texts are equal (norms and rotary embedding stay in float32 inside transformers)."""
DTYPES = torch.float32, torch.bfloat16, torch.float16
ROUNDED = [replace(HOST[i], dtype=DTYPES[i % 3]) for i in range(len(HOST))]
ROUNDED.append(Place("qwen3", "sdpa", torch.bfloat16, "cuda"))


def some_of(cases: Sequence[Any], place: Place, share: int) -> Sequence[Any]:
    """Every `share`-th of the cases, other ones in each place, so that all of them run somewhere."""
    number = (PLACES if place in PLACES else ROUNDED).index(place)
    return cases[number % share :: share]


def config_of(architecture: str, vocabulary: int = VOCABULARY) -> PreTrainedConfig:
    """Two layers: grouped queries in Llama, heads wider than the model in Qwen3, learned positions in GPT-2, a window
    in all layers of Mistral and in every second one of Gemma 3, LongRoPE after 16 tokens in Phi-3."""
    ends: dict[str, Any] = {"vocab_size": vocabulary, "bos_token_id": 0, "eos_token_id": 0}
    if architecture == "gpt2":
        return GPT2Config(n_positions=CONTEXT, n_embd=64, n_layer=2, n_head=4, **ends)
    shape = SHAPE | {"tie_word_embeddings": True}
    if architecture == "phi3":
        return Phi3Config(**shape, **ends, pad_token_id=0, rope_parameters=ROPE, original_max_position_embeddings=16)
    if architecture == "gemma3":
        return Gemma3TextConfig(**shape, **ends, head_dim=16, sliding_window=8, layer_types=KINDS)
    if architecture == "mistral":
        return MistralConfig(**shape, **ends, sliding_window=8)
    return LlamaConfig(**shape, **ends) if architecture == "llama" else Qwen3Config(**shape, **ends, head_dim=24)


@cache
def model_of(architecture: str, noise: float, attention: str = "sdpa", vocabulary: int = VOCABULARY) -> Any:
    """A model whose text does not settle on one token; models of one architecture differ by noise."""
    torch.manual_seed(0)
    config = config_of(architecture, vocabulary)
    model: Any = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    restless(model, seed=1, scale=0.3)
    restless(model, seed=2, scale=noise)
    read_windows(model)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def pair_at() -> Callable[[Place], Pair]:
    """The pair of a place, made once."""

    @cache
    def made(place: Place) -> Pair:
        with torch.inference_mode(mode=False):
            models = [deepcopy(model_of(place.architecture, noise, place.attention)) for noise in (0.0, 0.02)]
        target, draft = (model.to(place.device, place.dtype) for model in models)
        assert target.config._attn_implementation == place.attention
        return Pair(target, draft, tokenizer=None, names=("random", "random"))  # type: ignore[arg-type]

    return made


@pytest.fixture(params=PLACES, ids=str)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with gpu() if request.param.device == "cuda" else nullcontext():
        yield request.param


@pytest.fixture
def pair(pair_at: Callable[[Place], Pair], place: Place) -> Pair:
    return pair_at(place)


def test_greedy_text_is_generates(pair: Pair, place: Place) -> None:
    """Half of the drafters in each place, in turn."""
    for drafter in some_of(GREEDY, place, 2):
        for prompt in PROMPTS if place == HOST[0] else PROMPTS[1:]:
            text = Decoder(pair, drafter).generate(prompt, NEW_TOKENS)
            assert text.tokens == generated(pair, prompt, NEW_TOKENS), drafter


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["in turn", "all"])
@pytest.mark.parametrize("place", ROUNDED, ids=str, indirect=True)
def test_greedy_texts_diverge_at_ties_only(
    pair: Pair, place: Place, every: bool, record_property: Callable[[str, object], None]
) -> None:
    """Ties by rounding: 1e-4 in float32, four times the spacing of numbers of the logits' size in the others."""
    for prompt in PROMPTS if every else PROMPTS[1:]:
        wanted = generated(pair, prompt, NEW_TOKENS)
        for drafter in GREEDY if every else some_of(GREEDY, place, 3):
            text = Decoder(pair, drafter).generate(prompt, NEW_TOKENS).tokens
            assert len(text) == NEW_TOKENS
            if (where := first_divergence(pair.target, prompt, wanted, text)) is not None:
                record_property("tie", str(where))
                coarse = 4 * torch.finfo(place.dtype).eps * max(map(abs, where.logits))
                assert where.margin <= (TIE if place.dtype == torch.float32 else coarse), where


@pytest.mark.parametrize("place", HOST[::2], ids=str, indirect=True)
def test_a_stop_token_inside_an_accepted_path_ends_the_text(pair: Pair) -> None:
    """As `generate` ends there, although drafted tokens after it were accepted."""
    cycles: list[Cycle] = []
    decoder = Decoder(pair, PlannedTree(Tree.k_ary(3, 3)))
    free = decoder.generate(PROMPTS[1], NEW_TOKENS, watch=cycles.append).tokens
    at = accumulate((len(cycle.emitted) for cycle in cycles), initial=1)
    long = ((i, cycle.emitted[0]) for i, cycle in zip(at, cycles, strict=False) if len(cycle.path) >= 2)
    stop = next(token for i, token in long if token not in free[:i])
    text = Decoder(pair, PlannedTree(Tree.k_ary(3, 3)), stop_tokens=frozenset([stop])).generate(PROMPTS[1], NEW_TOKENS)
    assert text.tokens == free[: free.index(stop) + 1] == generated(pair, PROMPTS[1], NEW_TOKENS, stop)
    assert 1 + sum(text.accepted) + len(text.accepted) > len(text.tokens)


@pytest.mark.parametrize("place", [Place("gpt2"), Place("llama")], ids=str, indirect=True)
@pytest.mark.parametrize("drafter", GREEDY, ids=str)
def test_the_context_may_end_inside_a_tree(pair: Pair, drafter: Drafter) -> None:
    """GPT-2 has no position after its last one, so that a tree that is too deep would raise."""
    prompt = [int(token) for token in np.random.default_rng(2).integers(VOCABULARY, size=CONTEXT - 12)]
    left: list[int] = []

    def look(cycle: Cycle) -> None:
        left.append(CONTEXT - 1 - len(prompt) - cycle.draft.tree.max_depth)

    text = Decoder(pair, drafter).generate(prompt, 12, watch=look)
    assert text.tokens == generated(pair, prompt, 12)
    assert (np.array(left) >= np.cumsum([0, *(1 + n for n in text.accepted[:-1])])).all()
    assert Decoder(pair, drafter).generate(prompt[:1] * (CONTEXT - 1), 1).accepted == []
    refuses("these models have 128: shorten the prompt", Decoder(pair, drafter).generate, prompt, 13)


@pytest.mark.parametrize("place", [Place("phi3")], ids=str, indirect=True)
def test_a_text_ends_with_the_original_context_of_longrope(pair: Pair) -> None:
    """After it `generate` reads the whole text anew, with other angles."""
    decoder = Decoder(pair, PlannedTree(Tree.k_ary(3, 3)))
    assert decoder.generate(PROMPTS[1][:8], 8).tokens == generated(pair, PROMPTS[1][:8], 8)
    refuses("need a context of 17, these models have 16", decoder.generate, PROMPTS[1][:8], 9)


@pytest.mark.parametrize("place", [*PLACES, *map(Place, WINDOWED)], ids=str, indirect=True)
def test_tree_logits_are_path_logits(pair: Pair) -> None:
    """Positions are depths in any order of the nodes; with consecutive positions the logits differ."""
    tree = Tree([-1, 0, 1, 0, 2, 3, 3, 4, 6])
    tokens = torch.randint(0, VOCABULARY, (tree.budget + 1,), generator=Generator().manual_seed(0)).to(pair.device)
    seen = tree.ancestor_mask()
    with torch.inference_mode():
        rows = []
        for positions in (tree.depth, np.arange(len(tokens))):
            model = CachedModel(pair.target, pair.vocab_size)
            model.forward(torch.tensor([PROMPTS[1]], device=pair.device))
            nodes = model.rows()
            nodes.add(tree.parent.tolist())
            nodes.depth[0, : len(tokens)] = torch.as_tensor(positions)
            rows.append(model.forward_tree(tokens[None], len(PROMPTS[1]), nodes))
        for node in range(tree.budget + 1):
            path = PROMPTS[1] + tokens[torch.as_tensor(seen[node])].tolist()
            alone = pair.target(torch.tensor([path], device=pair.device)).logits[0, -1].float()
            torch.testing.assert_close(rows[0][node], alone, atol=1e-5, rtol=1e-5)
    assert (rows[1] - rows[0]).abs().amax(1)[-1] > 0.01


@pytest.mark.parametrize(("target", "draft"), [*((name, name) for name in ARCHITECTURES + WINDOWED), ("gpt2", "llama")])
def test_a_local_folder_is_loaded(tiny_folders: Path, tmp_path: Path, target: str, draft: str) -> None:
    """Weights, stop tokens and context come from the folder; a padded output layer is cut to the other's."""
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_folders / "target")
    for role, architecture, vocabulary in (("target", target, 300), ("draft", draft, 300 if draft == target else 320)):
        model_of(architecture, 0.02 * (role == "draft"), vocabulary=vocabulary).save_pretrained(tmp_path / role)
        tokenizer.save_pretrained(tmp_path / role)
    pair = load_pair(tmp_path / "target", tmp_path / "draft", dtype=torch.float64)
    assert (pair.vocab_size, pair.context, pair.stop_tokens) == (300, CONTEXT, {0})
    for drafter in (PlannedTree(Tree.k_ary(3, 3)), Searched(SpecExec(12, 4))):
        text = Decoder(pair, drafter).generate(PROMPTS[1], NEW_TOKENS)
        assert text.tokens == generated(pair, PROMPTS[1], NEW_TOKENS)
        assert target != draft or sum(text.accepted) > 0


def test_a_draft_without_a_token_of_the_target_is_refused(tiny_folders: Path, tmp_path: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_folders / "target")
    tokenizer.add_tokens(["added"])
    for role, vocabulary in (("target", 320), ("draft", len(tokenizer) - 1)):
        model_of("llama", 0.0, vocabulary=vocabulary).save_pretrained(tmp_path / role)
        tokenizer.save_pretrained(tmp_path / role)
    refuses("draft .* has .* outputs for the .* tokens of .*target", load_pair, tmp_path / "target", tmp_path / "draft")


def test_models_without_sdpa_are_loaded_eager(tiny_folders: Path, tmp_path: Path) -> None:
    config = Gemma2Config(**SHAPE, vocab_size=VOCABULARY, head_dim=8, layer_types=["full_attention"] * 2)
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(config)
    restless(model, seed=1, scale=0.15)
    model.save_pretrained(tmp_path)
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_folders / "target")
    tokenizer.save_pretrained(tmp_path)
    refuses("has no SDPA: use load_pair.*attention='eager'", load_pair, tmp_path, tmp_path)
    refuses("attention must be one of sdpa, eager, got 'flash'", load_pair, tmp_path, tmp_path, attention="flash")
    pair = load_pair(tmp_path, tmp_path, dtype=torch.float64, attention="eager")
    text = Decoder(pair, PlannedTree(Tree.k_ary(3, 3))).generate(PROMPTS[1], NEW_TOKENS)
    assert text.tokens == generated(pair, PROMPTS[1], NEW_TOKENS)
    assert sum(text.accepted) > 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (MptConfig(d_model=32, n_heads=4, n_layers=1, vocab_size=VOCABULARY), "takes no position_ids"),
        (BloomConfig(hidden_size=32, n_head=4, n_layer=1, vocab_size=VOCABULARY), "takes no position_ids"),
        (FalconConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=1, alibi=True), "counts distances in"),
        (GPTNeoConfig(hidden_size=32, num_heads=4, num_layers=1, attention_types=[[["local"], 1]]), "local layers of"),
        (Qwen3Config(num_hidden_layers=1, layer_types=["chunked_attention"]), "layers without attention to the text"),
        (BertConfig(is_decoder=True), "is an encoder"),
        (Gemma3Config(), "reads more than text"),
        (Gemma4TextConfig(**SHAPE, layer_types=KINDS, head_dim=8), "has keys of several sizes"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PreTrainedConfig) else "",
)
def test_models_that_cannot_read_a_tree_are_refused(
    tiny_folders: Path, tmp_path: Path, config: PreTrainedConfig, message: str
) -> None:
    """Positions counted by rows would place siblings after each other."""
    config.save_pretrained(tmp_path)
    save_file({}, tmp_path / "model.safetensors")
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny_folders / "target")
    tokenizer.save_pretrained(tmp_path)
    refuses(message, load_pair, tmp_path, tmp_path, attention="eager")
