"""The formulas that lessons teach, against known answers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gpuscope.document.blocks import Explorer
from gpuscope.hardware import device
from gpuscope.learn.lessons import lesson_named
from gpuscope.learn.lessons.kv_cache import DECODERS
from gpuscope.learn.lessons.parallelism import STAGES, schedule
from gpuscope.learn.lessons.parts import sections
from gpuscope.learn.lessons.precision import FORMATS
from gpuscope.learn.lessons.roofline import intensity

BY_NAME = {f.name: f for f in FORMATS}


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp64", np.float64), ("fp32", np.float32), ("fp16", np.float16)]
)
def test_formats_are_those_of_numpy(name, dtype) -> None:
    known, found = np.finfo(dtype), BY_NAME[name]
    assert found.largest == float(known.max)
    assert found.smallest == float(known.smallest_normal)
    assert found.step == float(known.eps)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("bf16", "bfloat16"), ("fp8 E5M2", "float8_e5m2"), ("fp8 E4M3", "float8_e4m3fn")],
)
def test_formats_are_those_of_torch(name, dtype) -> None:
    torch = pytest.importorskip("torch")
    known, found = torch.finfo(getattr(torch, dtype)), BY_NAME[name]
    assert (found.largest, found.smallest) == (known.max, known.smallest_normal)
    assert found.step == known.eps
    assert found.stored == known.bits


def test_intensity_of_products() -> None:
    assert intensity(3000, 3000, 3000) == pytest.approx(1000)  # n / 3 with 2-byte numbers
    assert intensity(1, 1 << 20, 1 << 20) == pytest.approx(1, rel=1e-4)  # matrix times vector
    assert intensity(64, 64, 64, 1) == 2 * intensity(64, 64, 64, 2)


def test_sixteen_bytes_a_parameter() -> None:
    ddp, *_, full = STAGES
    assert ddp.bytes_per_rank(1e9, 64) == 16e9
    assert full.bytes_per_rank(1e9, 64) == 16e9 / 64
    assert [s.bytes_per_rank(7.5e9, 64) / 1e9 for s in STAGES] == pytest.approx(
        [120, 31.4, 16.6, 1.9], abs=0.05
    )  # table 1 of the ZeRO paper
    assert full.sent_per_step(1e9, 8) == 1.5 * ddp.sent_per_step(1e9, 8)
    assert ddp.sent_per_step(1e9, 1) == 0


@pytest.mark.parametrize(("stages", "batches"), [(1, 3), (2, 1), (4, 8), (8, 4)])
def test_a_pipeline_s_bubble_is_the_formula_s(stages, batches) -> None:
    rows = np.array(schedule(stages, batches))
    assert ((rows == 0).sum(1) == batches).all()
    assert ((rows == 1).sum(1) == 2 * batches).all()
    bubble = (rows == 2).mean()
    assert bubble == pytest.approx((stages - 1) / (batches + stages - 1))
    # A stage begins a micro-batch only after the stage before; backward the other way round.
    for before, after in pairwise(rows):
        assert np.flatnonzero(after == 0)[0] == np.flatnonzero(before == 0)[0] + 1
        assert np.flatnonzero(before == 1)[-1] > np.flatnonzero(after == 1)[-1]


def test_the_cache_of_a_known_model() -> None:
    llama = next(d for d in DECODERS if d.name == "Llama-3.1-8B")
    assert llama.bytes_per_token(2) == 128 * 1024  # 2 x 32 layers x 8 heads x 128 x 2 bytes


def test_more_bandwidth_never_hurts_and_the_peak_is_a_limit() -> None:
    (explorer,) = [
        b for s in lesson_named("roofline").sections for b in s.blocks if isinstance(b, Explorer)
    ]
    rates = [v for v in explorer.outputs[0].values if isinstance(v, float)]
    assert max(rates) <= device("b200").peak_flops_per_s("fp8")
    stops = len(explorer.sliders[-1].values)
    for begin in range(0, len(explorer.outputs[0].values), stops):
        part = explorer.outputs[0].values[begin : begin + stops]
        assert part[0] is None or list(part) == sorted(part)


def test_power_rises_to_the_limit_and_no_further() -> None:
    (explorer,) = [
        b for s in lesson_named("energy").sections for b in s.blocks if isinstance(b, Explorer)
    ]
    watts = [v for v in explorer.outputs[0].values if isinstance(v, float)]
    assert max(watts) <= (device("h200").tdp_w or 0)
    assert min(watts) > 50


def test_a_lost_section_is_noticed() -> None:
    with pytest.raises(LookupError, match="no section"):
        sections(lesson_named("waves"), "Nowhere")
