"""`explain matmul`: equal to the prediction, exact in its parts, and its tables can be checked."""

from __future__ import annotations

import pytest
from blocks import blocks, fact, named_cells, sound, titled
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuscope as gs
from gpuscope.cost.engine import cost_program
from gpuscope.document.blocks import Bars, Explorer, HeatMap, Lines, Paragraph, Table
from gpuscope.document.text import Text, render
from gpuscope.errors import GpuscopeError, InvalidValueError, UnknownNameError, UnsupportedError
from gpuscope.explanation import matmul_figures
from gpuscope.explanation.matmul import matmul, question
from gpuscope.explanation.operators import learned
from gpuscope.explanation.tiling import time_bars
from gpuscope.program.types import Program


@pytest.fixture(autouse=True)
def _few_stops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand combinations of the sliders are priced for the test of the explorer alone."""
    if "explorer" not in request.node.name:
        monkeypatch.setattr(
            matmul_figures, "_even", lambda size: tuple(sorted({max(size // 2, 1), size}))
        )


@pytest.mark.parametrize(
    ("m", "n", "label"),
    [
        (2048, 1000, "time of one by itself"),  # the host sets the pace: the device rests
        (4096, 4096, "time when repeated"),  # the device is busy all the time: the power limit
    ],
)
def test_equals_the_prediction_of_real_code(m: int, n: int, label: str) -> None:
    import torch

    def build():  # type: ignore[no-untyped-def]
        layer = torch.nn.Linear(4096, n, bias=False, dtype=torch.bfloat16).cuda()
        x = torch.randn(m, 4096, device="cuda", dtype=torch.bfloat16)
        return lambda: layer(x)

    with torch.no_grad():
        run = gs.predict(build, on="h200")
    found = matmul(m, n, 4096, dtype="bf16", on="h200")
    assert fact(found, label) == pytest.approx(run.device_busy_s, abs=2e-9)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((4096, 4096, 4096), {}),
        ((1, 4096, 4096), {"dtype": "fp32"}),
        ((16, 4096, 4096), {"dtype": "fp8", "on": "h100"}),
        ((128, 128, 65536), {"on": "a100"}),
        ((1000, 1000, 1000), {"dtype": "tf32", "batch": 8, "layout": "tn"}),
        ((512, 512, 512), {"on": "tpu-v5e"}),
        ((640, 512, 512), {"on": "mi300x", "dtype": "fp16"}),
        ((32, 512, 512), {"dtype": "int8", "on": "l40s"}),
        ((7, 9, 11), {"hot": True}),
    ],
)
def test_every_kind_is_sound_and_adds_up(
    sizes: tuple[int, int, int], options: dict[str, object]
) -> None:
    found = matmul(*sizes, **options)  # type: ignore[arg-type]
    sound(found)
    bars = titled(found, Bars, "Where the time goes")
    whole = fact(found, "time of one by itself")
    # Parts under 0.05 % are left out of the picture.
    assert sum(p.value for b in bars.bars for p in b.parts) == pytest.approx(whole, rel=0.01)


def test_the_chosen_tile_is_the_fastest_of_the_table() -> None:
    table = titled(matmul(3000, 5000, 2000), Table, "What the library")
    times = [row[6] for row in table.rows]
    assert times == sorted(times)  # type: ignore[type-var]
    assert table.marked == (0,)
    assert len(table.rows) >= 4


def test_waves_and_tail_by_hand() -> None:
    """4096 x 4096 in tiles of 256 x 128: 16 x 32 = 512 tiles, 3.88 waves on 132 SMs."""
    found = matmul(4096, 4096, 4096)
    assert fact(found, "tiles") == 512
    assert fact(found, "waves") == pytest.approx(512 / 132)
    assert fact(found, "SM time lost") == pytest.approx(1 - 512 / (4 * 132))
    drawn = blocks(found, HeatMap)[0]
    assert len(drawn.values) == 4
    assert [row.count("idle") for row in named_cells(drawn)] == [0, 0, 0, 16]


def test_a_short_wide_k_is_cut_and_says_why() -> None:
    """One 128 x 128 result of a long K: without slices 131 of 132 SMs would idle."""
    found = matmul(128, 128, 65536)
    lines = [block.text for block in blocks(found, Paragraph)]
    assert any("K left whole" in line for line in lines)
    table = titled(found, Table, "What the library")
    assert table.rows[0][1] > 1  # type: ignore[operator]


def test_bytes_by_hand() -> None:
    found = matmul(4096, 4096, 4096)
    table = titled(found, Table, "Bytes at each level")
    wanted, loads, read, written, least = (row[1] for row in table.rows)
    assert wanted == 2 * 4096**3 * 2
    # A pair of blocks shares the wider side: each loads 256 + 128 - 128/2 ... by the cluster.
    assert isinstance(loads, float)
    assert loads / 512 / (4096 * 2) in (256 + 128 - 128, 256 + 64, 256 + 128, 128 + 128)
    assert least == 3 * 2 * 4096**2
    assert written == 2 * 4096**2
    assert isinstance(read, float)
    assert read >= 2 * 2 * 4096**2


def test_a_neighbour_that_breaks_alignment_is_dear_and_says_why() -> None:
    table = titled(matmul(4096, 4096, 4096), Table, "Neighbours")
    row = next(r for r in table.rows if r[0] == "N = 4097")
    assert isinstance(row[5], float)
    assert row[5] > 2
    assert "aligned" in row[6]  # type: ignore[union-attr]


def test_room_that_costs_nothing_is_really_free() -> None:
    """Rows up to the edge of a tile, and columns while the last wave has idle blocks."""
    found = matmul(1000, 4096, 4096)
    now = fact(found, "time of one by itself")
    rows = [r for r in titled(found, Table, "Neighbours").rows if "room" in r[1]]  # type: ignore[union-attr]
    assert rows
    for row in rows:
        dim, size = row[0].split(" = ")  # type: ignore[union-attr]
        sizes = {"M": 1000, "N": 4096, "K": 4096, dim: int(size)}
        other = matmul(sizes["M"], sizes["N"], sizes["K"])
        assert fact(other, "time of one by itself") <= 1.006 * now


def test_the_explorer_starts_at_the_answer() -> None:
    found = matmul(2048, 1536, 1024, on="a100", dtype="fp16")
    explorer = blocks(found, Explorer)[0]
    at = 0
    for slider in explorer.sliders:
        at = at * len(slider.values) + slider.start
    time = next(o for o in explorer.outputs if o.key == "time")
    assert time.values[at] == pytest.approx(fact(found, "time of one by itself"))


def test_speed_stays_under_the_roofline() -> None:
    rows = next(b for b in blocks(matmul(64, 8192, 8192), Lines) if "over M" in b.title)
    predicted, roof = rows.series
    for ours, most in zip(predicted.y, roof.y, strict=True):
        assert ours is not None
        assert most is not None
        assert 0 < ours <= most


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.sampled_from(["h200", "a100", "mi300x", "l4"]),
)
def test_more_work_never_takes_much_less_time(m: int, n: int, k: int, on: str) -> None:
    asked = question("bf16", on)
    one = sum(kernel.duration_s for kernel in asked.kernels(m, n, k))
    # Three times as much is aligned alike; twice an odd depth would reach kernels that read whole
    # vectors, which small products of an odd depth cannot use (three times as fast on an H200).
    three = sum(kernel.duration_s for kernel in asked.kernels(m, n, 3 * k))
    assert three >= 0.6 * one


@pytest.mark.parametrize(
    ("sizes", "options", "error", "says"),
    [
        ((0, 1, 1), {}, InvalidValueError, "M = 0"),
        ((1, -2, 1), {}, InvalidValueError, "N = -2"),
        ((1, 1, 2.5), {}, InvalidValueError, "whole number"),
        ((1, 1, True), {}, InvalidValueError, "whole number"),
        ((2**60, 1, 1), {}, InvalidValueError, "memory"),
        ((10**6, 10**6, 10**3), {}, InvalidValueError, "TiB"),
        ((64, 64, 64), {"dtype": "fp8", "on": "a100"}, UnsupportedError, "float8"),
        ((64, 64, 64), {"dtype": "fp4", "on": "b200"}, UnsupportedError, "fp4"),
        ((64, 64, 40), {"dtype": "fp8"}, InvalidValueError, "multiples of 16"),
        ((16, 64, 64), {"dtype": "int8"}, InvalidValueError, "M > 16"),
        ((64, 64, 64), {"dtype": "fp8", "batch": 2}, UnsupportedError, "batched"),
        ((64, 64, 64), {"dtype": "fp8", "layout": "nn"}, UnsupportedError, "layout"),
        ((64, 64, 64), {"layout": "ab"}, InvalidValueError, "layout"),
        ((64, 64, 64), {"batch": 0}, InvalidValueError, "batch"),
        ((64, 64, 64), {"on": "h2000"}, UnknownNameError, "h200"),
        ((64, 64, 64), {"dtype": "bf17"}, UnknownNameError, "bf16"),
    ],
)
def test_what_cannot_be_is_refused(
    sizes: tuple[int, int, int], options: dict[str, object], error: type[GpuscopeError], says: str
) -> None:
    with pytest.raises(error, match=says):
        matmul(*sizes, **options)  # type: ignore[arg-type]


def test_both_languages_tell_the_clock_that_the_power_limit_leaves() -> None:
    said = gs.explain("matmul", 4096, 4096, 4096).summary[-1]
    for text in (said, render(said, "zh")):
        assert "700 W" in text
        assert "GHz" in text


def test_the_time_is_that_of_a_prediction_and_its_parts_add_up_to_it() -> None:
    """What was learned of the device stretches every loss; work at the peak takes what it takes."""
    asked = question("bf16", "h200")
    for m, n, k in ((1000, 1000, 1000), (4096, 4096, 4096), (257, 511, 1023)):
        found, alone = asked.tiled(m, n, k), asked.work(m, n, k)
        program = Program("one", (asked.op(m, n, k),), settings=dict(asked.dtype.settings))
        predicted = cost_program(program, asked.on.device, asked.on.calibration)
        predicted_s = sum(kernel.duration_s for op in predicted.ops for kernel in op.kernels)
        assert found.duration_s == pytest.approx(predicted_s, rel=1e-6)
        assert found.learned == pytest.approx(learned(alone))
        assert found.parts.total_s == pytest.approx(found.main_s, rel=1e-6)
        assert found.parts.peak_s == pytest.approx(found.flops / found.peak_flops_per_s, rel=1e-6)
        bars = time_bars(found, Text("t")).bars
        assert sum(bar.parts[0].value for bar in bars) == pytest.approx(found.duration_s, rel=2e-3)


def test_stretched_parts_never_get_below_nothing() -> None:
    found = question("bf16", "h200").tiled(512, 512, 512)
    parts = found.parts
    for factor in (0.2, 0.7, 1.0, 2.0):
        stretched = parts.stretched(factor)
        assert stretched.peak_s == parts.peak_s
        assert stretched.feed_s >= 0
        assert stretched.total_s == pytest.approx(max(factor * parts.total_s, parts.peak_s))
