"""The two random generators of a text: one for the drafter, one for the verifier."""

from __future__ import annotations

import numpy as np
from torch import Generator

from reference.models import Pair


def streams(pair: Pair, *seed: int) -> tuple[Generator, np.random.Generator]:
    """The drafter's generator, on the device of the models, and the verifier's, on the host.

    They are independent of each other, and of the generators of every other `seed` with as many numbers.
    """
    drafting, verifying = np.random.SeedSequence(seed).spawn(2)
    return Generator(pair.device).manual_seed(int(drafting.generate_state(1)[0])), np.random.default_rng(verifying)
