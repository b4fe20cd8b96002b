"""The pytest plugin: fixtures, a marker, and one level for all statistical assertions of a session.

pytest loads it in every session, so it imports nothing of this project until a test uses it. It is in this package,
because importing `reference` loads nothing else.

- Fixtures `assert_lossless` and `assert_step`: the functions of `spectheory.certify.testing`.
- Marker `certify(**options)`: options of `assert_step` for the test; `-m certify` selects the tests.
- Settings `certify_false_alarms_a_day` and `certify_sessions_a_day`: a right step fails in a session with a
  probability of at most their quotient. Each worker of pytest-xdist has an equal share of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

MODULE = "spectheory.certify.testing"
SESSION = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "certify_false_alarms_a_day", "chance of a false alarm of assert_step a day, at most", default="0.001"
    )
    parser.addini("certify_sessions_a_day", "number of sessions a day over which it is divided", default="100")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "certify(**options): options of assert_step in this test, such as tv=0.05")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin the session's level if a test module has imported the assertions."""
    if MODULE in sys.modules:
        _begin(session)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SESSION in config.stash:
        _testing().session = config.stash[SESSION][1]


@pytest.fixture
def assert_lossless(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`spectheory.certify.testing.assert_lossless`."""
    _begin(request.session)
    return _testing().assert_lossless


@pytest.fixture
def assert_step(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`spectheory.certify.testing.assert_step`."""
    _begin(request.session)
    return _testing().assert_step


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write how many certificates there are, and at which level."""
    session = config.stash[SESSION][0] if SESSION in config.stash else None
    if session is not None and session.certificates:
        terminalreporter.section("spectheory")
        terminalreporter.write_line(
            f"{session.certificates} certificates; a false alarm in this session has probability at most "
            f"{sum(session.levels):.3g} ({_session_level(config):.3g} allowed)"
        )


def _begin(session: pytest.Session) -> None:
    config = session.config
    if SESSION in config.stash:
        return
    testing = _testing()
    marked = ((item.nodeid, item.get_closest_marker("certify")) for item in session.items)
    options = {name: marker.kwargs for name, marker in marked if marker}
    begun = testing.TestSession(_session_level(config), options)
    config.stash[SESSION] = (begun, testing.session)
    testing.session = begun


def _session_level(config: pytest.Config) -> float:
    """The probability of a false alarm in one session, from the settings; the share of a worker of pytest-xdist."""
    names = "certify_false_alarms_a_day", "certify_sessions_a_day"
    try:
        alarms, sessions = (float(config.getini(name)) for name in names)
    except ValueError as error:
        raise pytest.UsageError(f"{' and '.join(names)} must be numbers: {error}") from None
    if not 0 < alarms < 1 <= sessions:
        raise pytest.UsageError(
            f"{names[0]} must be between 0 and 1 and {names[1]} at least 1, got {alarms}, {sessions}"
        )
    return alarms / sessions / int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def _testing() -> Any:
    from spectheory.certify import testing

    return testing
