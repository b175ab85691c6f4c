"""Python between operators is counted by calls and by instructions, the capture's own not."""

from __future__ import annotations

import cProfile
import dis
from collections.abc import Callable, Iterator

import torch

from gpuscope.program.capture import capture
from gpuscope.program.capture.python_work import RESUMED, instructions_of
from gpuscope.program.types import Program


def nothing() -> None:
    return None


def test_instructions_are_those_of_the_disassembler() -> None:
    for function in (nothing, instructions_of, capture):
        listed = [i for i in dis.get_instructions(function) if i.opname != "CACHE"]
        assert abs(instructions_of(function.__code__) - len(listed)) <= len(listed) // 10


def step_with(between: Callable[[], None]) -> Program:
    def build() -> Callable[[], None]:
        x = torch.ones(4, device="cuda")

        def step() -> None:
            y = x + 1
            between()
            y * 2

        return step

    return capture(build)


def test_work_belongs_to_the_operator_after_it() -> None:
    def twenty() -> None:
        for _ in range(20):
            nothing()

    idle, busy = step_with(nothing), step_with(twenty)
    more = [b.python_calls - i.python_calls for i, b in zip(idle.ops, busy.ops, strict=True)]
    assert more[-1] == 20
    assert sum(more) == 20
    length = instructions_of(nothing.__code__)
    added = busy.ops[-1].python_instructions - idle.ops[-1].python_instructions
    assert added >= 20 * length


def test_a_longer_function_counts_more_than_a_short_one() -> None:
    def long() -> None:
        options = {"a": 1, "b": None}
        kept = {k: v for k, v in options.items() if v is not None}
        if kept.get("a") and not kept.get("c"):
            kept["d"] = [n * n for n in (1, 2, 3)]

    short, wide = step_with(nothing), step_with(long)
    assert wide.ops[-1].python_instructions > 2 * short.ops[-1].python_instructions


def test_a_generator_that_goes_on_does_not_begin_anew() -> None:
    def numbers() -> Iterator[int]:
        options = {"a": 1, "b": None}
        kept = {k: v for k, v in options.items() if v is not None}
        yield from kept.values()
        for n in range(50):
            yield n + 1

    def walked() -> None:
        for _ in numbers():
            pass

    idle, walk = step_with(nothing), step_with(walked)
    added = walk.ops[-1].python_instructions - idle.ops[-1].python_instructions
    once = instructions_of(numbers.__code__) + instructions_of(walked.__code__)
    # From its beginning to its first value, then 51 times on; the comprehension is in it or apart.
    assert 51 * RESUMED < added < once + 53 * RESUMED + 30


def test_modules_count_as_they_do_without_hooks() -> None:
    """The capture hooks into modules; what that makes `nn.Module` do must not count."""

    def build() -> Callable[[], None]:
        model = torch.nn.Sequential(*[torch.nn.Identity() for _ in range(50)])
        x = torch.ones(4, device="cuda")

        def step() -> None:
            model(x) + 1

        return step

    calls = sum(op.python_calls for op in capture(build).ops)
    # Without hooks: wrapper, call, tracing state and forward of each module; the loop's few.
    assert 50 * 3 <= calls <= 50 * 6 + 20


def test_a_profiler_of_the_caller_goes_on() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    step_with(nothing)
    nothing()
    profiler.disable()
    called = [entry.code for entry in profiler.getstats()]
    assert nothing.__code__ in called


def test_what_cpp_calls_has_no_python_before_it() -> None:
    """Three casts and a product stand in one call of Python: only the first of them has any."""

    def build() -> Callable[[], object]:
        x, w, b = (torch.ones(4, 4, device="cuda") for _ in range(3))

        def step() -> None:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                torch.addmm(b, x, w)

        return step

    program = capture(build)
    assert [op.name for op in program.ops] == ["aten::_to_copy"] * 3 + ["aten::addmm"]
    assert program.ops[0].python_calls > 0
    assert [op.python_calls for op in program.ops[1:]] == [0, 0, 0]
