"""The catalogue's device by what a driver writes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded_calls import H200_BOARD, Recording, Shape

from gpuscope.analysis.device_of import device_of
from gpuscope.timeline.types import RecordedDevice, Source

BOARDS = [
    (H200_BOARD, "nvidia-h200-sxm"),
    (RecordedDevice(0, "NVIDIA H100 80GB HBM3", 85018279936, (9, 0), 132, 32), "nvidia-h100-sxm"),
    (
        RecordedDevice(0, "Tesla V100-SXM2-16GB", 16945512448, (7, 0), 80, 32),
        "nvidia-v100-sxm2-16gb",
    ),
    (
        RecordedDevice(0, "Tesla V100-DGXS-32GB", 34084028416, (7, 0), 80, 32),
        "nvidia-v100-sxm2-32gb",
    ),
    (
        RecordedDevice(0, "NVIDIA A100-PG509-200", 42297524224, (8, 0), 108, 32),
        "nvidia-a100-sxm-40gb",
    ),
    (RecordedDevice(0, "AMD Instinct MI300X VF", 205571227648, (9, 4), 304, 64), "amd-mi300x"),
    (RecordedDevice(0, "", 206141652992, (9, 4), 304, 64), "amd-mi300x"),
    (RecordedDevice(0, "NVIDIA GeForce RTX 2080 Ti", 11554586624, (7, 5), 68, 32), None),
    (RecordedDevice(0, "ARTEMIS"), None),
    # A name that its own memory contradicts is not believed.
    (RecordedDevice(0, "NVIDIA H200", 16945512448, (7, 0), 80, 32), "nvidia-v100-sxm2-16gb"),
]


@pytest.mark.parametrize(("board", "wanted"), BOARDS)
def test_boards(board: RecordedDevice, wanted: str | None) -> None:
    recording = Recording(board=board)
    recording.call(-1, ("kernel", 1.0, Shape()))
    found = device_of(recording.build())
    assert (found.id if found else None) == wanted


def test_two_kinds_of_devices_are_no_device() -> None:
    recording = Recording()
    recording.call(-1, ("kernel", 1.0, Shape()))
    timeline = recording.build()
    other = Source(1, "other", devices=(BOARDS[1][0],))
    assert device_of(replace(timeline, sources=(*timeline.sources, other))) is None
    assert device_of(replace(timeline, sources=())) is None
