"""The callbacks of examples/callbacks, really run where their framework is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "callbacks"

NEEDS = {
    "trainer": ("transformers", "accelerate"),
    "lightning_callback": ("lightning",),
    "accelerate_loop": ("accelerate",),
    "torchtitan_logger": ("torchtitan", "spmd_types"),
}


@pytest.mark.parametrize("name", NEEDS)
def test_both_times_are_in_both_logs(name: str, tmp_path: Path) -> None:
    for each in (*NEEDS[name], "torch", "tensorboard"):
        if find_spec(each) is None:
            pytest.skip(f"needs {each}")
    loggers = ["wandb"] if find_spec("wandb") else []
    offline = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-B", str(FOLDER / f"{name}.py"), str(tmp_path), *loggers],
        env=os.environ | offline,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = _scalars(tmp_path)
    for last in ("measured_step_s", "predicted_step_s", "measured_over_predicted"):
        (values,) = (v for tag, v in told.items() if tag.endswith(f"gpuscope/{last}"))
        assert len(values) >= 3
        assert all(value > 0 for value in values)
    assert bool(loggers) == any(tmp_path.rglob("*.wandb"))


def _scalars(folder: Path) -> dict[str, list[float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    told: dict[str, list[float]] = {}
    for file in folder.rglob("events.out*"):
        events = EventAccumulator(str(file)).Reload()
        for tag in events.Tags()["scalars"]:
            told.setdefault(tag, []).extend(each.value for each in events.Scalars(tag))
    return told
