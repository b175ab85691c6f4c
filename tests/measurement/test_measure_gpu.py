"""What only a GPU can show. Run by hand: pytest -m gpu tests/measurement"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from workload_small import build

import gpuscope as gs

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def run() -> gs.Run:
    return gs.measure(lambda: build(2048), seconds=3)


def test_step_time_is_that_of_a_bare_loop(run: gs.Run) -> None:
    """The loop's own blocks differ by some per cent on a restless host: that much is allowed."""
    step = build(2048)
    best = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(300):
            step()
        torch.cuda.synchronize()
        best.append((time.perf_counter() - start) / 300)
    spread = max(best) / min(best) - 1
    assert run.step_time_s == pytest.approx(sorted(best)[2], rel=0.05 + spread)


def test_device_energy_and_memory_are_there(run: gs.Run) -> None:
    assert run.device_id
    assert 0 < run.device_busy_s < 1.05 * run.step_time_s
    assert run.energy_j > 0
    assert 50 < run.measurement.average_w < 1500
    weights = 2 * (2048 * 2048 + 2048) * 4
    # Weights, two states, gradients, and the activations beside them.
    assert run.peak_memory_bytes >= 4 * weights
    assert run.reserved_memory_bytes >= run.peak_memory_bytes


def test_what_holds_the_memory(run: gs.Run) -> None:
    story = run.analysis.memory
    weights = 2 * (2048 * 2048 + 2048) * 4
    assert sum(story.at_peak.values()) == story.peak_bytes
    assert story.at_peak["parameter"] == pytest.approx(weights, rel=0.01)
    assert story.at_peak["optimizer_state"] == pytest.approx(2 * weights, rel=0.01)
    assert story.at_peak["gradient"] == pytest.approx(weights, rel=0.01)


def test_windows_and_modules(run: gs.Run) -> None:
    assert len(run.timeline.steps) == 3
    assert {"", "0", "2"} <= {share.path for share in run.analysis.modules}
    known = {(op.module, op.phase) for op in run.timeline.ops}
    assert ("2", "backward") in known


def test_out_of_memory_names_what_was_missing() -> None:
    from gpuscope.measurement.failure import OutOfDeviceMemoryError

    def too_much():
        def step():
            torch.empty(2**42, dtype=torch.uint8, device="cuda")

        return step

    with pytest.raises(OutOfDeviceMemoryError) as caught:
        gs.measure(too_much)
    assert caught.value.asked_bytes == 2**42
    assert caught.value.missing_bytes > 2**41


def test_a_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from workload_small import build\n"
        "step = build(1024)\n"
        "for _ in range(300): step()\n"
        "print('done')\n"
    )
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "gpuscope",
            "profile",
            "--memory-history",
            "--output-dir",
            str(tmp_path / "out"),
            str(script),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    from gpuscope.run.reader import load_runs

    (found,) = load_runs(tmp_path / "out" / "run.json.gz")
    assert len(found.timeline.steps) == 3
    assert found.device_busy_s > 0
    assert (tmp_path / "out" / "memory.pickle").stat().st_size > 1000
