"""What order a convolution runs in, and what is copied before it."""

from __future__ import annotations

from gpuscope.cost.convolution.shape import lies_channels_last
from gpuscope.program.types import TensorSpec


def spec(shape: tuple[int, ...], stride: tuple[int, ...]) -> TensorSpec:
    return TensorSpec(shape, stride, "bfloat16")


def test_order_is_read_off_the_strides_as_pytorch_does() -> None:
    assert not lies_channels_last(spec((8, 64, 7, 7), (3136, 49, 7, 1)))
    assert lies_channels_last(spec((8, 64, 7, 7), (3136, 1, 448, 64)))
    # A slice of wider channels-last data, and a depthwise filter that was turned.
    assert lies_channels_last(spec((8, 64, 7, 7), (9408, 1, 1344, 192)))
    assert lies_channels_last(spec((64, 1, 3, 3), (9, 1, 3, 1)))
    # Ambiguous ones count as channels first.
    assert not lies_channels_last(spec((64, 1, 3, 3), (9, 9, 3, 1)))
    assert not lies_channels_last(spec((8, 64, 1, 1), (64, 1, 1, 1)))
    assert not lies_channels_last(spec((8, 64, 100), (6400, 1, 64)))
