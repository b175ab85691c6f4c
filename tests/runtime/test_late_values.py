"""`late` on a processor, and in a capture, where nothing waits for this step's value."""

from __future__ import annotations

from collections.abc import Callable

import torch

import gpuscope as gs
from gpuscope.runtime.late_values import forget, late


def test_on_a_processor_there_is_nothing_to_wait_for() -> None:
    assert late(torch.tensor(3.5)) == 3.5
    assert late("text") == "text"


def test_in_a_capture_only_the_step_before_is_waited_for() -> None:
    def build(read: Callable[[torch.Tensor], object]) -> Callable[[], Callable[[], object]]:
        def made() -> Callable[[], object]:
            x = torch.ones(1000, device="cuda")

            def step() -> object:
                value = read(x.sum())
                x.mul_(2)
                return value

            return step

        return made

    forget()
    lazy = gs.capture(build(late))
    again = gs.capture(build(late))  # what the first capture kept is of another world
    eager = gs.capture(build(torch.Tensor.item))
    assert [op.sync for op in eager.ops if op.sync] == ["item"]
    for program in (lazy, again):
        (wait,) = [op for op in program.ops if op.sync]
        assert wait.waits
        assert all(number < 0 for number in wait.waits)  # of the step before
    forget()
