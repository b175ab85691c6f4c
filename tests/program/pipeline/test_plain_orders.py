"""Orders of passes without PyTorch are those of PyTorch's own generators."""

from __future__ import annotations

import pytest

from gpuscope.program.pipeline.orders import PipelineShape, compute_order
from gpuscope.program.pipeline.plain_orders import BACKWARD, FORWARD, WEIGHTS, plain_order

KINDS = {
    "forward": FORWARD,
    "backward": BACKWARD,
    "backward_input": BACKWARD,
    "backward_weight": WEIGHTS,
}

SHAPES = [
    *(PipelineShape("1f1b", p, m) for p, m in ((2, 2), (4, 4), (4, 13), (8, 24))),
    *(
        PipelineShape("interleaved", p, m, v)
        for p, m, v in (
            (2, 2, 2),
            (2, 4, 3),
            (4, 4, 2),
            (4, 6, 2),
            (4, 12, 2),
            (8, 16, 4),
            (4, 2, 2),
        )
    ),
    *(PipelineShape("zb", p, m) for p, m in ((2, 2), (2, 8), (4, 4), (4, 6), (8, 24), (4, 2))),
    PipelineShape("zb", 4, 8, 2),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_they_are_pytorchs(shape: PipelineShape) -> None:
    for mine, theirs in zip(plain_order(shape), compute_order(shape), strict=True):
        passes = [(KINDS[a.kind], a.stage, a.microbatch) for a in theirs if a.kind in KINDS]
        assert list(mine) == passes


def test_each_pass_once_and_weights_after_inputs() -> None:
    shape = PipelineShape("zb", 4, 8)
    for rank, order in enumerate(plain_order(shape)):
        assert len(set(order)) == len(order) == 3 * 8
        for number in range(8):
            first, then, last = (
                order.index((k, rank, number)) for k in (FORWARD, BACKWARD, WEIGHTS)
            )
            assert first < then < last
