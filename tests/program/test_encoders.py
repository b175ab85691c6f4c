"""The fast path of plain encoders in inference: taken apart as CUDA runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from captured import named, of, one, work
from torch import nn

import gpuscope as gs
from gpuscope.program.capture import encoders
from gpuscope.program.types import Program

BATCH, LENGTH, WIDTH, HEADS = 4, 8, 32, 4


def encoder(**how: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, batch_first=True, **how)
    nested = not how.get("norm_first") and how.keys() <= {"activation"}
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested).cuda().eval()


def followed(make: Callable[..., nn.Module] = encoder, dtype: Any = None, **given: Any) -> Program:
    def build() -> Callable[[], Any]:
        net = make().to(dtype) if dtype else make()
        x = torch.randn(BATCH, LENGTH, WIDTH, device="cuda", dtype=dtype)
        known = {name: value() for name, value in given.items()}

        def step() -> Any:
            with torch.no_grad():
                return net(x, **known)

        return step

    return of(build)


def padding() -> torch.Tensor:
    """Rows of 8, 6, 4 and 2 places."""
    lengths = torch.tensor([8, 6, 4, 2], device="cuda")
    return torch.arange(LENGTH, device="cuda")[None] >= lengths[:, None]


def causal() -> torch.Tensor:
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool, device="cuda").triu(1)


def test_a_layer_is_two_fused_products_attention_and_two_sums_in_place() -> None:
    attended = ["addmm", "attention", "addmm", "add_", "native_layer_norm"]
    assert work(followed()) == [
        *attended,
        *["_addmm_activation", "addmm", "add_", "native_layer_norm"],
    ]
    before = work(followed(lambda: encoder(norm_first=True)))
    assert before == [
        *["native_layer_norm", "addmm", "attention", "addmm", "add_"],
        *["native_layer_norm", "_addmm_activation", "addmm", "add_"],
    ]


def test_the_activation_is_part_of_the_product() -> None:
    program = followed(lambda: encoder(activation="gelu"), dtype=torch.bfloat16)
    assert one(program, "_addmm_activation").args["use_gelu"] is True
    run = gs.predict(program, on="h200")
    kernels = [name for name in run.timeline.names if "gelu" in name or "relu" in name]
    assert kernels == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: encoder().train(),
        lambda: encoder(activation=torch.tanh, norm_first=True),
        lambda: encoder(bias=False),
    ],
)
def test_what_is_no_condition_of_it_takes_the_long_way(make: Any) -> None:
    program = followed(make)
    assert named(program, "attention")
    assert not named(program, "_addmm_activation")


def test_a_gradient_and_autocast_take_the_long_way() -> None:
    def build() -> Callable[[], Any]:
        net, x = encoder(), torch.randn(BATCH, LENGTH, WIDTH, device="cuda")

        def step() -> None:
            net(x)
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
                net(x)

        return step

    assert not named(of(build), "_addmm_activation")


def test_a_mask_of_pairs_takes_two_products_and_a_softmax() -> None:
    program = followed(mask=causal)
    assert not named(program, "attention")
    assert [op.outputs[0].shape for op in named(program, "bmm")] == [
        (BATCH * HEADS, LENGTH, LENGTH),
        (BATCH * HEADS, LENGTH, WIDTH // HEADS),
    ]
    parts = one(program, "_transform_bias_rescale_qkv").outputs
    assert len({part.storage for part in parts}) == 1
    # The second product writes where the queries were.
    assert named(program, "bmm")[1].outputs[0].storage == parts[0].storage
    assert one(program, "_masked_softmax").inputs[1].dtype == "bool"


def test_padding_is_left_out_where_sizes_are_known() -> None:
    program = followed(src_key_padding_mask=padding)
    kept = 8 + 6 + 4 + 2
    assert one(program, "without_padding").outputs[0].shape == (1, kept, WIDTH)
    assert [op.outputs[0].shape for op in named(program, "addmm")] == [
        (kept, 3 * WIDTH),
        (kept, WIDTH),
        (kept, WIDTH),
    ]
    assert not one(program, "attention").args["backend"].startswith("cudnn")
    assert one(program, "attention").args["sequences"] == kept**2 / (64 + 36 + 16 + 4)
    assert one(program, "with_padding").outputs[0].shape == (BATCH, LENGTH, WIDTH)
    # The host asks whether padding comes last, and how long the sequences are.
    assert [op.sync for op in program.ops if op.sync] == ["equal", "blocking_copy"]
    assert not program.assumptions


def test_unknown_padding_is_half_and_told() -> None:
    def from_data() -> torch.Tensor:
        return torch.randn(BATCH, LENGTH, device="cuda") > 0

    program = followed(src_key_padding_mask=from_data)
    assert one(program, "without_padding").outputs[0].shape == (1, BATCH * LENGTH // 2, WIDTH)
    assert program.assumptions


def test_bfloat16_has_no_kernel_that_takes_padding_away() -> None:
    program = followed(dtype=torch.bfloat16, src_key_padding_mask=padding)
    assert not named(program, "without_padding")
    assert one(program, "masked_select").outputs[0].shape == (20 * WIDTH,)
    assert len(named(program, "new_full")) == BATCH


def test_weights_of_attention_are_the_average_over_heads() -> None:
    def build(average: bool) -> Callable[[], Any]:
        net = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).cuda().eval()
        x = torch.randn(BATCH, LENGTH, WIDTH, device="cuda")
        shapes = []

        def step() -> Any:
            with torch.inference_mode():
                out, weights = net(x, x, x, average_attn_weights=average)
            shapes.append((out.shape, weights.shape))
            assert shapes[-1][0] == (BATCH, LENGTH, WIDTH)
            heads = () if average else (HEADS,)
            assert shapes[-1][1] == (BATCH, *heads, LENGTH, LENGTH)
            return out

        return step

    assert work(of(lambda: build(True)))[-2:] == ["sum", "div_"]
    assert work(of(lambda: build(False)))[-1] == "addmm"


def test_taken_apart_it_computes_what_pytorch_computes() -> None:
    torch.manual_seed(0)
    net = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    x = torch.randn(BATCH, LENGTH, WIDTH)
    mask = (torch.arange(LENGTH)[None] >= torch.tensor([8, 6, 4, 2])[:, None]).contiguous()
    given = (
        WIDTH,
        HEADS,
        net.in_proj_weight,
        net.in_proj_bias,
        net.out_proj.weight,
        net.out_proj.bias,
    )
    with torch.no_grad():
        wanted = torch._native_multi_head_attention(x, x, x, *given, mask, True, True, 1)
        mine = encoders._attended(None, x, x, x, *given, mask, True, True, 1)
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a, b)
