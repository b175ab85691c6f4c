"""Streams and events: who waits for whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from job import base, collectives, run

from gpuscope.program.capture import capture
from gpuscope.program.capture.streams import StreamOrder
from gpuscope.program.types import Op, Program


def step_of(step: Callable[[Any], None]) -> Program:
    """The second call of `step(torch.cuda)`."""

    def build() -> Callable[[], object]:
        import torch

        return lambda: step(torch.cuda)

    return capture(build)


def work(program: Program) -> list[Op]:
    return [op for op in program.ops if base(op) == "mm"]


def product() -> None:
    import torch

    x = torch.empty(8, 8, device="cuda")
    torch.mm(x, x)


def test_one_stream_waits_for_nothing() -> None:
    def step(cuda: Any) -> None:
        product()
        product()

    assert [op.waits for op in work(step_of(step))] == [(), ()]


def test_wait_stream() -> None:
    def step(cuda: Any) -> None:
        side = cuda.Stream()
        product()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            product()
            product()
        cuda.current_stream().wait_stream(side)
        product()

    first, second, third, fourth = work(step_of(step))
    assert second.waits == (first.index,)
    assert second.stream != first.stream
    assert third.waits == ()
    assert fourth.waits == (third.index,)
    assert fourth.stream == first.stream


def test_an_event_marks_what_came_before_it() -> None:
    def step(cuda: Any) -> None:
        side = cuda.Stream()
        event = cuda.Event()
        product()
        event.record()
        product()
        with cuda.stream(side):
            event.wait()
            product()
        side.record_event()

    first, second, third = work(step_of(step))
    assert second.waits == ()
    assert third.waits == (first.index,)


def test_waits_pass_through_a_stream_without_work() -> None:
    def step(cuda: Any) -> None:
        one, two = cuda.Stream(), cuda.Stream()
        product()
        one.wait_stream(cuda.current_stream())
        two.wait_event(one.record_event())
        with cuda.stream(two):
            product()

    first, second = work(step_of(step))
    assert second.waits == (first.index,)


def test_what_was_waited_for_is_not_waited_for_again() -> None:
    def step(cuda: Any) -> None:
        side = cuda.Stream()
        event = cuda.current_stream().record_event()
        product()
        later = cuda.current_stream().record_event()
        with cuda.stream(side):
            side.wait_event(later)
            product()
            side.wait_event(event)
            side.wait_event(later)
            product()

    first, second, third = work(step_of(step))
    assert second.waits == (first.index,)
    assert third.waits == ()


def test_a_wait_for_the_step_before_counts_back_from_its_end() -> None:
    streams: list[Any] = []

    def step(cuda: Any) -> None:
        import torch

        side = streams[0] if streams else cuda.Stream()
        streams[:] = [side]
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            product()
        product()
        torch.empty(4, device="cuda").add_(1)

    program = step_of(step)
    first, second = work(program)
    (last,) = [op for op in program.ops if base(op) == "add_"]
    assert first.waits == (last.index - len(program.ops),)
    assert second.waits == ()


def test_what_only_the_first_step_does_moves_no_wait() -> None:
    kept: list[Any] = []

    def step(cuda: Any) -> None:
        import torch

        if not kept:
            kept.append(cuda.Stream())
        side = kept[0]
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            product()
        x = torch.empty(4, device="cuda").add_(1)
        if len(kept) == 1:  # states that are made once, as an optimizer does
            kept.append([torch.zeros(4, device="cuda") for _ in range(9)])
        x.mul_(2)

    program = step_of(step)
    (first,) = work(program)
    (last,) = [op for op in program.ops if base(op) == "mul_"]
    assert first.waits == (last.index - len(program.ops),)


def test_the_host_waits_for_what_an_event_marks() -> None:
    def step(cuda: Any) -> None:
        product()
        event = cuda.Event()
        event.record()
        product()
        event.synchronize()

    program = step_of(step)
    (wait,) = [op for op in program.ops if op.sync]
    assert wait.waits == (work(program)[0].index,)


def test_blocking_and_asynchronous_collectives() -> None:
    def step(device: Any) -> None:
        import torch
        import torch.distributed as dist

        x, y = torch.empty(8, device=device), torch.empty(8, 8, device=device)
        dist.all_reduce(x)  # blocking: what follows on the stream waits
        torch.mm(y, y)
        later = dist.all_reduce(x, async_op=True)
        torch.mm(y, y)
        later.wait()
        torch.mm(y, y)

    program = run(step)
    blocking, overlapped = collectives(program)
    first, second, third = work(program)
    assert first.waits == (blocking.index,)
    assert second.waits == ()
    assert third.waits == (overlapped.index,)


def test_a_collective_waits_for_what_its_stream_was_told() -> None:
    def step(device: Any) -> None:
        import torch
        import torch.distributed as dist

        side = torch.cuda.Stream()
        product()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            dist.all_reduce(torch.empty(8, device=device))

    program = run(step)
    (op,) = collectives(program)
    assert op.stream != 0
    assert work(program)[0].index in op.waits


def test_points_by_hand() -> None:
    order = StreamOrder()
    order.issue("a", 0, works=True)
    order.begin_step()
    point = order.mark(0)
    assert order.relative(point) == (-1,)
    order.wait(1, point)
    assert order.issue("view", 1, works=False) == ()
    assert order.issue("b", 1, works=True) == (-1,)
    assert order.issue("c", 1, works=True) == ()
    assert order.relative(order.mark(1)) == (2,)
