"""The host itself: exact products, memory patterns and memory bandwidth, with PyTorch on the CPU.

Run as a process of its own (`python -m gpuscope.doctor.probes.deep_host`). Small on purpose: a few
seconds, at most 256 MiB or a quarter of what is free.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpuscope.doctor.probes.deep_devices import Json, answer, once_s, say
from gpuscope.doctor.probes.deep_memory import try_blocks
from gpuscope.doctor.probes.deep_products import LARGEST, PRECISIONS, exact, reference
from gpuscope.document.text import Text

if TYPE_CHECKING:
    from gpuscope.measurement.accelerator import Accelerator

LIMIT_S = 50.0
SHAPE = (1024, 1024, 1024)
CHECKED = ("fp32", "fp64", "bf16")
MOST_BYTES = 1 << 28
PATTERN_S = 5.0


def available_bytes(meminfo: str) -> int | None:
    """Memory that programs may still take, by /proc/meminfo; None if it does not say.

    Args:
        meminfo: its content.
    """
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def budget_bytes() -> int:
    """How much host memory the test may take."""
    try:
        free = available_bytes(Path("/proc/meminfo").read_text("utf-8"))
    except OSError:
        free = None
    return MOST_BYTES if free is None else min(MOST_BYTES, free // 4)


def bandwidth(size_bytes: int) -> Json:
    """Bytes read and written each second by a copy of `size_bytes`, all of PyTorch's threads."""
    import torch

    source = torch.ones(size_bytes // 4)
    target = torch.empty_like(source)
    seconds = once_s(lambda: torch.add(source, 1.0, out=target), lambda: None)
    moved = 2.0 * source.nbytes
    return {
        "bytes": source.nbytes,
        "seconds": seconds,
        "bytes_per_s": moved / seconds,
        "threads": torch.get_num_threads(),
    }


def host(_: list[Accelerator]) -> Json:
    """Test the host."""
    import torch

    say(Text("products on the host"))
    ref = reference(SHAPE, LARGEST, 1)
    products: Json = {}
    for precision in PRECISIONS:
        if precision.name in CHECKED:
            products[precision.name] = exact(precision, ref, "cpu", lambda: None)
    say(Text("memory of the host"))
    budget = budget_bytes()
    block = torch.empty(max(1 << 16, budget // 4 // 8), dtype=torch.int64)
    others = [torch.empty_like(block) for _ in range(2)]
    tally = try_blocks(others, block, "cpu", time.perf_counter() + PATTERN_S)
    del block, others
    say(Text("memory bandwidth of the host"))
    return {
        "trusted": ref.trusted,
        "products": products,
        "memory": {
            "bytes_tested": tally.bytes_tested,
            "patterns": tally.patterns,
            "wrong_words": tally.wrong_words,
            "first": tally.first,
        },
        "bandwidth": bandwidth(budget // 2),
    }


if __name__ == "__main__":
    answer(host, limit_s=LIMIT_S)
