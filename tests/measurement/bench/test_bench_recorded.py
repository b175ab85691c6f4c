"""Benches recorded on real machines, shown and compared without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuscope.measurement.bench.compare import compare_benches
from gpuscope.measurement.bench.figures import figures
from gpuscope.measurement.bench.store import SUMMARY, load_bench
from gpuscope.views.bench_document import bench_document
from gpuscope.views.bench_page import render_bench_page
from gpuscope.views.bench_text import headline

RECORDINGS = Path(__file__).resolve().parents[3] / "validation" / "recordings"
FOLDERS = sorted(p.parent for p in RECORDINGS.glob(f"*/bench*/{SUMMARY}"))

pytestmark = pytest.mark.skipif(not FOLDERS, reason="no bench has been recorded")


def _label(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


@pytest.fixture(params=FOLDERS, ids=_label, scope="module")
def recorded(request):
    return load_bench(request.param)


def test_no_point_is_faster_than_physics(recorded) -> None:
    faster = [p.key for p in recorded.points if p.fraction is not None and p.fraction > 1.03]
    assert faster == []


def test_points_are_what_they_should_be(recorded) -> None:
    assert not recorded.interrupted
    assert len({p.key for p in recorded.points}) == len(recorded.points) > 100
    for point in recorded.points:
        if point.median_s is not None and point.min_s is not None and point.p90_s is not None:
            assert 0 < point.min_s <= point.median_s <= point.p90_s, point.key
    # nothing that names the machine or its place is shipped
    assert not {"host", "uuid"} & recorded.machine.keys()


def test_larger_copies_take_longer(recorded) -> None:
    for op in ("h2d_pinned", "d2h_pinned", "d2d"):
        found = sorted(
            (float(p.params["bytes"]), p.median_s)
            for p in recorded.of("transfers", "transfer")
            if p.params["op"] == op and float(p.params["bytes"]) >= 1 << 20
        )
        times = [seconds for _, seconds in found]
        assert times == sorted(times)


def test_the_card_says_what_it_reaches(recorded) -> None:
    found = figures(recorded)
    shares = {f.detail["dtype"]: f.fraction for f in found if f.key == "matmul"}
    assert shares["bf16"] is None or 0.4 < shares["bf16"] <= 1.0
    text = headline(found, recorded.machine["device"], "en")
    assert "bf16 peak" in text or "TFLOP/s" in text
    assert json.loads(json.dumps(bench_document(recorded), allow_nan=False))["headline"] == text
    assert "<svg" in render_bench_page(recorded, "zh")


def test_a_machine_is_not_ill_beside_itself(recorded) -> None:
    found = compare_benches(recorded, recorded)
    assert (found.ill, found.outliers) == ("", ())
    assert found.families
