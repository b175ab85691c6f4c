"""Figures that gpuscope's cost models compute, or that were measured, as sources for checks."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from gpuscope.explain.types import Words
from gpuscope.hardware import Device, calibration_for, device, parse_target
from gpuscope.learn.claims.scales import both, number
from gpuscope.learn.claims.types import Figure, NoFigureError, Source

if TYPE_CHECKING:
    from gpuscope.cost.gemm import Plan
    from gpuscope.cost.registry import Work

_ORIGINS = {"measured": "实测", "calibrated": "标定"}
_SIZES = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "tf32": 4.0, "fp8": 1.0, "int8": 1.0}
_RESULT_SIZES = {"bf16": 2.0, "fp16": 2.0, "fp8": 2.0}


def measured(name: str, constant: str, unit: str = "", label: tuple[str, str] = ("", "")) -> Source:
    """A constant that was measured on a device, or fitted to measurements (docs/calibration.md).

    The source raises:
        NoFigureError: it was measured on another device only, or not at all.
    """

    def compute() -> Figure:
        found = device(name)
        calibration = calibration_for(found)
        entry = calibration.entry(constant)
        if entry.origin == "estimated":
            raise NoFigureError(
                f"Not measured on {found.name}: {constant}.",
                f"未在 {found.name} 上测量：{constant}。",
            )
        shown = both(entry.value, unit)
        return Figure(
            entry.value,
            Words(
                f"{entry.origin} on {found.name}, {constant}: {shown.en}",
                f"在 {found.name} 上{_ORIGINS[entry.origin]}，{constant}：{shown.zh}",
            ),
            Words(*label),
            "recorded measurement",
            tuple(calibration.measured_with.split("; ")),
        )

    return compute


def matmul_s(name: str, m: int, n: int, k: int, dtype: str, batch: int = 1) -> Source:
    """Time of a matrix product on a device by the cost model, seconds."""

    def compute() -> Figure:
        found = device(name)
        plan = _plan(found, m, n, k, dtype, batch)
        shown = both(plan.duration_s, "µs")
        en = f"{_product(m, n, k, batch)} in {dtype} on {found.name}: {shown.en}, tile "
        zh = f"{found.name} 上 {dtype} 的 {_product(m, n, k, batch)}：{shown.zh}，分块 "
        limit = f", limited by {plan.limiter}"
        tile = plan.tile.name
        limited = f"，受限于 {plan.limiter}"
        return Figure(
            plan.duration_s, Words(en + tile + limit, zh + tile + limited),
            Words(found.name, found.name), "model",
        )  # fmt: skip

    return compute


def matmul_busy_units(name: str, m: int, n: int, k: int, dtype: str) -> Source:
    """Multiprocessors that a matrix product keeps busy by the cost model: its thread blocks, at
    most all of the device."""

    def compute() -> Figure:
        found = device(name)
        plan = _plan(found, m, n, k, dtype, 1)
        busy = float(min(plan.grid, int(found.require("compute_units"))))
        en = f"{_product(m, n, k, 1)} in {dtype} on {found.name}: {plan.grid} thread blocks of "
        zh = f"{found.name} 上 {dtype} 的 {_product(m, n, k, 1)}：{plan.grid} 个线程块，分块 "
        return Figure(
            busy, Words(f"{en}{plan.tile.name}", f"{zh}{plan.tile.name}"),
            Words(found.name, found.name), "model",
        )  # fmt: skip

    return compute


def matmul_tile(name: str, m: int, n: int, k: int, dtype: str) -> Source:
    """Elements of the result that one thread block computes, by the cost model."""

    def compute() -> Figure:
        found = device(name)
        tile = _plan(found, m, n, k, dtype, 1).tile
        en = f"{_product(m, n, k, 1)} in {dtype} on {found.name}: tile {tile.name}"
        zh = f"{found.name} 上 {dtype} 的 {_product(m, n, k, 1)}：分块 {tile.name}"
        return Figure(
            float(tile.m * tile.n), Words(en, zh), Words(found.name, found.name), "model"
        )

    return compute


def _product(m: int, n: int, k: int, batch: int) -> str:
    sizes = f"{m}×{k} · {k}×{n}"
    return f"{batch} × ({sizes})" if batch > 1 else sizes


@lru_cache(maxsize=64)
def _plan(found: Device, m: int, n: int, k: int, dtype: str, batch: int) -> Plan:
    from gpuscope.cost.gemm import Problem, plan
    from gpuscope.cost.gemm_machine import machine_for
    from gpuscope.cost.registry import Constants
    from gpuscope.hardware.device import RATE_DTYPES

    item = _SIZES[dtype]
    out = _RESULT_SIZES.get(dtype, 4.0)
    problem = Problem(
        m, n, k, batch, RATE_DTYPES[dtype], a_bytes=item * m * k * batch,
        b_bytes=item * k * n * batch, c_bytes=out * m * n * batch, item_bytes=item, out_bytes=out,
    )  # fmt: skip
    constants = Constants(calibration_for(found))
    return plan(problem, machine_for(found, constants, RATE_DTYPES[dtype], "matmul"))


def transfer_s(name: str, size_bytes: float, way: str, pinned: bool) -> Source:
    """Time of a copy over the host link by the cost model, seconds; `way` is "h2d" or "d2h"."""

    def compute() -> Figure:
        from gpuscope.cost.transfer import link_copy

        found = device(name)
        kernel = link_copy(_work(found), size_bytes, way, pinned)
        shown, size = both(kernel.duration_s, "ms"), both(size_bytes, "MB")
        kind, kind_zh = ("pinned", "锁页内存") if pinned else ("pageable", "可分页内存")
        return Figure(
            kernel.duration_s,
            Words(
                f"copying {size.en} ({way}, {kind}) on {found.name}: {shown.en}",
                f"{found.name} 拷贝 {size.zh}（{way}，{kind_zh}）：{shown.zh}",
            ),
            Words(kind, kind_zh), "model",
        )  # fmt: skip

    return compute


def _work(found: Device) -> Work:
    from gpuscope.cost.registry import Constants, Work
    from gpuscope.program.types import Op

    return Work(Op(0, ""), found, Constants(calibration_for(found)))


def all_reduce_s(target: str, size_bytes: float) -> Source:
    """Time of an all-reduce over all devices of a target ("8xh200") by the cost model, seconds."""

    def compute() -> Figure:
        from gpuscope.cost.collective_ways import all_reduce_s as time_s
        from gpuscope.cost.collective_ways import group_of, tuning_of
        from gpuscope.cost.registry import Constants

        cluster = parse_target(target)
        constants = Constants(calibration_for(cluster.device))
        group = group_of(cluster, cluster.n_devices)
        seconds = time_s(group, size_bytes, tuning_of(constants))
        shown, size = both(seconds, "ms"), both(size_bytes, "MB")
        return Figure(
            seconds,
            Words(
                f"all-reduce of {size.en} on {cluster.name}: {shown.en}",
                f"{cluster.name} 上 {size.zh} 的 all-reduce：{shown.zh}",
            ),
            Words(target, target), "model",
        )  # fmt: skip

    return compute


def resident_blocks(name: str, threads: int, registers: int, shared_bytes: int) -> Source:
    """Thread blocks that fit on one multiprocessor at once."""

    def compute() -> Figure:
        import numpy as np

        from gpuscope.analysis.launch_shape import resident_blocks as fitting

        found = device(name)
        one = [np.array([value], np.int64) for value in (threads, registers, shared_bytes)]
        blocks = float(fitting(found, *one)[0][0])
        en = f"{threads} threads, {registers} registers, {shared_bytes} B shared on {found.name}"
        zh = f"{found.name}：{threads} 线程、{registers} 寄存器、{shared_bytes} B 共享内存"
        return Figure(
            blocks, Words(f"{en}: {number(blocks)} blocks", f"{zh}：{number(blocks)} 个线程块"),
            Words("", ""), "model",
        )  # fmt: skip

    return compute


def attention_flops(batch: int, heads: int, queries: int, keys: int, head_dim: int) -> Source:
    """FLOPs of one attention call without a mask, by the cost model."""

    def compute() -> Figure:
        from gpuscope.cost.attention import attention_flops as flops
        from gpuscope.program.types import TensorSpec

        def spec(tokens: int) -> TensorSpec:
            return TensorSpec((batch, heads, tokens, head_dim), (1, 1, 1, 1), "bfloat16")

        value = flops(spec(queries), spec(keys), spec(keys), False)
        shown = both(value, "GFLOP")
        en = f"attention of {queries} queries on {keys} keys, {heads} heads of {head_dim}"
        zh = f"{heads} 个头（维度 {head_dim}），{queries} 个查询对 {keys} 个键的注意力"
        return Figure(
            value, Words(f"{en}: {shown.en}", f"{zh}：{shown.zh}"), Words("", ""), "model"
        )

    return compute


def parameters(name: str) -> Source:
    """Parameters of a built-in model."""

    def compute() -> Figure:
        from gpuscope.program.models.registry import find

        model = find(name)
        if model.parameters is None:
            raise NoFigureError(
                f"Nobody published the parameters of {model.name}.",
                f"{model.name} 的参数量未公布。",
            )
        shown = both(float(model.parameters), "billion")
        return Figure(
            float(model.parameters),
            Words(f"parameters of {model.name}: {shown.en}", f"{model.name} 的参数量：{shown.zh}"),
            Words(model.name, model.name), "catalogue",
            (f"published config.json of {model.name}",),
        )  # fmt: skip

    return compute


def config(name: str, key: str) -> Source:
    """A number of a built-in language model's configuration, e.g. "num_hidden_layers"."""

    def compute() -> Figure:
        from gpuscope.program.models.registry import find
        from gpuscope.program.models.transformers_spec import TransformersSpec

        model = find(name)
        # A model of the transformers package is built by its specification's method.
        spec = getattr(model.build, "__self__", None)
        values = spec.values if isinstance(spec, TransformersSpec) else {}
        value = values.get(key)
        if not isinstance(value, (int, float)):
            raise NoFigureError(
                f"The model {model.name} has no '{key}'.", f"模型 {model.name} 没有 {key}。"
            )
        return Figure(
            float(value),
            Words(f"{key} of {model.name}: {value}", f"{model.name} 的 {key}：{value}"),
            Words("", ""), "catalogue", (f"published config.json of {model.name}",),
        )  # fmt: skip

    return compute
