"""What of the kernel's log is kept, and where it comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuscope.doctor.probes.kernel_log import facts, wanted

XID = "[  812.5] NVRM: Xid (PCI:0000:23:00): 79, GPU has fallen off the bus."


def answers(**known: tuple[int, str]) -> Any:
    """Stands in for subprocess.run; commands that are not known are not installed."""

    def run(words: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        if words[0] not in known:
            raise FileNotFoundError(words[0])
        code, out = known[words[0]]
        return subprocess.CompletedProcess(words, code, out, "Operation not permitted")

    return run


@pytest.mark.parametrize(
    "line",
    [
        XID,
        "nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20034, Fatal",
        "pcieport 0000:12:00.0: AER: Corrected error received",
        "amdgpu 0000:63:00.0: amdgpu: GPU reset begin!",
        "i915 0000:00:02.0: [drm] GPU HANG: ecode 12",
        "Out of memory: Killed process 12 (python)",
        "EDAC MC0: 1 UE memory read error",
    ],
)
def test_lines_about_devices_and_memory_are_kept(line: str) -> None:
    assert wanted([line, "usb 1-1: new device"]) == ([line], 2)


@pytest.mark.parametrize(
    "line",
    [
        "Command line: root=/dev/sda1 secret=1",
        "eth0: link up",
        "nvidia: loading out-of-tree module",
    ],
)
def test_all_else_is_left_out(line: str) -> None:
    assert wanted([line])[0] == []


def test_names_of_hosts_are_cut() -> None:
    lines, _ = wanted(
        [f"Nov 21 10:00:00 myhost kernel: {XID}", f"[  99.1] myhost kernel: {XID}", XID]
    )
    assert not any("myhost" in line for line in lines)
    assert lines[0] == XID
    assert lines[1] == f"[  99.1] {XID}"


def test_the_newest_of_many_lines_are_kept() -> None:
    lines, read = wanted([f"[{i}] NVRM: Xid (PCI:0): 13" for i in range(1000)])
    assert read == 1000
    assert len(lines) == 400
    assert lines[-1].startswith("[999]")


def test_the_first_that_answers_is_used(tmp_path: Path) -> None:
    file = tmp_path / "kern.log"
    file.write_text(f"{XID}\n")
    assert facts(answers(dmesg=(0, XID)), ())["source"] == "dmesg"
    second = facts(answers(dmesg=(1, ""), journalctl=(0, XID)), ())
    assert (second["source"], second["lines"]) == ("journalctl", [XID])
    assert facts(answers(), (str(tmp_path / "none"), str(file)))["source"] == str(file)


def test_nothing_that_may_be_read_says_why() -> None:
    told = facts(answers(dmesg=(1, "")), ("/no/such/file",))
    assert told["source"] is None
    assert "Operation not permitted" in told["error"]
    assert "journalctl: FileNotFoundError" in told["error"]
