"""Copies, indexing, pooling, losses: outputs equal PyTorch's."""

from __future__ import annotations

import pytest
import torch
from signature_oracle import agree, meta, recorded

from gpuscope.program.signatures import complete

INT = torch.int64


def test_copies() -> None:
    agree("aten::cat", [meta(2, 3), meta(2, 5)], 1)
    agree("aten::stack", [meta(2, 3), meta(2, 3)], 1)
    agree("aten::clone", meta(3, 4).t())
    agree("aten::constant_pad_nd", meta(2, 3, 4), [1, 2, 0, 3], 0.0)
    agree("aten::slice_backward", meta(2, 3), [2, 9], 1, 0, 3, 1)
    agree("aten::roll", meta(3, 4), [1], [0])


def test_indexing() -> None:
    index = meta(4, 5, dtype=INT)
    agree("aten::embedding", meta(100, 16), index)
    agree("aten::index_select", meta(9, 8), 1, meta(3, dtype=INT))
    agree("aten::gather", meta(4, 9), 1, index)
    agree("aten::embedding_dense_backward", meta(4, 5, 16), index, 100, -1, False)


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize(("size", "window", "stride", "padding"), [(112, 3, 2, 1), (7, 2, 2, 0)])
def test_pooling(size: int, window: int, stride: int, padding: int, up: bool) -> None:
    x = meta(2, 4, size, size, dtype=torch.float32)
    agree(
        "aten::max_pool2d_with_indices",
        x,
        [window] * 2,
        [stride] * 2,
        [padding] * 2,
        [1, 1],
        up,
        outputs=2,
    )
    agree("aten::avg_pool2d", x, [window] * 2, [stride] * 2, [padding] * 2, up)


def test_losses() -> None:
    x, target = meta(8, 10, dtype=torch.float32), meta(8, dtype=INT)
    agree("aten::nll_loss_forward", x, target, None, 1, -100)
    agree("aten::mse_loss", x, x, 1)
    agree("aten::mse_loss", x, x, 0)


def test_sharded_copies_read_and_write_everything_once() -> None:
    whole = meta(4, 10)
    split = recorded("aten::split_with_sizes_copy", whole, [6, 4], 1)
    found = complete(split, values_recorded=True)
    assert found is not None
    assert found.outputs[0].numel == 40
    parts = recorded("aten::_chunk_cat", [meta(4, 6), meta(4, 4)], 0, 4, meta(4, 10))
    joined = complete(parts, values_recorded=True)
    assert joined is not None
    assert joined.outputs[0].shape == (4, 10)
    assert len(joined.inputs) == 2
