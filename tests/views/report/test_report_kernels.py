"""Explanations of a run's longest kernels: of which, and that they agree with the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpuscope as gs
from gpuscope.analysis.grouping import group_key
from gpuscope.document.blocks import Bars, Block, Facts, HeatMap, Lines, Paragraph, Table
from gpuscope.document.plain import dumps
from gpuscope.run import Run
from gpuscope.views.explanation import block_document
from gpuscope.views.report.kernels import MOST_KERNELS, examples, kernels_explained

TRACES = Path(__file__).parents[2] / "data" / "traces"


def _build() -> Any:
    import torch
    from torch import nn

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(256, 256, 3, padding=1)
            self.head = nn.Linear(512, 30001, bias=False)

        def forward(self, images: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            q = x.view(4, 2048, 8, 64).transpose(1, 2)
            mixed = nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
            rows = mixed.transpose(1, 2).reshape(8192, 512)
            return self.head(rows).float().sum() + self.conv(images).float().sum()

    model = Small().cuda().bfloat16()
    images = torch.randn(64, 256, 56, 56, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(4, 2048, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def step() -> None:
        model(images, x).backward()

    return step


@pytest.fixture(scope="module")
def predicted() -> Run:
    return gs.predict(_build, on="h200")


@pytest.fixture(scope="module")
def explained(predicted: Run) -> dict[str, tuple[Block, ...]]:
    return kernels_explained(predicted)


def _blocks(run: Run, explained: dict[str, tuple[Block, ...]], part: str) -> tuple[Block, ...]:
    found = [task.group for task in run.analysis.tasks if part in task.kernel]
    return next(explained[group] for group in found if group in explained)


def test_groups_are_those_of_the_analysis(
    predicted: Run, explained: dict[str, tuple[Block, ...]]
) -> None:
    assert 0 < len(explained) <= MOST_KERNELS
    assert set(explained) <= {task.group for task in predicted.analysis.tasks}
    for example in examples(predicted):
        assert group_key(example.kernel) == example.key
        assert example.op is not None
    dumps({key: [block_document(b) for b in blocks] for key, blocks in explained.items()})


def test_a_product_is_cut_up_and_its_parts_add_up_to_its_time(
    predicted: Run, explained: dict[str, tuple[Block, ...]]
) -> None:
    blocks = _blocks(predicted, explained, "gemm_bfloat16")
    bars = next(block for block in blocks if isinstance(block, Bars))
    total = sum(part.value for bar in bars.bars for part in bar.parts)
    example = next(e for e in examples(predicted) if explained.get(e.key) == blocks)
    # By itself, at its own clock; in the step neighbours' caches and the power limit count, too.
    assert total == pytest.approx(example.kernel.duration_s, rel=0.5)
    assert sum(isinstance(block, Table) for block in blocks) == 3
    assert any(isinstance(block, Facts) for block in blocks)


def test_rows_that_are_not_aligned_are_told_with_what_padding_would_bring(
    predicted: Run, explained: dict[str, tuple[Block, ...]]
) -> None:
    told = [b for blocks in explained.values() for b in blocks if isinstance(b, Paragraph)]
    assert any("30008" in block.text and "16-byte" in block.text for block in told)
    assert all(block.tone == "key" and block.text.to("zh") != block.text for block in told)


def test_attention_shows_its_tiles_and_convolutions_theirs(
    predicted: Run, explained: dict[str, tuple[Block, ...]]
) -> None:
    attention = _blocks(predicted, explained, "cudnn")
    assert isinstance(attention[0], HeatMap)
    for name in ("fprop", "wgrad"):
        assert any(isinstance(block, Bars) for block in _blocks(predicted, explained, name))
    assert any(isinstance(b, Lines) for blocks in explained.values() for b in blocks)


def test_recorded_kernels_say_what_they_ask_of_a_multiprocessor() -> None:
    run = gs.load(TRACES / "h200" / "compute_bound")
    found = kernels_explained(run)
    product = next(e for e in examples(run) if "nvjet" in e.kernel.name)
    blocks = found[product.key]
    facts = [f for b in blocks if isinstance(b, Facts) for f in b.rows]
    asked = {fact.label: fact.value for fact in facts}
    assert (asked["threads of a block"], asked["registers of a thread"]) == (384, 168)
    assert asked["blocks that fit on one SM"] == 1
    tile = asked["tile of a block"]
    assert isinstance(tile, str)
    assert {int(side) for side in tile.split(" x ")[:2]} == set(product.kernel.tile[:2])


def test_runs_without_keys_of_groups_are_explained_too(
    predicted: Run, explained: dict[str, tuple[Block, ...]]
) -> None:
    tasks = tuple(replace(task, group="") for task in predicted.analysis.tasks)
    found = kernels_explained(replace(predicted, analysis=replace(predicted.analysis, tasks=tasks)))
    assert set(found) & set(explained)
    assert "" not in found


def test_an_unknown_device_explains_nothing(predicted: Run) -> None:
    assert kernels_explained(replace(predicted, device_id="")) == {}
    assert kernels_explained(replace(predicted, device_id="nobody-x1")) == {}


def test_figures_of_another_device_are_not_shown(predicted: Run) -> None:
    # The same events said to be of a much slower device: its plans do not agree with them.
    found = kernels_explained(replace(predicted, device_id="nvidia-t4"))
    assert all(not isinstance(b, Table) for blocks in found.values() for b in blocks)
