"""cuDNN's calls with arrays as PyTorch has them."""

from jax_compiled_steps import program

from gpuscope.cost.convolution.shape import conv_shape


def test_a_convolution_has_the_work_of_its_code() -> None:
    op = next(op for op in program("images").ops if op.name == "aten::convolution")
    x, weight = op.inputs[:2]
    assert (x.shape, weight.shape, op.outputs[0].shape) == (
        (8, 64, 57, 57),  # XLA pads one side in a kernel of its own
        (128, 64, 3, 3),
        (8, 128, 28, 28),
    )
    assert x.is_channels_last
    shape = conv_shape(op, x, weight, op.outputs[0])
    assert shape.flops == 2 * 8 * 28 * 28 * 64 * 128 * 9
    assert shape.strides == 4


def test_attention_has_heads_before_positions() -> None:
    ops = {op.name: op for op in program("attention").ops}
    forward, backward = ops["gpuscope::attention"], ops["gpuscope::attention_backward"]
    assert [spec.shape for spec in forward.inputs[:3]] == [(2, 8, 256, 64)] * 3
    assert [spec.shape for spec in backward.inputs[:5]] == [(2, 8, 256, 64)] * 5
    assert forward.args["causal"] is True
    assert backward.args["causal"] is True
    assert backward.phase == "backward"
