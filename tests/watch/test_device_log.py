"""Logs of nvidia-smi as samples: a recorded one, and others built to its documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.errors import InputFileError
from gpuscope.watch.device_log import is_device_log
from gpuscope.watch.recording import Replay, read_samples
from gpuscope.watch.types import Sample

HEADER = (
    "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], "
    "power.draw [W], power.limit [W], clocks.current.sm [MHz], temperature.gpu, "
    "clocks_event_reasons.active\n"
)
ROWS = (
    "2026/05/28 10:00:00.000, 0, NVIDIA H200, 100 %, 8000 MiB, 143771 MiB, 650.50 W, 700.00 W, "
    "1980 MHz, 61, 0x0000000000000004\n"
    "2026/05/28 10:00:00.002, 1, NVIDIA H200, 0 %, 0 MiB, 143771 MiB, [N/A], 700.00 W, "
    "345 MHz, 30, 0x0000000000000001\n"
)
LATER = ROWS.replace("10:00:00", "10:00:01")


def read(tmp_path: Path, text: str) -> list[Sample]:
    path = tmp_path / "gpu.csv"
    path.write_text(text)
    return list(read_samples(path))


def test_each_moment_is_a_sample_of_all_devices(tmp_path: Path) -> None:
    first, second = read(tmp_path, HEADER + ROWS + LATER)
    assert (first.host, first.unix_s, second.unix_s) == ("gpu.csv", 1779962400.0, 1779962401.0)
    busy, idle = first.devices
    assert (busy.info.index, busy.info.name, idle.info.index) == (0, "NVIDIA H200", 1)
    reading = busy.reading
    assert (reading.utilisation, reading.power_w, reading.power_limit_w) == (1.0, 650.5, 700.0)
    assert (reading.sm_clock_hz, reading.temperature_c) == (1.98e9, 61.0)
    assert reading.memory_used_bytes == 8000 * 2**20
    assert reading.throttle_reasons == ("software power cap",)
    assert (idle.reading.power_w, idle.reading.throttle_reasons) == (None, ())


def test_figures_without_units_mean_what_the_header_says(tmp_path: Path) -> None:
    bare = ROWS
    for unit in (" %", " MiB", " W", " MHz"):
        bare = bare.replace(unit, "")
    assert read(tmp_path, HEADER + bare) == read(tmp_path, HEADER + ROWS)


def test_reasons_in_columns_and_devices_by_their_bus(tmp_path: Path) -> None:
    text = (
        "timestamp, pci.bus_id, power.draw [W], clocks_throttle_reasons.sw_power_cap, "
        "clocks_throttle_reasons.hw_slowdown\n"
        "2026/05/28 10:00:00, 00000000:3B:00.0, 70.1 W, Active, Not Active\n"
        "2026/05/28 10:00:00, 00000000:18:00.0, 71.1 W, Not Active, Not Active\n"
    )
    (sample,) = read(tmp_path, text)
    assert [d.info.name for d in sample.devices] == ["GPU 0", "GPU 1"]
    assert [d.reading.throttle_reasons for d in sample.devices] == [("software power cap",), ()]


def test_a_log_that_names_no_device_says_so(tmp_path: Path) -> None:
    path = tmp_path / "gpu.csv"
    path.write_text("timestamp, power.draw [W]\n2026/05/28 10:00:00, 70 W\n")
    replay = Replay.load(path)
    replay.read()
    assert any("all are taken for one" in note for note in replay.notes)  # also at its end


def test_a_log_cut_off_or_appended_to_is_read(tmp_path: Path) -> None:
    assert len(read(tmp_path, HEADER + ROWS + LATER + LATER[:30])) == 2
    assert len(read(tmp_path, HEADER + ROWS + HEADER + LATER)) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER, "no sample"),
        (HEADER + "1, 2\n", "Line 2"),
        (HEADER + ROWS.replace("2026/05/28", "soon"), "timestamp: not a time"),
        (HEADER + ROWS.replace(", 0, NVIDIA", ", -1, NVIDIA"), "index"),
        ("timestamp, power.draw [W]\n" + "0001/01/01 00:00:00, 70 W\n", "not a time"),
    ],
)
def test_what_is_no_line_of_it_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputFileError) as caught:
        read(tmp_path, text)
    assert said in f"{caught.value} {caught.value.cause if hasattr(caught.value, 'cause') else ''}"


def test_other_tables_are_none() -> None:
    for line in ("timestamp, mood", "power.draw [W]", '{"schema": "gpuscope.samples"}', ""):
        assert not is_device_log(line)


def test_a_recorded_log() -> None:
    """nvidia-smi on an H200: idle, then a process begins."""
    path = Path(__file__).resolve().parents[1] / "data" / "watch" / "nvidia-smi.csv"
    samples = list(read_samples(path))
    assert len(samples) == 6
    powers = [sample.devices[0].reading.power_w for sample in samples]
    assert powers == [76.72, 76.77, 76.75, 82.32, 117.93, 121.8]
    last = samples[3].devices[0]
    assert (last.info.name, last.reading.memory_used_bytes) == ("NVIDIA H200", 529 * 2**20)
