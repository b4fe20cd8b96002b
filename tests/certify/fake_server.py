"""A server of completions with a tiny language model, with speculation and without it, and with planted faults."""

from __future__ import annotations

import json
import random
import re
import threading
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any
from zlib import crc32

import numpy as np

WORDS, BLOCK, CHAIN = 20, 16, 4
TEXTS = [*(f" w{i}" for i in range(WORDS)), '{"n":[', "7", ",", "]}", ""]
OPEN, SEVEN, COMMA, CLOSE, END = range(WORDS, WORDS + 5)
GRAMMAR = {0: [OPEN], OPEN: [SEVEN], SEVEN: [COMMA, CLOSE], COMMA: [SEVEN], CLOSE: [END]}
NUMBERS = {text: i for i, text in enumerate(TEXTS)}
FAULTS = {
    "state kept after a request": "again", "cache keyed without the drafted tokens": "prefixes",
    "grammar advanced by rejected tokens": "JSON mode", "and only above temperature 0": "drawn JSON",
    "temperature dropped on drafts": "drawn", "shared random stream": "drawn at once", "coin of 0": "one token left",
    "positions off by one": "alone", "stop string missed": "ends", "rows of another request": "at once",
    "bonus from the draft": "alone", "top-p on one side": "one token left",
    "log-probabilities of drafts": "log-probabilities", "only at 8": "at once",
}  # fmt: skip
"""For each fault, the probe that must find it."""
STALE, PLAIN = "stale draft weights", None
tables = np.random.default_rng(7)
BASE = tables.normal(0, 2.0, (WORDS + 5, WORDS + 5, WORDS))
MEMORY, PLACE = tables.normal(0, 1.0, (8, WORDS)), tables.normal(0, 0.7, (4, WORDS))
DRAFT, WRONG = tables.normal(0, 1.0, BASE.shape), tables.normal(0, 4.0, BASE.shape)
ROUNDING = tables.normal(0, 0.01, 100_000).tolist()
Row = tuple[int, int, int, int, int]
"""The last two tokens, the memory of the blocks before, the place, the last token of the grammar or -1."""


@cache
def law(row: Row, of: str, temperature: float = 1, top_p: float = 1) -> tuple[list[float], list[float], list[float]]:
    """The log-probabilities of the tokens, their probabilities at this temperature and top-p, and the sums of these."""
    one, two, memory, place, state = row
    logs = np.full(len(TEXTS), -1e9)
    if state >= 0:
        logs[GRAMMAR[state]] = [0.0, 1.0 if place > 1 and of == "target" else -1.0][: len(GRAMMAR[state])]
    else:
        parts = {"target": MEMORY[memory] + PLACE[place], "draft": DRAFT[one, two], STALE: WRONG[one, two]}
        logs[:WORDS], logs[END] = BASE[one, two] + parts[of], -3.0
    logs = (logs - np.logaddexp.reduce(logs)).clip(-99)
    weights = np.exp((logs - logs.max()) / (temperature or 1e-9)) * (logs > -99)
    order = np.argsort(-weights)
    weights[order[1 + np.searchsorted(np.cumsum(weights[order]) / weights.sum(), top_p) :]] = 0
    weights = (weights / weights.sum()).tolist()
    return logs.tolist(), weights, list(accumulate(weights))


@cache
def tokens_of(text: str) -> list[int]:
    return [NUMBERS.get(one, crc32(one.encode()) % WORDS) for one in re.findall(r"\s*\S+", text)]


class Model:
    """`fault` is a planted one, "" for a right server with speculation, PLAIN for one without it."""

    def __init__(self, fault: str | None, seed: int) -> None:
        self.fault, self.rng, self.left, self.cache = fault, random.Random(seed), 0, dict[tuple[int, ...], int]()

    def __call__(self, bodies: Sequence[dict[str, Any]]) -> list[list[Any]]:
        seed = self.rng.random()
        return [[Run(self, bodies, i, seed).answer()] for i in range(len(bodies))]


class Run:
    """Request `i` of those that run at once."""

    def __init__(self, model: Model, bodies: Sequence[dict[str, Any]], i: int, seed: float) -> None:
        self.model, self.fault, self.body = model, model.fault, bodies[i]
        self.rng = random.Random(seed) if self.fault == "shared random stream" else model.rng
        self.temperature, self.top_p = self.body["temperature"], self.body.get("top_p", 1.0)
        self.of = STALE if self.fault == STALE else "draft"
        self.memory, self.grammar, self.tokens, self.rows = 0, -1, [0, 0], list[dict[str, Any]]()
        for token in tokens_of(self.body["prompt"]):
            self.append(token, token)
        self.grammar = 0 if "response_format" in self.body else -1
        self.off = int(self.fault == "only at 8" and len(bodies) >= 8)
        if self.fault == "state kept after a request":
            self.memory = (self.memory + model.left) % 8
        if self.fault == "rows of another request" and len(bodies) > 1:
            self.memory = crc32(bodies[i - 1]["prompt"].encode()) % 8

    def append(self, token: int, drafted: int) -> None:
        """Add a token. `drafted` was in its place in the cache."""
        self.tokens.append(token)
        if self.grammar >= 0:
            hot = self.fault == "and only above temperature 0" and self.temperature
            self.grammar = drafted if hot or self.fault == "grammar advanced by rejected tokens" else token
        if len(self.tokens) % BLOCK == 0:
            block, before = self.tokens[-BLOCK:], self.memory
            self.memory = crc32(bytes(block), before) % 8
            if self.fault == "cache keyed without the drafted tokens":
                poisoned = crc32(bytes([*block[:-1], drafted]), before) % 8
                kept = self.model.cache.setdefault(tuple(self.tokens), poisoned)
                self.memory = kept if drafted == token else self.memory

    def law(self, of: str, drafts: Sequence[int] = (), hot: float = 0, cut: float = 0) -> Any:
        """The `law` after these drafts, at the temperature and top-p of the request or at other ones."""
        one, two = [*self.tokens[-2:], *drafts][-2:]
        state = drafts[-1] if drafts and self.grammar >= 0 else self.grammar
        place = (len(self.tokens) + len(drafts) + self.off) % 4
        return law((one, two, self.memory, place, state), of, hot or self.temperature, cut or self.top_p)

    def pick(self, sums: Sequence[float]) -> int:
        return min(bisect(sums, self.rng.random() * sums[-1]), END)

    def cycle(self) -> Iterator[tuple[int, bool]]:
        """The tokens of a cycle, and whether they are accepted drafts. The prompt gives the first one of a text."""
        drafts: list[int] = []
        hot = float(self.temperature > 0 and self.fault == "temperature dropped on drafts")
        while self.fault is not PLAIN and self.rows and len(drafts) < CHAIN and not {END, CLOSE} & set(drafts):
            drafts.append(self.pick(self.law(self.of, drafts, hot)[2]))
        for drafted in [*drafts, -1]:
            draft_logs, q, draft_sums = self.law(self.of if drafts else "target")
            logs, p, sums = self.law("target", cut=float(drafted >= 0 and self.fault == "top-p on one side"))
            if drafted < 0 and drafts and self.fault == "bonus from the draft":
                token = self.pick(draft_sums)
            elif self.temperature:
                token = self.verified(drafted, p, q) if drafted >= 0 else self.pick(sums)
            else:
                start = int(self.rng.random() * 90_000)
                logs = [a + b for a, b in zip(logs, ROUNDING[start : start + len(TEXTS)], strict=True)]
                token = logs.index(max(logs))
            logs = draft_logs if token == drafted and self.fault == "log-probabilities of drafts" else logs
            top = () if self.temperature else sorted(range(len(logs)), key=logs.__getitem__)[-5:]
            shown = [{"token": TEXTS[i], "logprob": logs[i]} for i in (token, *top)]
            self.rows.append(shown[0] | {"top_logprobs": shown})
            self.append(token, token if drafted < 0 else drafted)
            yield token, token == drafted
            if token != drafted:
                self.model.left = drafted % 8
                break
        self.off += drafts != [] and drafted < 0 and self.fault == "positions off by one"

    def verified(self, drafted: int, p: Sequence[float], q: Sequence[float]) -> int:
        """The drafted token, or one from the residual."""
        coin = int(self.rng.random() * 256) / 256 if self.fault == "coin of 0" else self.rng.random()
        if coin * q[drafted] <= p[drafted]:
            return drafted
        rest = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
        return self.pick(list(accumulate(rest if sum(rest) > 1e-12 else p)))

    def answer(self) -> dict[str, Any]:
        text, finish, stops = "", "", self.body.get("stop", [])
        while not finish:
            for token, inside in self.cycle():
                text += TEXTS[token]
                missed = inside and self.fault == "stop string missed"
                stopped = token == END or (any(stop in text[-9:] for stop in stops) and not missed)
                finish = "stop" if stopped else "length" * (len(self.rows) == self.body["max_tokens"])
                if finish:
                    break
        text = text[: min([text.find(stop) for stop in stops if finish == "stop" and stop in text], default=len(text))]
        rows = [row for row in self.rows if row["token"]]
        return {"model": "tiny", "choices": [{"text": text, "finish_reason": finish, "logprobs": {"content": rows}}]}


@contextmanager
def serving(
    post: Callable[[Sequence[Any]], list[list[Any]]], spoil: Callable[[Any], Any] = lambda value: value
) -> Iterator[str]:
    """The URL of a server that answers by `post`. `spoil` makes another JSON value, a text or a status of an answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({"data": [{"id": "tiny"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.reply(spoil(post([body])[0][0]), "data: {}\n\ndata: [DONE]\n\n" if body.get("stream") else "{}")

        def reply(self, value: Any, layout: str = "{}") -> None:
            self.send_response(value if isinstance(value, int) else 200)
            self.end_headers()
            self.wfile.write(layout.format(value if isinstance(value, str) else json.dumps(value)).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
