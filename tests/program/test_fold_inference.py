"""A folded forward pass equals the capture of the whole model; what does not repeat is refused."""

from __future__ import annotations

import itertools
import logging

import pytest
from program_equality import differences

from gpuscope.program.capture import capture
from gpuscope.program.fold import capture_folded, capture_workload
from gpuscope.program.fold_layers import NotFoldableError
from gpuscope.program.workload import Workload, WorkloadOptions, resolve
from sweeps import sweep

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("name", "task"),
    sweep(
        itertools.product(["gpt2", "llama-3.2-1b", "t5-small"], ["prefill", "decode"]),
        ("gpt2", "prefill"),
        ("t5-small", "decode"),
    ),
)
def test_language_models(name: str, task: str) -> None:
    workload = resolve(name, WorkloadOptions(task=task, layers=6))
    assert workload.at_depth is not None
    direct = capture(workload.build, task=workload.task)
    folded = capture_folded(workload.build, workload.at_depth, task=workload.task, largest_share=2)
    assert differences(folded, direct) == []


def test_workload_is_named_as_asked() -> None:
    workload = resolve("gpt2", WorkloadOptions(task="prefill"))
    program = capture_workload(workload)
    assert (program.name, program.samples, program.tokens) == (
        workload.title,
        workload.samples,
        workload.tokens,
    )
    assert program.task == "prefill"
    assert program.parameters == 124_439_808
    layers = {op.module.split(".")[2] for op in program.ops if "transformer.h." in op.module}
    assert layers == {str(n) for n in range(12)}
    assert [op.index for op in program.ops] == list(range(len(program.ops)))


def _stack(depth: int, width_of=lambda n: 8, scale_of=lambda n: 1.0):  # type: ignore[no-untyped-def]
    """A chain of blocks whose width and hidden factor may depend on the block's number."""

    class Block(torch.nn.Module):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.up = torch.nn.Linear(8, width_of(number))
            self.down = torch.nn.Linear(width_of(number), 8)
            self.hidden = (lambda: scale_of(number),)

        def forward(self, x):  # type: ignore[no-untyped-def]
            return self.down(self.up(x)) * self.hidden[0]()

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block(n) for n in range(depth))

        def forward(self, x):  # type: ignore[no-untyped-def]
            for block in self.blocks:
                x = block(x)
            return x

    def build():  # type: ignore[no-untyped-def]
        with torch.device("cuda"):
            model, x = Model(), torch.randn(4, 8)
        return torch.no_grad()(lambda: model(x))

    return build


@pytest.mark.parametrize("period", [2, 3])
def test_alternating_blocks(period: int) -> None:
    def at(depth: int):  # type: ignore[no-untyped-def]
        return _stack(depth, lambda n: 16 if n % period == 0 else 8)

    assert differences(capture_folded(at(16), at, largest_share=2), capture(at(16))) == []


def test_unlike_leading_blocks() -> None:
    def at(depth: int):  # type: ignore[no-untyped-def]
        return _stack(depth, lambda n: 32 if n < 3 else 8)

    assert differences(capture_folded(at(16), at, largest_share=2), capture(at(16))) == []


def test_widths_without_pattern_are_refused() -> None:
    def at(depth: int):  # type: ignore[no-untyped-def]
        return _stack(depth, lambda n: 8 + n)

    with pytest.raises(NotFoldableError, match="no pattern"):
        capture_folded(at(12), at)


def test_difference_that_only_the_step_shows_is_refused() -> None:
    def at(depth: int):  # type: ignore[no-untyped-def]
        return _stack(depth, scale_of=lambda n: 1.0 / (n + 1))

    with pytest.raises(NotFoldableError, match="differ"):
        capture_folded(at(12), at)


def test_refusal_falls_back_to_the_whole_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def at(depth: int):  # type: ignore[no-untyped-def]
        return _stack(depth, scale_of=lambda n: 1.0 / (n + 1))

    workload = Workload(
        name="uneven",
        build=at(12),
        title="",
        task="",
        batch=None,
        seq=None,
        samples=None,
        tokens=None,
        dtype="",
        at_depth=at,
    )
    with caplog.at_level(logging.DEBUG, logger="gpuscope"):
        program = capture_workload(workload)
    assert differences(program, capture(at(12))) == []
    assert "captured whole" in caplog.text
