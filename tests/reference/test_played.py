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


def test_a_graph_repeats_operators_on_the_same_memory_and_cannot_wait() -> None:
    with gpu(), torch.inference_mode():
        numbers, graph = torch.tensor([1.0, 2.0]).to("cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            twice = numbers * 2
            numbers[:1] = twice[1:] + torch.ones(1, device="cuda")
        for wrong in (twice.tolist, lambda: twice.copy_(torch.zeros(2))):
            with pytest.raises(RuntimeError, match="captur"), torch.cuda.graph(torch.cuda.CUDAGraph()):
                wrong()
        numbers.copy_(torch.tensor([7.0, 10.0]))
        graph.replay()
        assert (twice.tolist(), numbers.tolist()) == ([14, 20], [21, 10])


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
