"""Tables of dcgmi dmon as samples: built to DCGM's documentation (no recorded one lies here)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.watch.recording import Replay, read_samples
from gpuscope.watch.types import Sample

HEADER = "#Entity   GPUTL   POWER    FBUSD   TOTEC     SMACT   TENSO   DRAMA   PCIRX\n"
UNITS = "ID                W                mJ\n"
ROWS = (
    "GPU 0     100     650.500  8000    2.07e+11  0.981   0.412   0.530   2.1e+10\n"
    "GPU 1     0       N/A      0       1.00e+10  0.000   0.000   0.000   0\n"
)


def read(tmp_path: Path, text: str) -> list[Sample]:
    path = tmp_path / "dmon.txt"
    path.write_text(text)
    return list(read_samples(path))


def test_each_moment_is_a_sample_of_all_devices(tmp_path: Path) -> None:
    samples = read(tmp_path, HEADER + UNITS + ROWS + ROWS + HEADER + UNITS + ROWS)
    assert [sample.unix_s for sample in samples] == [0.0, 1.0, 2.0]
    busy, idle = samples[0].devices
    assert (busy.info.index, busy.info.name, idle.info.index) == (0, "GPU 0", 1)
    assert (busy.reading.utilisation, busy.reading.power_w) == (1.0, 650.5)
    assert busy.reading.memory_used_bytes == 8000 * 2**20
    activity = busy.activity
    assert (activity.sm, activity.tensor, activity.memory_bandwidth) == (0.981, 0.412, 0.53)
    assert activity.pcie_rx_bytes_per_s == 2.1e10
    assert (idle.reading.power_w, idle.activity.sm) == (None, 0.0)


def test_a_replay_says_that_times_are_taken_for_granted(tmp_path: Path) -> None:
    path = tmp_path / "dmon.txt"
    path.write_text(HEADER + UNITS + ROWS)
    (note,) = Replay.load(path).notes
    assert isinstance(note, Text)
    assert "no times" in note.to("en")


@pytest.mark.parametrize(
    "line", ["GPU 0  1 2 3\n", "0  1 2\n", "GPU 4000 100 650 8000 2 0.9 0.4 0.5 2\n"]
)
def test_a_line_of_another_shape_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputFileError, match="Line 3"):
        read(tmp_path, HEADER + ROWS[: ROWS.index("\n") + 1] + line + ROWS)
