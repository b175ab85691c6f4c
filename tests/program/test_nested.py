"""Nested tensors of the jagged layout: what a real run calls, on the rows that they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from captured import named, of, one, work
from torch import nn

from gpuscope.errors import CaptureError

Step = Callable[[], object]
LENGTHS = (3, 5, 9)


def nested(device: str, size: int = 8, dtype: torch.dtype = torch.float32) -> Any:
    rows = [torch.randn(n, size, device=device, dtype=dtype) for n in LENGTHS]
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


def shapes(device: str) -> list[Any]:
    """Of what a program asks of a nested tensor."""
    x = nested(device)
    y = functional.layer_norm(x, (8,)).relu() + x
    padded = y.to_padded_tensor(0.0)
    parts = y.unbind()
    assert y.is_nested
    assert y.device.type == device
    assert y.is_cuda == (device == "cuda")
    made = [padded, y.sum(dim=1), y.values(), torch.softmax(y, -1).values(), *parts]
    return [(tuple(t.shape), t.dtype, t.device.type == device) for t in made] + [
        y.offsets().tolist()
    ]


def test_what_it_answers_is_that_of_a_real_run() -> None:
    found: list[Any] = []
    of(lambda: lambda: found.append(shapes("cuda")))
    assert found[-1] == shapes("cpu")


def test_a_layer_works_on_all_rows_at_once() -> None:
    def build() -> Step:
        layer, x = nn.Linear(8, 4).cuda(), nested("cuda")
        return lambda: layer(x).values().sum().backward()

    assert one(of(build), "addmm").inputs[1].shape == (sum(LENGTHS), 8)


@pytest.mark.parametrize("lengths", [(6, 6, 6), (4, 60), tuple(range(10, 74, 4))])
def test_attention_is_one_kernel_of_as_much_work(lengths: tuple[int, ...]) -> None:
    def build() -> Step:
        rows = [torch.randn(n, 64, device="cuda", dtype=torch.float16) for n in lengths]
        x = torch.nested.nested_tensor(rows, layout=torch.jagged)
        layers = [nn.Linear(64, 64).cuda().half() for _ in range(3)]

        def step() -> None:
            q, k, v = (f(x).unflatten(-1, [4, 16]).transpose(1, 2) for f in layers)
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            out.transpose(1, 2).flatten(-2).values().float().sum().backward()

        return step

    program = of(build)
    assert one(program, "attention").inputs[0].shape == (1, 4, sum(lengths), 16)
    sequences = one(program, "attention").args["sequences"]
    assert isinstance(sequences, float)
    assert sum(lengths) ** 2 / sequences == pytest.approx(sum(n * n for n in lengths))
    assert one(program, "attention_backward").args["sequences"] == sequences
    assert one(program, "attention").args["backend"] == "flash"
    assert len(named(program, "attention_backward")) == 1
    assert not program.unsupported


def test_the_strided_layout_is_refused_with_a_way_round() -> None:
    rows = [torch.randn(n, 8) for n in LENGTHS]
    with pytest.raises(CaptureError, match=r"layout=torch\.jagged"):
        of(lambda: lambda: torch.nested.nested_tensor([r.cuda() for r in rows]))


def test_masked_tensors_take_themselves_apart() -> None:
    from torch.masked import masked_tensor

    def build() -> Step:
        x = torch.randn(3, 4, device="cuda")
        return lambda: (masked_tensor(x, x > 0) * 2).sum(-1).to_tensor(0)

    assert {"mul", "where", "sum"} <= set(work(of(build)))
