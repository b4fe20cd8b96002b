"""Every combination and command runs on a GPU as on the host. A machine without a GPU plays one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from reference import combinations, prompts
from reference.combinations import Combination, lossless_combinations
from reference.decode import Decoder
from reference.drafters import SuffixArray
from reference.drafters.static import full_tree
from reference.library_sources import standard_library
from reference.models import Pair, load_pair
from reference.random_streams import streams
from reference.sampling import Sampling
from tests.cli.test_cli import Run, pair, records, run
from tests.covering import covering
from tests.reference.played import gpu

__all__ = ["pair", "run"]

PLAYED = not torch.cuda.is_available()
PROMPTS = [[10 * i + j for j in range(8)] for i in range(10)]
GREEDY, WHOLE, SOME = (
    [*lossless_combinations(sampling, full_tree((3, 2, 1)), SuffixArray.build(PROMPTS))]
    for sampling in (Sampling(), Sampling(1.0), Sampling(0.8, top_k=40, top_p=0.9))
)
SAMPLED = [*WHOLE, *SOME]
EACH_FAMILY = covering(GREEDY, lambda one: (one.policy.family,))
COVERING = covering(SAMPLED, lambda one: (one.policy.name, (one.policy.family, one.sampling.top_k), one.verifying))
COMBINATIONS = [
    pytest.param(one, marks=[] if one in EACH_FAMILY or one in COVERING else [pytest.mark.deep])
    for one in (*GREEDY, *SAMPLED)
]
"""Each drafter, each family of drafters with greedy text and with text sampled from all and some tokens, each verifier.

Deep, each drafter with each verifier. On the host, tests/reference/test_matrix.py runs each drafter with each verifier;
greedy texts of each drafter on a GPU are in tests/reference/test_model_shapes.py.
"""
NEW_TOKENS, SEED = 12, 2
"""Enough after `PROMPTS[3]`, with this seed, that most combinations accept and reject drafted tokens."""


def text(pair: Pair, combination: Combination) -> list[int]:
    decoder = Decoder(pair, combination.policy.drafter, combination.sampling, combination.verifier)
    return decoder.generate(PROMPTS[3], NEW_TOKENS, *streams(pair, SEED)).tokens


@pytest.fixture(scope="module")
def there(tiny_folders: Path) -> Pair:
    """The pair on the GPU."""
    with gpu():
        return load_pair(tiny_folders / "target", tiny_folders / "draft", device="cuda", dtype=torch.float64)


@pytest.mark.parametrize(
    "combination", COMBINATIONS, ids=lambda one: f"{one.name}{' of some tokens' * (one.sampling.top_k is not None)}"
)
def test_texts_are_those_of_the_host(
    tiny: Pair, there: Pair, combination: Combination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token for token where the GPU is played, which has the host's random numbers and rounds as it does."""
    with gpu():
        found = text(there, combination)
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)  # the host is to do as a GPU does, not what is faster there
    if PLAYED or combination.sampling.greedy:
        assert found == text(tiny, combination)
    else:
        assert len(found) == NEW_TOKENS


FEW = ("--device", "cuda", "--prompt-tokens", 16, "--new-tokens")
COMMANDS = {
    "trace": ("trace", *FEW, 24, "--count", 5, "--candidates", 4, "--temperature", 1, "--out", "trace"),
    "profile": ("profile", *FEW[:2], "--largest", 2, "--contexts", 8, "--rounds", 2, "--out", "seconds.json"),
    "decode": ("decode", *FEW, 12, "--count", 2, "--skip", 0, "--plan", "plan.json", "--temperature", 1),
    "generate": ("generate", *FEW[:2], "--new-tokens", 5, "--plan", "plan.json", "import json"),
    "clock": ("clock", *FEW, 4, "--count", 1, "--skip", 1, "--rounds", 1, "--plan", "plan.json", "--temperature", 1),
    "matrix": (
        *("matrix", *FEW, 30, "--count", 1, "--skip", 4, "--temperatures", 1, "--only", "chain of 5"),
        *("--out", "matrix"),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_run(run: Run, pair: list[object], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On few tokens, a small corpus and every sixth verifier: what they compute is tested on the host, texts above."""
    small = [file for file in standard_library() if file.name.startswith("json/")]
    monkeypatch.setattr(prompts, "standard_library", lambda: small)
    monkeypatch.setattr(combinations, "VERIFIERS", combinations.VERIFIERS[::6])
    records(run)
    command, *options = COMMANDS[name]
    models = pair[:4] if name in ("profile", "generate") else pair
    with gpu():
        status, out, err = run(command, *models, *options)
    assert (status, bool(out)) == (0, True), err
