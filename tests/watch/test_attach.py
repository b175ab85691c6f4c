"""Attaching to a running process: the protocol by hand, and once with a real PyTorch."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuscope.errors import GpuscopeError, InvalidValueError, UnsupportedError
from gpuscope.watch import attach

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")

SEEN = bytes.fromhex(
    "1800000000000000"
    + "726571"
    + "00" * 29
    + "03000000"
    + "02000000"
    + "00" * 8
    + "0b3f0000"
    + "093f0000"
)
"""What PyTorch 2.13 sent: process 16139, whose parent is 16137."""


def test_a_real_request_is_read() -> None:
    request = attach.read_request(SEEN, b"\0client\0")
    assert request == attach.Request((16139, 16137), b"\0client\0")


@pytest.mark.parametrize(
    "datagram", [b"", SEEN[:-1], SEEN[:40], SEEN.replace(b"req", b"ctx"), SEEN + b"\0" * 4]
)
def test_other_messages_are_passed_over(datagram: bytes) -> None:
    assert attach.read_request(datagram, b"") is None


def test_an_answer_has_the_same_head() -> None:
    size, name = struct.unpack_from("=Q32s", attach.answer("A=1\n"))
    assert (size, name.rstrip(b"\0")) == (4, b"req")
    assert attach.answer("A=1\n")[40:] == b"A=1\n"


def test_the_configuration_says_where_and_how_long() -> None:
    text = attach.configuration(Path("/x/t.json"), 0.5)
    assert "ACTIVITIES_LOG_FILE=/x/t.json" in text
    assert "ACTIVITIES_DURATION_MSECS=500" in text


@pytest.fixture
def address(monkeypatch) -> bytes:
    """An address of our own: the real one belongs to whoever attaches on this machine."""
    mine = f"\0gpuscope-test-{os.getpid()}\0".encode()
    monkeypatch.setattr(attach, "DAEMON", mine)
    return mine


@pytest.fixture
def client():
    """A profiler that listens, as this very process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mine:
        mine.bind(f"\0dynoconfigclient-test-{os.getpid()}\0".encode())
        yield mine


def request_of(pid: int) -> bytes:
    return struct.pack("=Q32siiqi", 20, b"req", 3, 1, 0, pid)


def test_a_process_is_told_and_its_file_awaited(address, client, tmp_path) -> None:
    import threading

    told = {}

    def profiler() -> None:
        client.settimeout(5)
        for pid in (1, os.getpid()):  # another process asks first: nothing for it
            while client.sendto(request_of(pid), address) < 0:
                pass
            size, _ = struct.unpack_from("=Q32s", data := client.recv(65536))
            told[pid] = data[40 : 40 + size].decode()
        path = re.search("ACTIVITIES_LOG_FILE=(.*)", told[os.getpid()])[1]
        written = Path(path).with_suffix("").as_posix() + f"_{os.getpid()}.json"
        with open(written, "w") as file:  # in two parts: half a file is not the trace
            file.write('{"traceEvents": [{"a": {}')
            file.flush()
            time.sleep(0.5)
            file.write("}]}")

    attach.check_listens(os.getpid())
    thread = threading.Timer(0.2, profiler)
    thread.start()
    found = attach.record(os.getpid(), tmp_path / "t.json", 0.1, wait_s=5)
    thread.join()
    assert json.loads(found.read_text()) == {"traceEvents": [{"a": {}}]}
    assert told[1] == ""
    assert os.listdir(tmp_path) == ["t.json"]


def test_a_process_that_does_not_ask_is_told(address, client, tmp_path) -> None:
    with pytest.raises(GpuscopeError, match="did not ask"):
        attach.record(os.getpid(), tmp_path / "t.json", wait_s=0.2)


def test_two_cannot_attach_at_once(address, client, tmp_path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(address)
        with pytest.raises(UnsupportedError, match="daemon"):
            attach.record(os.getpid(), tmp_path / "t.json", wait_s=0.2)


def test_a_process_that_does_not_listen_is_refused(tmp_path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        with pytest.raises(UnsupportedError, match="KINETO_USE_DAEMON=1"):
            attach.record(child.pid, tmp_path / "t.json")
    finally:
        child.kill()
        child.wait()
    with pytest.raises(InvalidValueError, match="no process"):
        attach.record(child.pid, tmp_path / "t.json")


def test_lengths_and_names_that_cannot_be_are_refused(tmp_path) -> None:
    with pytest.raises(InvalidValueError, match="records nothing"):
        attach.record(os.getpid(), tmp_path / "t.json", 0.0)
    with pytest.raises(InvalidValueError, match="cannot be named"):
        attach.record(os.getpid(), tmp_path / "t.json.gz", 1.0)


def test_without_py_spy_there_is_no_stack(monkeypatch) -> None:
    monkeypatch.setattr(attach.shutil, "which", lambda name: None)
    assert attach.python_stack(os.getpid()) is None


def test_the_stack_is_py_spy_s(monkeypatch, tmp_path) -> None:
    program = tmp_path / "py-spy"
    program.write_text('#!/bin/sh\necho "Thread 0x1 (active): $3"\n')
    program.chmod(0o755)
    monkeypatch.setattr(attach.shutil, "which", lambda name: str(program))
    assert attach.python_stack(77) == "Thread 0x1 (active): 77"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert attach.python_stack(77) is None


WORK = """
import time, torch
x = torch.randn(64, 64)
print("ready", flush=True)
end = time.time() + 60
while time.time() < end:
    (x @ x).relu()
    time.sleep(0.005)
"""


@pytest.mark.slow
def test_a_real_pytorch_process_is_recorded(tmp_path) -> None:
    """The protocol is libkineto's own: only a real one can say that it is understood."""
    pytest.importorskip("torch")
    child = subprocess.Popen(
        [sys.executable, "-c", WORK],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "KINETO_USE_DAEMON": "1"},
    )
    try:
        assert child.stdout.readline() == b"ready\n"
        found = attach.record(child.pid, tmp_path / "t.json", 0.3)
        assert child.poll() is None  # it goes on
    finally:
        child.kill()
        child.wait()
    names = {event.get("name") for event in json.loads(found.read_text())["traceEvents"]}
    assert {"aten::mm", "aten::relu"} <= names
