"""Tables as `ncu --csv` prints them, by NVIDIA's documentation of its two pages."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

BEFORE = "==PROF== Connected to process 1234 (/usr/bin/python3)\nloss 3.2\n"
IDENTITY = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC",
)  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """A launch with the figures that both pages tell."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    time_us: float
    megabytes: float
    dram: float
    occupancy: float
    registers: int
    waves: float


LAUNCHES = (
    Launch("ampere_sgemm_128x64_nn", (32, 8, 1), (128, 1, 1), 1234.5, 512.25, 21.5, 24.8, 122, 0.9),
    Launch("void vectorized_elementwise_kernel<4, AddFunctor>(int)", (4096, 1, 1), (128, 1, 1),
           40.25, 134.2, 92.0, 81.5, 26, 2.07),
    Launch("ampere_sgemm_128x64_nn", (32, 8, 1), (128, 1, 1), 1200.0, 510.0, 22.5, 24.6, 122, 0.9),
)  # fmt: skip


def details(launches: tuple[Launch, ...]) -> str:
    """The page "details": a row a counter."""
    header = (*IDENTITY, "Section Name", "Metric Name", "Metric Unit", "Metric Value")
    rows: list[tuple[object, ...]] = []
    for number, launch in enumerate(launches):
        rate = launch.megabytes / launch.time_us * 1e3
        for section, name, unit, value in (
            ("GPU Speed Of Light Throughput", "Memory Throughput", "%", 93.1),
            ("GPU Speed Of Light Throughput", "DRAM Throughput", "%", launch.dram),
            ("GPU Speed Of Light Throughput", "Duration", "us", launch.time_us),
            ("GPU Speed Of Light Throughput", "SM Frequency", "Ghz", 1.5),
            ("Memory Workload Analysis", "Memory Throughput", "Gbyte/s", rate),
            ("Launch Statistics", "Registers Per Thread", "register/thread", launch.registers),
            ("Launch Statistics", "Waves Per SM", "", launch.waves),
            ("Occupancy", "Achieved Occupancy", "%", launch.occupancy),
        ):
            rows.append((*_identity(number, launch), section, name, unit, f"{value:,.6f}"))
        rows.append((*_identity(number, launch), "Occupancy", "", "", ""))  # a rule's row
    return BEFORE + _table(header, rows)


def raw(launches: tuple[Launch, ...]) -> str:
    """The page "raw": a row a launch, with a row of units above."""
    columns = (
        ("gpu__time_duration.sum", "usecond"),
        ("dram__bytes_read.sum", "Mbyte"),
        ("dram__bytes_write.sum", "Mbyte"),
        ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", "%"),
        ("launch__registers_per_thread", "register/thread"),
        ("launch__waves_per_multiprocessor", ""),
        ("gpc__cycles_elapsed.avg.per_second", "cycle/nsecond"),
        ("smsp__pcsamp_interval", "cycle"),
    )
    header = (*IDENTITY, *(name for name, _ in columns))
    rows: list[tuple[object, ...]] = [("",) * len(IDENTITY) + tuple(unit for _, unit in columns)]
    for number, launch in enumerate(launches):
        half = launch.megabytes / 2
        figures = (
            launch.time_us, half, half, launch.dram, launch.occupancy, launch.registers,
            launch.waves, 1.5, 4096,
        )  # fmt: skip
        told = (f"{figure:,.6f}" for figure in figures)
        rows.append((*_identity(number, launch), *told))
    return BEFORE + _table(header, rows)


def _identity(number: int, launch: Launch) -> tuple[object, ...]:
    dims = (str(launch.block), str(launch.grid))
    return (number, 1234, "python3", "127.0.0.1", launch.name, 1, 7, *dims, 0, "9.0")


def _table(header: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
