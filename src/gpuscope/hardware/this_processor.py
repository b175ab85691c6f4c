"""This machine's processor: what the system says of it, and what a second of timing shows.

The timing runs in a process of its own, in which a product takes one thread: products of matrices
that lie in the L2 and copies in L2, L3 and memory, by one thread and then by one a core. What a
core reaches in a product is taken as `_REACHED` of its peak.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from gpuscope.children import environment, python
from gpuscope.document.text import Text
from gpuscope.errors import UnsupportedError
from gpuscope.hardware.names import THIS_CPU
from gpuscope.hardware.processors import Processor

__all__ = ["this_processor"]

_REACHED = 0.8
"""Of the vector units' peak, what NumPy's library reaches in such a product: on a core of Emerald
Rapids 150 GFLOP/s where ONNX Runtime's reached up to 184."""

_SIDE = 320
_COPIES = {"l2": 0.25, "l3": 4.0, "memory": 48.0}
"""Size of a copy's source by level, in L2s."""

_LEAST_L2, _LEAST_L3 = 1 << 20, 16 << 20


@cache
def this_processor() -> Processor:
    """The processor, its figures measured.

    Raises:
        UnsupportedError: it cannot be timed here.
    """
    l2, l3 = cache_bytes(2) or _LEAST_L2, cache_bytes(3) or _LEAST_L3
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = python("gpuscope.hardware.this_processor", str(l2), str(cores()))
    try:
        ran = subprocess.run(
            command, env={**environment(), **threads}, capture_output=True, text=True, timeout=60,
            check=True,
        )  # fmt: skip
        seen = json.loads(ran.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UnsupportedError(
            Text("This machine's processor could not be timed."),
            str(error)[:200],
            Text("Name one of the catalogue: --on intel-xeon-8592"),
        ) from error
    return _seen_as(seen["one"], seen["all"], l2, l3)


def _seen_as(one: dict[str, float], all_: dict[str, float], l2: int, l3: int) -> Processor:
    return Processor(
        id=THIS_CPU,
        name=_name(),
        vendor="",
        architecture="",
        cores=cores(),
        core_flops_per_s={"fp32": one["flops"] / _REACHED},
        flops_per_s={"fp32": all_["flops"] / _REACHED},
        vector_bits=vector_bits(),
        l2_bytes=l2,
        l3_bytes=l3,
        l2_bytes_per_s=one["l2"],
        l3_bytes_per_s=one["l3"],
        core_memory_bytes_per_s=one["memory"],
        memory_bytes_per_s=all_["memory"],
        origin="measured",
    )


def cores() -> int:
    """Cores that this process may use; two threads of one core count once."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    mine = os.sched_getaffinity(0)
    shared = {
        (_text(f"{_CPU}{number}/topology/thread_siblings_list") or str(number)) for number in mine
    }
    return max(1, len(shared))


_CPU = "/sys/devices/system/cpu/cpu"


def cache_bytes(level: int) -> int | None:
    """Size of a cache as the system tells it; None where it does not."""
    for number in range(8):
        folder = f"{_CPU}0/cache/index{number}"
        if _text(f"{folder}/level") == str(level):
            size = _text(f"{folder}/size")
            scale = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
            digits = size.rstrip("KM")
            return int(digits) * scale if digits.isdigit() else None
    return None


def vector_bits() -> int:
    """Width of the widest vector registers that the processor names."""
    flags = next(
        (line for line in _text("/proc/cpuinfo").splitlines() if line.startswith("flags")), ""
    ).split()
    if "avx512f" in flags:
        return 512
    return 256 if "avx2" in flags else 128


def _name() -> str:
    import platform

    for line in _text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "CPU"


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""


# -- in the process of its own ---------------------------------------------------------------------


def _shortest(call: Callable[[], object], seconds: float) -> float:
    found: list[float] = []
    end = time.perf_counter() + seconds
    call()
    while len(found) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def _product(_: int) -> float:
    import numpy as np

    a, b = np.ones((2, _SIDE, _SIDE), np.float32)
    out = np.empty_like(a)
    return 2.0 * _SIDE**3 / _shortest(lambda: np.matmul(a, b, out=out), 0.1)


def _copying(nbytes: int) -> Callable[[int], float]:
    import numpy as np

    def copy(_: int) -> float:
        source, into = np.ones(nbytes // 4, np.float32), np.empty(nbytes // 4, np.float32)
        return 2.0 * source.nbytes / _shortest(lambda: np.copyto(into, source), 0.06)

    return copy


def _timed(l2_bytes: int, count: int) -> dict[str, dict[str, float]]:
    """FLOP/s and bytes/s, read and written together, of one thread and of `count` at once."""
    runs: dict[str, Callable[[int], float]] = {"flops": _product}
    runs |= {name: _copying(int(l2s * l2_bytes)) for name, l2s in _COPIES.items()}
    with ThreadPoolExecutor(count) as pool:
        one = {name: run(0) for name, run in runs.items()}
        all_ = {name: sum(pool.map(run, range(count))) for name, run in runs.items()}
    return {"one": one, "all": all_}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_timed(int(sys.argv[1]), int(sys.argv[2]))))
