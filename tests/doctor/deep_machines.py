"""Machines whose active tests were recorded: H200s that are well, to be made ill by a test.

The figures are those of H200s as measured (validation/recordings/h200), a per cent apart.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from gpuscope.doctor.machine import Recording
from gpuscope.doctor.types import Finding

NAME = "NVIDIA H200"
RATES = {
    "bf16": 720e12,
    "fp16": 705e12,
    "tf32": 395e12,
    "fp8": 1350e12,
    "int8": 960e12,
    "fp32": 51e12,
    "fp64": 58e12,
}
SIDES = {"fp32": 4096, "fp64": 4096}
BUS = {"all_reduce": 300e9, "all_gather": 245e9, "reduce_scatter": 230e9, "all_to_all": 280e9}


def healthy(count: int = 8, name: str = NAME) -> Recording:
    """A machine with `count` healthy H200s, or others with the same figures."""
    devices = [_device(index, name) for index in range(count)]
    pairs = [_pair(a, b) for a in range(count) for b in range(count) if a != b]
    joined = [
        {"a": a, "b": b, "p2p": {"nvlink": "ok"}} for a in range(count) for b in range(a + 1, count)
    ]
    probes: dict[str, Any] = {
        "nvml": {"error": None, "pairs": joined},
        "deep_products": _answer(devices, [_products(i) for i in range(count)], host_wrong=False),
        "deep_memory": _answer(devices, [_memory() for _ in range(count)]),
        "deep_copies": _answer(devices, [_copies(i) for i in range(count)]),
        "deep_pairs": _answer(devices, [{} for _ in range(count)], pairs=pairs),
        "deep_collectives": _answer(devices, [{} for _ in range(count)], **_collectives(count)),
        "deep_sustained": _answer(devices, [_sustained(i) for i in range(count)], load_s=30.0),
        "deep_host": {**_answer([], []), **_host()},
    }
    return Recording(probes=copy.deepcopy(probes))


def no_device() -> Recording:
    """A machine without an accelerator."""
    empty = {
        name: _answer([], [])
        for name in ("deep_products", "deep_memory", "deep_copies", "deep_sustained")
    }
    empty["deep_pairs"] = {**_answer([], []), "pairs": []}
    empty["deep_collectives"] = {**_answer([], []), "ranks": 0}
    empty["deep_host"] = {**_answer([], []), **_host()}
    return Recording(probes=empty)


def row(machine: Recording, probe: str, index: int) -> dict[str, Any]:
    """One device's entry in the answer of a test, to be changed."""
    found = machine.probes[probe]
    assert found is not None
    return next(each for each in found["devices"] if each["index"] == index)


def answer(machine: Recording, probe: str) -> dict[str, Any]:
    """The whole answer of a test, to be changed."""
    found = machine.probes[probe]
    assert isinstance(found, dict)
    return found


def by_severity(findings: Iterable[Finding]) -> dict[str, list[int | None]]:
    """Devices of the findings by severity."""
    found: dict[str, list[int | None]] = {}
    for each in findings:
        found.setdefault(each.severity, []).append(each.device)
    return found


def _answer(devices: list[Any], rows: list[Any], **more: Any) -> dict[str, Any]:
    joined = [{**device, **row} for device, row in zip(devices, rows, strict=True)]
    return {
        "kind": "cuda" if devices else None,
        "torch": "2.11.0+cu130",
        "error": None,
        "hung": None,
        "devices": joined,
        **more,
    }


def _device(index: int, name: str) -> dict[str, Any]:
    return {
        "index": index,
        "name": name,
        "slice": False,
        "before": {"utilisation": 0.0, "temperature_c": 33.0, "power_limit_w": 700.0},
    }


def _vary(index: int) -> float:
    return 1.0 + 0.01 * ((index * 5) % 4 - 1.5)


def _products(index: int) -> dict[str, Any]:
    return {
        "products": {
            name: {
                "repeats": 20,
                "elements": 20 * 4096 * 4096,
                "wrong": 0,
                "wrong_results": 0,
                "same_each_time": True,
                "side": SIDES.get(name, 8192),
                "flops_per_s": rate * _vary(index),
            }
            for name, rate in RATES.items()
        }
    }


def _memory() -> dict[str, Any]:
    return {
        "bytes_tested": 120_000_000_000,
        "patterns": [str(n) for n in range(9)],
        "wrong_words": 0,
        "first": None,
        "ecc_new": {"corrected": 0, "uncorrected": 0},
    }


def _copies(index: int) -> dict[str, Any]:
    def of(rate: float, size: int) -> dict[str, Any]:
        return {"bytes": size, "bytes_per_s": rate * _vary(index)}

    return {
        "inside": {"bytes": 1 << 30, "bytes_per_s": 4.24e12 + 1e9 * index},
        "h2d_pinned": of(55.4e9, 1 << 28),
        "d2h_pinned": of(55.3e9, 1 << 28),
        "both_pinned": of(45e9, 1 << 28),
        "pcie_generation": 5,
        "pcie_width": 16,
        "together_bytes_per_s": 40e9,
    }


def _pair(a: int, b: int) -> dict[str, Any]:
    return {
        "from": a,
        "to": b,
        "direct": True,
        "bytes": 1 << 28,
        "seconds": (1 << 28) / 390e9,
        "bytes_per_s": 390e9 * _vary(a + b),
        "wrong_words": 0,
    }


def _collectives(ranks: int) -> dict[str, Any]:
    return {
        "ranks": ranks,
        "stages": None,
        "ranks_error": None,
        "facts": {"nccl": "2.28.9"},
        "wrong": {name: {str(r): 0 for r in range(ranks)} for name in BUS},
        "times": {
            name: {"bytes": 1 << 28, "seconds": 1e-3, "bus_bytes_per_s": bus}
            for name, bus in BUS.items()
        },
    }


def _sustained(index: int) -> dict[str, Any]:
    windows = [[float(at), 668e12 * _vary(index) * (1.1 if at < 2 else 1)] for at in range(1, 31)]
    readings = [
        {
            "at_s": float(at),
            "power_w": 697.0,
            "sm_clock_hz": 1.467e9,
            "temperature_c": min(66.0, 40.0 + at),
            "reasons": ["software power cap"],
            "power_limit_w": 700.0,
        }
        for at in range(1, 31)
    ]
    return {
        "dtype": "bf16",
        "side": 8192,
        "windows": windows,
        "products": 18000,
        "compared": 119,
        "differed": 0,
        "readings": readings,
    }


def _host() -> dict[str, Any]:
    one = {
        "repeats": 5,
        "elements": 5 << 20,
        "wrong": 0,
        "wrong_results": 0,
        "same_each_time": True,
    }
    return {
        "trusted": True,
        "products": {"bf16": one, "fp32": one, "fp64": one},
        "memory": {
            "bytes_tested": 128 << 20,
            "patterns": ["zeros"],
            "wrong_words": 0,
            "first": None,
        },
        "bandwidth": {"bytes": 128 << 20, "seconds": 0.01, "bytes_per_s": 3e10, "threads": 2},
    }
