"""Probabilities of real vocabularies, as models give them in float32 and bfloat16, are taken everywhere."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from reference.models import Pair
from reference.tracing import TraceSettings, record_trace, replays
from spectheory import Draft, Tree
from spectheory.certify import certify_step
from spectheory.core.arrays import as_distribution, sum_tolerance
from spectheory.otlp import ALL as SOLVERS
from spectheory.planning.replayed import planned_verifiers
from spectheory.verify import ALL as VERIFIERS
from tests.helpers import refuses

CASES = list(product((2048, 49_152, 151_936, 262_144), (torch.float32, torch.bfloat16)))
"""Vocabularies of a small model, SmolLM2, Qwen 2.5 and Gemma 3."""


def softmax(vocabulary: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """(2, V) the softmax, in its own precision, of logits whose spread is that of a language model."""
    logits = 3 * torch.randn(2, vocabulary, generator=torch.Generator().manual_seed(seed))
    return torch.softmax(logits.to(dtype), -1)


@pytest.mark.parametrize(("vocabulary", "dtype"), CASES)
def test_verifiers_solvers_and_the_step_certificate_take_a_softmax(vocabulary: int, dtype: torch.dtype) -> None:
    """Their results are those of the same rows normalised in float64."""
    p, q = softmax(vocabulary, dtype, 0), softmax(vocabulary, dtype, 1)
    pairs: list[Any] = [(p, q), [rows.double() / rows.double().sum(1)[:, None] for rows in (p, q)]]
    token = int(q[0].argmax())
    for verifier in VERIFIERS:
        drafts = [Draft.in_order(Tree.chain(1), np.array([0, token]), rows, verifier.rules[0]) for _, rows in pairs]
        given, exact = (verifier.outcome(draft, rows) for draft, (rows, _) in zip(drafts, pairs, strict=True))
        for found, known in zip((*given.stop, *given.next_token), (*exact.stop, *exact.next_token), strict=True):
            assert torch.allclose(torch.as_tensor(found), torch.as_tensor(known), rtol=0, atol=1e-12)
        verifier.sample(drafts[0], p, np.random.default_rng(0))
    for solver in SOLVERS:
        if not solver.small_vocabulary_only:
            assert abs(solver.distribution(p[0], q[0], [token]).sum() - 1) < 1e-12
    draws = np.random.default_rng(0).choice(vocabulary, 50, p=pairs[1][0][0].numpy()).tolist()
    step = certify_step(lambda *_: [draws.pop()], lambda _: p[0], vocab_size=vocabulary, length=1, max_samples=50)
    assert (step.samples, step.failure) == (50, "")


@pytest.mark.parametrize(("vocabulary", "dtype"), CASES)
def test_a_trace_of_a_large_vocabulary_is_recorded_and_replayed(
    tiny: Pair, tmp_path: Path, vocabulary: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    made: Any = LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, eos_token_id=None, **sizes))
    model = made.to(dtype).eval()
    torch.nn.init.normal_(model.lm_head.weight)
    pair = Pair(model, model, tiny.tokenizer, ("target", "draft"))
    record_trace(pair, [[1, 2, 3]], TraceSettings("random", temperature=1.0, new_tokens=6), tmp_path)
    texts = replays(tmp_path, pair)
    taus = [texts.replay(Tree.chain(2), *how).tau for how in planned_verifiers(texts, Tree.chain(2))]
    assert max(taus) == pytest.approx(3, rel=1e-6), "the draft is the target: two tokens are kept"


def test_what_is_further_from_1_than_the_tolerance_is_refused() -> None:
    assert [sum_tolerance(size) for size in (10, 10_000, 262_144)] == [1e-5, 1e-5, pytest.approx(2.62144e-4)]
    assert sum_tolerance(262_144, 2) == 1 / 256
    flat = np.full(50_000, 1 / 50_000)
    refuses("got a sum of 1.0001 and a lowest entry of 2.0002e-05", as_distribution, "p", flat * 1.0001)
    assert abs(as_distribution("p", flat * 1.00004).sum() - 1) < 1e-12
    parts = torch.tensor([0.5, 0.25, 0.25], dtype=torch.bfloat16)
    rounded = parts + torch.tensor([0.0, 0.0, 2**-9])
    assert as_distribution("p", rounded.bfloat16()).sum() == 1
    refuses("got a sum of 1.00195", as_distribution, "p", rounded.float())
    refuses("got a sum of 1.01562", as_distribution, "p", parts + parts / 64)
