"""Kernels that Inductor generates: bytes over bandwidth, floors, passes, second kernels; and
whole small models, compiled against eager."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuscope.cost.engine import cost_program
from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import CostedProgram, Kernel
from gpuscope.hardware import calibration_for, device
from gpuscope.program.fusion import FUSED, fuse
from gpuscope.program.types import Op, Program, TensorSpec

H200 = device("h200")


def kernels_of(
    read_bytes: int,
    written_bytes: int,
    *,
    rows: int = 0,
    columns: int = 1,
    reduction: str = "",
    splits: int = 1,
    finals: int = 1,
    passes: int = 1,
    operators: tuple[str, ...] = ("add", "mul"),
    random: bool = False,
    across: tuple[int, int] = (0, 0),
    reductions: int = 1,
) -> tuple[Kernel, ...]:
    def spec(count: int, storage: int) -> TensorSpec:
        return TensorSpec((count // 4,), (1,), "float32", "device", storage)

    args: dict[str, object] = {
        "operators": operators,
        "count": len(operators),
        "rows": rows or written_bytes // 4,
        "columns": columns,
        "reduction": reduction,
        "splits": splits,
        "finals": finals,
        "passes": passes,
        "random": random,
        "across": across,
        "reductions": reductions,
    }
    op = Op(0, FUSED, inputs=(spec(read_bytes, 0),), outputs=(spec(written_bytes, 1),), args=args)
    model = model_for(FUSED)
    assert model is not None
    return model(Work(op, H200, Constants(calibration_for(H200))))


def test_a_large_kernel_takes_its_bytes_at_the_bandwidth() -> None:
    (kernel,) = kernels_of(2**30, 2**30)
    rate = 2 * 2**30 / kernel.duration_s
    assert 0.75 * H200.memory_bandwidth_bytes_per_s < rate < H200.memory_bandwidth_bytes_per_s
    assert kernel.limiter == "memory"
    assert kernel.origin == "calibrated"
    assert kernel.name == "triton_poi_fused_add_mul"


def test_the_shortest_kernels_take_about_a_microsecond() -> None:
    (kernel,) = kernels_of(4, 4)
    assert 0.8e-6 < kernel.duration_s < 2.5e-6


def test_time_grows_with_bytes() -> None:
    times = [kernels_of(2**n, 2**n)[0].duration_s for n in range(10, 31, 2)]
    assert times == sorted(times)


def test_a_row_reduction_takes_about_as_long_as_a_copy() -> None:
    copy = kernels_of(2**30, 2**16, rows=2**28)[0]
    row = kernels_of(2**30, 2**16, rows=2**18, columns=2**10, reduction="inner")[0]
    assert copy.duration_s <= row.duration_s < 1.3 * copy.duration_s


def test_special_functions_and_random_numbers_cost_more_than_bytes() -> None:
    plain, gelu = (kernels_of(2**26, 2**26, operators=names)[0] for names in (("add",), ("gelu",)))
    drawn = kernels_of(2**26, 2**26, operators=("native_dropout",), random=True)[0]
    assert plain.limiter == "memory"
    assert drawn.limiter == "issue"
    assert plain.duration_s <= gelu.duration_s < drawn.duration_s


def test_rows_that_are_not_aligned_are_loaded_one_by_one() -> None:
    def seconds(columns: int) -> float:
        rows = 2**26 // columns
        made = kernels_of(
            4 * rows * columns, 4 * rows, rows=rows, columns=columns, reduction="inner"
        )
        return made[0].duration_s

    assert seconds(50257) > 1.2 * seconds(50264)


def test_long_rows_are_read_again_and_short_ones_are_not() -> None:
    def seconds(columns: int, passes: int) -> float:
        rows = 2**28 // columns
        made = kernels_of(
            2**30, 2**29, rows=rows, columns=columns, reduction="inner", passes=passes
        )
        return made[0].duration_s

    assert seconds(1024, 2) == seconds(1024, 1)
    assert seconds(50257, 1) < seconds(50257, 2) < 2 * seconds(50257, 1)


def test_a_split_reduction_takes_as_many_levels_as_recorded() -> None:
    """Inductor's batch norm on 64 x 64 x 112 x 112: 1024 pieces, then 8, then one."""
    sums = kernels_of(2**25, 2**12, rows=768, columns=8192, reduction="outer", splits=64)
    assert [k.grid for k in sums] == [768, 48]
    assert sums[1].duration_s < sums[0].duration_s
    norm = TensorSpec((64,), (1,), "float32", "device", 5)
    args: dict[str, object] = {
        "operators": ("native_batch_norm",),
        "count": 1,
        "rows": 64,
        "columns": 802816,
        "reduction": "outer",
        "splits": 1024,
        "finals": 1,
        "passes": 1,
        "random": False,
    }
    x = TensorSpec((64, 64, 112, 112), (802816, 1, 7168, 64), "bfloat16", "device", 6)
    op = Op(0, FUSED, inputs=(x,), outputs=(norm, replace(norm, storage=7)), args=args)
    model = model_for(FUSED)
    assert model is not None
    made = model(Work(op, H200, Constants(calibration_for(H200))))
    assert len(made) == 3
    assert made[0].grid == 1024


def test_the_interval_holds_what_was_measured_of_such_kernels() -> None:
    (kernel,) = kernels_of(2**28, 2**28)
    assert kernel.low_s < kernel.duration_s / 1.1
    assert kernel.high_s > kernel.duration_s * 1.1


# ---- whole models ------------------------------------------------------------------------------

torch = pytest.importorskip("torch")


def _transformer() -> Any:
    """Two blocks of GPT-2's kind under bfloat16 autocast, with a large vocabulary."""
    nn, functional = torch.nn, torch.nn.functional
    width, words = 768, 50257

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            q, k, v = (
                t.unflatten(-1, (12, 64)).transpose(1, 2)
                for t in self.qkv(self.ln_1(x)).split(width, dim=-1)
            )
            heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + functional.dropout(self.out(heads.transpose(1, 2).flatten(2)), 0.1)
            inner = functional.gelu(self.up(self.ln_2(x)), approximate="tanh")
            return x + functional.dropout(self.down(inner), 0.1)

    class Model(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.wte = nn.Embedding(words, width)
            self.blocks = nn.Sequential(Block(), Block())
            self.head = nn.Linear(width, words, bias=False)

        def forward(self, x: Any) -> Any:
            return self.head(self.blocks(self.wte(x)))

    def build() -> Any:
        model = torch.compile(Model().cuda())
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randint(0, words, (8, 1024), device="cuda")

        def step() -> None:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(x)
                loss = functional.cross_entropy(logits.flatten(0, 1), x.flatten())
            loss.backward()
            optimizer.step()

        return step

    return build


def _convolutions() -> Any:
    from gpuscope.program.models.networks.resnet import BasicBlock

    nn = torch.nn

    def build() -> Any:
        body = nn.Sequential(
            BasicBlock(64, 64, 1),
            BasicBlock(64, 128, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(128, 10),
        )
        model = torch.compile(body.cuda(), mode="reduce-overhead")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(64, 64, 56, 56, device="cuda")

        def step() -> None:
            optimizer.zero_grad()
            model(x).logsumexp(1).mean().backward()
            optimizer.step()

        return step

    return build


@pytest.fixture(scope="module", params=["transformer", "convolutions"])
def captured(request: pytest.FixtureRequest) -> Program:
    from gpuscope.program.capture import capture

    build = _transformer() if request.param == "transformer" else _convolutions()
    return capture(build, name=request.param)


def _busy_s(costed: CostedProgram) -> float:
    return sum(k.duration_s for item in costed.ops for k in item.kernels)


def _library_s(costed: CostedProgram) -> float:
    """Matrix products, convolutions, attention and the optimizer: none of it can fuse."""
    kinds = ("matmul", "attention", "convolution", "optimizer")
    return sum(k.duration_s for item in costed.ops for k in item.kernels if k.kind in kinds)


def test_compiling_helps_within_physical_bounds(captured: Program) -> None:
    eager = cost_program(replace(captured, compiled=""), H200)
    compiled = cost_program(fuse(captured), H200)
    assert _busy_s(compiled) < 0.95 * _busy_s(eager)
    assert _busy_s(compiled) > _library_s(compiled)
    # Aligned operands may make a product faster; nothing makes it vanish.
    assert _library_s(compiled) > 0.2 * _library_s(eager)


def test_every_matrix_product_stays(captured: Program) -> None:
    def products(program: Program) -> int:
        words = (
            "mm",
            "bmm",
            "addmm",
            "convolution",
            "convolution_backward",
            "attention",
            "attention_backward",
        )
        return sum(op.name.rpartition("::")[2] in words for op in program.ops)

    fused = fuse(captured)
    assert products(fused) == products(captured)
    assert not any(op.view for op in fused.ops if op.region)


def test_compiling_needs_no_more_memory(captured: Program) -> None:
    from gpuscope.timeline import simulate_memory

    eager, compiled = simulate_memory(captured), simulate_memory(fuse(captured))
    assert compiled.peak_allocated_bytes <= 1.02 * eager.peak_allocated_bytes


def test_graphs_take_the_host_out(captured: Program) -> None:
    """Guards and gradients cost as much as they save in a shallow model; a graph saves the rest."""
    from gpuscope.timeline import simulate

    eager = simulate(cost_program(replace(captured, compiled=""), H200))
    fused = fuse(captured)
    compiled = simulate(cost_program(replace(fused, compiled="default"), H200))
    graphs = simulate(cost_program(replace(fused, compiled="reduce-overhead"), H200))
    assert graphs.host_busy_s < 0.8 * compiled.host_busy_s
    assert compiled.host_busy_s < 2 * eager.host_busy_s


def test_gradients_live_on_after_the_step(captured: Program) -> None:
    before = {s.id for s in captured.storages if s.category == "gradient" and s.died is None}
    after = {s.id for s in fuse(captured).storages}
    assert before <= after
    assert before


def test_rows_whose_values_are_apart_are_read_by_sectors() -> None:
    """Layer norms of an encoder behind a convolution, 12,000 rows of 768: recorded 84.5 us each."""
    rows, columns = 12000, 768
    full = 4 * rows * columns
    shape = {"rows": rows, "columns": columns, "reduction": "inner", "passes": 2}
    (plain,) = kernels_of(full, full + full // 2, **shape)  # type: ignore[arg-type]
    (apart,) = kernels_of(full, full + full // 2, across=(full, full), **shape)  # type: ignore[arg-type]
    assert apart.grid == rows // 2
    assert apart.duration_s == pytest.approx(84.5e-6, rel=0.2)
    assert apart.duration_s > 2 * plain.duration_s


def middle(long: int, reductions: int = 1, count: int = 2**24) -> Kernel:
    """Sums of `long` float32 values each that are apart in memory."""
    columns = count // long
    read = 4 * columns * long
    (kernel,) = kernels_of(
        read, 4 * columns, rows=columns, columns=long, reduction="outer", reductions=reductions
    )
    return kernel


def test_short_axes_before_the_last_are_reduced_value_by_value() -> None:
    """64 MiB in columns of 48: 34 us on an H200, twice what the bytes take; of 100, 21 for half."""
    tile = middle(48)
    assert tile.duration_s == pytest.approx(34e-6, rel=0.15)
    assert (tile.limiter, tile.block, tile.name[:10]) == ("issue", 256, "triton_per")
    walked = middle(100)
    assert (walked.limiter, walked.name[:10]) == ("memory", "triton_red")
    assert walked.duration_s < 0.7 * tile.duration_s
    assert middle(6).duration_s < 0.7 * tile.duration_s


def test_a_tile_is_filled_up_to_a_power_of_two() -> None:
    assert middle(33).compute_s == pytest.approx(64 / 33 * middle(64).compute_s, rel=0.02)


def test_each_reduction_of_a_tile_takes_its_own_way_through_the_warps() -> None:
    one, two, three = (middle(48, n).compute_s for n in (1, 2, 3))
    assert three - two == pytest.approx(two - one)
    assert 1.4 < two / one < 1.7


def test_alignment_counts_along_rows_alone() -> None:
    inner, outer = (
        kernels_of(2**26, 2**20, rows=2**24 // 101, columns=101, reduction=r)[0].compute_s
        for r in ("inner", "outer")
    )
    assert inner > 3 * outer


def test_blocks_of_a_sum_of_everything_go_round_by_round() -> None:
    """256 MiB in two bytes: 152 us on an H200, at 1.8 TB/s, by 528 blocks of 124 rounds."""
    first, *_ = kernels_of(2**28, 4, rows=1, columns=2**27, reduction="inner", splits=528)
    assert first.duration_s == pytest.approx(152e-6, rel=0.1)
    short, *_ = kernels_of(2**20, 4, rows=1, columns=2**19, reduction="inner", splits=528)
    assert short.duration_s < 5e-6


def test_a_column_sum_of_much_arithmetic_is_bound_by_it() -> None:
    """78 million gradients of a GELU summed up by column: 176 us, the bare sum 34."""

    def column_sum(operators: tuple[str, ...], read: int) -> Kernel:
        args = {"rows": 768, "columns": 101376, "reduction": "outer", "splits": 176}
        return kernels_of(read, 3072, operators=operators, **args)[0]

    plain = column_sum(("sum",), 155713536)
    heavy = column_sum(("gelu_backward", "gelu", "sum"), 2 * 155713536)
    assert heavy.limiter == "issue"
    assert heavy.duration_s > 2.5 * plain.duration_s
    assert plain.limiter != "issue"
