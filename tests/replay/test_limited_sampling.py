"""Traces with top-k and top-p: recorded, replayed, planned and decoded with the same sampling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

import spectheory as st
from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.models import Pair
from reference.random_streams import streams
from reference.sampling import Sampling
from reference.tracing import TraceSettings, acceptance, by_request, record_trace, replays
from spectheory.otlp import RRS
from spectheory.replay import TargetText
from spectheory.verify import TopDown, Traversal, Verifier
from tests.refusals import refuses
from tests.replay.inputs import prompts
from tests.replay.test_planned import TREE

FEW, MANY, TOKENS = 10, 48, 30
LIMITED = [Sampling(1.0, top_k=5), Sampling(0.8, top_p=0.8), Sampling(1.0, 8, 0.9)]
VERIFIERS = [TopDown(RRS()), Traversal()]
IN_TURN = [
    *(
        pytest.param((sampling, FEW), VERIFIERS[i % 2], id=f"{sampling}, {VERIFIERS[i % 2]}, few texts")
        for i, sampling in enumerate(LIMITED)
    ),
    *(
        pytest.param((sampling, MANY), verifier, marks=pytest.mark.deep, id=f"{sampling}, {verifier}, many texts")
        for sampling in LIMITED
        for verifier in VERIFIERS
    ),
]
"""Each sampling with one of the verifiers, in turn, on few texts; deep, with both, on many."""


def settings(sampling: Sampling) -> TraceSettings:
    return TraceSettings("random", sampling.temperature, 4, TOKENS, top_k=sampling.top_k, top_p=sampling.top_p)


def ratio(emitted: np.ndarray, cycles: np.ndarray) -> tuple[float, float]:
    """Tokens per cycle and its squared standard error, with texts as clusters."""
    tau = emitted.sum() / cycles.sum()
    return tau, ((emitted - tau * cycles) ** 2).sum() / cycles.sum() ** 2


@pytest.fixture(scope="module")
def traced(
    request: pytest.FixtureRequest, tiny: Pair, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Sampling, Path]:
    """A sampling with the folder of a trace of so many texts."""
    (sampling, texts), folder = request.param, tmp_path_factory.mktemp("traced")
    record_trace(tiny, prompts(texts), settings(sampling), folder)
    return sampling, folder


@pytest.mark.parametrize(("traced", "verifier"), IN_TURN, indirect=["traced"])
def test_a_trace_predicts_the_cycles_of_the_decoder(
    tiny: Pair, traced: tuple[Sampling, Path], verifier: Verifier
) -> None:
    """The difference of tau on other texts of the same prompts, in its standard errors, by Student's t with a degree of
    freedom for each text but one: an error level of 6e-5 for each row.
    """
    sampling, folder = traced
    texts = replays(folder, tiny)
    for text in texts.texts:
        assert isinstance(text, TargetText)
        assert sampling.top_k is None or ((text.p > 0).sum(1) <= sampling.top_k).all()
    found = texts.replay(TREE, verifier, st.DrawRule.NO_REPLACEMENT)
    decoder, counted = Decoder(tiny, PlannedTree(TREE), sampling, verifier), []
    for request, prompt in enumerate(prompts(len(texts.texts))):
        accepted = np.array(decoder.generate(prompt, TOKENS, *streams(tiny, 7, request)).accepted)
        starts = 1 + np.concatenate([[0], np.cumsum(accepted + 1)[:-1]])
        whole = starts < TOKENS - TREE.max_depth
        counted.append(((accepted + 1)[whole].sum(), whole.sum()))
    (replayed, one), (measured, other) = ratio(found.emitted, found.cycles), ratio(*np.array(counted, float).T)
    assert abs(replayed - measured) <= t.isf(3e-5, len(texts.texts) - 1) * np.sqrt(one + other)


def test_the_texts_and_the_stamp_of_a_trace_are_of_its_sampling(tiny: Pair, tmp_path: Path) -> None:
    sampling = LIMITED[2]
    record_trace(tiny, prompts(3), settings(sampling), tmp_path)
    rates = acceptance(tmp_path, min_trials=1)
    assert Sampling.of(rates.provenance) == sampling
    assert rates.provenance.sampling == "temperature 1 and top-k 8 and top-p 0.9"
    assert rates.ranks == 4
    assert not any((ranks < -1).any() for ranks in by_request(tmp_path, "target_rank"))
    for other in (Sampling(1.0), Sampling(1.0, 8), Sampling(1.0, 7, 0.9), Sampling(0.9, 8, 0.9)):
        refuses("holds a trace with", record_trace, tiny, prompts(3), settings(other), tmp_path)


def test_limits_without_a_meaning_are_refused() -> None:
    refuses("top_k=5 and top_p=1 have no effect at temperature 0", TraceSettings, "random", top_k=5)
    refuses("top_k=None and top_p=0.5 have no effect at temperature 0", TraceSettings, "random", top_p=0.5)
    refuses("top_k must be a whole number of at least 1", TraceSettings, "random", temperature=1.0, top_k=0)
    refuses("top_p must be above 0 and at most 1", TraceSettings, "random", temperature=1.0, top_p=1.5)


@pytest.mark.parametrize("given", [{"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": 2.5}, {"top_k": True}])
def test_a_provenance_has_limits_that_sampling_has(given: dict[str, float]) -> None:
    refuses(f"{next(iter(given))} of the provenance", st.Provenance.from_dict, {"source": "test", **given})


def test_a_plan_by_replay_needs_rates_of_the_sampling_of_the_trace(tiny: Pair, tmp_path: Path) -> None:
    record_trace(tiny, prompts(3), settings(LIMITED[0]), tmp_path)
    rates = acceptance(tmp_path, min_trials=1)
    assert len(replays(tmp_path, tiny, rates=rates).texts) == 3
    other = replace(rates, provenance=rates.provenance.replace(top_k=None))
    refuses(
        "has temperature 1 and top-k 5, but the acceptance rates have temperature 1", replays, tmp_path, rates=other
    )
