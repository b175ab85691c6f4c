"""`triton.testing.do_bench` without a device: a few calls, timed by the events of the capture."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.program.capture.fakes import recorder

_CALLS = 10
"""Triton fills 100 ms with them; here one takes as long as the other."""

_CLEARED_BYTES = 256 * 2**20
"""What is cleared between two calls, so that none finds its data in the cache
(triton/runtime/driver, `get_empty_cache_for_benchmark`)."""


def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: Any = None,
    return_mode: str = "mean",
    **_: Any,
) -> Any:
    """Milliseconds of a call, as `triton.testing.do_bench` says them."""
    recorder().values.assume(
        Text(
            "triton.testing.do_bench calls its function {count} times here; on a device, as often "
            "as fills {rep} ms.",
            count=_CALLS,
            rep=Number(rep, "g"),
        )
    )
    cache = torch.empty(_CLEARED_BYTES // 4, dtype=torch.int32, device="cuda")
    pairs = []
    for _call in range(_CALLS):
        for tensor in grad_to_none or ():
            tensor.grad = None
        cache.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _end in range(2))
        begin.record()
        fn()
        end.record()
        pairs.append((begin, end))
    torch.cuda.synchronize()
    times = sorted(begin.elapsed_time(end) for begin, end in pairs)
    if quantiles is not None:
        found = [times[min(len(times) - 1, int(q * len(times)))] for q in quantiles]
        return found if len(found) > 1 else found[0]
    if return_mode == "all":
        return times
    summed: dict[str, Callable[[list[float]], float]] = {
        "min": min,
        "max": max,
        "median": statistics.median,
    }
    return summed.get(return_mode, statistics.mean)(times)
