from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gpuscope.doctor.probes import deep_devices
from gpuscope.measurement.accelerator import Accelerator

CPU = Accelerator("cpu")


def _run(body: str) -> tuple[int, dict, str]:
    code = (
        "from gpuscope.doctor.probes import deep_devices as d\nimport time\n"
        f"from gpuscope.document.text import Text\n{body}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, json.loads(done.stdout.strip().splitlines()[-1]), done.stderr


def test_a_failing_test_still_answers_with_its_reason() -> None:
    code, found, _ = _run(
        "def work(_): raise RuntimeError('broken\\nsecond line')\nd.answer(work, limit_s=30)"
    )
    assert code == 0
    assert found["error"] == "RuntimeError: broken"
    assert found["kind"] is None
    assert found["devices"] == []


def test_a_test_that_hangs_says_where() -> None:
    code, found, told = _run(
        "def work(_):\n d.say(Text('the {n}rd thing', n=3))\n time.sleep(30)\n"
        "d.answer(work, limit_s=0.3)"
    )
    assert code == 3
    assert found["hung"] == {"template": "the {n}rd thing", "values": {"n": "3"}}
    assert found["hung_after_s"] == 0.3
    assert "the 3rd thing" in told


def test_answers_of_devices_are_joined_with_their_descriptions(capsys, monkeypatch) -> None:
    monkeypatch.setattr(deep_devices, "_devices", lambda: ([CPU], "2.0"))
    monkeypatch.setattr(deep_devices.os, "_exit", lambda code: None)
    deep_devices.answer(
        lambda devices: {"devices": deep_devices.on_each(devices, lambda _: {"wrong": 0}), "x": 1},
        limit_s=30,
    )
    found = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert found["devices"][0]["wrong"] == 0
    assert found["devices"][0]["name"] == CPU.name
    assert found["x"] == 1
    assert found["error"] is None


@pytest.mark.parametrize(
    ("text", "lost", "no_memory"),
    [
        ("CUDA error: uncorrectable ECC error encountered", True, False),
        ("CUDA error: no kernel image is available", False, False),
        ("CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has", False, True),
    ],
)
def test_one_device_that_fails_does_not_hide_the_others(text, lost, no_memory) -> None:
    class Second(Accelerator):
        pass

    second = Second("cpu")
    second.index = 1

    def work(accelerator: Accelerator) -> dict:
        if accelerator.index == 1:
            raise RuntimeError(text)
        return {"fine": True}

    rows = deep_devices.on_each([CPU, second], work)
    assert rows[0] == {"index": 0, "fine": True}
    assert rows[1]["index"] == 1
    assert (rows[1]["lost"], rows[1]["no_memory"]) == (lost, no_memory)


def test_the_fastest_round_counts() -> None:
    now = [0.0]
    lengths = iter([0.5, 0.02, 0.05, 0.01, 0.03])

    def call() -> None:
        now[0] += next(lengths)

    clock = deep_devices.time.perf_counter
    try:
        deep_devices.time.perf_counter = lambda: now[0]  # type: ignore[assignment]
        found = deep_devices.once_s(call, lambda: None, for_s=0.02, rounds=3)
    finally:
        deep_devices.time.perf_counter = clock
    assert found == pytest.approx(0.01)
