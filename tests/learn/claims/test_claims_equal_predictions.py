"""A claim that uses a model gives the answer of `gpuscope predict` for the same thing."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as functional

import gpuscope as gs
from gpuscope.analysis import launch_shape
from gpuscope.hardware import device
from gpuscope.learn.claims.book import claims_of
from gpuscope.learn.claims.registry import TOPICS
from gpuscope.learn.claims.types import FIGURES, Figure

Call = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

NO_STEP = {"rounding_error"}
"""Numerical experiments: arithmetic that is carried out, of which there is nothing to predict."""


def _step(make: Callable[[], Any], on: str) -> gs.Run:
    """A step that is nothing but what `make` returns a function for."""
    return gs.predict(make, on)


@cache
def _product(on: str, m: int, n: int, k: int, dtype: str, batch: int = 1) -> gs.Run:
    def build() -> Callable[[], Any]:
        many = (batch,) if batch > 1 else ()
        a = torch.empty(*many, m, k, device="cuda", dtype=DTYPES[dtype])
        b = torch.empty(*many, k, n, device="cuda", dtype=DTYPES[dtype])
        return lambda: a @ b

    return _step(build, on)


def _busy_s(run: gs.Run) -> float:
    return sum(time.busy_s for time in run.analysis.time.values())


def _gemm(run: gs.Run) -> Any:
    return next(kernel for kernel in run.timeline.kernels if kernel.name.startswith("gemm"))


def _matmul_s(*arguments: Any, **more: Any) -> float:
    return _busy_s(_product(*arguments, **more))


def _matmul_busy_units(on: str, *sizes: Any) -> float:
    return min(_gemm(_product(on, *sizes)).grid, device(on).require("compute_units"))


def _matmul_tile(*arguments: Any) -> float:
    found = re.search(r"_(\d+)x(\d+)x", _gemm(_product(*arguments)).name)
    assert found is not None
    return float(found[1]) * float(found[2])


def _transfer_s(on: str, size_bytes: int, way: str, pinned: bool) -> float:
    def build() -> Callable[[], Any]:
        here = torch.empty(size_bytes, dtype=torch.uint8, pin_memory=pinned)
        there = torch.empty(size_bytes, dtype=torch.uint8, device="cuda")
        target, source = (there, here) if way == "h2d" else (here, there)
        return lambda: target.copy_(source)

    return _busy_s(_step(build, on))


def _all_reduce_s(on: str, size_bytes: float) -> float:
    def build() -> Callable[[], Any]:
        dist.init_process_group("nccl")
        values = torch.empty(int(size_bytes) // 2, dtype=torch.bfloat16, device="cuda")
        return lambda: dist.all_reduce(values)

    run = _step(build, on)
    return next(k for k in run.timeline.kernels if k.kind == "collective").duration_s


def _attention_flops(batch: int, heads: int, queries: int, keys: int, width: int) -> float:
    def build() -> Callable[[], Any]:
        def rows(count: int) -> torch.Tensor:
            return torch.empty(batch, heads, count, width, device="cuda", dtype=torch.bfloat16)

        query, key, value = rows(queries), rows(keys), rows(keys)

        def step() -> Any:
            with torch.no_grad():
                return functional.scaled_dot_product_attention(query, key, value)

        return step

    found = _step(build, "h200").analysis.utilisation
    assert found is not None
    return found.model_flops


def _kept_after_free(size_bytes: int) -> float:
    def build() -> Callable[[], Any]:
        def step() -> None:
            torch.empty(size_bytes, dtype=torch.uint8, device="cuda").zero_()

        return step

    kept = _step(build, "h200").reserved_memory_bytes
    assert kept is not None
    return float(kept)


def _resident_blocks(on: str, *launch: int) -> float:
    """What the analysis of a predicted run asks for its kernels' occupancy."""
    import numpy as np

    columns = [np.array([value], np.int64) for value in launch]
    return float(launch_shape.resident_blocks(device(on), *columns)[0][0])


PREDICTED: dict[str, Callable[..., float]] = {
    "matmul_s": _matmul_s,
    "matmul_busy_units": _matmul_busy_units,
    "matmul_tile": _matmul_tile,
    "transfer_s": _transfer_s,
    "all_reduce_s": _all_reduce_s,
    "attention_flops": _attention_flops,
    "kept_after_free": _kept_after_free,
    "resident_blocks": _resident_blocks,
}


@cache
def _asked() -> dict[Call, Figure]:
    """What all claims ask of models, with what they are told."""
    told: dict[Call, Figure] = {}

    def watched(name: str, compute: Callable[..., Figure]) -> Callable[..., Figure]:
        def figure(*arguments: Any, **more: Any) -> Figure:
            found = compute(*arguments, **more)
            if found.method == "model":
                told[name, arguments, tuple(sorted(more.items()))] = found
            return found

        return figure

    with pytest.MonkeyPatch.context() as patched:
        for name, compute in list(FIGURES.items()):
            patched.setitem(FIGURES, name, watched(name, compute))
        for path in sorted(TOPICS.glob("*.toml")):
            for claim in claims_of(path.read_bytes()):
                claim.verdict()
    return told


def test_claims_ask_models() -> None:
    asked = {name for name, _, _ in _asked()}
    assert asked >= set(PREDICTED)
    assert asked - set(PREDICTED) == NO_STEP  # a new one needs its prediction here


@pytest.mark.parametrize("name", PREDICTED)
def test_a_model_in_a_claim_says_what_is_predicted(name: str) -> None:
    for (of, arguments, more), figure in _asked().items():
        if of != name:
            continue
        predicted = PREDICTED[name](*arguments, **dict(more))
        # A timeline counts in whole nanoseconds, each event's.
        room = 2e-9 if name.endswith("_s") else 0.0
        assert figure.value == pytest.approx(predicted, rel=1e-6, abs=room), (arguments, more)
