"""Power of one kind of kernel at a time: `benchmarks/power_terms.py --out power_terms.csv.gz`.

What `gpuscope bench --only power` cannot tell apart: what vector kernels draw by kind (norms,
gradients, conversions, random numbers, gathers), products and convolutions of other shapes and
data, kernels whose buffers stay in the L2, one busy multiprocessor, and work with gaps. Under 100 s
on one GPU; needs PyTorch with CUDA and pynvml, nothing of gpuscope. The same loads can be captured
without a GPU: `LOADS[name].make("cuda")` returns the call.

Each load runs for a third of a second before its energy is taken, from one change of the device's
counter to another, about a second apart, with the host always a batch ahead.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Call = Callable[[], object]

WARM_S, WINDOW_S, BATCH_S = 0.3, 0.9, 0.02
DEADLINE_S = 92.0
COLUMNS = (
    "load",
    "seconds",
    "energy_j",
    "mean_w",
    "sm_mhz_mean",
    "sm_mhz_min",
    "temp_c",
    "calls",
    "first_us",
    "pace_us",
)


@dataclass(frozen=True, slots=True)
class Load:
    """What runs.

    Attributes:
        make: from a device's name to the call.
        graph: whether 20 calls are replayed as one CUDA graph (kernels shorter than their launch).
        pace_us: one call every so many microseconds; 0 for back to back.
    """

    make: Callable[[str], Call]
    graph: bool = False
    pace_us: float = 0.0


# -- what runs ------------------------------------------------------------------------------------


def _randn(device: str, *shape: int, dtype: str = "bfloat16", grad: bool = False) -> Any:
    import torch

    return torch.randn(*shape, device=device, dtype=getattr(torch, dtype), requires_grad=grad)


def _inputs(
    device: str, function: object, shapes: tuple[tuple[int, ...], ...], dtype: str, grad: bool
) -> list[Any]:
    """Random ones; batch norm keeps its weights in float32, as under autocast."""
    kept = function is _batch_norm
    return [
        _randn(device, *s, dtype="float32" if kept and len(s) == 1 else dtype, grad=grad)
        for s in shapes
    ]


def _forward(
    function: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "bfloat16"
) -> Callable[[str], Call]:
    def make(device: str) -> Call:
        inputs = _inputs(device, function, shapes, dtype, False)
        return lambda: function(*inputs)

    return make


def _backward(
    function: Callable[..., Any],
    *shapes: tuple[int, ...],
    dtype: str = "bfloat16",
    last: bool = False,
) -> Any:
    """Only the gradient runs; `last`: images in channels last."""

    def make(device: str) -> Call:
        import torch

        inputs = _inputs(device, function, shapes, dtype, True)
        if last:
            inputs = [
                x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
                if x.dim() == 4
                else x
                for x in inputs
            ]
        out = function(*inputs)
        seed = torch.ones_like(out)
        return lambda: torch.autograd.grad(out, inputs, seed, retain_graph=True)

    return make


def _f() -> Any:
    from torch.nn import functional

    return functional


def _aten() -> Any:
    import torch

    return torch.ops.aten


def _layer_norm(x: Any, w: Any, b: Any) -> Any:
    return _f().layer_norm(x, (x.shape[-1],), w, b)


def _batch_norm(x: Any, w: Any, b: Any) -> Any:
    return _f().batch_norm(x, None, None, w, b, training=True)


def _group_norm(x: Any, w: Any, b: Any) -> Any:
    return _f().group_norm(x, 32, w, b)


def _nhwc(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "bfloat16") -> Any:
    """Images and filters in channels last."""

    def make(device: str) -> Call:
        import torch

        last = torch.channels_last
        made = _inputs(device, function, shapes, dtype, False)
        made = [x.contiguous(memory_format=last) if x.dim() == 4 else x for x in made]
        return lambda: function(*made)

    return make


def _conv(x: Any, w: Any) -> Any:
    return _f().conv2d(x, w, padding=w.shape[-1] // 2, groups=x.shape[1] // w.shape[1])


def _attend(q: Any, k: Any, v: Any) -> Any:
    return _f().scaled_dot_product_attention(q, k, v)


def _product(m: int, n: int, k: int, kind: str = "random", dtype: str = "bfloat16") -> Any:
    """Operand as after a ReLU ("relu"), as weights of a model ("small"), or random."""

    def make(device: str) -> Call:
        import torch

        a, b = _randn(device, m, k, dtype=dtype), _randn(device, n, k, dtype=dtype)
        if kind == "relu":
            a = a.relu()
        if kind == "small":
            b = b * 0.02
        out = torch.empty(m, n, device=device, dtype=a.dtype)

        def call() -> object:
            torch.backends.cuda.matmul.allow_tf32 = True
            return torch.mm(a, b.t(), out=out)

        return call

    return make


def _recurrent(kind: str, batch: int, training: bool) -> Any:
    def make(device: str) -> Call:
        import torch

        net = getattr(torch.nn, kind)(1024, 1024, num_layers=2, batch_first=True).to(device)
        net = net.bfloat16()
        x = _randn(device, batch, 128, 1024, grad=True)
        if not training:
            return lambda: net(x)[0]
        out = net(x)[0]
        seed = torch.ones_like(out)
        wanted = [x, *net.parameters()]
        return lambda: torch.autograd.grad(out, wanted, seed, retain_graph=True)

    return make


def _adamw(device: str) -> Call:
    import torch

    parameters = [
        torch.nn.Parameter(_randn(device, 4096, 4096, dtype="float32")) for _ in range(12)
    ]
    for p in parameters:
        p.grad = torch.randn_like(p)
    optimizer = torch.optim.AdamW(parameters, fused=True)
    optimizer.step()
    return optimizer.step


def _adamw_foreach(device: str) -> Call:
    import torch

    parameters = [
        torch.nn.Parameter(_randn(device, 4096, 4096, dtype="float32")) for _ in range(12)
    ]
    for p in parameters:
        p.grad = torch.randn_like(p)
    optimizer = torch.optim.AdamW(parameters, foreach=True)
    optimizer.step()
    return optimizer.step


def _rows(backward: bool) -> Any:
    def make(device: str) -> Call:
        import torch

        table = _randn(device, 2_000_000, 128, dtype="float32")
        at = torch.randint(0, 2_000_000, (1 << 20,), device=device)
        grad = _randn(device, 1 << 20, 128, dtype="float32") if backward else None
        if backward:
            return lambda: _aten().embedding_dense_backward(grad, at, 2_000_000, -1, False)
        return lambda: _f().embedding(at, table)

    return make


def _sort(device: str) -> Call:
    import torch

    at = torch.randint(0, 2_000_000, (1 << 24,), device=device)
    return lambda: torch.sort(at)


def _loss(device: str) -> Call:
    import torch

    x = _randn(device, 8192, 50257, dtype="float32")
    at = torch.randint(0, 50257, (8192,), device=device)
    return lambda: _f().cross_entropy(x, at)


def _one_block(device: str) -> Call:
    """One multiprocessor spins for about a millisecond; all others rest."""
    import torch

    return lambda: torch.cuda._sleep(2_000_000)


def _transposed(x: Any) -> Any:
    import torch

    return x.contiguous(memory_format=torch.channels_last)


def _cat(x: Any, y: Any) -> Any:
    import torch

    return torch.cat((x, y), -1)


NORM = ((131072, 768), (768,), (768,))
IMAGE = ((64, 256, 56, 56), (256,), (256,))
WIDE = (16384, 16384)
IN_L2 = (1024, 4096)
HEADS = ((16, 16, 1024, 64),) * 3

LOADS: dict[str, Load] = {
    "layer_norm_fp32": Load(_forward(_layer_norm, *NORM, dtype="float32")),
    "layer_norm_backward_fp32": Load(_backward(_layer_norm, *NORM, dtype="float32")),
    "layer_norm_bf16": Load(_forward(_layer_norm, *NORM)),
    "layer_norm_backward_bf16": Load(_backward(_layer_norm, *NORM)),
    "batch_norm_bf16": Load(_forward(_batch_norm, *IMAGE)),
    "batch_norm_backward_bf16": Load(_backward(_batch_norm, *IMAGE)),
    "batch_norm_nhwc_bf16": Load(_nhwc(_batch_norm, *IMAGE)),
    "batch_norm_backward_nhwc_bf16": Load(_backward(_batch_norm, *IMAGE, last=True)),
    "group_norm_bf16": Load(_forward(_group_norm, *IMAGE)),
    "add_bf16": Load(_forward(lambda x, y: x + y, WIDE, WIDE)),
    "add_fp32": Load(_forward(lambda x, y: x + y, WIDE, WIDE, dtype="float32")),
    "relu_bf16": Load(_forward(lambda x: x.relu(), WIDE)),
    "gelu_bf16": Load(_forward(lambda x: _f().gelu(x), WIDE)),
    "gelu_backward_bf16": Load(_forward(lambda g, x: _aten().gelu_backward(g, x), WIDE, WIDE)),
    "gelu_fp32": Load(_forward(lambda x: _f().gelu(x), WIDE, dtype="float32")),
    "mul_broadcast_fp32": Load(
        _forward(lambda x, y: x * y, (64, 96, 112, 112), (96, 1, 1), dtype="float32")
    ),
    "cast_to_bf16": Load(_forward(lambda x: x.bfloat16(), WIDE, dtype="float32")),
    "cast_to_fp32": Load(_forward(lambda x: x.float(), WIDE)),
    "transpose_bf16": Load(_forward(_transposed, (64, 256, 56, 56))),
    "cat_bf16": Load(_forward(_cat, (65536, 1024), (65536, 1024))),
    "roll_bf16": Load(_forward(lambda x: x.roll((3, 3), (1, 2)), (64, 56, 56, 256))),
    "dropout_bf16": Load(_forward(lambda x: _aten().native_dropout(x, 0.1, True), WIDE)),
    "softmax_fp32": Load(_forward(lambda x: x.softmax(-1), (65536, 1024), dtype="float32")),
    "softmax_backward_fp32": Load(
        _backward(lambda x: x.softmax(-1), (65536, 1024), dtype="float32")
    ),
    "cross_entropy_fp32": Load(_loss),
    "sum_rows_fp32": Load(_forward(lambda x: x.sum(0), (131072, 768), dtype="float32")),
    "sum_columns_bf16": Load(_forward(lambda x: x.sum(1), (131072, 768))),
    "sum_images_fp32": Load(_forward(lambda x: x.sum((0, 2, 3)), IMAGE[0], dtype="float32")),
    "max_pool_bf16": Load(_forward(lambda x: _f().max_pool2d(x, 3, 2, 1), (64, 64, 112, 112))),
    "adamw_fused_fp32": Load(_adamw),
    "adamw_foreach_fp32": Load(_adamw_foreach),
    "embedding_fp32": Load(_rows(False)),
    "embedding_backward_fp32": Load(_rows(True)),
    "sort_int64": Load(_sort),
    "conv_depthwise_7_bf16": Load(_forward(_conv, (64, 192, 28, 28), (192, 1, 7, 7))),
    "conv_depthwise_7_backward_bf16": Load(_backward(_conv, (64, 192, 28, 28), (192, 1, 7, 7))),
    "conv_1x1_bf16": Load(_forward(_conv, (64, 256, 56, 56), (64, 256, 1, 1))),
    "conv_1x1_nhwc_bf16": Load(_nhwc(_conv, (64, 256, 56, 56), (64, 256, 1, 1))),
    "conv_3x3_bf16": Load(_forward(_conv, (64, 128, 28, 28), (128, 128, 3, 3))),
    "conv_3x3_backward_bf16": Load(_backward(_conv, (64, 128, 28, 28), (128, 128, 3, 3))),
    "conv_3x3_nhwc_bf16": Load(_nhwc(_conv, (64, 320, 32, 32), (320, 320, 3, 3))),
    "conv_3x3_backward_nhwc_bf16": Load(
        _backward(_conv, (64, 128, 28, 28), (128, 128, 3, 3), last=True)
    ),
    "conv_3x3_tf32": Load(_forward(_conv, (64, 128, 28, 28), (128, 128, 3, 3), dtype="float32")),
    "conv_3x3_backward_tf32": Load(
        _backward(_conv, (64, 128, 28, 28), (128, 128, 3, 3), dtype="float32")
    ),
    "matmul_relu_bf16": Load(_product(8192, 8192, 8192, "relu")),
    "matmul_small_weights_bf16": Load(_product(8192, 8192, 8192, "small")),
    "matmul_narrow_bf16": Load(_product(65536, 384, 96)),
    "matmul_768_bf16": Load(_product(12608, 3072, 768)),
    "matmul_tall_bf16": Load(_product(768, 3072, 12608)),
    "matmul_512_bf16": Load(_product(512, 512, 512), graph=True),
    "matmul_decode_64_bf16": Load(_product(64, 14336, 4096)),
    "attention_bf16": Load(_forward(_attend, *HEADS)),
    "attention_backward_bf16": Load(_backward(_attend, *HEADS)),
    "attention_windows_bf16": Load(_forward(_attend, *((4096, 3, 49, 32),) * 3)),
    "lstm_256_bf16": Load(_recurrent("LSTM", 256, False)),
    "lstm_backward_256_bf16": Load(_recurrent("LSTM", 256, True)),
    "lstm_16_bf16": Load(_recurrent("LSTM", 16, False)),
    "gru_backward_64_bf16": Load(_recurrent("GRU", 64, True)),
    "one_block": Load(_one_block),
    "add_l2_fp32": Load(_forward(lambda x, y: x + y, IN_L2, IN_L2[1:], dtype="float32"), True),
    "layer_norm_l2_bf16": Load(_forward(_layer_norm, (8192, 768), (768,), (768,)), True),
    "tiny_graph": Load(_forward(lambda x: x.add_(1.0), (16, 1024)), True),
    "matmul_1024_paced_50": Load(_product(1024, 1024, 1024), pace_us=50.0),
    "matmul_1024_paced_15": Load(_product(1024, 1024, 1024), pace_us=15.0),
    "tiny_paced_50": Load(_forward(lambda x: x.add_(1.0), (16, 1024)), pace_us=50.0),
}
"""By name."""

FLOAT_IMAGE = (64, 64, 128, 128)
MANY_ROWS = (262144, 256)


def _masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return _f().scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _filters(mask: int, x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32") -> Any:
    """One of a convolution's gradients: 0 of the data, 1 of the filters."""

    def make(device: str) -> Call:
        pads, size = [n // 2 for n in w[2:]], len(w) - 2
        a, b = _randn(device, *x, dtype=dtype), _randn(device, *w, dtype=dtype)
        grad = _randn(device, x[0], w[0], *x[2:], dtype=dtype)
        how = [1] * size, pads, [1] * size, False, [0] * size, 1
        wanted = [mask == 0, mask == 1, False]
        return lambda: _aten().convolution_backward(grad, a, b, None, *how, wanted)

    return make


def _volume(x: Any, w: Any) -> Any:
    return _f().conv3d(x, w, padding=w.shape[-1] // 2)


def _places(made: Callable[[Any, Any, Any], Any], rows: int, wide: int, picks: int) -> Any:
    """Rows of a float32 table by random places, with as many rows of values."""

    def make(device: str) -> Call:
        import torch

        table, grad = (_randn(device, n, wide, dtype="float32") for n in (rows, picks))
        at = torch.randint(0, rows, (picks,), device=device)
        return lambda: made(table, at, grad)

    return make


def _along_rows(device: str) -> Call:
    import torch

    table = _randn(device, 65536, 1024, dtype="float32")
    at = torch.randint(0, 1024, (65536, 256), device=device)
    return lambda: table.gather(1, at)


def _whole_numbers(device: str) -> Call:
    import torch

    x = torch.randint(0, 1 << 40, WIDE, device=device)
    return lambda: x + 1


def _complex_product(device: str) -> Call:
    import torch

    x = torch.randn(8192, 8192, device=device, dtype=torch.complex64)
    return lambda: x * x


def _where(x: Any, y: Any) -> Any:
    return _aten().where(x > y, x, y)


def _products(dtype: str, *sizes: int) -> Any:
    """Many small products; TensorFloat-32 is off."""

    def make(device: str) -> Call:
        import torch

        batch, m, n, k = sizes
        a, b = _randn(device, batch, m, k, dtype=dtype), _randn(device, batch, k, n, dtype=dtype)

        def call() -> object:
            torch.backends.cuda.matmul.allow_tf32 = False
            return torch.bmm(a, b)

        return call

    return make


def _f32(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Load:
    return Load(_forward(function, *shapes, dtype="float32"))


MORE: dict[str, Load] = {
    "sigmoid_fp32": _f32(lambda x: x.sigmoid(), WIDE),
    "exp_bf16": Load(_forward(lambda x: x.exp(), WIDE)),
    "sin_fp32": _f32(lambda x: x.sin(), WIDE),
    "power_fp32": _f32(lambda x: x.abs().pow(0.7), WIDE),
    "silu_bf16": Load(_forward(lambda x: _f().silu(x), WIDE)),
    "mul_bf16": Load(_forward(lambda x, y: x * y, WIDE, WIDE)),
    "div_fp32": _f32(lambda x, y: x / y, WIDE, WIDE),
    "compare_fp32": _f32(lambda x, y: x > y, WIDE, WIDE),
    "where_fp32": _f32(_where, WIDE, WIDE),
    "add_int64": Load(_whole_numbers),
    "mul_complex64": Load(_complex_product),
    "add_turned_fp32": _f32(lambda x, y: x + y.t(), WIDE, WIDE),
    "add_rows_fp32": _f32(lambda x, y: x + y, MANY_ROWS, (262144, 1)),
    "turn_heads_bf16": Load(_forward(lambda x: x.transpose(1, 2).contiguous(), (64, 1024, 16, 64))),
    "turn_heads_fp32": _f32(lambda x: x.transpose(1, 2).contiguous(), (64, 1024, 16, 64)),
    "slice_fp32": _f32(lambda x: x[:, 8:200].contiguous(), MANY_ROWS),
    "stack_fp32": _f32(lambda *x: _aten().stack(x, 1), *((4194304, 4),) * 6),
    "pad_fp32": _f32(lambda x: _f().pad(x, (1, 1, 1, 1)), FLOAT_IMAGE),
    "sum_few_fp32": _f32(lambda x: x.sum(-1), (4194304, 16)),
    "sum_middle_fp32": _f32(lambda x: x.sum(1), (4096, 64, 256)),
    "max_rows_fp32": _f32(lambda x: x.max(-1), MANY_ROWS),
    "variance_rows_fp32": _f32(lambda x: x.var(-1), MANY_ROWS),
    "sum_all_bf16": Load(_forward(lambda x: x.sum(), WIDE)),
    "cumsum_rows_fp32": _f32(lambda x: x.cumsum(-1), (1048576, 16)),
    "cumsum_long_fp32": _f32(lambda x: x.cumsum(-1), (1024, 65536)),
    "cumsum_middle_fp32": _f32(lambda x: x.cumsum(1), (1024, 64, 256)),
    "topk_fp32": _f32(lambda x: x.topk(8), MANY_ROWS),
    "softmax_bf16": Load(_forward(lambda x: x.softmax(-1), (65536, 1024))),
    "softmax_few_fp32": _f32(lambda x: x.softmax(-1), (4194304, 16)),
    "layer_norm_wide_bf16": Load(_forward(_layer_norm, (16384, 4096), (4096,), (4096,))),
    "batch_norm_fp32": _f32(_batch_norm, FLOAT_IMAGE, (64,), (64,)),
    "group_norm_nhwc_bf16": Load(_nhwc(_group_norm, *IMAGE)),
    "bilinear_fp32": _f32(
        lambda x: _f().interpolate(x, scale_factor=2.0, mode="bilinear"), (32, 64, 64, 64)
    ),
    "mean_pool_fp32": _f32(lambda x: _f().avg_pool2d(x, 3, 2, 1), FLOAT_IMAGE),
    "rows_picked_fp32": Load(_places(lambda t, i, g: t[i], 100000, 64, 1 << 21)),
    "rows_added_fp32": Load(
        _places(lambda t, i, g: _aten().index_add(t, 0, i, g), 100000, 64, 1 << 21)
    ),
    "gather_fp32": Load(_along_rows),
    "fourier_fp32": _f32(lambda x: _aten()._fft_r2c(x, [1, 2], 0, True), (512, 256, 256)),
    "conv_first_fp32": Load(_forward(_conv, (64, 3, 224, 224), (64, 3, 7, 7), dtype="float32")),
    "conv_first_bf16": Load(_forward(_conv, (64, 3, 224, 224), (64, 3, 7, 7))),
    "conv_filters_tf32": Load(_filters(1, (256, 16, 32, 32), (16, 16, 3, 3))),
    "conv_filters_bf16": Load(_filters(1, (64, 64, 56, 56), (64, 64, 3, 3), "bfloat16")),
    "conv_data_tf32": Load(_filters(0, (64, 64, 56, 56), (64, 64, 3, 3))),
    "conv_volume_bf16": Load(_forward(_volume, (4, 64, 16, 64, 64), (64, 64, 3, 3, 3))),
    "attention_masked_bf16": Load(
        _forward(_masked, *((16, 16, 1024, 64),) * 3, (16, 1, 1024, 1024))
    ),
    "attention_fp32": _f32(_attend, *((16, 16, 512, 64),) * 3),
    "products_64_fp32": Load(_products("float32", 8192, 64, 64, 64)),
    "products_64_bf16": Load(_products("bfloat16", 16384, 64, 64, 64)),
    "product_256_fp32": Load(_products("float32", 1, 65536, 256, 256)),
    "add_4mib_fp32": Load(_forward(lambda x: x + 1.0, (1024, 1024), dtype="float32"), True),
    "add_256kib_fp32": Load(_forward(lambda x: x + 1.0, (256, 256), dtype="float32"), True),
}
"""Further ones: kinds of which programs that nobody tuned are made."""


# -- measuring ------------------------------------------------------------------------------------


class _Meter:
    def __init__(self) -> None:
        import pynvml
        import torch

        pynvml.nvmlInit()
        self.nvml: Any = pynvml
        # Not by its number: where a process sees some devices only, NVML counts them all.
        name = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        self.handle: Any = pynvml.nvmlDeviceGetHandleByUUID(name)

    def energy_mj(self) -> int:
        return int(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle))

    def mhz(self) -> int:
        return int(self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM))

    def temperature_c(self) -> int:
        return int(self.nvml.nvmlDeviceGetTemperature(self.handle, 0))


def _batch(call: Call, count: int, pace_us: float) -> None:
    if not pace_us:
        for _ in range(count):
            call()
        return
    due = time.perf_counter()
    for _ in range(count):
        call()
        due += pace_us * 1e-6
        while time.perf_counter() < due:
            pass


def _graphed(call: Call) -> Call:
    import torch

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            call()
    return graph.replay


def _once_s(call: Call) -> float:
    """Time of a call, of ten of them after some rest."""
    import torch

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(10):
        call()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / 1e4


def _run(meter: _Meter, call: Call | None, count: int, pace_us: float) -> dict[str, float]:
    """Run; energy between two changes of the counter, each with the time that it was seen at."""
    import torch

    marks: list[tuple[float, int]] = []
    clocks: list[int] = []
    pending: list[Any] = []
    finished: list[float] = []
    began, seen = time.perf_counter(), meter.energy_mj()
    while time.perf_counter() - began < WARM_S + WINDOW_S:
        if call is not None:
            _batch(call, count, pace_us)
            done = torch.cuda.Event()
            done.record()
            pending.append(done)
        polled = time.perf_counter()
        while True:
            value = meter.energy_mj()
            if value != seen:
                seen = value
                marks.append((time.perf_counter(), value))
                clocks.append(meter.mhz())
            if pending and pending[0].query():
                pending.pop(0)
                finished.append(time.perf_counter())
            if len(pending) < 2 and time.perf_counter() - polled > (0.0 if call else BATCH_S):
                break
    torch.cuda.synchronize()
    late = [m for m in marks if m[0] - began > WARM_S]
    (t0, e0), (t1, e1) = late[0], late[-1]
    inside = clocks[-len(late) :]
    ends = [t for t in finished if t - began > WARM_S]
    per_s = count * (len(ends) - 1) / (ends[-1] - ends[0]) if len(ends) > 1 else 0.0
    return {
        "seconds": t1 - t0,
        "energy_j": (e1 - e0) / 1e3,
        "mean_w": (e1 - e0) / 1e3 / (t1 - t0),
        "sm_mhz_mean": sum(inside) / len(inside),
        "sm_mhz_min": min(inside),
        "temp_c": meter.temperature_c(),
        "calls": per_s * (t1 - t0),
    }


def _measured(meter: _Meter, name: str) -> dict[str, object]:
    """One row of the file."""
    if name.startswith("idle"):
        return {"load": name, **_run(meter, None, 0, 0.0), "first_us": "", "pace_us": 0}
    load = {**LOADS, **MORE}[name]
    call = load.make("cuda")
    if load.graph:
        call = _graphed(call)
    once_s = _once_s(call)
    count = max(1, int(BATCH_S / max(once_s, load.pace_us * 1e-6)))
    found = _run(meter, call, count, load.pace_us)
    each = 20 if load.graph else 1
    found["calls"] *= each
    return {"load": name, **found, "first_us": once_s * 1e6 / each, "pace_us": load.pace_us}


def main() -> int:
    """Measure all loads, or those named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--more", action="store_true", help="the further loads")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    began = time.perf_counter()
    import torch

    meter, rows = _Meter(), []
    for name in ("idle_before", *(args.names or (MORE if args.more else LOADS)), "idle_after"):
        if time.perf_counter() - began > DEADLINE_S and name != "idle_after":
            sys.stderr.write(f"no time left for {name}\n")
            continue
        try:
            rows.append(_measured(meter, name))
            sys.stderr.write(f"{name:32s} {rows[-1]['mean_w']:6.1f} W\n")
        except Exception as error:
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")
        torch.cuda.empty_cache()
    with gzip.open(args.out, "wt", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {
                    k: f"{v:.6g}" if isinstance(v, float) and k != "energy_j" else v
                    for k, v in row.items()
                }
            )
    sys.stderr.write(f"{len(rows)} rows in {time.perf_counter() - began:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
