"""Blocks on a multiprocessor: NVIDIA's published answers, and the exact edges of each limit."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.analysis.launch_shape import block_limits
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.explanation.residency import (
    Launch,
    most_registers_for,
    most_shared_for,
    occupancies,
    residency,
    shared_size,
)
from gpuscope.hardware import device

RECORDED = (
    Path(__file__).parents[2] / "validation" / "recordings" / "h200" / "micro" / "occupancy.csv.gz"
)

DEVICES = st.sampled_from(["h200", "a100", "v100", "t4", "rtx-4090", "b200", "mi300x", "7900xtx"])


@pytest.mark.parametrize(
    ("on", "threads", "registers", "shared", "blocks", "occupancy", "limiting"),
    [
        # By hand from the tables of the CUDA C++ Programming Guide and cuda_occupancy.h.
        ("a100", 256, 64, 48 * 1024, 3, 24 / 64, ("shared memory",)),
        ("a100", 256, 32, 0, 8, 1.0, ("threads", "registers")),
        ("a100", 1024, 32, 0, 2, 1.0, ("threads", "registers")),
        ("a100", 32, 32, 0, 32, 0.5, ("blocks",)),
        ("a100", 128, 255, 0, 2, 8 / 64, ("registers",)),
        ("rtx-4090", 1024, 32, 0, 1, 32 / 48, ("threads",)),
        ("rtx-4090", 768, 40, 0, 2, 1.0, ("threads", "registers")),
        ("t4", 256, 64, 0, 4, 1.0, ("threads", "registers")),
        ("t4", 256, 64, 32 * 1024, 2, 0.5, ("shared memory",)),
        ("v100", 512, 65, 0, 1, 16 / 64, ("registers",)),
        ("h200", 128, 168, 0, 3, 12 / 64, ("registers",)),
        ("h200", 384, 168, 200 * 1024, 1, 12 / 64, ("registers", "shared memory")),
        # CDNA3: 512 vector registers a lane; 128 of them leave four wavefronts a SIMD.
        ("mi300x", 256, 128, 0, 4, 16 / 32, ("registers",)),
        ("mi300x", 256, 64, 0, 8, 1.0, ("threads", "registers")),
        ("mi300x", 256, 32, 33 * 1024, 1, 4 / 32, ("shared memory",)),
        # RDNA3: 1,536 registers a lane in each of two SIMDs, handed out by 24.
        ("7900xtx", 256, 96, 0, 4, 1.0, ("threads", "registers")),
        ("7900xtx", 256, 120, 0, 3, 0.75, ("registers",)),
    ],
)
def test_known_answers(
    on: str,
    threads: int,
    registers: int,
    shared: int,
    blocks: int,
    occupancy: float,
    limiting: tuple[str, ...],
) -> None:
    found = residency(device(on), Launch(threads, registers, shared))
    assert found.blocks == blocks
    assert found.occupancy == pytest.approx(occupancy)
    assert found.limiting == limiting


def test_the_driver_says_the_same() -> None:
    """7,752 launches that an H200's driver was asked about (benchmarks/micro/occupancy.py)."""
    with gzip.open(RECORDED, "rt") as file:
        rows = [[int(value) for value in row] for row in list(csv.reader(file))[1:]]
    registers, threads, shared, blocks = np.array(rows).T
    found = block_limits(device("h200"), threads, registers, shared).min(axis=0)
    assert len(rows) == 7752
    assert set(blocks.tolist()) >= {0, 1, 2, 3, 5, 7, 16, 32}
    np.testing.assert_array_equal(found, blocks)


@given(DEVICES, st.integers(1, 1024), st.integers(1, 32))
def test_most_registers_is_exact(on: str, threads: int, blocks: int) -> None:
    where = device(on)
    most = most_registers_for(where, threads, blocks)
    top = where.registers_per_thread or 0
    if most:
        limits = residency(where, Launch(threads, most, 0)).limits
        assert limits[1] >= blocks
    if 0 < most < top:
        try:
            more = residency(where, Launch(threads, most + 1, 0)).limits[1]
        except InvalidValueError:
            more = 0
        assert more < blocks


@given(DEVICES, st.integers(1, 32))
def test_most_shared_is_exact(on: str, blocks: int) -> None:
    where = device(on)
    most = most_shared_for(where, blocks)
    assert residency(where, Launch(32, 16, most)).limits[2] >= blocks
    if most < (where.shared_memory_per_block_bytes or 0):
        assert residency(where, Launch(32, 16, most + 1)).limits[2] < blocks


@given(DEVICES, st.integers(1, 1024), st.integers(1, 254), st.integers(0, 40_000))
def test_asking_for_more_never_fits_more(
    on: str, threads: int, registers: int, shared: int
) -> None:
    where = device(on)
    one, more, larger = occupancies(
        where, [threads] * 3, [registers, registers + 1, registers], [shared, shared, shared + 512]
    )
    assert 0 <= more <= one <= 1
    assert larger <= one


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        (Launch(1025, 32, 0), "at most 1024"),
        (Launch(256, 256, 0), "at most 255"),
        (Launch(256, 32, 300 * 1024), "at most 227 KB"),
        (Launch(1024, 128, 0), "65,536 registers"),
    ],
)
def test_impossible_launches_name_the_limit(launch: Launch, says: str) -> None:
    with pytest.raises(InvalidValueError, match=says):
        residency(device("h200"), launch)


@pytest.mark.parametrize("on", ["tpu-v5e", "m4", "gaudi3"])
def test_other_machines_are_refused_honestly(on: str) -> None:
    with pytest.raises(UnsupportedError, match="Occupancy cannot be explained"):
        residency(device(on), Launch(256, 32, 0))


@pytest.mark.parametrize(
    ("text", "found"),
    [("48KB", 49152), ("48 KiB", 49152), ("0", 0), ("49152", 49152), ("0.5k", 512), (7, 7)],
)
def test_shared_memory_counts_as_cuda_does(text: str | int, found: int) -> None:
    assert shared_size(text) == found


@pytest.mark.parametrize("text", ["lots", "-1", "0.3B", "48MB", -5, True, ""])
def test_no_amounts_of_shared_memory(text: str | int) -> None:
    with pytest.raises(InvalidValueError):
        shared_size(text)
