"""The played GPU is as strict as a real one; the tests also run on a real one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.reference.played import gpu

WRONG: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "sum of two devices": lambda here, there: here + there,
    "an index on the GPU": lambda here, there: here[there.long()],
    "values of the other device": lambda here, there: there.index_put_((torch.tensor([0, 1]),), here),
    "an array": lambda here, there: np.asarray(there),
    "an array of its numbers": lambda here, there: np.asarray([there[0], there[1]], np.float64),
    "a generator of the host": lambda here, there: torch.rand(2, device="cuda", generator=torch.Generator()),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_a_gpu_refuses_is_refused(wrong: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
    here = torch.tensor([0.0, 1.0])
    with gpu(), torch.inference_mode(), pytest.raises((RuntimeError, TypeError)):
        wrong(here, here.to("cuda"))


def test_what_a_gpu_does_is_done() -> None:
    with gpu(), torch.inference_mode():
        here = torch.tensor([3.0, 5.0])
        there = here.to("cuda")
        there += 1
        assert (there.device, there.is_cuda, there.is_cpu) == (torch.device("cuda", 0), True, False)
        assert here.tolist() == [3, 5], "a copy"
        assert (there * 2)[[1, 0]].tolist() == [12, 8]
        assert there[torch.tensor([1])].item() == 6
        there[0] = 9
        assert there.cpu().numpy().tolist() == there.numpy(force=True).tolist() == [9, 6]
