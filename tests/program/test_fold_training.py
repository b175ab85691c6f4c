"""A folded training step equals the capture of the whole model."""

from __future__ import annotations

import pytest
from program_equality import differences

from gpuscope.program.capture import capture
from gpuscope.program.fold import capture_folded
from gpuscope.program.workload import WorkloadOptions, resolve

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def check(name: str, options: WorkloadOptions) -> None:
    workload = resolve(name, options)
    assert workload.at_depth is not None
    direct = capture(workload.build, task=workload.task)
    folded = capture_folded(workload.build, workload.at_depth, task=workload.task, largest_share=2)
    assert differences(folded, direct) == []


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(WorkloadOptions(layers=7), marks=pytest.mark.slow),
        WorkloadOptions(layers=6, checkpointing=True),
        WorkloadOptions(layers=6, dtype="float16", optimizer="adamw-fused"),
        pytest.param(WorkloadOptions(layers=6, optimizer="adamw-loop"), marks=pytest.mark.slow),
    ],
    ids=["foreach", "checkpointing", "scaler-fused", "loop"],
)
def test_gpt2(options: WorkloadOptions) -> None:
    check("gpt2", options)


class _Blocks(torch.nn.Module):
    """A residual stack whose skips cross one block, for clipping and accumulation."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)) for _ in range(depth)
        )

    def forward(self, x):  # type: ignore[no-untyped-def]
        for block in self.blocks:
            x = x + block(x)
        return x.square().mean()


def _clipped(depth: int):  # type: ignore[no-untyped-def]
    def build():  # type: ignore[no-untyped-def]
        model = _Blocks(depth).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(4, 8, device="cuda")

        def step() -> None:
            optimizer.zero_grad()
            for _ in range(2):
                model(x).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return step

    return build


def test_clipping_and_accumulation() -> None:
    direct = capture(_clipped(12))
    folded = capture_folded(_clipped(12), _clipped)
    assert differences(folded, direct) == []
