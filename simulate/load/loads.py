"""`Load`, a description of requests from which each seed draws its own, and `parse`, which reads one from text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from simulate.load.arrivals import bursts, closed, parse_lengths, poisson, profile
from simulate.load.requests import Requests
from simulate.load.traces import read_trace
from spectheory.core.errors import InputError, unknown
from spectheory.core.files import is_there

COUNT = 10_000
"""Number of requests of a synthetic load, if nothing else is given."""
FORMS = """poisson:RATE, bursts:RATE,cv=CV, profile:RATE/RATE,seconds=S/S, closed:CONCURRENCY, or the file of a trace"""
"""What `parse` reads."""


@dataclass(frozen=True)
class Load:
    """Requests that a server receives, drawn anew for each seed.

    Attributes:
        text: the load in words, as `parse` reads it.
        draw: makes the requests of a seed.
    """

    text: str
    draw: Callable[..., Requests] = field(compare=False, repr=False)

    def requests(self, seed: int = 0) -> Requests:
        """The requests of a seed. All seeds have the same ones if nothing of the load is random."""
        return self.draw(seed=seed)


def parse(text: str) -> Load:
    """The load that a text describes. Options follow after commas.

    - `poisson:12`: 12 requests a second. `bursts:12,cv=3`: in bursts, see `bursts`. `profile:8/40/8,seconds=60/10/60`:
      at these rates for these times. `closed:32`: 32 requests open at a time.
    - Their options: `count=20000` requests; `prompt=512` and `output=256` tokens, or distributions such as
      `lognormal:512:1.5` (mean, coefficient of variation) and `geometric:256`, both with a maximum as a last number;
      `shares=0.7/0.3` of the classes of acceptance.
    - `trace.csv`: a trace, see `read_trace`. Its options: `first=5000` requests of the file; `failed=skip`;
      `seconds=3600` of its start; `rate=12`, times stretched to this rate; `concurrency=32`, a closed loop without its
      times.

    Raises:
        InputError: the text is none of these, an option is unknown or out of range, or the trace cannot be read.
    """
    if not text:
        raise InputError(f"load must not be empty: give {FORMS}")
    if is_there(text):
        return _trace(text, {})
    head, *rest = text.split(",")
    options = _options(text, rest)
    kind, colon, value = head.partition(":")
    if colon and kind in MAKERS:
        return _synthetic(text, kind, value, options)
    if colon and not is_there(head):
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
            raise InputError(f"load {text!r:.80}: {unknown('option', name, known)}")
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


MAKERS: dict[str, tuple[Callable[..., Requests], Callable[[str, str], Any], dict[str, Callable[[str, str], Any]]]] = {
    "poisson": (poisson, _number, {}),
    "bursts": (bursts, _number, {"cv": _number}),
    "profile": (profile, _numbers, {"seconds": _numbers}),
    "closed": (closed, partial(_number, kind=int), {}),
}
"""The synthetic loads: what draws them, how the value after the colon is read, and the options that they need."""


def _synthetic(text: str, kind: str, value: str, options: Mapping[str, str]) -> Load:
    draw, read, needed = MAKERS[kind]
    counted = draw is not profile
    _require(text, options, ("prompt", "output", "shares", *["count"] * counted, *needed), tuple(needed))
    given: dict[str, Any] = {name: reader(name, options[name]) for name, reader in needed.items()}
    if counted:
        given["count"] = _number("count", options["count"], int) if "count" in options else COUNT
    given |= {name: parse_lengths(name, options[name]) for name in ("prompt", "output") if name in options}
    if "shares" in options:
        given["shares"] = _numbers("shares", options["shares"])
    load = Load(text, partial(draw, read(kind, value), **given))
    load.requests()
    return load


def _trace(path: str, options: dict[str, str]) -> Load:
    """The load of a trace, after the changes that the options name."""
    text = ",".join((path, *(f"{name}={value}" for name, value in options.items())))
    _require(text, options, ("first", "failed", "seconds", "rate", "concurrency"))
    if not is_there(path):
        raise InputError(f"there is no file {path!r:.80}: a load is {FORMS}")
    if options.get("failed", "skip") != "skip":
        raise InputError(f"failed must be skip, or left out, got {options['failed']!r:.60}")
    if {"concurrency", "rate"} <= set(options):
        raise InputError(f"load {text!r:.80}: a closed loop has no rate: leave rate or concurrency out")
    first = _number("first", options["first"], int) if "first" in options else None
    requests = read_trace(path, first=first, skip_failed="failed" in options)
    if "seconds" in options:
        requests = requests.until(_number("seconds", options["seconds"]))
    if "rate" in options:
        requests = requests.at_rate(_number("rate", options["rate"]))
    if "concurrency" in options:
        requests = Requests.closed(
            _number("concurrency", options["concurrency"], int), requests.prompt_tokens, requests.output_tokens
        )
    return Load(text, lambda seed: requests)
