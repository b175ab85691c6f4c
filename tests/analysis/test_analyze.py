"""`analyze` as a whole: empty, recorded and several-rank timelines."""

from __future__ import annotations

import pytest
from builders import H200, TimelineBuilder, matmul, streaming

from gpuscope.analysis import analyze


def test_an_empty_timeline_has_nothing_to_say() -> None:
    found = analyze(TimelineBuilder().build(), on=H200)
    assert found.step_s == 0
    assert found.time == {}
    assert found.classes == found.operators == found.findings == ()


def test_a_timeline_of_host_events_alone_is_all_idle() -> None:
    b = TimelineBuilder(origin="measured")
    b.host(0, 50)
    b.step(0, 50)
    found = analyze(b.build())
    assert found.time == {}
    assert found.step_s == pytest.approx(50e-6)
    assert found.operators == ()
    assert [share.label for share in found.classes] == ["idle: unknown"]
    assert [finding.kind for finding in found.findings] == ["untrusted_trace"]


def test_a_recorded_timeline_needs_no_program_nor_device() -> None:
    b = TimelineBuilder(origin="measured")
    for i in range(5):
        b.work(20 * i, 20 * i + 10, launch_us=20 * i - 5, name=f"kernel_{i % 2}")
    found = analyze(b.build())
    assert found.step_s == pytest.approx(90e-6)
    assert {share.label: share.count for share in found.operators} == {"kernel_0": 3, "kernel_1": 2}
    assert found.energy is None
    assert found.memory is None
    assert found.utilisation is None
    assert found.modules == ()


def test_breakdowns_are_of_the_first_rank_and_times_of_all() -> None:
    b = TimelineBuilder()
    b.work(0, 40, cost=matmul(40), rank=2)
    b.work(0, 90, cost=streaming(90), rank=5)
    found = analyze(b.build(), on=H200)
    assert sorted(found.time) == [2, 5]
    assert found.time[5].busy_s == pytest.approx(90e-6)
    assert found.step_s == pytest.approx(40e-6)
    assert [share.label for share in found.classes] == ["compute-bound"]


def test_kernels_of_another_type_are_refused() -> None:
    b = TimelineBuilder()
    b.kernels.append("not a kernel")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not a Kernel"):
        analyze(b.build())
