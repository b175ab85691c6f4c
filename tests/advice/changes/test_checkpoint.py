"""Recomputation as a change: less memory, more work, the same results."""

import pytest
import torch
from changed_cases import case_of
from torch import nn

from gpuscope.advice.registry import find, plan
from gpuscope.errors import InvalidValueError

NAMES = ("checkpoint", "checkpoint-half", "checkpoint-selective")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def _build(training: bool = True, blocks: int = 4):
    def build():
        model = nn.Sequential(*(Block(256) for _ in range(blocks)), nn.Linear(256, 8)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(4096, 256, device="cuda")

        def step():
            if not training:
                with torch.no_grad():
                    return model(x)
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    return build


def test_memory_falls_and_time_rises_with_strength() -> None:
    plain = case_of(_build())
    full, half, selective = (case_of(_build(), name) for name in NAMES)
    assert full.run.peak_memory_bytes < half.run.peak_memory_bytes < plain.run.peak_memory_bytes
    assert selective.run.peak_memory_bytes < plain.run.peak_memory_bytes
    assert plain.run.device_busy_s < half.run.device_busy_s < full.run.device_busy_s
    # What is run again: each block's two products in full, none where products are kept.
    products = [
        sum(op.name == "aten::addmm" and op.recomputed for op in case.program.ops)
        for case in (plain, full, half, selective)
    ]
    # A block's last product need not run again: nothing of it is kept for the backward pass.
    assert products == [0, 4, 2, 0]
    assert any(op.recomputed for op in selective.program.ops)


def test_activations_saved_are_those_of_the_blocks() -> None:
    plain, full = case_of(_build()), case_of(_build(), "checkpoint")
    held = 4096 * 256 * 4 * 4 * 2  # 4 times the width, before and after GELU, in float32
    saved = plain.run.peak_memory_bytes - full.run.peak_memory_bytes
    assert saved == pytest.approx(3 * held, rel=0.05)  # of four blocks, one is being recomputed


def test_where_it_fits() -> None:
    case = case_of(_build())
    fit = find("checkpoint").fits(case)
    assert fit.applies
    assert "of the device's memory" in fit.why
    assert "Nothing presses" in fit.why
    assert not find("checkpoint").fits(case_of(_build(training=False))).applies
    assert "already" in find("checkpoint").fits(case_of(_build(), "checkpoint")).why
    assert not find("checkpoint").fits(case_of(_build(blocks=1))).applies


def test_two_strengths_do_not_go_together() -> None:
    with pytest.raises(InvalidValueError):
        plan(["checkpoint", "checkpoint-half"])


def test_a_ready_made_model_needs_what_it_needs_with_its_own_option() -> None:
    """Where the option itself is within a hundredth of what was measured (docs/accuracy.md)."""
    from gpuscope.program.workload import WorkloadOptions, resolve

    options = {"task": "train", "batch": 4, "seq": 256, "dtype": "bfloat16", "layers": 3}
    made = [
        resolve("gpt2", WorkloadOptions(**options, checkpointing=told)).build
        for told in (False, True)
    ]
    changed, by_option = case_of(made[0], "checkpoint"), case_of(made[1])
    assert changed.run.peak_memory_bytes == by_option.run.peak_memory_bytes
    again = [sum(op.recomputed for op in c.program.ops) for c in (changed, by_option)]
    assert again[0] == again[1] > 0
