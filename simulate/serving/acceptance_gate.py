"""The rule of TensorRT-LLM's acceptance gate, compiled: too few accepted tokens end speculation for good.

`numbers` holds the size of the window and the threshold. `memory` holds, after the last tier, whether speculation has
ended, the number of requests so far, and the accepted tokens per iteration of the last requests, as many as the window.
See `simulate.controllers.tensorrt_llm` for the rule in words.
"""

from __future__ import annotations

import numpy as np

from spectheory.core.compiling import compiler

WINDOW, THRESHOLD = range(2)
DISABLED, REQUESTS, HISTORY = 1, 2, 3


@compiler(cache=True)
def is_disabled(memory: np.ndarray) -> bool:
    """Whether speculation has ended."""
    return memory[DISABLED] > 0


@compiler(cache=True)
def record_request(numbers: np.ndarray, memory: np.ndarray, tokens: int, cycles: int) -> None:
    """Take a complete request into the window. Its prompt counts as an iteration, with the first token."""
    window = int(numbers[WINDOW])
    if memory[DISABLED] > 0 or window == 0:
        return
    memory[HISTORY + int(memory[REQUESTS]) % window] = max(0.0, tokens / (cycles + 1) - 1)
    memory[REQUESTS] += 1
    if memory[REQUESTS] >= window:
        total = 0.0
        for place in range(HISTORY, HISTORY + window):
            total += memory[place]
        if total / window < numbers[THRESHOLD]:
            memory[DISABLED] = 1
