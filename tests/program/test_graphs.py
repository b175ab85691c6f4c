"""CUDA graphs that code captures itself, and graphs of several compiled calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from captured import of, work
from torch import nn

import gpuscope as gs
from gpuscope.cost.engine import cost_program
from gpuscope.errors import WorkloadError
from gpuscope.hardware import device
from gpuscope.program.fusion import fuse
from gpuscope.timeline.schedule import build_schedule

Step = Callable[[], object]
LAYERS = 60


def model() -> nn.Module:
    return nn.Sequential(*(nn.Linear(64, 64) for _ in range(LAYERS))).cuda().eval()


def graphed() -> Step:
    deep, x = model(), torch.randn(8, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        deep(x)  # warmed up, as PyTorch's documentation wants it
    with torch.no_grad(), torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = deep(x)

    def step() -> object:
        x.copy_(torch.randn(8, 64, device="cuda"))
        graph.replay()
        return y.clone()

    return step


def plain() -> Step:
    deep, x = model(), torch.randn(8, 64, device="cuda")

    def step() -> object:
        x.copy_(torch.randn(8, 64, device="cuda"))
        with torch.no_grad():
            return deep(x).clone()

    return step


def test_a_replay_is_the_captured_work_in_one_launch() -> None:
    program = of(graphed)
    assert work(program) == work(of(plain))
    assert [op.graph for op in program.ops if op.name == "aten::addmm"] == [1] * LAYERS
    # Results of the layers between come and go inside of the graph; the last one stays.
    results = [op.outputs[0].storage for op in program.ops if op.name == "aten::addmm"]
    lives = {storage.id: storage for storage in program.storages}
    assert all(lives[number].died is not None for number in results[:-1])
    assert lives[results[-1]].born == -1
    replayed, issued = gs.predict(graphed, on="h200"), gs.predict(plain, on="h200")
    # cuBLAS keeps 32 MiB for each stream that had a product: the warm-up's and the capture's.
    peak = issued.peak_memory_bytes + (32 << 20)
    assert replayed.peak_memory_bytes == pytest.approx(peak, rel=0.05)
    assert int((replayed.timeline.events.kind == 0).sum()) == LAYERS + 3
    assert replayed.step_time_s < issued.step_time_s / 3


def test_two_replays_are_two_launches() -> None:
    def build() -> Step:
        x, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
        graph.capture_begin()
        x.add_(1)
        graph.capture_end()
        return lambda: [graph.replay(), graph.replay()]

    assert [op.graph for op in of(build).ops] == [1, 2]


def test_reading_a_value_while_capturing_is_refused_as_cuda_does() -> None:
    def build() -> Step:
        x = torch.randn(4, device="cuda")
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.sum().item()
        return lambda: x * 2

    with pytest.raises(WorkloadError, match="stream is capturing"):
        of(build)


def test_a_graph_of_a_whole_training_step_holds_its_optimizer() -> None:
    def build() -> Step:
        net = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.Adam(net.parameters(), capturable=True)
        x = torch.randn(4, 8, device="cuda")

        def train() -> None:
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()

        train()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            train()
        return graph.replay

    program = of(build)
    assert {op.phase for op in program.ops} >= {"forward", "backward", "optimizer"}
    assert program.task == "train"
    assert all(op.graph == 1 for op in program.ops)


def test_each_compiled_call_pays_for_its_own_entry() -> None:
    """Eight calls that replay a graph take eight times what one takes, not sixty-four times."""

    def build(calls: int) -> Callable[[], Step]:
        def made() -> Step:
            compiled = torch.compile(model(), mode="reduce-overhead")
            x = torch.randn(8, 64, device="cuda")

            def step() -> None:
                with torch.no_grad():
                    for _ in range(calls):
                        compiled(x)

            return step

        return made

    costed = (cost_program(fuse(of(build(calls))), device("h200")) for calls in (1, 8))
    one, eight = (build_schedule(program).host_step_s for program in costed)
    assert 6 < eight / one < 9
