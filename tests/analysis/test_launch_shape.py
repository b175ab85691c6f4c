"""Occupancy by NVIDIA's rules: textbook answers, and what real traces say themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recorded_calls import TRACES, Recording, Shape

from gpuscope.analysis.device_of import device_of
from gpuscope.analysis.launch_shape import LIMITS, launch_shape, resident_blocks
from gpuscope.hardware import device
from gpuscope.timeline.kineto import read_trace

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "blocks", "limit"),
    [
        ("h200", 1024, 32, 0, 2, "threads"),
        ("h200", 32, 16, 0, 32, "blocks"),
        # 128 registers x 32 = 4,096 a warp; 65,536 / 4,096 = 16 warps; 8 warps a block.
        ("h200", 256, 128, 0, 2, "registers"),
        # 127 registers are rounded up to 128.
        ("h200", 256, 127, 0, 2, "registers"),
        # 233,472 / (113,664 + 1,024 reserved) = 2.03.
        ("h200", 128, 32, 113_664, 2, "shared memory"),
        ("h200", 128, 32, 115_712, 2, "shared memory"),
        ("h200", 128, 32, 116_736, 1, "shared memory"),
        # Recorded on a V100: 64 threads of 126 registers fill a quarter of it.
        ("v100", 64, 126, 8_448, 8, "registers"),
        ("t4", 1024, 32, 0, 1, "threads"),
        ("mi300x", 256, -1, 0, 8, "threads"),
        ("mi300x", 128, -1, 0, 16, "threads"),
    ],
)
def test_blocks_on_a_unit(
    name: str, threads: int, registers: int, shared: int, blocks: int, limit: str
) -> None:
    found, by = resident_blocks(
        device(name), np.array([threads]), np.array([registers]), np.array([shared])
    )
    assert found[0] == blocks
    assert LIMITS[by[0]] == limit


def test_waves_and_tails() -> None:
    recording = Recording()
    grids = (132 * 8, 132 * 8 + 1, 132 * 12, 66)
    for grid in grids:
        recording.call(-1, ("kernel", 10.0, Shape(grid=grid, block=256, registers=32)))
    shape = launch_shape(recording.build(), device("h200"))
    assert shape is not None
    assert shape.waves.tolist() == pytest.approx([1.0, 1 + 1 / 1056, 1.5, 66 / 1056])
    assert shape.tail_loss.tolist() == pytest.approx(
        [0.0, 1 - (1 + 1 / 1056) / 2, 0.25, 1 - 66 / 1056]
    )
    assert shape.occupancy.tolist() == pytest.approx([1.0, 1.0, 1.0, 0.5 / 8])
    assert LIMITS[shape.limit[3]] == "grid"


def test_what_is_not_recorded_stays_unknown() -> None:
    recording = Recording()
    recording.call(-1, ("kernel", 10.0, Shape(grid=-1, block=-1)))
    shape = launch_shape(recording.build(), device("h200"))
    assert shape is not None
    assert np.isnan(shape.waves).all()
    assert np.isnan(shape.occupancy).all()
    assert launch_shape(recording.build(), None) is None


def _agreement(path: Path) -> tuple[int, int]:
    """Kernels compared with the profiler's own estimate, and how many differ.

    The profiler says 0 where a block needs more than the 48 KiB of shared memory that it assumes
    as the limit (kernels opt in to more): those are left out.
    """
    timeline = read_trace(path)
    shape = launch_shape(timeline, device_of(timeline))
    if shape is None or timeline.recorded is None:
        return 0, 0
    said, shared = timeline.recorded.occupancy, timeline.recorded.shared_bytes
    rows = ~np.isnan(said) & ~np.isnan(shape.occupancy) & (shared <= 48 * 1024)
    off = np.abs(said[rows] - shape.occupancy[rows]) > 0.0101  # whole percents
    return int(rows.sum()), int(off.sum())


@pytest.mark.parametrize("name", ["compute_bound", "host_bound", "sync_bound", "input_bound"])
def test_recorded_h200_traces_agree(name: str) -> None:
    compared, differ = _agreement(TRACES / "h200" / name / "rank-0.json.gz")
    assert compared > 50
    assert differ == 0


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here")
@pytest.mark.parametrize(
    "name",
    [
        "param/dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz",
        "hta/trace_diff_test/test.json.gz",
        "kineto_tb_samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    ],
)
def test_foreign_traces_agree(name: str) -> None:
    compared, differ = _agreement(SHARED / name)
    assert compared > 200
    assert differ == 0
