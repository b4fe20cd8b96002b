"""`Load`, a description of requests from which each seed draws its own, and `parse`, which reads one from text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from simulate.load.arrivals import bursts, closed, modulated, poisson, profile
from simulate.load.changes import as_closed, at_rate, thinned, until
from simulate.load.lengths import parse_lengths
from simulate.load.requests import Requests
from simulate.load.trace_files import read_trace
from spectheory.core.errors import InputError
from spectheory.core.near_names import unknown

COUNT = 10_000
"""Number of requests of a synthetic load, if nothing else is given."""
FORMS = """poisson:RATE, bursts:RATE,cv=CV, modulated:RATE/RATE,seconds=S/S, profile:RATE/RATE,seconds=S/S, \
closed:CONCURRENCY, or the file of a trace"""
"""What `parse` reads."""
OPTIONS_OF = {
    "count": "; --requests and count are for loads with a number of requests: a profile ends after its seconds, and "
    "first=N takes the first N of a trace",
    "prompt": "; a trace has prompts and answers of its own: leave --prompt-tokens and prompt out",
    "output": "; a trace has prompts and answers of its own: leave --output-tokens and output out",
}
"""What is added to the message that refuses an option."""
CONTENTS = ("prompt", "output", "like", "shares")
"""Options of every synthetic load, beside `count`."""


@dataclass(frozen=True)
class Load:
    """Requests that a server receives, drawn anew for each seed.

    Attributes:
        text: the load in words, as `parse` reads it.
        digest: of the contents of the files that the load is read from; empty if there are none.
        draw: makes the requests of a seed.
        has_end: whether the load ends by itself: a trace, a profile, or a number of requests that was given.
    """

    text: str
    digest: str = ""
    draw: Callable[..., Requests] = field(compare=False, repr=False, kw_only=True)
    has_end: bool = field(default=True, compare=False, kw_only=True)

    def requests(self, seed: int = 0) -> Requests:
        """The requests of a seed. All seeds have the same ones if nothing of the load is random."""
        return self.draw(seed=seed)

    @property
    def identity(self) -> str:
        """The text, with the digest of files: equal for loads of equal requests."""
        return f"{self.text} {self.digest}".strip()


def parse(text: str) -> Load:
    """The load that a text describes. Options follow after commas.

    - `poisson:12`: 12 requests a second. `bursts:12,cv=3`: in bursts, see `bursts`. `modulated:4/40,seconds=60/5`: at
      4 and at 40 a second, for exponential times with these means. `profile:8/40/8,seconds=60/10/60`: at these rates
      for exactly these times. `closed:32`: 32 requests open at a time.
    - Their options: `count=20000` requests; `prompt=512` and `output=256` tokens, or distributions such as
      `lognormal:512:1.5` (mean, coefficient of variation) and `geometric:256`, both with a maximum as a last number;
      `like=trace.csv` draws the tokens of both from a trace; `shares=0.7/0.3` of the classes of acceptance.
    - `trace.csv`: a trace, see `read_trace`. Its options: `first=5000` requests of the file; `failed=skip`;
      `seconds=3600` of its start; `thin=0.1`, each request with this probability; `rate=12`, times stretched to this
      rate; `concurrency=32`, a closed loop without its times.

    Raises:
        InputError: the text is none of these, an option is unknown or out of range, or the trace cannot be read.
    """
    if not text:
        raise InputError(f"load must not be empty: give {FORMS}")
    if Path(text).is_file():
        return _trace(text, {})
    head, *rest = text.split(",")
    options = _options(text, rest)
    kind, colon, value = head.partition(":")
    if colon and kind in MAKERS:
        return _synthetic(text, MAKERS[kind], value, options)
    if colon and not Path(head).exists():
        raise InputError(f"{unknown('load', kind, MAKERS)}; a load is {FORMS}")
    return _trace(head, options)


def _options(text: str, given: list[str]) -> dict[str, str]:
    """The options NAME=VALUE of a load."""
    found: dict[str, str] = {}
    for option in given:
        name, equals, value = option.partition("=")
        if not equals or not name or not value:
            raise InputError(f"load {text!r:.80}: an option must be NAME=VALUE, got {option!r:.60}; a load is {FORMS}")
        if name in found:
            raise InputError(f"load {text!r:.80}: {name} is given twice: leave one out")
        found[name] = value
    return found


def _require(text: str, options: Mapping[str, str], known: tuple[str, ...], needed: tuple[str, ...] = ()) -> None:
    for name in options:
        if name not in known:
            raise InputError(f"load {text!r:.80}: {unknown('option', name, known)}{OPTIONS_OF.get(name, '')}")
    for name in needed:
        if name not in options:
            raise InputError(f"load {text!r:.80} needs {name}, as in {FORMS}")


def _number(name: str, value: str, kind: type = float) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise InputError(f"{name} must be a {'whole ' * (kind is int)}number, got {value!r:.60}") from None


def _numbers(name: str, value: str) -> tuple[float, ...]:
    return tuple(_number(name, one) for one in value.split("/"))


@dataclass(frozen=True)
class _Maker:
    """How a synthetic load is read: the number or numbers `named` after its colon, and the options that it needs.

    Their values are read by `of`. `draw` makes the requests.
    """

    draw: Callable[..., Requests]
    named: str
    of: Callable[[str, str], Any]
    needed: Mapping[str, Callable[[str, str], Any]] = field(default_factory=dict)
    counted: bool = True


MAKERS = {
    "poisson": _Maker(poisson, "rate", _number),
    "bursts": _Maker(bursts, "rate", _number, {"cv": _number}),
    "modulated": _Maker(modulated, "rates", _numbers, {"seconds": _numbers}),
    "profile": _Maker(profile, "rates", _numbers, {"seconds": _numbers}, counted=False),
    "closed": _Maker(closed, "concurrency", partial(_number, kind=int)),
}
"""The synthetic loads."""


def _synthetic(text: str, maker: _Maker, value: str, options: Mapping[str, str]) -> Load:
    """The load that a text describes, with the value after its colon and its options."""
    needed = tuple(maker.needed)
    _require(text, options, (*CONTENTS, *["count"] * maker.counted, *needed), needed)
    contents: dict[str, Any] = {}
    draw = partial(maker.draw, maker.of(maker.named, value))
    if maker.counted:
        contents["count"] = _number("count", options["count"], int) if "count" in options else COUNT
    contents |= {name: read(name, options[name]) for name, read in maker.needed.items()}
    contents |= {name: parse_lengths(name, options[name]) for name in CONTENTS[:2] if name in options}
    if "shares" in options:
        contents["shares"] = _numbers("shares", options["shares"])
    digest = ""
    if "like" in options:
        contents["like"] = read_trace(options["like"]).requests
        digest = _digest(contents["like"])
    load = Load(text, digest, draw=partial(draw, **contents), has_end="count" in options or text.startswith("profile:"))
    load.requests()
    return load


def _trace(path: str, options: dict[str, str]) -> Load:
    """The load of a trace, after the changes that the options name."""
    known = ("first", "failed", "seconds", "thin", "rate", "concurrency")
    text = ",".join((path, *(f"{name}={options[name]}" for name in options)))
    _require(text, options, known)
    if not Path(path).exists():
        raise InputError(f"there is no file {path!r:.80}: a load is {FORMS}")
    failed: Any = options.get("failed", "refuse")
    first = _number("first", options["first"], int) if "first" in options else None
    requests = read_trace(path, first=first, failed=failed).requests
    if "seconds" in options:
        requests = until(requests, _number("seconds", options["seconds"]))
    if "concurrency" in options and "rate" in options:
        raise InputError(f"load {text!r:.80}: a closed loop has no rate: leave rate or concurrency out")
    numbers = {name: _number(name, options[name]) for name in ("thin", "rate") if name in options}
    concurrency = _number("concurrency", options["concurrency"], int) if "concurrency" in options else None
    load = Load(text, _digest(requests), draw=partial(_changed, requests, concurrency=concurrency, **numbers))
    load.requests()
    return load


def _changed(
    requests: Requests,
    *,
    seed: int,
    thin: float | None = None,
    rate: float | None = None,
    concurrency: int | None = None,
) -> Requests:
    """The requests of a trace, thinned, then at another rate or in a closed loop."""
    requests = requests if thin is None else thinned(requests, thin, seed=seed)
    requests = requests if rate is None else at_rate(requests, rate)
    return requests if concurrency is None else as_closed(requests, concurrency)


def _digest(requests: Requests) -> str:
    """A digest of requests, so that two traces of one name have different identities."""
    digest = hashlib.sha256()
    for values in (requests.arrival_seconds, requests.prompt_tokens, requests.output_tokens):
        digest.update(values.tobytes())
    return digest.hexdigest()[:16]
