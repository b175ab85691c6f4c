"""Damaged inputs for each reader: an answer or an error of gpuscope's, soon.

A hundred each time, all with the slow tests, millions with `tools/fuzz.py`.
"""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "timeline"))

from fuzz_run import shown, tried
from fuzz_targets import TARGETS

from gpuscope.errors import GpuscopeError

SEED = 2026


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_give_an_answer_or_an_error_of_ours(
    name: str, every: int, tmp_path: Path
) -> None:
    target = TARGETS[name]
    numbers = range(0, target.ci, every)
    found = shown(tried(target, SEED, numbers, tmp_path))
    assert found["tried"] == len(numbers)
    again = f"python tools/fuzz.py {name} --seed {SEED} --show N"
    assert not found["failures"], f"{found['failures']}; an input: {again}"


def test_the_reason_for_fewer_inputs_is_stated() -> None:
    assert [t.name for t in TARGETS.values() if t.ci < 1000 and not t.why] == []


FALLEN = sorted(Path(__file__).with_name("fallen").iterdir())


@pytest.mark.parametrize("path", FALLEN, ids=lambda path: path.name)
def test_what_fell_once_does_not_again(path: Path, tmp_path: Path) -> None:
    """Inputs that ended in another error; their names begin with the reader's."""
    target = TARGETS[path.name.partition(".")[0]]
    there = tmp_path / target.file
    there.write_bytes(path.read_bytes())
    with contextlib.suppress(GpuscopeError):
        target.read(there)


READERS = {
    "advice/forecast/store.py": "advice",
    "advice/trial/ladder_store.py": "ladder",
    "doctor/machine.py": "machine",
    "explanation/flight_recorder/dump.py": "dump",
    "explanation/nsight_compute/report.py": "ncu",
    "explanation/nsight_compute/table.py": "ncu",
    "guarding/baseline.py": "baseline",
    "guarding/settings.py": "guard",
    "hardware/calibration.py": "calibration",
    "hardware/loader.py": "device",
    "hardware/own.py": "calibration",
    "measurement/bench/store.py": "bench",
    "measurement/sensors/recording.py": "sensor",
    "planning/existing.py": "plan",
    "planning/prices.py": "prices",
    "planning/readers/deepspeed.py": "plan",
    "program/models/rows.py": "lengths",
    "program/models/config_file.py": "config",
    "run/reader.py": "run",
    "serving/document.py": "serving",
    "serving/traces.py": "load",
    "serving/triton_config.py": "triton",
    "serving/tuning.py": "tuning",
    "loading/archives.py": "archive",
    "timeline/engine_reports/__init__.py": "engine report",
    "timeline/engine_reports/layers.py": "engine layers",
    "timeline/engine_reports/onnxruntime.py": "engine report",
    "timeline/engine_reports/tensorrt.py": "engine report",
    "timeline/kineto/blocks.py": "gzip",
    "timeline/kineto/execution.py": "execution",
    "timeline/kineto/parallel.py": "trace",
    "timeline/kineto/read.py": "trace",
    "timeline/kineto/retold.py": "pairs",
    "timeline/nsys/database.py": "nsys",
    "timeline/nsys/read.py": "nsys",
    "timeline/nsys/rocpd.py": "rocpd",
    "timeline/snapshot/read.py": "snapshot",
    "views/doctor_document.py": "diagnosis",
    "watch/dcgm_log.py": "device log",
    "watch/device_log.py": "device log",
    "watch/recording.py": "samples",
}
"""Modules that read files from outside, by way of one of the doors -> the target that tries it."""

NO_READERS = {"plain.py", "apart.py", "toml_file.py", "endless.py", "engine.py"}
"""The doors themselves, what knows their limit of time alone, and what reads our own files."""

_DOOR = re.compile(
    r"from gpuscope\.(?:outside(?:\.\w+)?|hardware\.loader|run\.reader) import [^\n]*"
    r"\b(?:file_bytes|json_of|python_json_of|toml_of|limits|read_apart|parsed_file|read_toml)\b"
)


def test_every_reader_has_a_target() -> None:
    """A new module that opens one of the doors is named above, and gets a target."""
    source = Path(__file__).resolve().parents[2] / "src" / "gpuscope"
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if _DOOR.search(path.read_text("utf-8")) and path.name not in NO_READERS
    }
    assert found == set(READERS)
    assert set(READERS.values()) <= set(TARGETS)
