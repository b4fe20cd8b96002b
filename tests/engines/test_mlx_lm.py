"""mlx-lm."""

from __future__ import annotations

from spectheory.engines import mlx_lm
from tests.refusals import refuses


def test_golden_mlx_lm() -> None:
    assert mlx_lm.export(3, version="0.32.2", model="a b").command == "--draft-model 'a b' --num-draft-tokens 3"


def test_mlx_lm_refuses_what_it_cannot_run() -> None:
    refuses(r"of mlx-lm .* \(0.32\), got '0.20'", mlx_lm.export, 3, version="0.20", model="d")
