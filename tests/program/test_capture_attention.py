"""Attention is one operator, whichever way it is asked for; the math path where CUDA takes it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from captured import named, of, one, work

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional
sdpa_kernel = pytest.importorskip("torch.nn.attention").sdpa_kernel
SDPBackend = torch.nn.attention.SDPBackend


def attention(
    *, dtype=torch.bfloat16, kv_heads=4, mask=None, only=None, head_dim=16, grad=True, **options
):
    def build():
        def tensor(heads):
            return torch.randn(
                2, heads, 8, head_dim, device="cuda", dtype=dtype, requires_grad=grad
            )

        q, k, v = tensor(4), tensor(kv_heads), tensor(kv_heads)
        bias = mask() if mask is not None else None

        def step():
            q.grad = k.grad = v.grad = None
            with sdpa_kernel(only) if only is not None else nullcontext():
                out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, **options)
            if grad:
                out.sum().backward()

        return step

    return of(build)


def test_forward_and_backward_are_one_operator_each() -> None:
    program = attention()
    assert work(program) == ["attention", "sum", "ones_like", "attention_backward"]
    forward = one(program, "attention")
    assert [s.shape for s in forward.outputs] == [(2, 4, 8, 16), (2, 4, 8)]
    assert forward.outputs[1].dtype == "float32"
    assert (forward.args["causal"], forward.args["dropout_p"]) == (False, 0.0)
    assert forward.args["backend"] == "flash"
    backward = one(program, "attention_backward")
    assert backward.phase == "backward"
    assert [s.shape for s in backward.outputs] == [(2, 4, 8, 16)] * 3


def test_flags_are_kept() -> None:
    program = attention(is_causal=True, dropout_p=0.1, scale=2.0)
    for op in (one(program, "attention"), one(program, "attention_backward")):
        assert op.args["causal"] is True
        assert op.args["dropout_p"] == 0.1
        assert op.args["scale"] == 2.0


def test_shared_heads_stay_shared() -> None:
    program = attention(kv_heads=2, enable_gqa=True)
    assert one(program, "attention").inputs[1].shape == (2, 2, 8, 16)
    assert one(program, "attention_backward").outputs[1].shape == (2, 2, 8, 16)


def test_a_bool_mask_becomes_additive_first() -> None:
    program = attention(mask=lambda: torch.ones(8, 8, dtype=torch.bool, device="cuda"))
    assert "where" in work(program)
    forward = one(program, "attention")
    assert forward.args["backend"] == "efficient"
    assert forward.inputs[3].dtype == "bfloat16"


def test_single_precision_takes_the_memory_efficient_kernel() -> None:
    assert one(attention(dtype=torch.float32), "attention").args["backend"] == "efficient"


@pytest.mark.parametrize(
    "options",
    [
        {"only": SDPBackend.MATH},
        {"dtype": torch.float64},
        {
            "mask": lambda: torch.zeros(
                8, 8, 4, device="cuda", dtype=torch.bfloat16, requires_grad=True
            ).permute(2, 0, 1)
        },
    ],
    ids=["asked for", "double precision", "mask with the heads last"],
)
def test_the_math_path(options) -> None:
    program = attention(**options)
    assert not named(program, "attention")
    assert len([op for op in named(program, "bmm") if op.phase == "forward"]) == 2
    assert len([op for op in named(program, "bmm") if op.phase == "backward"]) == 4
    assert len(named(program, "_softmax")) == 1


@pytest.mark.parametrize("apart", range(3), ids=["queries", "keys", "values"])
def test_places_that_lie_last_leave_the_math_path(apart) -> None:
    """(heads, size, places) turned, as an image's convolutions make them: no fused kernel."""

    def build():
        parts = [torch.randn(2, 4, 8, 16, device="cuda").half() for _ in range(3)]
        parts[apart] = parts[apart].mT.contiguous().mT
        return lambda: torch.nn.functional.scaled_dot_product_attention(*parts)

    program = of(build)
    assert not named(program, "attention")
    # Half precision is widened: `_scaled_dot_product_attention_math`.
    assert {op.inputs[0].dtype for op in named(program, "bmm")} == {"float32"}


@pytest.mark.parametrize(
    ("shape", "backend"),
    [((8, 8), "efficient"), ((4, 8, 8), "efficient_only"), ((1, 4, 8, 8), "efficient")],
)
def test_a_mask_of_three_dimensions_rules_cudnn_out(shape, backend) -> None:
    """Seen on an H200: a bias of (heads, queries, keys) ran the memory-efficient kernel."""
    program = attention(mask=lambda: torch.zeros(*shape, device="cuda", dtype=torch.bfloat16))
    assert one(program, "attention").args["backend"] == backend
    assert len(one(program, "attention_backward").outputs) == 3


@pytest.mark.parametrize("shape", [(8, 8), (1, 4, 8, 8), (2, 4, 8, 8)])
def test_a_mask_that_wants_a_gradient_takes_the_memory_efficient_kernel(shape) -> None:
    """Seen on an H200 (72 cases), also in bfloat16, where cuDNN's would be taken without it."""
    program = attention(
        mask=lambda: torch.zeros(*shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    )
    assert one(program, "attention").args["backend"] == "efficient_only"
    backward = one(program, "attention_backward")
    heads = one(program, "attention").inputs[0].shape[1]
    assert backward.outputs[3].shape == (2, heads, 8, 8), "written whole"
    sums = [op for op in named(program, "sum") if op.phase == "backward"]
    assert bool(sums) == (len(shape) < 4 or shape[0] == 1), "of what was broadcast"


def test_only_cudnn_is_still_one_operator() -> None:
    program = attention(only=SDPBackend.CUDNN_ATTENTION)
    assert len(named(program, "attention")) == 1


def test_a_mask_beside_shared_heads_leaves_cudnn_alone() -> None:
    masked = {"mask": lambda: torch.ones(8, 8, dtype=torch.bool, device="cuda"), "grad": False}
    program = attention(kv_heads=2, enable_gqa=True, **masked)
    assert one(program, "attention").args["backend"] == "cudnn"
    odd = attention(kv_heads=2, enable_gqa=True, head_dim=12, **masked)
    assert "bmm" in work(odd)
    assert "attention" not in work(odd)


def test_without_gradients_there_is_no_backward() -> None:
    assert work(attention(grad=False)) == ["attention"]


@pytest.mark.parametrize("batch_first", [True, False])
def test_multi_head_attention_module(batch_first) -> None:
    def build():
        module = nn.MultiheadAttention(8, 2, batch_first=batch_first).cuda()
        x = torch.randn(2, 3, 8, device="cuda")

        def step():
            module.zero_grad()
            module(x, x, x, need_weights=False)[0].sum().backward()

        return step

    program = of(build)
    assert one(program, "attention").module == ""
    assert len(named(program, "attention_backward")) == 1


def test_module_that_returns_weights_computes_them() -> None:
    def build():
        module = nn.MultiheadAttention(8, 2, batch_first=True).cuda()
        x = torch.randn(2, 3, 8, device="cuda")
        return lambda: module(x, x, x, need_weights=True)

    program = of(build)
    assert not named(program, "attention")
    assert "_softmax" in work(program)


def test_autocast_gives_attention_half_precision_inputs() -> None:
    def build():
        q = torch.randn(2, 4, 8, 16, device="cuda")

        def step():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return F.scaled_dot_product_attention(q, q, q)

        return step

    forward = one(of(build), "attention")
    assert forward.inputs[0].dtype == "bfloat16"
    assert forward.args["backend"] == "flash"


def test_the_output_is_saved_for_backward_and_scores_are_not() -> None:
    program = attention(head_dim=64)
    held = [
        s
        for s in program.storages
        if s.category == "activation" and s.label == "gpuscope::attention"
    ]
    assert sorted(s.nbytes for s in held) == [2 * 4 * 8 * 4, 2 * 4 * 8 * 64 * 2]


def test_decoding_with_a_growing_cache() -> None:
    def build():
        qkv = nn.Linear(8, 24).cuda()
        state = {
            "x": torch.randn(2, 8, device="cuda"),
            "k": torch.randn(2, 2, 5, 4, device="cuda"),
            "v": torch.randn(2, 2, 5, 4, device="cuda"),
        }

        @torch.no_grad()
        def step():
            q, k, v = qkv(state["x"]).view(2, 1, 3, 2, 4).permute(2, 0, 3, 1, 4)
            state["k"] = torch.cat([state["k"], k], 2)
            state["v"] = torch.cat([state["v"], v], 2)
            return F.scaled_dot_product_attention(q, state["k"], state["v"])

        return step

    program = of(build, task="decode")
    assert one(program, "attention").inputs[1].shape == (2, 2, 7, 4)  # the second step's
    caches = [s for s in program.storages if s.category == "cache"]
    assert sorted(s.nbytes for s in caches if s.born < 0) == [2 * 2 * 6 * 4 * 4] * 2
    assert sorted(s.nbytes for s in caches if s.born >= 0) == [2 * 2 * 7 * 4 * 4] * 2


@pytest.mark.parametrize(
    ("left", "right", "window", "causal"),
    [(3, 0, 4, True), (None, None, 0, False), (3, 3, 0, False)],
)
def test_flash_attention_s_own_operator_knows_a_window(left, right, window, causal) -> None:
    """Heads come after the sequence there; nothing stands in for it. Windows to both sides are not
    told apart from none."""

    def build():
        q, k, v = (
            torch.randn(2, 8, heads, 16, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for heads in (4, 2, 2)
        )

        def step():
            q.grad = k.grad = v.grad = None
            torch.ops.aten._flash_attention_forward(
                q, k, v, None, None, 8, 8, 0.0, False, False,
                window_size_left=left, window_size_right=right,
            )[0].sum().backward()  # fmt: skip

        return step

    program = of(build)
    assert work(program) == ["attention", "sum", "ones_like", "attention_backward"]
    forward, backward = one(program, "attention"), one(program, "attention_backward")
    assert [s.shape for s in forward.inputs] == [(2, 4, 8, 16), (2, 2, 8, 16), (2, 2, 8, 16)]
    assert [s.shape for s in backward.outputs] == [(2, 4, 8, 16), (2, 2, 8, 16), (2, 2, 8, 16)]
    for op in (forward, backward):
        assert (op.args.get("window", 0), op.args["causal"]) == (window, causal)
        assert op.args["backend"] == "flash_only"


@pytest.mark.parametrize("trained", [True, False])
def test_a_bias_of_the_lower_right_corner_is_flash_attention_s_own(trained) -> None:
    """Two of ten keys come before the first query's own: no mask is made, nothing stands in."""
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    def build(bias):
        q, k = (
            torch.randn(2, 4, n, 16, device="cuda", dtype=torch.bfloat16, requires_grad=trained)
            for n in (8, 10)
        )

        def step():
            q.grad = k.grad = None
            out = F.scaled_dot_product_attention(q, k, k, bias(8, 10))
            if trained:
                out.sum().backward()

        return step

    program = of(lambda: build(causal_lower_right))
    expected = ["attention", "sum", "ones_like", "attention_backward", "add"]
    assert work(program) == expected[: len(expected) if trained else 1]
    for op in (op for op in program.ops if "attention" in op.name):
        assert (op.args["causal"], op.args["to_end"], op.args["backend"]) == (True, True, "flash")
        assert len(op.inputs) == (6 if op.name.endswith("backward") else 3)

    upper = one(of(lambda: build(causal_upper_left)), "attention")
    assert upper.args["causal"]
    assert not upper.args.get("to_end")
    assert upper.args["backend"] == "efficient"  # FlashAttention's mask would end at the last key
