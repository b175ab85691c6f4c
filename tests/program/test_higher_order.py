"""Operators that take functions run as without a compiler, or as one kernel inside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from captured import named, of, work

from gpuscope.errors import CaptureError
from gpuscope.program.capture import higher_order

Step = Callable[[], object]
pytestmark = pytest.mark.skipif(
    not hasattr(torch.utils._python_dispatch.TorchDispatchMode, "supports_higher_order_operators"),
    reason="this torch gives modes no such operators",
)


def test_a_condition_is_read_by_the_host() -> None:
    def step() -> object:
        x = torch.randn(4, device="cuda")
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    program = of(lambda: step)
    assert work(program)[-1] in ("sin", "cos")
    assert sum(op.sync == "item" for op in program.ops) == 1


def test_a_loop_takes_as_many_turns_as_a_real_run() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def run(device: str) -> Any:
        begin = (torch.tensor(0, device=device), torch.ones(4, device=device))
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x.sin()), begin)

    assert len(named(of(lambda: lambda: run("cuda")), "sin")) == 5


def test_a_loop_whose_end_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._higher_order_ops.while_loop import while_loop

    monkeypatch.setattr(higher_order, "_MOST_TURNS", 200)

    def step() -> object:
        begin = (torch.tensor(0, device="cuda"),)
        return while_loop(lambda i: i >= 0, lambda i: (i * 1,), begin)

    with pytest.raises(CaptureError, match="bound"):
        of(lambda: step)


def test_a_scan_takes_a_turn_for_each_element() -> None:
    from torch._higher_order_ops.scan import scan

    def step() -> object:
        first, along = torch.zeros(8, device="cuda"), torch.ones(6, 8, device="cuda")
        carried, found = scan(lambda c, x: (c + x, c.sin()), first, along)
        assert (tuple(carried.shape), tuple(found.shape)) == ((8,), (6, 8))
        return found

    assert len(named(of(lambda: step), "sin")) == 6


def attention(compiled: bool) -> Callable[[], Step]:
    def build() -> Step:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cuda")
        shape = (1, 2, 128, 32)
        q = torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        call: Any = torch.compile(flex_attention) if compiled else flex_attention
        return lambda: call(q, q, q, block_mask=mask).sum().backward()

    return build


def test_flex_attention_is_one_kernel_each_way_inside_compiled_code() -> None:
    program = of(attention(True))
    (forward,) = named(program, "attention")
    assert forward.args["causal"] is True
    assert forward.region == 1
    assert len(named(program, "attention_backward")) == 1


def test_flex_attention_is_products_and_scores_outside_of_it() -> None:
    program = of(attention(False))
    assert not named(program, "attention")
    scores = [s for op in program.ops for s in op.outputs if s.shape == (1, 2, 128, 128)]
    assert scores
    assert {"bmm"} <= set(work(program))


def test_flex_attention_without_a_mask_scores_on_the_device() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    def step() -> object:
        q = torch.randn(1, 2, 128, 32, device="cuda")
        return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j))

    assert {"bmm", "where"} <= set(work(of(lambda: step)))


def test_a_branch_has_gradients() -> None:
    def build() -> Step:
        weight = torch.randn(4, device="cuda", requires_grad=True)

        def step() -> object:
            made = torch.cond(weight.sum() > 0, torch.sin, torch.cos, (weight,))
            return made.sum().backward()

        return step

    assert {"cos", "sin"} <= {op.name.removeprefix("aten::") for op in of(build).ops}
