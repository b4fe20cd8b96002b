"""Certify the rejection sampler of the installed Hugging Face transformers, and show what it does in edge cases.

python examples/certify_hugging_face.py
spectheory certify examples.certify_hugging_face:verify --shape 1,1 --tv 0.03
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import torch
import transformers
from transformers.generation.utils import _speculative_sampling

from spectheory import Draft, DrawRule, Levels, Tree
from spectheory.certify import as_step, certify_step, markov_world


def logits(distributions: Any) -> torch.Tensor:
    """Distributions as logits, one row per node, in a batch of one."""
    return torch.tensor(np.array(distributions, dtype=np.float64)).log()[None]


def verify(draft: Draft, p: Any, rng: Any) -> tuple[int, int]:
    """Verify one drafted path with transformers' sampler; returns (last accepted node, next token)."""
    torch.manual_seed(int(rng.integers(2**62)))
    path = torch.tensor(draft.tokens[1:])[None]
    tokens, accepted = _speculative_sampling(path, logits(draft.q[:-1]), path.shape[1], logits(p))
    return int(accepted), int(tokens[0, -1])


def forced(coin: float, p: list[float], q: list[float], token: int) -> str:
    """What the sampler does with one drafted token if its random number, the coin, is `coin`."""
    draft = Draft.in_order(Tree.chain(1), np.array([0, token]), [q, q], DrawRule.IID)
    with mock.patch("torch.rand_like", lambda like: torch.full_like(like, coin)):
        try:
            node, _ = verify(draft, [p, p], np.random.default_rng(0))
        except RuntimeError as error:
            return f"raises RuntimeError: {str(error).splitlines()[0]}"
    return "accepts it" if node else "rejects it"


def main(max_samples: int = 200_000, tv: float = 0.05) -> None:
    """Print the certificate and what happens in edge cases."""
    world = markov_world(4)
    step = as_step(verify, Levels((1, 1)), world)
    certificate = certify_step(
        step, world.p, contexts=((), (1,)), vocab_size=4, alpha=1e-3, tv=tv, max_samples=max_samples
    )
    print(f"transformers {transformers.__version__}, _speculative_sampling, two drafted tokens")
    print("\n".join(certificate.lines()))
    print("a token of p = 0, coin exactly 0:", forced(0.0, [1.0, 0.0], [0.5, 0.5], 1))
    print("p = q, coin just below 1:", forced(1 - 2**-24, [0.5, 0.5], [0.5, 0.5], 1))
    print("p = q, a rejection that only rounding can cause:", forced(1 + 2**-23, [0.5, 0.5], [0.5, 0.5], 1))


if __name__ == "__main__":
    main()
