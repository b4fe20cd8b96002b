"""Every decoder and command runs on a GPU as on the host. A machine without a GPU plays one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import spectheory as st
from reference import compare, prompts
from reference.compare import Entrant, entrants
from reference.decode import Decoder
from reference.library_sources import standard_library
from reference.models import Pair, load_pair
from reference.random_streams import streams
from reference.sampling import Sampling
from tests.cli.test_cli import Run, pair, records, run
from tests.enumeration import covering
from tests.helpers import known
from tests.reference.played import gpu

__all__ = ["pair", "run"]

PLAYED = not torch.cuda.is_available()
PROMPTS = [[10 * i + j for j in range(8)] for i in range(10)]
PLAN = st.plan(st.Acceptance.by_rank([0.6, 0.2, 0.1]), st.Latency.constant(draft_seconds=0.05), max_budget=6)
SAMPLINGS = Sampling(), Sampling(1.0), Sampling(0.8, top_k=40, top_p=0.9)
NEW_TOKENS, SEED = 12, 2
"""Enough after `PROMPTS[3]`, with this seed, that most decoders accept and reject drafted tokens."""


def text(pair: Pair, one: Entrant) -> list[int]:
    decoder = Decoder(pair, known(one.drafter), one.sampling, known(one.verifier), stop_tokens=())
    return decoder.generate(PROMPTS[3], NEW_TOKENS, *streams(pair, SEED)).tokens


@pytest.fixture(scope="module")
def there(tiny_folders: Path) -> Pair:
    with gpu():
        return load_pair(tiny_folders / "target", tiny_folders / "draft", device="cuda", dtype=torch.float64)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["few", "all"])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_texts_are_those_of_the_host(
    tiny: Pair, there: Pair, sampling: Sampling, every: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token for token where the GPU is played, which has the host's random numbers and rounds as it does.

    Each drafter and each verifier; deep, each drafter with each verifier.
    """
    ours = [one for one in entrants(tiny, PLAN, sampling) if one.drafter]
    tried = ours if every else covering(ours, lambda one: [one.name, str(one.verifier)])
    with gpu():
        found = [text(there, one) for one in tried]
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)  # the host is to do as a GPU does, not what is faster there
    for one, tokens in zip(tried, found, strict=True):
        assert len(tokens) == NEW_TOKENS
        assert not (PLAYED or sampling.greedy) or tokens == text(tiny, one), str(one)


FEW = ("--device", "cuda", "--prompt-tokens", 16, "--new-tokens")
COMMANDS = {
    "trace": ("trace", *FEW, 24, "--count", 5, "--temperature", 1, "--out", "trace"),
    "profile": ("profile", *FEW[:2], "--largest", 2, "--contexts", 8, "--rounds", 2, "--out", "seconds.json"),
    "decode": ("decode", *FEW, 12, "--count", 2, "--skip", 0, "--plan", "plan.json"),
    "compare": ("compare", *FEW, 60, "--count", 1, "--skip", 4, "--temperatures", 1, "--only", "Block", "--out", "c"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_run(run: Run, pair: list[object], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On few tokens and a small corpus: what they compute is tested on the host, texts above."""
    small = [file for file in standard_library() if file.name.startswith("json/")]
    monkeypatch.setattr(prompts, "standard_library", lambda: small)
    monkeypatch.setattr("reference.planning_loop.MAX_BUDGET", 8)
    monkeypatch.setattr(compare, "WARM_UP_TOKENS", 2)
    records(run)
    with gpu():
        status, out, err = run(*COMMANDS[name], *(pair[:4] if name == "profile" else pair))
    assert (status, bool(out)) == (0, True), err
