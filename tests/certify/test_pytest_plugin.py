"""The pytest plugin: what a test suite that uses it sees, and that other suites do not notice it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from spectheory import InputError
from spectheory.certify import testing

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]

SUITE = """
import numpy as np
import pytest
from spectheory.certify.rows import drawn

P = np.array([0.5, 0.3, 0.2])
OPTIONS = dict(vocab_size=3, length=1, batch=4, max_samples=4_000)

def right(contexts, rng):
    return drawn(np.tile(P, (len(contexts), 1)), rng)[:, None]

def wrong(contexts, rng):
    return rng.integers(3, size=(len(contexts), 1))

@pytest.mark.certify(tv=0.2)
def test_right(assert_step):
    assert assert_step(right, lambda _: P, **OPTIONS).tv == 0.2

def test_again(assert_step):
    assert_step(right, lambda _: P, tv=0.25, **OPTIONS)

def test_wrong(assert_step):
    assert_step(wrong, lambda _: P, tv=0.2, **OPTIONS)

def test_exact(assert_lossless):
    import spectheory as st
    assert_lossless(st.otlp.Naive(), policies=[st.Levels((1,))], cases=3)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A test suite with the plugin and no other one that is installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    pytester.makepyfile(SUITE)
    return pytester


OPTIONS = ("-p", "reference.pytest_plugin", "-p", "no:cacheprovider")


def run(suite: pytest.Pytester, *arguments: str) -> Any:
    return suite.runpytest_inprocess(*OPTIONS, *arguments)


def test_assertions_share_the_level_of_the_session(suite: pytest.Pytester) -> None:
    """Levels 1/2, 1/6 and 1/12 of 0.001 / 20 for three statistical assertions; 3/4 of it in all."""
    suite.makeini("[pytest]\ncertify_sessions_a_day = 20")
    outside = testing.session
    result = run(suite)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*step: LOSSY (does not keep*", "*4 certificates; *at most 3.75e-05 (5e-05 allowed)"])
    assert testing.session is outside


def test_workers_of_xdist_share_the_level(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "4")
    suite.makeini("[pytest]\ncertify_sessions_a_day = 20")
    run(suite, "-k", "right").stdout.fnmatch_lines(["*1 certificates; *at most 6.25e-06 (1.25e-05 allowed)"])


def test_wrong_settings_are_named(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\ncertify_false_alarms_a_day = often")
    result = run(suite, "-k", "right")
    assert "must be numbers: could not convert string to float: 'often'" in result.stdout.str() + result.stderr.str()
    assert result.ret != 0


def test_a_suite_that_does_not_use_it_loads_nothing(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    name = suite.makepyfile(
        test_other="import sys\ndef test_other():\n    assert not {'spectheory', 'numpy', 'torch'} & set(sys.modules)\n"
    )
    result = suite.runpytest_subprocess(*OPTIONS, name)
    result.assert_outcomes(passed=1)
    assert "spectheory ==" not in result.stdout.str()


def test_outside_of_a_session_the_level_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "session", None)
    assert sys.modules["spectheory.certify.testing"] is testing
    with pytest.raises(AssertionError, match="LOSSY"):
        testing.assert_step(lambda *_: [0], lambda _: [0.5, 0.5], vocab_size=2, alpha=0.01)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="alpha must be a number from 1e-300 to 1"):
        testing.assert_step(lambda *_: [0], lambda _: [0.5, 0.5], vocab_size=2, alpha=2.0)
