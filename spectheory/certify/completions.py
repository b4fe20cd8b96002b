"""Completions of OpenAI-compatible servers, and the file that keeps their answers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from http.client import HTTPException
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request

from spectheory.core.errors import InputError
from spectheory.core.files import from_json, read_text, reported

Body = dict[str, Any]
Post = Callable[[Sequence[Body]], list[list[Any]]]
"""Sends requests, all at once, and returns the JSON values of each answer: several if it is streamed."""
Progress = Callable[[int, int], None]
START = '{"asked": ["'
"""The beginning of a line of the file of answers."""
LEAST = -1e4
"""Smaller log-probabilities, and those that are no numbers, are this one."""


class NoAnswerError(Exception):
    """A server gave no usable answer; the message says why."""


class RefusedError(NoAnswerError):
    """The server does not know this kind of request."""


@dataclass(frozen=True)
class Answer:
    """A completion. Without log-probabilities, there are no `tokens`, and no most probable ones in `top`."""

    text: str
    finish: str
    model: str
    tokens: Sequence[str] = ()
    logprobs: Sequence[float] = ()
    top: Sequence[dict[str, float]] = ()

    @classmethod
    def of(cls, parts: Sequence[Any]) -> Answer:
        """The answer in JSON values of a server. Raises NoAnswerError if they are no completion."""
        try:
            choices = [choice for part in parts for choice in part.get("choices", ())]
            texts = [choice.get("text") or "" for choice in choices]
            rows = [_rows(choice.get("logprobs") or {}) for choice in choices]
            given = all(row or not text for row, text in zip(rows, texts, strict=True))
            ends = [str(choice["finish_reason"]) for choice in choices if choice.get("finish_reason")]
            names = [part[name] for name in ("model", "system_fingerprint") for part in parts if part.get(name)]
            columns = zip(*chain(*rows), strict=True) if given else ()
            return cls("".join(texts), ends[-1], " ".join(dict.fromkeys(names)), *columns)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise NoAnswerError(f"an answer is not a completion: {json.dumps(parts)[:200]}") from None


def _rows(logs: Any) -> list[tuple[str, float, dict[str, float]]]:
    """Tokens, log-probabilities and the most probable tokens, from the layout of completions or of chats."""
    tokens = logs.get("tokens") or []
    rows = zip(tokens, logs.get("token_logprobs") or (), logs.get("top_logprobs") or [{}] * len(tokens), strict=True)
    if "content" in logs:
        tops = [{one["token"]: one["logprob"] for one in row.get("top_logprobs", ())} for row in logs["content"]]
        rows = ((row["token"], row["logprob"], top) for row, top in zip(logs["content"], tops, strict=True))
    return [(str(one), max(LEAST, log), {a: max(LEAST, x) for a, x in (top or {}).items()}) for one, log, top in rows]


class Client:
    """Posts completions to the server at `url`, and to no other host: redirections and proxies are not followed.

    Raises:
        InputError: the URL names no host.
    """

    def __init__(self, url: str, seconds: float) -> None:
        if not re.fullmatch(r"https?://[\w.\[\]:-]+(/\S*)?", url):
            raise InputError(f"a server must be a URL such as http://127.0.0.1:8000, got {url!r:.80}")
        self.url, self.seconds, self.model, self.opener = url, seconds, "", OpenerDirector()
        for handler in (HTTPHandler(), HTTPSHandler()):
            self.opener.add_handler(handler)

    def __call__(self, bodies: Sequence[Body]) -> list[list[Any]]:
        if not self.model:
            try:
                self.model = self._asked("models")[0]["data"][0]["id"]
            except (IndexError, KeyError, TypeError):
                raise NoAnswerError(f"{self.url} lists no model at /v1/models") from None
        with ThreadPoolExecutor(len(bodies)) as pool:
            return list(pool.map(lambda body: self._asked("completions", {"model": self.model} | body), bodies))

    def _asked(self, what: str, body: Body | None = None) -> list[Any]:
        address = f"{self.url.rstrip('/').removesuffix('/v1')}/v1/{what}"
        data = None if body is None else json.dumps(body).encode()
        end, read = time.monotonic() + self.seconds, b""
        try:
            request = Request(address, data, {"Content-Type": "application/json"})
            with self.opener.open(request, timeout=self.seconds) as answer:
                while part := answer.read1(65536):
                    read += part
                    if time.monotonic() > end:
                        raise TimeoutError
        except TimeoutError:
            raise NoAnswerError(f"{self.url} did not answer within {self.seconds:g} seconds (--seconds)") from None
        except (OSError, OverflowError, ValueError, HTTPException) as error:
            raise NoAnswerError(f"{self.url} cannot be reached: {error or type(error).__name__}") from None
        text = read.decode(errors="replace")
        if answer.status != 200:
            refused = RefusedError if answer.status in (400, 404, 422, 501) else NoAnswerError
            raise refused(f"{self.url} answered with status {answer.status} {answer.reason}: {text[:200]!r}")
        try:
            return [from_json(part) for part in re.findall(r"^data:(?! *\[DONE)(.*)", text, re.MULTILINE) or [text]]
        except ValueError as error:
            raise NoAnswerError(f"{self.url} answered something other than JSON ({error}): {text[:200]!r}") from None


class Answers:
    """The answers of the sides "server" and "plain", to whose `posts` requests are sent, and at most `most` in all.

    The JSON Lines file `file` keeps them, those of each server with speculation apart; they are not asked for again.
    Without a plain server, the file has its answers. Without the other one, plain answers are recorded, and each counts
    for an answer to come. `progress` is called with the number of answers that were used, and the maximum.

    Raises:
        InputError: the file cannot be used.
    """

    def __init__(
        self, posts: Mapping[str, Post], most: int, file: Path | None = None, progress: Progress = lambda *counts: None
    ) -> None:
        self.posts, self.most, self.file, self.progress, self.used = posts, most, file, progress, 0
        self.recording = "server" not in posts
        self._kept, self._used, self._models = dict[str, list[Answer]](), set[str](), dict[str, str]()
        for line in read_text(file).splitlines() if file is not None and file.exists() else ():
            try:
                held = from_json(line)
                self._kept[json.dumps(held["asked"])] = [Answer(**one) for one in held["answers"]]
            except (KeyError, TypeError, ValueError):
                if line[: len(START)] != START[: len(line)]:  # not one of ours that an interruption cut off
                    raise InputError(f"{file} has something other than answers of servers: name another file") from None

    def ask(self, side: str, bodies: Sequence[Body], number: int = 0, *, at_once: bool = False) -> list[Answer]:
        """The answers of one side to requests that are sent at once, or one after another; none without a server.

        Each `number` has its own answers to the same requests.

        Raises:
            NoAnswerError: a server gives no usable answer or has changed its model, or the requests are used up.
        """
        if self.recording and side == "server":
            return []
        asked = [side, getattr(self.posts[side], "url", "") if side == "server" else "", number, at_once, *bodies]
        key, cost = json.dumps(asked), len(bodies) * (2 if self.recording else 1)
        if key in self._used:
            return self._kept[key]
        if self.used + cost > self.most:
            raise NoAnswerError(f"the maximum of {self.most:,} requests is used")
        if key not in self._kept:
            if side not in self.posts:
                raise NoAnswerError("a plain answer is not recorded: give --plain, or record with the same options")
            groups = [bodies] if at_once else [[body] for body in bodies]
            self._kept[key] = [Answer.of(parts) for group in groups for parts in self.posts[side](group)]
            if self.file is not None:
                line = json.dumps({"asked": asked, "answers": [asdict(answer) for answer in self._kept[key]]})
                with reported(self.file), self.file.open("a", encoding="utf-8") as file:
                    file.write(f"\n{line}")
        self.used += cost
        self.progress(self.used, self.most)
        for answer in self._kept[key]:
            if answer.model != (model := self._models.setdefault(side, answer.model)):
                raise NoAnswerError(f"the model of the {side} changed from {model!r} to {answer.model!r}")
        self._used.add(key)
        return self._kept[key]
