"""The probes of a served model: requests in which one thing changes, and the first difference of two answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from spectheory.certify.completions import Answer, Body
from spectheory.core.files import shipped

TOKENS, DRAWN_TOKENS, AT_ONCE = 64, 12, 8
"""Tokens of a greedy text and of a drawn one; requests at once."""
SAMPLED = ({"temperature": 0.6}, {"temperature": 1.0, "top_p": 0.8})
ONE_LEFT = [{"temperature": temperature, "top_p": 0.001} for temperature in (1.0, 0.9, 0.8, 0.7)]
"""Sampling in which top-p leaves one token, so that the text is the greedy one."""
JSON_MODE = {"response_format": {"type": "json_object"}}
SUSPECTS = {
    "alone": "verification",
    "log-probabilities": "those of the draft, or none, are reported",
    "again": "state that a request leaves to later ones",
    "prefixes": "the prefix cache",
    "at once": "rows of requests that run at once",
    "JSON mode": "the grammar at temperature 0",
    "ends": "stop strings or token limits inside an accepted run",
    "long": "long contexts",
    "one token left": "acceptance of tokens that top-p removes",
    "streamed": "streaming",
    "drawn": "acceptance or sampling above temperature 0",
    "drawn JSON": "the grammar above temperature 0",
    "drawn at once": "rows or random numbers that requests share",
}


@dataclass(frozen=True)
class Scene:
    """Requests that are sent one after another, or at once, and the indices of the answers that are compared.

    The right answer is the plain server's. If requests that are sent alone fail and this scene has its `own` right
    answer, it is the server's first one.
    """

    bodies: tuple[Body, ...]
    compared: tuple[int, ...] = (0,)
    at_once: bool = False
    own: bool = False


def prompts_of(count: int) -> list[str]:
    """`count` texts of several kinds, some without their last words, so that cycles end at different places."""
    texts = shipped("served_prompts.txt").split("\n---\n")
    return [texts[i % len(texts)].strip().rsplit(None, i // len(texts))[0] for i in range(count)]


def greedy(prompt: str, tokens: int = TOKENS, **more: Any) -> Body:
    """A request at temperature 0, with the log-probabilities of the most probable tokens."""
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 5, **more}


def reference(body: Body) -> Body:
    """The request to which the plain answer is the right one: at temperature 0, and not streamed."""
    return {name: value for name, value in body.items() if name not in ("stream", "top_p")} | {"temperature": 0}


def scenes(prompts: Sequence[str], plain: Callable[[Body], Answer]) -> dict[str, Iterator[Scene]]:
    """The scenes of each probe at temperature 0. Some depend on answers of the plain server."""
    bodies = [greedy(prompt) for prompt in prompts]
    some, common, pairs = bodies[:12], "\n".join(prompts), zip(bodies[:23], [*bodies[1:], bodies[0]], strict=False)
    groups = [tuple(bodies[i : i + AT_ONCE]) for i in range(0, len(bodies), AT_ONCE)]
    return {
        "alone": (Scene((body,)) for body in bodies),
        "again": (Scene((one, other | SAMPLED[1], one), (2,), own=True) for one, other in pairs),
        "prefixes": (_conversation(common[:800], body, plain) for body in some),
        "at once": (Scene(group, tuple(range(len(group))), at_once=True) for group in groups),
        "JSON mode": (Scene((greedy(f"{body['prompt']}\nAs JSON:", **JSON_MODE),)) for body in some),
        "ends": (scene for i, body in enumerate(some) for scene in _ends(i, body, plain)),
        "long": (Scene((greedy(f"{common[:6000]}\n{body['prompt']}"),)) for body in some[:6]),
        "one token left": (Scene((body | sampling,)) for sampling in ONE_LEFT for body in bodies),
        "streamed": (Scene((body | {"stream": True},)) for body in some),
    }


def _conversation(common: str, body: Body, plain: Callable[[Body], Answer]) -> Scene:
    """A question twice, and twice with its answer and another question: with and without hits of the prefix cache."""
    first = greedy(f"{common}\n{body['prompt']}")
    more = greedy(f"{first['prompt']}{plain(first).text}\n{body['prompt']}")
    return Scene((first, first, more, more), (0, 1, 2, 3))


def _ends(i: int, body: Body, plain: Callable[[Body], Answer]) -> Iterator[Scene]:
    """A token limit, and stop strings at every fourth token with a limit right behind, so that one run has both."""
    yield Scene((body | {"max_tokens": 2 + i},))
    tokens = plain(body).tokens[:32]
    for k in range(2 + i % 4, len(tokens), 4):
        if tokens[k].strip() and tokens[k] not in tokens[:k]:
            yield Scene((body | {"stop": [tokens[k]], "max_tokens": k + 2},))


def drawn(name: str, prompts: Sequence[str], plain: Callable[[Body], Answer]) -> list[Body]:
    """Requests of a probe above temperature 0, in JSON mode or after the first 0, 1, 2, ... tokens of a greedy text."""
    if name == "drawn JSON":
        return [greedy(f"{prompt}\nAs JSON:", 2 * DRAWN_TOKENS, **JSON_MODE) | SAMPLED[0] for prompt in prompts[:6]]
    starts = [prompt + "".join(plain(greedy(prompt)).tokens[:i]) for i, prompt in enumerate(prompts[:6])]
    return [greedy(start, DRAWN_TOKENS) | sampling for start in starts for sampling in SAMPLED]


class Compared(NamedTuple):
    """An answer to request `i` of a scene, and its first difference from the right one: token, margin and a sentence.

    The margin is how much larger the log-probability of the right token is, at least: 0 if this is unknown, infinite if
    no rounding explains the difference, and -infinity for equal answers, whose sentence is empty.
    """

    scene: Scene
    i: int
    right: Answer
    answer: Answer
    token: int
    margin: float
    says: str


def compared(scene: Scene, i: int, right: Answer, answer: Answer) -> Compared:
    """Compare the answer to a request at temperature 0 with the right one."""
    body, both = scene.bodies[i], right.tokens and answer.tokens
    one, other = (list(right.tokens), list(answer.tokens)) if both else (list(right.text), list(answer.text))
    shorter = min(len(one), len(other))
    k = next((k for k in range(shorter) if one[k] != other[k]), shorter)
    due, came = (tokens[k] if k < len(tokens) else None for tokens in (one, other))
    ended = answer.finish == "stop" or answer.text.startswith(right.text)
    broken = "response_format" in body and ended and _is_json(right.text) and not _is_json(answer.text)
    missed = any(stop in answer.text and stop not in right.text for stop in body.get("stop", ()))
    limited = k == shorter and both and (right if k == len(one) else answer).finish == "length"
    listed = one == other or "stop" in body  # vLLM lists what it accepted after it, too
    margin, says = 0.0, f"token {k} is {came or ''!r:.40} instead of {due or ''!r:.40}"
    if listed and right.text == answer.text and not broken:
        margin, says = -math.inf, ""
    elif broken or missed or limited or one == other:
        margin, says = math.inf, f"{says}, which no rounding explains"
    elif both and due is not None:
        log = min(right.logprobs[k], -1e-9)
        margin = log - _at_most(right.top[k], came, math.log(-math.expm1(log)))
        says += f", whose log-probability is {margin:.2f} larger"
        if came is not None and answer.top[k]:
            own = _at_most(answer.top[k], due, 0.0) - answer.logprobs[k]
            says += ", by the server too: not sampled as computed" if own > 0 else ", but not by the server"
    return Compared(scene, i, right, answer, k, margin, says)


def _at_most(top: dict[str, float], token: str | None, others: float) -> float:
    """The log-probability of a token, or a bound if it is not among the most probable ones, or None for the end."""
    return top.get(token, min(others, *top.values())) if token is not None and top else others


def _is_json(text: str) -> bool:
    with suppress(ValueError):
        json.loads(text)
        return True
    return False


def smaller(fault: Compared) -> Iterator[Scene]:
    """Scenes that may show a fault too: fewer requests, shorter prompts, no tokens after the different one."""
    scene, i, bodies, n = fault.scene, fault.i, fault.scene.bodies, len(fault.scene.bodies)
    if scene.at_once and n > 1:
        others = [body for j, body in enumerate(bodies) if j != i]
        yield replace(scene, bodies=(bodies[i], *others[n // 2 :]), compared=(0,))
    elif n > 1 and not scene.own:
        yield replace(scene, bodies=bodies[1:] if i else bodies[:1], compared=(max(i - 1, 0),))
    words = [body["prompt"].split(" ") for body in bodies]
    if min(map(len, words)) > 3:
        halves = [" ".join(text[len(text) // 2 :]) for text in words]
        shorter = tuple(body | {"prompt": half} for body, half in zip(bodies, halves, strict=True))
        yield replace(scene, bodies=shorter, compared=(i,))
    if fault.token + 1 < bodies[i]["max_tokens"]:
        cut = tuple(body | {"max_tokens": fault.token + 1} if body == bodies[i] else body for body in bodies)
        yield replace(scene, bodies=cut, compared=(i,))
