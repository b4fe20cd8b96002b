"""The first difference of two answers at temperature 0, and how much its margin exceeds rounding."""

from __future__ import annotations

import json
import math
from contextlib import suppress

from spectheory.certify.completions import Answer, Body


def difference(body: Body, right: Answer, answer: Answer) -> tuple[int, float, str]:
    """The first difference of an answer from the right one: token, margin and a sentence.

    The margin is how much larger the log-probability of the right token is, at least: 0 if this is unknown, infinite if
    no rounding explains the difference, and -infinity for equal answers, whose sentence is empty.
    """
    both = right.tokens and answer.tokens
    one, other = (list(right.tokens), list(answer.tokens)) if both else (list(right.text), list(answer.text))
    shorter = min(len(one), len(other))
    i = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    ended = answer.finish == "stop" or answer.text.startswith(right.text)
    broken = "response_format" in body and ended and _is_json(right.text) and not _is_json(answer.text)
    listed = one == other or "stop" in body  # vLLM lists what it accepted after it, too
    if listed and right.text == answer.text and not broken:
        return i, -math.inf, ""
    says = f"token {i} is {''.join(other[i : i + 1])!r:.40} instead of {''.join(one[i : i + 1])!r:.40}"
    limited = both and (right if i == len(one) else answer).finish == "length"
    missed = any(stop in answer.text and stop not in right.text for stop in body.get("stop", ()))
    if broken or missed or one == other or (i == shorter and limited):
        return i, math.inf, f"{says}, which no rounding explains"
    if not both or i == len(one):
        return i, 0.0, says
    log = min(right.logprobs[i], -1e-9)
    margin = log - _at_most(right.top[i], other[i : i + 1], math.log(-math.expm1(log)))
    says += f", whose log-probability is {margin:.2f} larger"
    if i < len(other) and answer.top[i]:
        own = _at_most(answer.top[i], one[i : i + 1], 0.0) - answer.logprobs[i]
        says += ", by the server too: not sampled as computed" if own > 0 else ", but not by the server"
    return i, margin, says


def _at_most(top: dict[str, float], token: list[str], others: float) -> float:
    """The log-probability of a token, or a bound if it is not among the most probable ones, or the end."""
    return next((top.get(one, min(others, *top.values())) for one in token if top), others)


def _is_json(text: str) -> bool:
    with suppress(ValueError):
        json.loads(text)
        return True
    return False
