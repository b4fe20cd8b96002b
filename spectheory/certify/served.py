"""Whether a server with speculation answers as the same server without it does."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from spectheory.certify.betting import Seen, TwoSamples
from spectheory.certify.certificate import Verdict, power_of_ten
from spectheory.certify.completions import Answer, Answers, Body, NoAnswerError
from spectheory.certify.probes import AT_ONCE, SUSPECTS, TOKENS, Scene, drawn, reference, scenes, smaller
from spectheory.core.errors import InputError

MOST = 3000
"""Maximum number of requests."""
ROUNDING = (1 / 16, 1 / 4)
"""The least rounding of log-probabilities that is allowed for, and the most that is called rounding."""
TIE = 4
"""A margin is clear if it is above this times the rounding."""
FAULTS, TRIES, GROUPS, LEAST_PAIRS = 3, 12, 24, 100
"""Faults after which a probe ends, tries to find smaller requests, drawn groups at once, and least drawn pairs."""
BLOCKED = {"again": set(SUSPECTS), "alone": set(SUSPECTS) - {"again"}, "drawn": {"drawn at once"}}
"""For each probe, the ones that are not run if it fails, since they would fail as it did."""
WORDS = {Verdict.LOSSY: "FAILED", Verdict.UNDECIDED: "not decided", Verdict.PASSED: "passed", None: "not run"}


@dataclass(frozen=True)
class Finding:
    """The verdict of a probe, None if it could not run; why, and the requests that show a fault."""

    probe: str
    verdict: Verdict | None
    says: str
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServedCertificate:
    """The answer of `Comparison`: LOSSY if a probe failed, UNDECIDED if one did not decide, else PASSED.

    The notes are the survival of greedy texts without a difference, the error level, and what was compared.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """The certificate as text, for people."""
        found = [f"server: {self.verdict.name} ({self.verdict.value})"]
        for verdict, word in WORDS.items():
            for one in self.findings:
                if one.verdict is verdict:
                    found += [f"  {word}: {one.probe}: {one.says}", *(f"    {line}" for line in one.shows)]
        return [*found, *(f"  {note}" for note in self.notes)]

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON values, for programs."""
        findings = [asdict(one) | {"verdict": one.verdict and one.verdict.name} for one in self.findings]
        return {"verdict": self.verdict.name, "findings": findings, "notes": self.notes}


def difference(body: Body, right: Answer, answer: Answer) -> tuple[int, float, str]:
    """The first difference of an answer from the right one to a request at temperature 0: token, margin and a sentence.

    The margin is how much larger the log-probability of the right token is, at least: 0 if this is unknown, infinite if
    no rounding explains the difference, and -infinity for equal answers, whose sentence is empty.
    """
    both = right.tokens and answer.tokens
    one, other = (list(right.tokens), list(answer.tokens)) if both else (list(right.text), list(answer.text))
    shorter = min(len(one), len(other))
    i = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    ended = answer.finish == "stop" or answer.text.startswith(right.text)
    broken = "response_format" in body and ended and _is_json(right.text) and not _is_json(answer.text)
    if one == other and right.text == answer.text and not broken:
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


class _Row(NamedTuple):
    """An answer to request `i` of a scene, the right one, and their `difference`."""

    scene: Scene
    i: int
    right: Answer
    answer: Answer
    token: int
    margin: float
    says: str


class Comparison:
    """Compares a server with speculation with the same server without it, by the probes in `SUSPECTS`.

    At temperature 0, a probe fails if an answer differs from the right one where the margin is clear: above `TIE` times
    the rounding. Nine of ten changes of log-probabilities at equal tokens are at most the rounding. Above temperature
    0, two probes bet on the tokens (see `TwoSamples`), each at level alpha / 2, if answers are independent.

    Args:
        answers: what the servers answer. Without a side "server", the plain answers are recorded.
        prompts: texts to continue.
        alpha: maximum probability that a right server is called lossy.
        most: maximum number of requests; half of it if answers are recorded.

    Raises:
        InputError: there are fewer than two prompts.
    """

    def __init__(self, answers: Answers, prompts: Sequence[str], alpha: float = 1e-3, most: int = MOST) -> None:
        if len(prompts) < 2:
            raise InputError(f"prompts must be at least 2, got {len(prompts)}: 40 are usual")
        self.answers, self.prompts, self.alpha = answers, list(prompts), alpha
        self.recording = "server" not in answers.posts
        self.most = most // 2 if self.recording else most
        self._changes: list[float] = []
        self._ends: list[int] = []
        self._tokens, self._missing, self._failed = 0, 0, set[str]()
        self._draws: defaultdict[str, list[Answer]] = defaultdict(list)

    def certificate(self) -> ServedCertificate:
        """Run all probes. One without an answer decides nothing, and the next one runs."""
        kinds, findings = scenes(self.prompts, self._plain), []
        for name in SUSPECTS:
            blocks = [one for one, blocked in BLOCKED.items() if name in blocked and one in self._failed]
            try:
                if blocks:
                    found = Finding(name, None, f"it would fail as '{blocks[0]}' does")
                elif name in kinds:
                    found = self._greedy(name, kinds[name])
                else:
                    found = self._reported() if name == "log-probabilities" else self._drawn(name)
            except NoAnswerError as error:
                found = Finding(name, None if error.refused else Verdict.UNDECIDED, str(error))
            findings.append(found)
            self._failed |= {name} if found.verdict is Verdict.LOSSY else set()
        verdicts, ends = {found.verdict for found in findings}, self._ends
        shares = ", ".join(f"{np.mean(np.array(ends) >= n):.0%} to token {n}" for n in (8, 16, 32, TOKENS) if ends)
        notes = (
            f"greedy texts without a difference: {shares or 'none compared'}",
            f"level: a right server whose rounding moves no margin by {self.limit:.2f} is called lossy with "
            f"probability at most {self.alpha:g}",
            f"covered: {self.answers.used:,} answers, {self._tokens:,} greedy tokens, in which a fault of one in "
            f"{self._tokens // 3:,} shows with probability 95%; not covered: rarer faults, faults of both servers, "
            f"more than {AT_ONCE} requests at once, chat templates, parsers of tool calls, other grammars, speed",
        )
        verdict = next(verdict for verdict in WORDS if verdict in verdicts) or Verdict.UNDECIDED
        return ServedCertificate(verdict, tuple(findings), notes)

    @property
    def rounding(self) -> float:
        """Nine of ten changes of log-probabilities are at most this."""
        return float(np.quantile(self._changes, 0.9)) if self._changes else 0.0

    @property
    def limit(self) -> float:
        """A larger margin is clear."""
        return TIE * float(np.clip(self.rounding, *ROUNDING))

    def _ask(self, side: str, scene: Scene) -> list[Answer]:
        if self.answers.used + len(scene.bodies) > self.most:
            raise NoAnswerError(f"the maximum of {self.most:,} requests is used")
        return self.answers.ask(side, scene.bodies, at_once=scene.at_once)

    def _draw(self, body: Body, number: int) -> Answer:
        """The plain server's answer of this number to a request."""
        draws = self._draws[json.dumps(body)]
        while len(draws) <= number:
            draws += self._ask("plain", Scene((body,)))
        return draws[number]

    def _plain(self, body: Body) -> Answer:
        return self._draw(reference(body), 0)

    def _compared(self, scene: Scene, side: str = "server") -> list[_Row]:
        """A row for each compared answer of a scene; none if the plain answers are recorded."""
        plain = {i: self._plain(scene.bodies[i]) for i in scene.compared}
        answers, rows = [] if self.recording else self._ask(side, scene), []
        for i in scene.compared if answers else ():
            right = answers[0] if scene.own and "alone" in self._failed else plain[i]
            rows.append(_Row(scene, i, right, answers[i], *difference(scene.bodies[i], right, answers[i])))
            self._tokens += rows[-1].token
        return rows

    def _faults(self, rows: Iterable[_Row]) -> list[_Row]:
        limit = self.limit
        return [row for row in rows if row.margin > limit]

    def _greedy(self, name: str, kind: Iterable[Scene]) -> Finding:
        """Compare the answers of a probe at temperature 0."""
        rows: list[_Row] = []
        faults: list[_Row] = []
        try:
            for scene in kind:
                rows += (found := self._compared(scene))
                faults += self._faults(found)
                if name == "alone" and found:
                    self._learn(found[0])
                elif len(faults) >= FAULTS:
                    break
        except NoAnswerError:
            if not faults:
                raise
        if faults := self._faults(rows):
            return self._shown(name, faults, len(rows))
        differ = sum(row.says != "" for row in rows)
        if self.recording or (differ and not self._changes):
            why = "the plain answers are recorded" if self.recording else "no log-probabilities say whether by rounding"
            return Finding(name, Verdict.UNDECIDED, f"{differ} of {len(rows)} answers differ; {why}")
        return Finding(name, Verdict.PASSED, f"{differ} of {len(rows)} answers differ{', at near ties' * (differ > 0)}")

    def _learn(self, row: _Row) -> None:
        """Add what the answer to a request sent alone says about rounding and about the first difference."""
        right, other, both = row.right, row.answer, bool(row.right.tokens and row.answer.tokens)
        given = [k for k in range(row.token) if both and (other.top[k] or not right.top[k])]
        self._changes += [abs(right.logprobs[k] - other.logprobs[k]) for k in given]
        self._missing += len(right.tokens[: row.token]) - len(given)
        self._ends.append(row.token if row.says else TOKENS)

    def _shown(self, name: str, faults: list[_Row], compared: int) -> Finding:
        """The finding of a probe that failed, with the smallest requests found that show it."""
        fault, tries, plain = faults[0], 0, list[_Row]()
        with suppress(NoAnswerError):
            tried = smaller(fault.scene, fault.i, fault.token)
            while tries < TRIES and (scene := next(tried, None)):
                tries += 1
                if found := self._faults(self._compared(scene)):
                    fault = found[0]
                    tried = smaller(fault.scene, fault.i, fault.token)
            plain = self._faults(self._compared(fault.scene, "plain"))
        says = f"{len(faults)} of {compared} answers differ at clear margins"
        shows = [f"request {n}: {json.dumps(body)}" for n, body in enumerate(fault.scene.bodies, 1)]
        how = "sent at once: " if fault.scene.at_once else ""
        shows.append(f"{how}in the answer to request {fault.i + 1}, {fault.says}")
        if plain:
            return Finding(name, Verdict.UNDECIDED, f"{says}, but so do plain ones, if repeated", tuple(shows))
        return Finding(name, Verdict.LOSSY, f"{says}; suspect: {SUSPECTS[name]}", tuple(shows))

    def _reported(self) -> Finding:
        """Whether both servers report the same log-probabilities at equal tokens."""
        name = "log-probabilities"
        if not self._changes:
            return Finding(name, Verdict.UNDECIDED, "a server does not give them, so that no margin is known")
        says = f"nine of ten change by at most {self.rounding:.3f} at {len(self._changes):,} equal tokens"
        says += f", {self._missing:,} are missing" if self._missing else ""
        if self.rounding <= ROUNDING[1] and not self._missing:
            return Finding(name, Verdict.PASSED, says)
        return Finding(name, Verdict.LOSSY, f"{says}; suspect: {SUSPECTS[name]}")

    def _drawn(self, name: str) -> Finding:
        """Bet on the tokens of drawn answers. At once, also on how far two answers are alike."""
        alone, left = name == "drawn", self.most - self.answers.used
        size = 1 if alone else AT_ONCE
        kept = min(GROUPS * AT_ONCE, self.most // 10)
        most = (left - kept) // (2 - self.recording) if alone else min(GROUPS, left // size)
        bodies, number, bets, level = drawn(self.prompts, self._plain), 0, TwoSamples(), math.log(2 / self.alpha)
        while number < most and bets.log_wealth() < level:
            which, start = number % len(bodies), number // len(bodies) * size
            plain = [self._draw(bodies[which], start + k) for k in range(size)]
            scene = Scene((bodies[which],) * size, at_once=size > 1)
            given = [] if self.recording else self._ask("server", scene)
            for k in range(0, len(given), 2):
                bets.settle(self._seen(which, given[k : k + 2]), self._seen(which, plain[k : k + 2]))
            number += 1
        says = f"{number * size:,} pairs of answers, evidence for a difference {power_of_ten(bets.log_wealth())}"
        if bets.log_wealth() >= level:
            (kind, which, *cell), (one, other) = bets.worst()
            request = f"request{f', {size} at once' if size > 1 else ''}: {json.dumps(bodies[which])}"
            shows = (request, f"{kind} {cell}: {one} times, by the plain server {other} times")
            return Finding(name, Verdict.LOSSY, f"{says}; suspect: {SUSPECTS[name]}", shows)
        enough = number * size >= LEAST_PAIRS and not self.recording
        return Finding(name, Verdict.PASSED if enough else Verdict.UNDECIDED, says)

    def _seen(self, context: int, answers: Sequence[Answer]) -> list[Sequence[Seen]]:
        """What the bettors see of one answer, or of two at once: tokens, or words if not all are given."""
        known = self._changes and "log-probabilities" not in self._failed
        words = [answer.tokens if known else re.findall(r"\s*\S+", answer.text) for answer in answers]
        texts = [(*text, answer.finish) for text, answer in zip(words, answers, strict=True)]
        starts = [("answers begin with", context, *text[: k + 1]) for text in texts for k in range(len(text))]
        logs = [max(-12, round(2 * log)) / 2 for answer in answers for log in answer.logprobs if known]
        equal = [[*map(eq, one, other), False].index(False) for one, other in pairwise(texts)]
        return [
            [start for start in starts if len(start) == 3],
            starts,
            [("neighbours", 0, *pair) for text in texts for pair in pairwise(text)],
            [("log-probability about", 0, log) for log in logs],
            [("equal first tokens of two answers", 0, number) for number in equal],
        ]
