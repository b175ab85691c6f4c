"""The targets, fixed beforehand, and what was reached: one row each, from all results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """One promise.

    Attributes:
        key: short name; causes are filed under "target:<key>".
        en, zh: what is judged.
        mean, median, worst: limits of the absolute error; None where none was set.
    """

    key: str
    en: str
    zh: str
    mean: float | None = None
    median: float | None = None
    worst: float | None = None


TARGETS: tuple[Target, ...] = (
    Target(
        "matmul",
        "matmul kernels, all dtypes and shapes",
        "矩阵乘法内核，各种精度与形状",
        0.08,
        0.05,
    ),
    Target(
        "attention",
        "attention kernels: forward, backward, decode",
        "注意力内核：前向、反向、解码",
        0.08,
    ),
    Target("convolution", "convolution kernels and their gradients", "卷积内核及其梯度", 0.15),
    Target(
        "memory",
        "pointwise, copies, reductions, norms, gathers",
        "逐元素、拷贝、归约、归一化、聚集",
        0.08,
    ),
    Target(
        "train", "training step, eager, device-bound", "训练步，eager，设备受限", 0.05, None, 0.15
    ),
    Target("compiled", "training step under torch.compile", "torch.compile 下的训练步", 0.08),
    Target(
        "serve", "prefill and decode, eager and with graphs", "预填充与解码，eager 与 CUDA 图", 0.06
    ),
    Target(
        "host",
        "host-bound steps, the machine's own constants",
        "主机受限的步，使用本机自己的常数",
        0.10,
    ),
    Target("memory_peak", "peak allocated memory", "峰值已分配显存", 0.015, None, 0.05),
    Target("energy", "energy per step", "每步能耗", 0.10),
    Target(
        "devices",
        "other GPUs' kernels, leave one device out",
        "其他 GPU 的内核，逐一留出",
        None,
        0.15,
    ),
)


def row_class(row: Row) -> str:
    """Which target a row of the zoo counts for by its step time; "" for none."""
    if row["task"] in ("prefill", "decode"):
        return "serve"
    if row["mode"] == "compiled":
        return "compiled" if row["task"] == "train" else ""
    if row["host_bound"]:
        return "host"
    return "train" if row["task"] == "train" and row["mode"] == "eager" else ""


def limit_of(row: Row) -> float | None:
    """Error of the step time above which a row needs a cause: the mean of its target."""
    found = next((t for t in TARGETS if t.key == row_class(row)), None)
    return found.mean if found else 0.10


def _of_rows(rows: Sequence[Row], key: str) -> Row | None:
    parts = [r[key] for r in rows if key in r]
    if not parts:
        return None
    errors = [abs(p["error"]) for p in parts]
    out: Row = {
        "n": len(parts),
        "mean": statistics.mean(errors),
        "median": statistics.median(errors),
        "worst": max(errors),
        "coverage": None,
        "width": None,
    }
    if "hit" in parts[0]:
        out["coverage"] = sum(p["hit"] for p in parts) / len(parts)
        out["width"] = statistics.median((p["high"] - p["low"]) / p["predicted"] for p in parts)
    return out


def _kernels(kinds: Row, key: str) -> Row | None:
    f = kinds.get(key, {}).get("sealed")
    if not f or not f["points"]:
        return None
    return {
        "n": f["points"],
        "mean": f["mean"],
        "median": f["median"],
        "worst": None,
        "coverage": f["coverage"],
        "width": f["width"],
    }


def reached(rows: Sequence[Row], kinds: Row, devices: Row) -> dict[str, Row | None]:
    """By target: how many, mean, median, worst error, coverage and width; None: not measured."""
    by_class: Callable[[str], list[Row]] = lambda key: [r for r in rows if row_class(r) == key]  # noqa: E731
    found = {key: _kernels(kinds, key) for key in ("matmul", "attention", "convolution", "memory")}
    found |= {key: _of_rows(by_class(key), "step_time_s") for key in ("train", "compiled", "serve")}
    found["host"] = _of_rows([r for r in rows if r["host_bound"]], "step_time_s")
    found["memory_peak"] = _of_rows(rows, "peak_memory_bytes")
    found["energy"] = _of_rows(rows, "energy_j")
    found["devices"] = _of_devices(devices)
    return found


def _of_devices(devices: Row) -> Row | None:
    """Each device and kind of kernel alike; coverage and width of those that have intervals."""
    if not devices:
        return None
    medians = [d["median"] for d in devices.values()]
    bounded = [d for d in devices.values() if d.get("coverage") is not None]
    return {
        "n": len(medians),
        "mean": statistics.mean(medians),
        "median": statistics.median(medians),
        "worst": max(medians),
        "coverage": statistics.mean(d["coverage"] for d in bounded) if bounded else None,
        "width": statistics.median(d["width"] for d in bounded) if bounded else None,
    }


def met(target: Target, got: Row) -> bool:
    """Whether every limit of the target holds."""
    limits = (("mean", target.mean), ("median", target.median), ("worst", target.worst))
    return all(limit is None or got[name] <= limit for name, limit in limits)


def without_cause(
    rows: Sequence[Row], why: dict[str, Row], got: dict[str, Row | None]
) -> list[str]:
    """Rows and targets that miss their limit with no cause written in why.json."""
    names = []
    for row in rows:
        limit = limit_of(row)
        time_off = limit is not None and abs(row["step_time_s"]["error"]) > limit
        memory_off = abs(row["peak_memory_bytes"]["error"]) > 0.05
        if (time_off or memory_off) and row["name"] not in why:
            names.append(row["name"])
    for target in TARGETS:
        of_it = got.get(target.key)
        if of_it is not None and not met(target, of_it) and f"target:{target.key}" not in why:
            names.append(f"target:{target.key}")
    return names
