from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpuscope.doctor.machine import Answer, LiveMachine, Recording
from gpuscope.doctor.record import ask_more, scrubbed
from gpuscope.errors import InputFileError


def test_a_live_machine_remembers_and_its_recording_answers_the_same(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    (tmp_path / "link").symlink_to(path)
    live = LiveMachine({"CUDA_HOME": "/x", "HF_TOKEN": "secret", "SECRET": "s", "EDITOR": "vi"})

    def asked(machine):
        return [
            machine.command("echo", "hello"),
            machine.command("no-such-program-here"),
            machine.text(str(path)),
            machine.text(str(tmp_path / "none")),
            machine.entries(str(tmp_path)),
            machine.target(str(tmp_path / "link")),
            machine.variable("CUDA_HOME"),
            machine.variable("HF_TOKEN"),
            dict(machine.variables("CUDA", "EDITOR")),
        ]

    first = asked(live)
    assert first == [
        Answer(0, "hello\n"),
        None,
        "content",
        None,
        ("file", "link"),
        str(path.resolve()),
        "/x",
        None,
        {"CUDA_HOME": "/x"},
    ]
    path.write_text("changed")
    assert asked(live) == first
    saved = tmp_path / "machine.json"
    saved.write_text(live.recording.to_json())
    assert asked(Recording.load(saved)) == first


def test_a_command_that_hangs_is_ended() -> None:
    answer = LiveMachine({}).command("sleep", "30", timeout_s=0.2)
    assert answer is not None
    assert answer.code is None
    assert not answer.ok


def test_probes_started_ahead_run_at_the_same_time(monkeypatch, tmp_path: Path) -> None:
    """Each waits until all three have begun: one after the other, none would ever end."""

    def words(name: str) -> tuple[str, ...]:
        code = (
            "import json, pathlib, time\n"
            f"here = pathlib.Path({str(tmp_path)!r})\n"
            f"(here / {name!r}).touch()\n"
            "until = time.monotonic() + 30\n"
            "while len(list(here.iterdir())) < 3 and time.monotonic() < until: time.sleep(0.01)\n"
            f"print(json.dumps({{'name': {name!r}, 'begun': len(list(here.iterdir()))}}))"
        )
        return (sys.executable, "-c", code)

    monkeypatch.setattr("gpuscope.doctor.machine._probe_words", words)
    machine = LiveMachine({})
    machine.ask_ahead("a", "b", "c")
    assert [machine.probe(name) for name in "abc"] == [{"name": name, "begun": 3} for name in "abc"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise SystemExit('no library')", "no library"),
        ("print('[1]')", "not an object"),
        ("import os; os._exit(3)", "exit code 3"),
        ("import time; time.sleep(9)", "no answer"),
    ],
)
def test_a_probe_that_fails_says_why(monkeypatch, code: str, why: str) -> None:
    monkeypatch.setattr(
        "gpuscope.doctor.machine._probe_words", lambda name: (sys.executable, "-c", code)
    )
    machine = LiveMachine({})
    assert machine.probe("x", timeout_s=2.0) is None
    assert why in machine.probe_error("x")


def test_a_folder_called_torch_is_not_taken_for_pytorch(tmp_path, monkeypatch) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('not this one')")
    monkeypatch.chdir(tmp_path)
    found = LiveMachine().probe("torch_libraries", timeout_s=120.0)
    assert found is not None
    assert found["error"] is None


def test_a_recording_answers_as_if_nothing_else_were_there() -> None:
    empty = Recording()
    assert empty.command("nvidia-smi") is None
    assert empty.text("/proc/version") is None
    assert empty.probe("nvml") is None
    assert empty.probe_error("nvml") == ""


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "gpuscope.run"}', '{"schema": "gpuscope.machine"']
)
def test_what_is_no_recording_is_refused(tmp_path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputFileError):
        Recording.load(path)
    with pytest.raises(InputFileError):
        Recording.load(tmp_path / "missing.json")


@pytest.mark.parametrize("drop", ["version", "commands", "probes", "texts"])
def test_a_damaged_recording_is_refused(tmp_path, drop: str) -> None:
    data = json.loads(Recording().to_json())
    del data[drop]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputFileError):
        Recording.load(path)


def test_a_newer_recording_is_refused(tmp_path) -> None:
    data = json.loads(Recording().to_json()) | {"version": 99}
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputFileError, match="newer"):
        Recording.load(path)


def test_numbers_that_identify_hardware_do_not_leave_the_machine() -> None:
    q = "Product Name : NVIDIA H200\n    Serial Number : 1652922010101\n    GPU UUID : GPU-1\n"
    machine = Recording(
        commands={"nvidia-smi -q": Answer(0, q), "none": None},
        texts={"/sys/class/net/eth0/address": "0a:1b:2c:3d:4e:5f\n", "/none": None},
    )
    clean = scrubbed(machine)
    text = clean.to_json()
    assert "1652922010101" not in text
    assert "0a:1b:2c:3d:4e:5f" not in text
    assert "NVIDIA H200" in text
    assert clean.commands["none"] is None
    assert machine.commands["nvidia-smi -q"] == Answer(0, q)  # what checks see stays whole


def test_more_is_asked_than_checks_do_today() -> None:
    class Asked(Recording):
        def command(self, *words: str, timeout_s: float = 5.0):
            self.commands[" ".join(words)] = None
            return

    machine = Asked(folders={"/sys/bus/pci/devices": ("0000:1a:00.0",)})
    ask_more(machine)
    assert "nvidia-smi topo -m" in machine.commands
