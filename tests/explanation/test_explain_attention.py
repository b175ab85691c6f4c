"""`explain attention`: equal to the prediction; FLOPs, bytes and limits that can be checked."""

from __future__ import annotations

import pytest
from blocks import blocks, fact, sound, titled, told

import gpuscope as gs
from gpuscope.document.blocks import Bars, Explorer, HeatMap, Lines, Table
from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.explanation.attention import attention, exponentials_s
from gpuscope.explanation.attention_case import Attention
from gpuscope.explanation.attention_figures import score_matrix_bytes
from gpuscope.explanation.operators import precision, target


def _predicted(
    case: tuple[int, int, int, int, int, int], causal: bool, math: bool, backward: bool
) -> float:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    b, h, hk, s, sk, d = case

    def build():  # type: ignore[no-untyped-def]
        def made(heads: int, rows: int) -> torch.Tensor:
            shape = (b, heads, rows, d)
            return torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=backward)

        q, k, v, grad = made(h, s), made(hk, sk), made(hk, sk), made(h, s).detach()
        allowed = [SDPBackend.MATH] if math else list(SDPBackend.__members__.values())[1:]

        def step() -> None:
            q.grad = k.grad = v.grad = None
            with sdpa_kernel(allowed):
                out = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=h != hk)
            if backward:
                out.backward(grad)

        return step

    return gs.predict(build, on="h200").device_busy_s


@pytest.mark.parametrize(
    ("case", "causal", "math", "backward"),
    [
        ((2, 32, 8, 1024, 1024, 128), True, False, False),
        ((2, 32, 8, 1024, 1024, 128), True, False, True),
        ((8, 32, 8, 1, 4096, 128), False, False, False),
        ((2, 32, 32, 1024, 1024, 128), True, True, False),
        ((2, 32, 8, 1024, 1024, 128), False, True, False),
    ],
)
def test_equals_the_prediction_of_real_code(
    case: tuple[int, int, int, int, int, int], causal: bool, math: bool, backward: bool
) -> None:
    b, h, hk, s, sk, d = case
    found = attention(
        b,
        h,
        s,
        d,
        kv_heads=hk,
        kv_seq=sk,
        causal=causal,
        backward=backward,
        backend="math" if math else "auto",
    )
    expected = _predicted(case, causal, math, backward)
    # In a step what a copy beside it reads may lie in the L2: a few tenths of a microsecond.
    assert fact(found, "time by itself") == pytest.approx(expected, rel=5e-4, abs=2e-8)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True, "backward": True, "kv_heads": 2},
        {"seq": 1, "kv_seq": 8192, "kv_heads": 2},
        pytest.param({"dtype": "fp32"}, marks=pytest.mark.slow),
        {"dtype": "fp32", "kv_heads": 2, "on": "a100"},
        pytest.param({"dtype": "fp64", "seq": 128, "backward": True}, marks=pytest.mark.slow),
        {"backend": "math", "causal": True, "backward": True},
        {"on": "mi300x", "dtype": "fp16"},
        {"on": "a100", "kv_seq": 300, "causal": True},
        {"seq": 1, "kv_seq": 100},
        {"seq": 1, "dtype": "fp32", "kv_seq": 100},
        pytest.param({"head_dim": 320}, marks=pytest.mark.slow),
        {"on": "tpu-v5e"},
    ],
)
def test_every_kind_is_sound(options: dict[str, object]) -> None:
    sizes = {"batch": 2, "heads": 8, "seq": 512, "head_dim": 64, **options}
    found = attention(**sizes)  # type: ignore[arg-type]
    sound(found)
    assert fact(found, "time by itself") > 0


def test_flops_and_bytes_by_hand() -> None:
    """4 B H S S D, halved by the mask but for the diagonal; Q, K, V, O and the row sums once."""
    plain = attention(2, 8, 1024, 64)
    assert fact(plain, "arithmetic") == 4 * 2 * 8 * 1024 * 1024 * 64
    causal = attention(2, 8, 1024, 64, causal=True)
    assert fact(causal, "arithmetic") == 4 * 2 * 8 * (1024 * 1025 / 2) * 64
    own = 4 * 2 * 8 * 1024 * 64 * 2 + 2 * 8 * 1024 * 4
    assert fact(plain, "device memory traffic") == pytest.approx(own, rel=1e-4)
    grads = attention(2, 8, 1024, 64, backward=True)
    assert fact(grads, "arithmetic") == 3.5 * fact(plain, "arithmetic")


def test_the_math_path_moves_the_scores() -> None:
    found = attention(2, 8, 2048, 64)
    table = titled(found, Table, "The ways")
    row = next(r for r in table.rows if r[0] == "math")
    matrix = 2 * 8 * 2048 * 2048 * 4
    # Written by the product; read and written by the softmax; read to look for rows that are masked
    # throughout, whose flags are a quarter, written and read; cleared of them; read by the product.
    assert row[3] == pytest.approx(7.5 * matrix, rel=0.02)
    assert row[5] > 2  # type: ignore[operator]
    mine = table.rows[table.marked[0]]
    assert mine[3] == 0.0
    assert mine[5] == 1.0


def test_the_exponentials_are_the_paper_s() -> None:
    """FlashAttention-3: an H100 does 3.9 T special functions a second (at 1.83 GHz)."""
    where = target("h100")
    case = Attention(where, precision("bf16", where.device), 1, 16, 16, 4096, 4096, 128)
    found = exponentials_s(case)
    assert found is not None
    assert 16 * 4096**2 / found == pytest.approx(3.9e12, rel=0.1)


def test_the_causal_map_is_a_triangle() -> None:
    found = attention(1, 4, 1024, 64, causal=True)
    drawn = titled(found, HeatMap, "The score matrix")
    assert [sum(cell == 2 for cell in row) for row in drawn.values] == list(range(7, -1, -1))
    assert all(row[at] == 1 for at, row in enumerate(drawn.values))
    full = titled(attention(1, 4, 1024, 64), HeatMap, "The score matrix")
    assert {cell for row in full.values for cell in row} == {0.0}


def test_decoding_is_below_the_ridge_and_prefill_rises_above() -> None:
    found = attention(4, 32, 4096, 128, kv_heads=8, causal=True)
    lines = titled(found, Lines, "Arithmetic intensity")
    prefill, decoding = lines.series
    ridge = lines.marks[0].y
    assert ridge is not None
    assert all(value is not None and value < ridge for value in decoding.y)
    assert prefill.y[-1] is not None
    assert prefill.y[-1] > ridge
    # 4 query heads share each key: 2 FLOP of 2 products for 2 x 2 bytes, four times.
    assert decoding.y[-1] == pytest.approx(4.0, rel=0.01)


def test_sharing_heads_shrinks_the_cache_and_the_step() -> None:
    table = titled(attention(8, 32, 4096, 128, kv_heads=8), Table, "Sharing")
    assert [row[0] for row in table.rows] == [1, 2, 4, 8, 16, 32]
    assert table.rows[table.marked[0]][0] == 8
    assert table.rows[3][2] == 2 * 8 * 128 * 2
    steps = [row[4] for row in table.rows]
    assert steps == sorted(steps)  # type: ignore[type-var]
    # By the model alone, as an H100 has it: an H200's learned correction differs by 5 % in them.
    physical = titled(attention(8, 32, 4096, 128, kv_heads=8, on="h100"), Table, "Sharing")
    prefill = [float(row[6]) for row in physical.rows[:-1]]  # type: ignore[arg-type]
    assert max(prefill) < 1.02 * min(prefill)  # hardly touched: fewer bytes, the same products


def test_limits_stay_below_the_prediction() -> None:
    for options in ({}, {"causal": True}, {"seq": 1, "kv_seq": 65536}):
        found = attention(**{"batch": 4, "heads": 16, "seq": 4096, **options})  # type: ignore[arg-type]
        bars = titled(found, Bars, "If only one thing").bars
        *parts, predicted = (bar.parts[0].value for bar in bars)
        assert max(parts) <= predicted


def test_the_explorer_starts_at_the_answer() -> None:
    found = attention(3, 12, 700, 96, kv_heads=4, causal=True, on="a100")
    explorer = blocks(found, Explorer)[0]
    at = 0
    for slider in explorer.sliders:
        at = at * len(slider.values) + slider.start
    assert explorer.outputs[0].values[at] == pytest.approx(fact(found, "time by itself"))


def test_the_score_matrix_by_hand() -> None:
    where = target("h200")
    case = Attention(where, precision("bf16", where.device), 4, 32, 8, 4096, 4096, 128)
    assert score_matrix_bytes(case) == 8 * 2**30


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"batch": 0}, InvalidValueError, "batch = 0"),
        ({"heads": 32, "kv_heads": 5}, InvalidValueError, "cannot share"),
        ({"kv_heads": 0}, InvalidValueError, "kv-heads = 0"),
        ({"seq": -4}, InvalidValueError, "seq = -4"),
        ({"backend": "fast"}, InvalidValueError, "fast"),
        ({"dtype": "fp8"}, UnsupportedError, "fp8"),
        ({"dtype": "fp32", "backend": "flash"}, UnsupportedError, "fp16 and bf16"),
        ({"backend": "cudnn", "on": "a100"}, UnsupportedError, "9.0"),
        ({"backend": "efficient", "kv_heads": 4}, UnsupportedError, "share"),
        ({"on": "v100"}, UnsupportedError, "bfloat16"),
        ({"on": "h20000"}, UnknownNameError, "h20000"),
        ({"batch": 4096, "seq": 65536}, InvalidValueError, "TiB"),
        ({"batch": 64, "seq": 32768, "backend": "math"}, InvalidValueError, "TiB"),
    ],
)
def test_what_cannot_be_is_refused(
    options: dict[str, object], error: type[GpuscopeError], says: str
) -> None:
    with pytest.raises(error, match=says):
        attention(**options)  # type: ignore[arg-type]


def test_heads_wider_than_any_fused_kernel_of_half_precision() -> None:
    wide, built = (gs.explain("attention", seq=4096, head_dim=d) for d in (512, 256))
    assert told(wide, "implementation") == "efficient"
    assert fact(wide, "share of the dense peak") < 1
    assert fact(wide, "time by itself") > 2 * fact(built, "time by itself")


def test_single_precision_runs_on_the_vector_lanes() -> None:
    assert "the vector lanes" in told(gs.explain("attention", dtype="fp32"), "what sets the time")


def test_sharing_is_shown_where_only_decoding_fits() -> None:
    found = gs.explain("attention", batch=64, heads=64, kv_heads=8, seq=1, kv_seq=131_072)
    table = titled(found, Table, "Sharing heads")
    assert table.rows
    assert [table.rows[i][0] for i in table.marked] == [8.0]
    assert table.rows[table.marked[0]][-1] is None  # a prompt of that length does not fit
