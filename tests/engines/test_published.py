"""Rates of published heads."""

from __future__ import annotations

import pytest

import spectheory as st
from spectheory.engines.published import published_rates, published_rows, stated_rates
from tests.helpers import refuses


@pytest.mark.parametrize("name", published_rows())
def test_the_rates_give_back_what_was_published(name: str) -> None:
    rates, row = published_rates(name), published_rows()[name]
    for length, tau in zip(row["lengths"].split(), row["taus"].split(), strict=True):
        assert st.block_efficiency(st.Tree.chain(int(length)), rates) == pytest.approx(float(tau))
    assert rates.table[-1] == rates.table.min() or rates.depths == int(row["lengths"].split()[-1])
    assert row["url"].startswith("https://")
    assert rates.provenance.draft in (f"{row['draft']}-{row['target']}", f"{row['target']}-{row['draft']}")


def test_a_head_is_named_by_its_kind_and_its_target() -> None:
    tuned = published_rates("eagle3:meta-llama/Llama-3.1-8B-Instruct")
    assert (tuned.table == published_rates("EAGLE3:llama-3.1-8b").table).all()
    refuses("unknown published rates 'eagle3:llama-3.1-70b': did you mean", published_rates, "eagle3:llama-3.1-70b")
    refuses("must be given with its chain of at most 999, such as tau=2.7@3, got .tau=9@1", stated_rates, "tau=9@1000")
