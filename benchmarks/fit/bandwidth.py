"""Fit the models of memory-bound kernels to recordings: `python benchmarks/fit/bandwidth.py`.

Group by group, constants are tuned by coordinate descent on one half of the recorded points (by a
hash) and judged on the other half; the table printed is that of the other half. `--write` puts the
calibration files in place. A kind's "scale" is 1 with the interval that holds 80 % of the judged
points, which the models give as their own interval.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memory_points import Measured, measured
from recorded import MEASURED_WITH, fit, loss, summary, trial, write_toml

from gpuscope.cost.registry import Constants, Work, model_for
from gpuscope.cost.types import Kernel
from gpuscope.hardware import Device, calibration_for, device
from gpuscope.hardware.calibration import CalibratedValue

OUT = (
    Path(__file__).resolve().parents[2]
    / "src/gpuscope/hardware/catalogue/calibrations/nvidia-h200-sxm"
)
FILES = {
    "bandwidth": "bandwidth",
    "pointwise": "pointwise",
    "copy": "pointwise",
    "random": "pointwise",
    "reduction": "reduction",
    "normalization": "reduction",
    "softmax": "reduction",
    "loss": "reduction",
    "gather": "gather",
    "sort": "gather",
    "optimizer": "optimizer",
    "transfer": "transfer",
    "recurrent": "recurrent",
}
"""First part of a constant's name -> file."""


DIRTY_AFTER_FILL = 0.5
"""Share of the L2 that a fill leaves dirty: a cold sum of 400 MB takes 6-7 us more than a warm one,
what writing back half of 60 MB takes at 4.7 TB/s."""


@dataclass(frozen=True, slots=True)
class Group:
    """Constants that one set of points decides.

    Attributes:
        name: for the table, and of the scale constant.
        chosen: whether a point belongs to it.
        start: constants with their starting values.
        families: scale constants that take their interval from this group.
        fixed: constants read off the recording rather than tuned.
    """

    name: str
    chosen: Callable[[Measured], bool]
    start: Mapping[str, float]
    families: tuple[str, ...] = ()
    fixed: Mapping[str, float] = field(default_factory=dict)


def of(family: str, *ops: str) -> Callable[[Measured], bool]:
    """Points of a bench, of some operators."""
    return lambda m: m.family == family and (not ops or str(m.params["op"]) in ops)


VECTORIZED = (
    "add",
    "mul_scalar",
    "mul",
    "add_",
    "add_scalar",
    "relu",
    "neg",
    "pow2",
    "addcmul",
    "lerp_",
    "threshold_backward",
    "dropout_backward",
    "to_bfloat16",
    "gt_scalar",
    "where",
    "fill_",
    "zero_",
    "zeros",
)


def copies(way: str, kind: str, least: int, most: float = math.inf) -> Callable[[Measured], bool]:
    """Copies of a size over `least` and up to `most` bytes; small pageable ones are as pinned."""

    def chosen(m: Measured) -> bool:
        if m.family != "transfer" or not least < int(m.params["bytes"]) <= most:
            return False
        alike = kind == "pinned" and int(m.params["bytes"]) <= 2**20
        return m.params["op"] == f"{way}_{kind}" or (alike and m.params["op"] == f"{way}_pageable")

    return chosen


TRANSFERS = (
    Group(
        "h2d inline",
        copies("h2d", "pinned", 0, 2**15),
        {"transfer.h2d_inline.efficiency": 0.36, "transfer.h2d_inline.latency_s": 0.8e-6},
        ("transfer.h2d_inline", "transfer.h2d_inline.short"),
    ),
    *(
        Group(
            f"{way} pinned",
            copies(way, "pinned", 2**15 if way == "h2d" else 0),
            {f"transfer.{way}_pinned.efficiency": 0.86, f"transfer.{way}_pinned.latency_s": 2e-6},
            (f"transfer.{way}_pinned.short",),
        )
        for way in ("h2d", "d2h")
    ),
    *(
        Group(f"{way} pinned, large", copies(way, "pinned", 2**19), {}, (f"transfer.{way}_pinned",))
        for way in ("h2d", "d2h")
    ),
    *(
        Group(
            f"{way} pageable",
            copies(way, "pageable", 2**20),
            {f"transfer.{way}_pageable.efficiency": 0.25},
            (f"transfer.{way}_pageable",),
            {f"transfer.{way}_pageable.beyond.efficiency": beyond},
        )
        # Three recordings, on as many hosts: 1 GB takes 97, 133, 148 ms upwards, 53, 59, 75 ms
        # downwards. The middle of them.
        for way, beyond in (("h2d", 0.12), ("d2h", 0.25))
    ),
)

BATCH_NORM = {
    f"normalization.batch.{name}": value
    for name, value in {
        "transform.cycles": 0.3465,
        "transform.base_s": 0.318e-6,
        "transform.step_s": 0.15e-6,
        "transform.load": 0.563,
        "statistics.cycles": 0.541,
        "statistics.load": 0.542,
        "statistics.base_s": 2.88e-6,
        "backward.cycles": 0.952,
        "backward.load": 0.63,
        "backward.base_s": 2.6e-6,
        "nhwc.together_s": 3.15e-6,
        "nhwc.transform.cycles": 0.32,
        "nhwc.transform.base_s": 1.0e-6,
        "nhwc.transform.step_s": 0.1e-6,
        "nhwc.transform.load": 0.6,
        "nhwc.statistics.cycles": 0.584,
        "nhwc.statistics.base_s": 0.58e-6,
        "nhwc.statistics.step_s": 0.16e-6,
        "nhwc.statistics.load": 2.5,
        "nhwc.backward_reduce.cycles": 0.4545,
        "nhwc.backward_reduce.base_s": 0.15e-6,
        "nhwc.backward_reduce.step_s": 0.03e-6,
        "nhwc.backward_reduce.load": 1.05,
        "nhwc.backward_apply.cycles": 0.4,
        "nhwc.backward_apply.base_s": 1.2e-6,
        "nhwc.backward_apply.step_s": 0.1e-6,
        "nhwc.backward_apply.load": 0.8,
    }.items()
}
"""Found kernel by kernel: `batch_norm.py`."""

GROUPS = (
    Group(
        "bandwidth",
        lambda m: of("pointwise", *VECTORIZED)(m) or of("working_set", "ws_write", "ws_copy")(m),
        {
            "bandwidth.floor_s": 0.8e-6,
            "bandwidth.latency_s": 0.6e-6,
            "bandwidth.l2_latency_s": 0.25e-6,
            "bandwidth.l2_bytes_per_clock": 26.0,
            "bandwidth.l2_write_bytes_per_clock": 18.0,
            "bandwidth.turnaround": 0.13,
            "bandwidth.overlap": 3.0,
            "pointwise.vectorized.cycles": 0.05,
        },
        ("pointwise",),
        # Sums and fills of 4 GiB: 4.40 and 4.71 TB/s of 4.8.
        {
            "bandwidth.read_efficiency": 0.917,
            "bandwidth.write_efficiency": 0.981,
            "bandwidth.dirty_share": 0.3,
            # Fills of 2-byte values, ranges and triangles: 0.605 ns a block at 1.98 GHz.
            "bandwidth.blocks_per_clock": 0.835,
        },
    ),
    Group(
        "transcendental",
        of("pointwise", "tanh", "sigmoid", "exp", "silu", "silu_backward", "div", "rsqrt", "cos"),
        {"pointwise.arithmetic.transcendental": 0.26, "pointwise.latency.transcendental_s": 0.3e-6},
    ),
    Group(
        "heavy",
        of("pointwise", "gelu", "gelu_tanh", "gelu_backward"),
        {"pointwise.arithmetic.heavy": 0.36, "pointwise.latency.heavy_s": 0.5e-6},
    ),
    Group(
        "unrolled",
        of("pointwise", "to_float32", "to_float64"),
        {"pointwise.unrolled.cycles": 0.27, "pointwise.unrolled.cycles_per_operand": 0.25},
    ),
    Group(
        "strided",
        of(
            "pointwise",
            "add_row",
            "mul_row",
            "mul_column",
            "heads_copy",
            "qkv_split_copy",
            "stride2_copy",
            "stride2_rows_copy",
        ),
        {
            "pointwise.strided.cycles": 0.2,
            "pointwise.strided.cycles_per_operand": 0.1,
            "pointwise.strided.cycles_per_dim": 0.03,
            "pointwise.strided.cycles_per_thread": 0.5,
        },
        ("copy",),
    ),
    Group(
        "transposed",
        of("pointwise", "transpose_copy", "add_transposed"),
        {"copy.transposed.cycles": 1.1},
    ),
    Group(
        "memcpy",
        lambda m: of("pointwise", "clone", "copy_")(m) or of("transfer", "d2d")(m),
        {"copy.memcpy.odd_size_s": 2.0e-6},
    ),
    Group(
        "cat", of("pointwise", "cat2", "stack4"), {"copy.cat.dense_cycles": 0.1375}, ("copy.cat",)
    ),
    Group(
        "indexed",
        of("pointwise", "triu"),
        {"copy.indexed.cycles": 0.58, "copy.indexed.base_s": 0.4e-6},
    ),
    Group("ramp", of("pointwise", "arange"), {"copy.ramp.cycles": 2.45}),
    Group(
        "random",
        of("pointwise", "dropout", "randn", "bernoulli"),
        {
            "random.dropout.cycles": 0.42,
            "random.uniform.cycles": 0.5,
            "random.normal.cycles": 0.6,
            "random.base_s": 0.3e-6,
            "random.step_s": 0.35e-6,
        },
        ("random",),
    ),
    Group(
        "reduction",
        lambda m: (
            of("reduction", "sum_all", "sum_last", "sum_first", "mean_last", "max_last", "norm")(m)
            or of("working_set", "ws_read")(m)
        ),
        {
            "reduction.rows.base_s": 0.4e-6,
            "reduction.rows.load": 0.85,
            "reduction.columns.base_s": 0.6e-6,
            "reduction.columns.load": 0.85,
            "reduction.overlap": 2.0,
        },
        ("reduction",),
        # What 16 to 784 blocks add to their reading, in micro benches and in training steps.
        {"reduction.shared.base_s": 2.4e-6, "reduction.shared.step_s": 0.227e-6},
    ),
    Group(
        "scan",
        of("reduction", "cumsum"),
        {
            "reduction.scan.cycles": 1.1,
            "reduction.scan.step_s": 0.36e-6,
            "reduction.scan.depth_s": 0.06e-6,
            "reduction.scan.tree_cycles": 0.075,
            "reduction.scan.lookback_s": 1.0e-6,
        },
        ("reduction.scan",),
    ),
    Group(
        "softmax",
        of("reduction", "softmax", "log_softmax", "log_softmax_bwd"),
        {
            "softmax.warp.row_cycles": 14.0,
            "softmax.warp.cycles": 0.39,
            "softmax.warp.wide": 0.8,
            "softmax.warp.base_s": 0.4e-6,
            "softmax.warp.step_s": 0.06e-6,
            "softmax.block.base_s": 2.0e-6,
            "softmax.block.step_s": 0.26e-6,
            "softmax.block.cycles": 0.3,
            "softmax.block.start_s": 2.0e-6,
            "softmax.block.pass_step_s": 0.5e-6,
        },
        ("softmax",),
    ),
    Group(
        "softmax over rows",
        of("reduction", "softmax_dim0"),
        {"softmax.spatial.cycles": 0.25, "softmax.spatial.step_s": 0.25e-6},
        ("softmax.spatial",),
    ),
    Group(
        "layer norm",
        of("reduction", "layer_norm", "rms_norm"),
        {
            f"normalization.{kind}.{width}.{what}": value
            for (kind, width), row in {
                ("layer", "wide"): (40.0, 345.0, 1.0e-6, 0.95e-6),
                ("layer", "narrow"): (80.0, 215.0, 0.6e-6, 0.95e-6),
                ("rms", "wide"): (60.0, 140.0, 0.8e-6, 0.55e-6),
                ("rms", "narrow"): (60.0, 120.0, 0.5e-6, 0.75e-6),
            }.items()
            for what, value in zip(
                ("row_cycles", "step_cycles", "base_s", "step_s"), row, strict=True
            )
        }
        | {
            "normalization.moments.cycles": 0.48,
            "normalization.moments.base_s": 0.6e-6,
            "normalization.moments.step_s": 0.3e-6,
            "normalization.apply.cycles": 0.27,
        },
        ("normalization.layer",),
    ),
    Group(
        "layer norm backward",
        of("reduction", "layer_norm_bwd", "rms_norm_bwd"),
        {
            "normalization.backward.row_cycles": 60.0,
            "normalization.backward.step_cycles": 90.0,
            "normalization.backward.odd_step_cycles": 65.0,
            "normalization.backward.base_s": 0.5e-6,
            "normalization.backward.step_s": 0.5e-6,
            "normalization.weight.cycles": 0.3,
            "normalization.weight.base_s": 0.3e-6,
            "normalization.weight.step_s": 0.9e-6,
            "normalization.weight.rms_relative": 0.85,
        },
        ("normalization.backward", "normalization.weight"),
    ),
    Group(
        "loss",
        of("reduction", "cross_entropy", "cross_entropy_bwd"),
        {"loss.nll.base_s": 0.3e-6, "loss.nll.step_s": 0.9e-6, "loss.nll_backward.step_s": 0.8e-6},
        ("loss",),
    ),
    Group(
        "batch norm",
        of("image_reduction", "batch_norm", "batch_norm_eval"),
        {
            "normalization.batch.library.cycles": 0.75,
            "normalization.batch.library.value_s": 0.55e-9,
            "normalization.batch.library_backward.cycles": 1.144,
            "normalization.batch.library_backward.load": 0.545,
        },
        ("normalization.batch",),
        # A load a step from memory (0.52 us) and from L2 (0.26 us) where one block walks a channel;
        # ATen's kernels one by one (batch_norm.py); cuDNN's channels-last ones in one_kernel.py.
        BATCH_NORM,
    ),
    Group(
        "group norm",
        of("image_reduction", "group_norm"),
        {
            "normalization.batch.group_moments.cycles": 0.5,
            "normalization.batch.group_moments.load": 0.5,
            "normalization.batch.group_moments.base_s": 1.5e-6,
            "normalization.batch.group_sums.cycles": 0.72,
            "normalization.batch.group_sums.load": 0.5,
            "normalization.batch.group_sums.base_s": 1e-6,
            "normalization.group.apply_cycles": 0.68,
            "normalization.group.grad_cycles": 0.95,
            "normalization.group.weight_step_s": 0.4e-6,
        },
    ),
    Group(
        "pool",
        of("image_reduction", "max_pool"),
        {
            "copy.pool.window_cycles": 0.47,
            "copy.pool.channels_last": 1.3,
            "copy.pool_backward.visit_cycles": 1.35,
            "copy.pool_backward.channels_last": 0.8,
        },
        ("copy.pool", "copy.pool_backward"),
    ),
    Group(
        "interpolate",
        of("image_reduction", "upsample"),
        {"copy.interpolate.nearest_cycles": 0.74, "copy.interpolate.channels_last": 2.1},
        ("copy.interpolate",),
    ),
    Group(
        "gathered rows",
        of("gather", "embedding", "index_select", "index", "gather"),
        {"gather.rows.loads": 1.0},
        ("gather.rows",),
    ),
    Group(
        "indexed elements",
        of("gather", "index_put", "index_add", "scatter_add", "masked_select", "nonzero"),
        {
            "gather.index_put.cycles": 1.3,
            "gather.index_add.cycles": 1.9,
            "gather.scatter_add.cycles": 1.05,
            "gather.select.cycles": 0.65,
            "gather.select.base_s": 1.0e-6,
            "gather.write_indices.cycles": 2.4,
            "gather.index.cycles": 2.4,
            "gather.element.base_s": 1.0e-6,
        },
        ("gather.element",),
    ),
    Group(
        "bags",
        of("gather", "embedding_bag"),
        {"gather.bag.piece_cycles": 112.0, "gather.bag.row_cycles": 4.0},
        (),
        # Bags of 1, 4 and 20 rows.
        {"gather.bag.base_s": 0.35e-6, "gather.bag.row_s": 0.1e-6},
    ),
    Group(
        "embedding gradient",
        of("gather", "embedding_backward", "embedding_bag_backward"),
        {
            "gather.walk.base_s": 1e-6,
            "gather.walk.step_s": 45e-9,
            "gather.parts.wave_s": 1.6e-6,
            "sort.pass_s": 4.6e-6,
            "sort.histogram_s": 2.2e-6,
        },
        ("gather.backward", "gather"),
        # Read off the small kernels one by one; a pass's clocks off sorts of 400 million keys.
        {
            "sort.pass_cycles": 2.88,
            "gather.parts.row_s": 0.28e-6,
            "gather.parts.part_s": 0.055e-6,
            "gather.parts.base_s": 0.5e-6,
            "gather.parts.step_s": 7e-9,
            "gather.unique_s": 2.2e-6,
            "gather.unique.lookback_s": 1.6e-6,
            "gather.scan_s": 1.2e-6,
            "sort.tile.base_s": 0.9e-6,
            "sort.tile.pass_s": 1.05e-6,
            "sort.tile.pair_s": 0.11e-9,
        },
    ),
    Group(
        "sort",
        of("reduction", "sort", "topk50"),
        {
            "sort.wide.byte_s": 2.2e-6,
            "sort.narrow.byte_s": 0.75e-6,
            "sort.row.value_cycles": 2.4,
            "sort.row.cycles": 400.0,
            "sort.few.cycles": 1500.0,
            "sort.topk.byte_s": 1.3e-6,
            "sort.topk.value_s": 1.5e-9,
            "sort.topk.row_cycles": 250.0,
            "sort.topk.value_cycles": 1.0,
            "sort.topk.count_cycles": 0.53,
            "sort.topk.gather_cycles": 1.05,
        },
        ("sort",),
    ),
    Group(
        "optimizer",
        of("optimizer"),
        {
            "optimizer.load": 0.65,
            "optimizer.odd": 1.5,
            "optimizer.base_s": 0.6e-6,
            "optimizer.adam_cycles": 0.45,
            "optimizer.adam_steps": 2.4,
        },
        ("optimizer",),
    ),
    *TRANSFERS,
    Group(
        "recurrent",
        of("rnn"),
        {
            "recurrent.cell.cycles": 4.0,
            "recurrent.cell.base_s": 0.6e-6,
            "recurrent.cell_backward.cycles": 4.0,
            "recurrent.cell_backward.base_s": 0.5e-6,
            "recurrent.bias.step_s": 0.23e-6,
        },
        ("recurrent",),
    ),
)


def settings(point: Measured) -> tuple[tuple[str, bool], ...]:
    """Switches that the point was measured under."""
    return (("tf32_cudnn", point.params.get("dtype") == "tf32"),)


def kernels(point: Measured, target: Device, constants: Constants) -> list[Kernel]:
    """What the models say the call launches."""
    found: list[Kernel] = []
    for op in point.ops:
        model = model_for(op.name)
        assert model is not None, op.name
        found += model(Work(op, target, constants, settings(point), point.hot(op)))
    return found


def errors(points: Sequence[Measured], target: Device, values: Mapping[str, float]) -> list[float]:
    """ln(predicted / measured).

    "cold" was made by writing a large buffer, which leaves the L2 full of dirty lines; "cold_clean"
    by reading one. In a real step it is between (bandwidth.dirty_share).
    """
    states = {
        state: trial(target, {**values, "bandwidth.dirty_share": share})
        for state, share in (("hot", 0.0), ("cold_clean", 0.0), ("cold", DIRTY_AFTER_FILL))
    }
    return [
        math.log(sum(k.duration_s for k in kernels(p, target, states[p.state])) / p.seconds)
        for p in points
    ]


def interval(found: Sequence[float]) -> float:
    """Relative half-width that holds 80 % of the errors."""
    ordered = sorted(abs(e) for e in found)
    return math.expm1(ordered[min(len(ordered) - 1, int(0.8 * len(ordered)))])


def matmul_constants() -> dict[str, float]:
    """The calibrated constants of matrix products, which recurrent layers use."""
    found = calibration_for(device("h200"))
    return {n: found.value(n) for n in found.names("matmul")}


def written() -> dict[str, CalibratedValue]:
    """The constants of these files as they stand."""
    found = calibration_for(device("h200"))
    mine = (n for n in found.names() if n.split(".")[0] in FILES)
    return {n: found.entry(n) for n in mine}


def main() -> None:
    """Fit, judge, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="write the calibration files")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", nargs="*", help="groups to fit; the others keep what is written")
    parser.add_argument("--points", action="store_true", help="print every judged point")
    args = parser.parse_args()
    target, points = device("h200"), list(measured())
    values: dict[str, float] = matmul_constants()
    given = set(values)
    scales: dict[str, CalibratedValue] = {}
    if args.only:
        old = written()
        values |= {n: e.value for n, e in old.items() if not n.endswith(".scale")}
        scales = {n: e for n, e in old.items() if n.endswith(".scale")}
    for group in GROUPS:
        mine = [p for p in points if group.chosen(p)]
        train = [p for p in mine if not p.held_out]
        judge = [p for p in mine if p.held_out] or mine
        if args.only and group.name not in args.only:
            continue
        values |= {**group.start, **group.fixed}
        values = fit(
            values, lambda v, t=train: loss(errors(t, target, v)), list(group.start), args.rounds
        )
        found = errors(judge, target, values)
        sys.stdout.write(f"{group.name:22s} {summary(found)}\n")
        sys.stdout.flush()
        if args.points:
            sys.stdout.write(
                "".join(
                    f"    {math.exp(e):5.2f} {p.state:10s} {p.seconds * 1e6:9.1f} us {p.params}\n"
                    for e, p in zip(errors(mine, target, values), mine, strict=True)
                )
            )
            sys.stdout.write(f"    { ({n: values[n] for n in group.start}) }\n")
        width = interval(found)
        for family in group.families:
            scales[f"{family}.scale"] = CalibratedValue(
                1.0,
                "1",
                "calibrated",
                1.0 - width,
                1.0 + width,
                "interval: 80 % of the recorded points that no constant was tuned on",
            )
    if not args.write:
        return
    files: dict[str, dict[str, CalibratedValue]] = defaultdict(dict)
    for name, value in values.items():
        if name not in given:
            unit = "s" if name.endswith("_s") else "1"
            files[FILES[name.split(".")[0]]][name] = CalibratedValue(
                value, unit, "calibrated", value, value
            )
    for name, entry in scales.items():
        files[FILES[name.split(".")[0]]][name] = entry
    for file, entries in files.items():
        write_toml(OUT / f"{file}.toml", MEASURED_WITH, entries)


if __name__ == "__main__":
    main()
