"""Certificates of objects that are given by name, in a child process that leaves one JSON answer in a file.

Code that ends its process, whatever its exit status, leaves no answer, and a call that does not return is ended by the
signal. What the code prints goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from spectheory.certify import guard
from spectheory.certify.certificate import Certificate, StepCertificate
from spectheory.certify.exact import CASES, certify_verifier
from spectheory.certify.guard import by_the_clock, within
from spectheory.certify.play import Play, plays_of
from spectheory.certify.step import certify_in_worlds
from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.files import write_whole
from spectheory.core.world import DrawPolicy, Levels
from spectheory.otlp import Solver, solvers
from spectheory.verify import Verifier, verifiers

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from spectheory.certify.process import child; "
    "child(*sys.argv[2:])"
)

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**28)}
"""Settings of glibc, which then uses the memory of an array again instead of giving it back at each call."""


def answer_of_child(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """What `answer_of` returns in a child process. Its errors, and an end without an answer, are an InputError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        given = [json.dumps(sys.path), str(os.getpid()), str(file), name, json.dumps(options)]
        child = [sys.executable, "-c", START, *given]
        status = subprocess.run(child, stdout=2, check=False, env={**KEPT, **os.environ}).returncode
        answer = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if not answer:
        raise InputError(
            f"the process of the code under test ended with status {status} before a verdict was reached: remove what "
            "ends it, such as os._exit; or, if the status is -14, a call did not return within "
            f"{by_the_clock(options['seconds']):g} seconds by the clock: correct the code, or raise --seconds"
        )
    if "error" in answer:
        raise InputError(answer["error"])
    return answer


def answer_of(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The answer of `certify_named(name, **options)`: "verdict", "lines" and "json" of the certificate."""
    found = certify_named(name, **options)
    return {"verdict": found.verdict.name, "lines": found.lines(), "json": found.to_json()}


def child(parent: str, file: str, name: str, options: str) -> None:
    """Certify, and write the answer or the error to `file`."""
    threading.Thread(target=_end_after, args=(int(parent),), daemon=True).start()
    guard.owner = os.getpid() if hasattr(signal, "setitimer") else 0
    try:
        with guard.ends_are_errors():
            answer = answer_of(name, json.loads(options))
    except (ValueError, ImportError, OSError, guard.CodeEndedError) as error:
        answer = {"error": str(error)}
    except (Exception, KeyboardInterrupt) as error:
        traceback.print_exc()
        answer = {"error": f"the code under test raised {type(error).__name__} before a verdict was reached: {error}"}
    write_whole(Path(file), json.dumps(answer))


def _end_after(parent: int) -> None:
    """End this process when its parent has ended, also if that was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def certify_named(
    name: str,
    *,
    black_box: bool | None = None,
    rules: Sequence[str] = (),
    shapes: Sequence[Sequence[int]] = (),
    tv: float = 0.05,
    max_samples: int = 1_000_000,
    seconds: float = 10.0,
    cases: int = CASES,
    tolerance: float = 0.0,
    **common: Any,
) -> Certificate | StepCertificate:
    """Certify an object by its name, as the command `certify` does, whose help describes the options.

    A `Play` is a whole decoding step. `rules` and `shapes` are () for the object's own rules and for all small trees.
    `common` are `alpha` and `seed`.

    Raises:
        InputError: the object cannot be loaded, or cannot be certified in the requested way.
    """
    given = _load(name, 10 * seconds)
    steps = [given] if isinstance(given, Play) else given if isinstance(given, list) else []
    drawn = tuple(DrawRule[rule] for rule in rules)
    own = drawn or tuple(getattr(given, "rules", ())) or (DrawRule.IID,)
    policies: list[DrawPolicy] = [Levels(tuple(counts), rule) for counts in shapes for rule in own]
    if black_box is False and steps:
        raise InputError(f"{name} is a step, which can only be sampled: leave out --exact")
    if not black_box and not steps:
        found = certify_verifier(
            given, rules=drawn or None, policies=policies or None, cases=cases, seconds=seconds, tolerance=tolerance,
            **common,
        )  # fmt: skip
        if not found.cannot_replay or black_box is False:
            return found
        reason = (found.failure or "").splitlines()[0]
        print(f"{reason}; whole steps are tested as a black box instead", file=sys.stderr)
    plays, subject = steps, name
    if not steps:
        plays = plays_of(given, policies, own[0])
        subject += f" on {', '.join(policy.name for policy in policies) or 'several trees'} by {own[0].name}"
    try:
        return certify_in_worlds(plays, subject=subject, tv=tv, max_samples=max_samples, seconds=seconds, **common)
    except ValueError:
        raise
    except Exception as error:  # from the target; the certificate reports errors of the step
        raise InputError(f"the target of {name} raised {type(error).__name__}: {error}") from error


def _load(name: str, seconds: float) -> Any:
    """The object of this name. The import and the constructor may take `seconds` of processor time."""
    module, colon, path = name.partition(":")
    if colon and not (module and path):
        raise InputError(f"name an object as package.module:object, got {name!r}")
    if not colon:
        return within(seconds, _registered, name)
    sys.path.insert(0, str(Path.cwd()))
    try:
        return within(seconds, _imported, module, path)
    except Exception as error:
        hint = f" (name the module {module[:-3]}, not its file)" if module.endswith(".py") else ""
        raise InputError(f"cannot load {path} of {module}: {type(error).__name__}: {error}{hint}") from error


def _registered(name: str) -> Solver | Verifier:
    known = {type(one).__name__: one for one in (*solvers(), *verifiers())}
    if name not in known:
        raise InputError(f"name an object as package.module:object, or one of {', '.join(known)}, got {name!r}")
    return known[name]


def _imported(module: str, path: str) -> Any:
    found = attrgetter(path)(importlib.import_module(module))
    return found() if isinstance(found, type) else found
