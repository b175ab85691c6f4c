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
    read_bytes: int, written_bytes: int, *, rows: int = 0, columns: int = 1,
    reduction: str = "", split: bool = False, passes: int = 1,
) -> tuple[Kernel, ...]:  # fmt: skip
    def spec(count: int, storage: int) -> TensorSpec:
        return TensorSpec((count // 4,), (1,), "float32", "device", storage)

    args: dict[str, object] = {
        "operators": ("add", "mul"), "count": 2, "rows": rows or written_bytes // 4,
        "columns": columns, "reduction": reduction, "split": split, "passes": passes,
        "random": False,
    }  # fmt: skip
    op = Op(0, FUSED, inputs=(spec(read_bytes, 0),), outputs=(spec(written_bytes, 1),), args=args)
    model = model_for(FUSED)
    assert model is not None
    return model(Work(op, H200, Constants(calibration_for(H200))))


def test_a_large_kernel_takes_its_bytes_at_the_bandwidth() -> None:
    (kernel,) = kernels_of(2**30, 2**30)
    rate = 2 * 2**30 / kernel.duration_s
    assert 0.75 * H200.memory_bandwidth_bytes_per_s < rate < H200.memory_bandwidth_bytes_per_s
    assert kernel.limiter == "memory"
    assert kernel.origin == "estimated"
    assert kernel.name == "triton_poi_fused_add_mul"


def test_no_kernel_is_shorter_than_two_microseconds_or_so() -> None:
    (kernel,) = kernels_of(4, 4)
    assert 1.5e-6 < kernel.duration_s < 3e-6


def test_time_grows_with_bytes() -> None:
    times = [kernels_of(2**n, 2**n)[0].duration_s for n in range(10, 31, 2)]
    assert times == sorted(times)


def test_a_reduction_is_a_little_slower_than_a_copy() -> None:
    copy = kernels_of(2**30, 2**16, rows=2**28)[0]
    row = kernels_of(2**30, 2**16, rows=2**18, columns=2**10, reduction="inner")[0]
    assert copy.duration_s < row.duration_s < 1.3 * copy.duration_s


def test_long_rows_are_read_again_and_short_ones_are_not() -> None:
    def seconds(columns: int, passes: int) -> float:
        rows = 2**28 // columns
        made = kernels_of(2**30, 2**29, rows=rows, columns=columns, reduction="inner",
                          passes=passes)  # fmt: skip
        return made[0].duration_s

    assert seconds(1024, 2) == seconds(1024, 1)
    assert seconds(50257, 1) < seconds(50257, 2) < 2 * seconds(50257, 1)


def test_a_split_reduction_is_two_kernels() -> None:
    main, second = kernels_of(2**25, 2**12, rows=768, columns=8192, reduction="outer", split=True)
    assert second.duration_s < main.duration_s
    assert second.note == "second kernel of a split reduction"


def test_the_interval_is_wider_than_that_of_measured_kernels() -> None:
    (kernel,) = kernels_of(2**28, 2**28)
    assert kernel.low_s < kernel.duration_s / 1.3
    assert kernel.high_s > kernel.duration_s * 1.3


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
            BasicBlock(64, 64, 1), BasicBlock(64, 128, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(128, 10),
        )  # fmt: skip
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
        words = ("mm", "bmm", "addmm", "convolution", "convolution_backward", "attention",
                 "attention_backward")  # fmt: skip
        return sum(op.name.rpartition("::")[2] in words for op in program.ops)

    fused = fuse(captured)
    assert products(fused) == products(captured)
    assert not any(op.view for op in fused.ops if op.phase in ("forward", "backward"))


def test_compiling_needs_no_more_memory(captured: Program) -> None:
    from gpuscope.timeline import simulate_memory

    eager, compiled = simulate_memory(captured), simulate_memory(fuse(captured))
    assert compiled.peak_allocated_bytes <= 1.02 * eager.peak_allocated_bytes


def test_the_host_has_less_to_do(captured: Program) -> None:
    from gpuscope.timeline import simulate

    eager = simulate(cost_program(replace(captured, compiled=""), H200))
    fused = fuse(captured)
    compiled = simulate(cost_program(replace(fused, compiled="default"), H200))
    graphs = simulate(cost_program(replace(fused, compiled="reduce-overhead"), H200))
    assert graphs.host_busy_s < compiled.host_busy_s < eager.host_busy_s


def test_gradients_live_on_after_the_step(captured: Program) -> None:
    before = {s.id for s in captured.storages if s.category == "gradient" and s.died is None}
    after = {s.id for s in fuse(captured).storages}
    assert before <= after
    assert before
