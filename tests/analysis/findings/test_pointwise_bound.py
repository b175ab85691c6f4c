"""Pointwise operators and copies: when they speak, and that they name what they are about."""

from __future__ import annotations

from builders import TimelineBuilder, find, kernel, matmul, streaming

from gpuscope.analysis.findings import pointwise_bound as pointwise


def _chain(b: TimelineBuilder, count: int = 6) -> None:
    mm = b.op("aten::mm", line="model.py:10", module="mlp")
    gelu = b.op("aten::mul", line="model.py:12", module="mlp")
    back = b.op("aten::mul", phase="backward", module="mlp")
    now = 0.0
    for at in range(count):
        product = at % 2 == 0
        cost = matmul(300) if product else streaming(100)
        end = now + cost.duration_s * 1e6
        b.work(now, end, cost=cost, op=mm if product else gelu if at == 1 else back, launch_us=-500)
        now = end


def test_it_names_its_kernels_lines_and_what_to_do() -> None:
    b = TimelineBuilder()
    _chain(b)
    found = find(b, "pointwise_bound")
    assert found is not None
    timeline = b.build()
    names = [timeline.names[timeline.events.name[event]] for event in found.about.events]
    assert names == ["elementwise"] * 3
    # The backward pass has no lines of its own: it stands under its module's.
    assert found.about.lines == ("model.py:12",)
    assert found.about.operators == ("aten::mul",)
    assert found.about.explains_s == found.max_gain_s
    assert "torch.compile" in found.hint
    assert "model.py:12" in found.hint
    assert "channels_last" not in found.hint


def test_a_tenth_of_the_step_is_the_least() -> None:
    b = TimelineBuilder()
    b.chain([matmul(950), streaming(50)])
    assert find(b, "pointwise_bound") is None


def test_what_all_memory_traffic_is_told_of_is_not_told_again() -> None:
    b = TimelineBuilder()
    b.chain([matmul(100), *[streaming(100, of_bandwidth=0.3)] * 8])
    assert find(b, "bandwidth_bound") is not None
    assert find(b, "pointwise_bound") is None


def test_advice_is_of_what_the_program_has() -> None:
    b = TimelineBuilder()
    norm = b.op("aten::native_batch_norm", line="net.py:7")
    cost = kernel(200, kind="normalization", limiter="latency")
    b.chain([matmul(300)], op=b.op("aten::convolution"))
    b.work(300, 500, cost=cost, op=norm, launch_us=-500)
    found = find(b, "pointwise_bound")
    assert found is not None
    assert "channels_last" in found.hint


def test_what_is_not_known_to_remain_is_not_told_as_no_time() -> None:
    """A recording has no tensors: "at the least would take 0 s" would be a figure nobody has."""
    assert "least" not in pointwise._taken(3, 2e-3, 0.0)
    assert "least would take 1.00 ms" in pointwise._taken(3, 2e-3, 1e-3)
