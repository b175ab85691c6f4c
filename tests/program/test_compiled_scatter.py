"""Gradients of an indexed table, compiled: added by atomics in a kernel, no sorted indices."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gpuscope.capturing import capture
from gpuscope.program.fusion import FUSED, fuse


def _build(compiled: bool) -> Any:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Parameter(torch.randn(64, 256))

        def forward(self, at: Any) -> Any:
            return self.rows[at].pow(2).mean()

    def build() -> Any:
        model = Table().cuda()
        run = torch.compile(model) if compiled else model
        at = torch.randint(0, 64, (4096,), device="cuda")

        def step() -> None:
            run(at).backward()

        return step

    return build


def _index_puts(compiled: bool) -> int:
    ops = fuse(capture(_build(compiled))).ops
    return sum("index_put" in op.name for op in ops)


def test_compiled_sums_need_no_sort() -> None:
    assert _index_puts(False) == 1
    assert _index_puts(True) == 0


def test_the_kernel_names_what_it_replaces() -> None:
    ops = fuse(capture(_build(True))).ops
    fused = [op for op in ops if op.name == FUSED and op.phase == "backward"]
    assert any("index_put" in str(op.args["operators"]) for op in fused)
