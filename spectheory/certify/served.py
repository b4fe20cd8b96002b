"""Whether a server with speculation answers as the same server without it does."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spectheory.certify import probes
from spectheory.certify.betting import Seen, TwoSamples
from spectheory.certify.certificate import Verdict, power_of_ten
from spectheory.certify.completions import Answer, Answers, Body, Client, NoAnswerError, Progress, RefusedError
from spectheory.certify.probes import AT_ONCE, SUSPECTS, TOKENS, Compared, Scene
from spectheory.core.errors import InputError
from spectheory.core.files import owned

MOST = 3000
"""Maximum number of requests."""
ROUNDING = (1 / 16, 1 / 4)
"""The least rounding of log-probabilities that is allowed for, and the most that is called rounding."""
TIE = 4
"""A margin is clear if it is above this times the rounding."""
FAULTS, TRIES, GROUPS, LEAST_PAIRS = 3, 12, 24, 50
"""Faults after which a probe ends, tries to find smaller requests, drawn groups at once, and least drawn pairs."""
BLOCKED = {
    "again": set(SUSPECTS), "alone": set(SUSPECTS) - {"again"}, "JSON mode": {"drawn JSON"},
    "drawn": {"drawn JSON", "drawn at once"},
}  # fmt: skip
"""For each probe, the ones that are not run if it fails, since they would fail as it did."""
WORDS = {Verdict.LOSSY: "FAILED", Verdict.UNDECIDED: "not decided", Verdict.PASSED: "passed", None: "not run"}


class Finding(NamedTuple):
    """The verdict of a probe, None if it could not run; why, and the requests that show a fault."""

    verdict: Verdict | None
    says: str
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServedCertificate:
    """The answer of `Comparison`, with a finding for each probe, and notes on survival, level and what is covered."""

    findings: dict[str, Finding]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """LOSSY if a probe failed, UNDECIDED if one did not decide or none ran, else PASSED."""
        verdicts = {finding.verdict for finding in self.findings.values()}
        return next(verdict for verdict in WORDS if verdict in verdicts) or Verdict.UNDECIDED

    def lines(self) -> list[str]:
        """The certificate as text, for people. Probes that found the same share a line."""
        found = [f"server: {self.verdict.name} ({self.verdict.value})"]
        for one in sorted(dict.fromkeys(self.findings.values()), key=lambda one: list(WORDS).index(one.verdict)):
            probes = ", ".join(probe for probe, finding in self.findings.items() if finding == one)
            found += [f"  {WORDS[one.verdict]}: {probes}: {one.says}", *(f"    {line}" for line in one.shows)]
        return [*found, *(f"  {note}" for note in self.notes)]

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON values, for programs."""
        found = {one: f._asdict() | {"verdict": f.verdict and f.verdict.name} for one, f in self.findings.items()}
        return {"verdict": self.verdict.name, "findings": found, "notes": self.notes}


def certify_served(
    urls: Mapping[str, str], file: Path, prompts: int, alpha: float, most: int, seconds: float, progress: Progress
) -> ServedCertificate:
    """The certificate of the "server" at its URL, beside the "plain" one. An interrupted run continues from the file.

    Without a server, the answers of the plain one are recorded in the file; without a plain one, the file has them. A
    request takes at most `seconds`. For the others, see `Comparison`; there are at most `MOST` requests.

    Raises:
        InputError: there is neither a plain server nor a file of its answers; a URL or the file cannot be used.
    """
    if "plain" not in urls and not file.exists():
        raise InputError(f"--server needs --plain, its URL without speculation, or its --answers: there is no {file}")
    posts, most = {side: Client(url, seconds) for side, url in urls.items()}, min(most, MOST)
    with owned(file):
        answers = Answers(posts, most, file, progress)
        return Comparison(answers, probes.prompts_of(min(prompts, most)), alpha).certificate()


class Comparison:
    """Compares a server with speculation with the same server without it, by the probes in `SUSPECTS`.

    At temperature 0, a probe fails if an answer differs from the right one where the margin is clear: above `TIE` times
    the rounding. Nine of ten changes of log-probabilities at equal tokens are at most the rounding. Above temperature
    0, three probes bet on the tokens (see `TwoSamples`), each at level alpha / 3, if answers are independent.
    """

    def __init__(self, answers: Answers, prompts: Sequence[str], alpha: float = 1e-3) -> None:
        self.answers, self.prompts, self.alpha = answers, list(prompts), alpha
        self.rounding, self.limit = 0.0, TIE * ROUNDING[0]
        self._changes, self._ends = list[float](), list[int]()
        self._tokens, self._missing, self._failed = 0, 0, set[str]()

    def certificate(self) -> ServedCertificate:
        """Run all probes. One without an answer decides nothing, and the next one runs."""
        kinds, findings = probes.scenes(self.prompts, self._plain), dict[str, Finding]()
        for name, suspect in SUSPECTS.items():
            blocks = [one for one, blocked in BLOCKED.items() if name in blocked and one in self._failed]
            try:
                if blocks:
                    found = Finding(None, f"it would fail as '{blocks[0]}' does")
                elif name == "log-probabilities":
                    found = self._reported()
                else:
                    found = self._greedy(name, kinds[name]) if name in kinds else self._drawn(name)
                if self.answers.recording:
                    found = Finding(None, "plain answers are recorded; give --server to compare a server with them")
            except NoAnswerError as error:
                found = Finding(None if isinstance(error, RefusedError) else Verdict.UNDECIDED, str(error))
            if found.verdict is Verdict.LOSSY:
                found = found._replace(says=f"{found.says}; suspect: {suspect}")
                self._failed.add(name)
            findings[name] = found
        ends = np.array(self._ends)
        shares = ", ".join(f"{np.mean(ends >= n):.0%} to token {n}" for n in (8, 16, 32, TOKENS) if len(ends))
        notes = (
            f"greedy texts without a difference: {shares or 'none compared'}",
            f"level: a right server whose rounding moves no margin by {self.limit:.2f} is called lossy with "
            f"probability at most {self.alpha:g}",
            f"covered: {self.answers.used:,} answers, {self._tokens:,} greedy tokens, in which a fault of one in "
            f"{self._tokens // 3:,} shows with probability 95%; not covered: rarer faults, faults of both servers, "
            f"more than {AT_ONCE} requests at once, chat templates, parsers of tool calls, other grammars, speed",
        )
        return ServedCertificate(findings, notes)

    def _plain(self, body: Body, number: int = 0) -> Answer:
        """The plain server's answer of this number to a request."""
        return self.answers.ask("plain", [body], number)[0]

    def _compared(self, scene: Scene, side: str = "server", number: int = 0) -> list[Compared]:
        """A row for each compared answer of a scene; none if the plain answers are recorded."""
        own = scene.own and "alone" in self._failed
        rights = {i: self._plain(probes.reference(scene.bodies[i])) for i in scene.compared if not own}
        answers = self.answers.ask(side, scene.bodies, number, at_once=scene.at_once)
        compares = scene.compared if answers else ()
        rows = [probes.compared(scene, i, rights.get(i, answers[0]), answers[i]) for i in compares]
        self._tokens += sum(row.token for row in rows)
        return rows

    def _faults(self, rows: Iterable[Compared]) -> list[Compared]:
        return [row for row in rows if row.margin > self.limit]

    def _greedy(self, name: str, kind: Iterable[Scene]) -> Finding:
        """Compare the answers of a probe at temperature 0."""
        rows: list[Compared] = []
        try:
            for scene in kind:
                rows += (found := self._compared(scene))
                if name == "alone":
                    self._learn(found)
                elif len(self._faults(rows)) >= FAULTS:
                    break
        except NoAnswerError:
            if not self._faults(rows):
                raise
        if faults := self._faults(rows):
            return self._shown(faults, len(rows))
        differ = sum(row.says != "" for row in rows)
        says = f"{differ} of {len(rows)} answers differ"
        if differ and not self._changes:
            return Finding(Verdict.UNDECIDED, f"{says}; no log-probabilities say whether by rounding")
        return Finding(Verdict.PASSED, says + ", at near ties" * (differ > 0))

    def _learn(self, rows: Iterable[Compared]) -> None:
        """Add what answers to requests sent alone say about rounding and about the first difference."""
        for row in rows:
            right, other, both = row.right, row.answer, bool(row.right.tokens and row.answer.tokens)
            given = [k for k in range(row.token) if both and (other.top[k] or not right.top[k])]
            self._changes += [abs(right.logprobs[k] - other.logprobs[k]) for k in given]
            self._missing += len(right.tokens[: row.token]) - len(given)
            self._ends.append(row.token if row.says else TOKENS)
            self.rounding = float(np.quantile(self._changes or [0.0], 0.9))
            self.limit = TIE * float(np.clip(self.rounding, *ROUNDING))

    def _shown(self, faults: list[Compared], compared: int) -> Finding:
        """What a probe that failed has found, with the smallest requests found that show it."""
        fault, plain = faults[0], list[Compared]()
        with suppress(NoAnswerError):
            tried = probes.smaller(fault)
            for _ in range(TRIES):
                if (scene := next(tried, None)) and (found := self._faults(self._compared(scene))):
                    fault, tried = found[0], probes.smaller(found[0])
            plain = self._faults(self._compared(fault.scene, "plain", 1))
        says = f"{len(faults)} of {compared} answers differ at clear margins"
        requests = [f"request {n}: {json.dumps(body)}" for n, body in enumerate(fault.scene.bodies, 1)]
        how = "sent at once: " if fault.scene.at_once else ""
        shows = (*requests, f"{how}in the answer to request {fault.i + 1}, {fault.says}")
        if plain:
            return Finding(Verdict.UNDECIDED, f"{says}, but so do plain ones, if repeated", shows)
        return Finding(Verdict.LOSSY, says, shows)

    def _reported(self) -> Finding:
        """Whether both servers report the same log-probabilities at equal tokens."""
        if not self._changes:
            return Finding(Verdict.UNDECIDED, "a server does not give them, so that no margin is known")
        says = f"nine of ten change by at most {self.rounding:.3f} at {len(self._changes):,} equal tokens"
        if self._missing:
            return Finding(Verdict.LOSSY, f"{says}, {self._missing:,} are missing")
        return Finding(Verdict.PASSED if self.rounding <= ROUNDING[1] else Verdict.LOSSY, says)

    def _drawn(self, name: str) -> Finding:
        """Bet on the tokens of drawn answers. At once, also on how far two answers are alike."""
        size, left = AT_ONCE if name == "drawn at once" else 1, self.answers.most - self.answers.used
        most = {"drawn": (left - self.answers.most // 7) // 2, "drawn JSON": self.answers.most // 30}
        bodies, bets, pairs = probes.drawn(name, self.prompts, self._plain), TwoSamples(), 0
        level = math.log(3 / self.alpha)
        while pairs < most.get(name, min(GROUPS, left // size) * size) and bets.log_wealth() < level:
            number, which = divmod(pairs // size, len(bodies))
            plain = [self._plain(bodies[which], number * size + k) for k in range(size)]
            given = self.answers.ask("server", [bodies[which]] * size, number, at_once=size > 1)
            for k in range(0, len(given), 2):
                bets.settle(self._seen(which, given[k : k + 2]), self._seen(which, plain[k : k + 2]))
            pairs += size
        says = f"{pairs:,} pairs of answers, evidence for a difference {power_of_ten(bets.log_wealth())}"
        if bets.log_wealth() >= level:
            (kind, which, *cell), (one, other) = bets.worst()
            request = f"request{f', {size} at once' if size > 1 else ''}: {json.dumps(bodies[which])}"
            shows = request, f"{kind} {cell}: {one} times, by the plain server {other} times"
            return Finding(Verdict.LOSSY, says, shows)
        return Finding(Verdict.PASSED if pairs >= LEAST_PAIRS else Verdict.UNDECIDED, says)

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
