"""A unit is named as the limit of a kernel only where it is at work for half of it."""

from __future__ import annotations

from builders import H200, TimelineBuilder, matmul, spec

from gpuscope.analysis.limiters import with_limiters
from gpuscope.cost.limits import named_limiter


def test_half_of_the_time_is_the_least() -> None:
    assert named_limiter("tensor_core", 1.0, 0.5) == "tensor_core"
    assert named_limiter("tensor_core", 1.0, 0.49) == "latency"
    assert named_limiter("compute", 1.0, 0.1, aligned=False) == "issue"
    assert named_limiter("memory", 1.0, 0.1) == "memory"
    assert named_limiter("tensor_core", 1.0, None) == "tensor_core"


def test_an_unaligned_product_is_not_limited_by_the_tensor_cores() -> None:
    b = TimelineBuilder()
    b.op("aten::mm", inputs=(spec(8192, 768), spec(768, 50257)), outputs=(spec(8192, 50257),))
    b.op("aten::mm", inputs=(spec(8192, 768), spec(768, 50304)), outputs=(spec(8192, 50304),))
    for op, of_peak in ((0, 0.094), (1, 0.7), (1, 0.3)):
        b.work(0, 100, cost=matmul(100, of_peak=of_peak, op=op), op=op)
    named = with_limiters(b.build(), H200)
    assert [k.limiter for k in named.kernels] == ["issue", "tensor_core", "latency"]  # type: ignore[attr-defined]
