"""A short trace of a PyTorch process that runs already, by Kineto's on-demand door.

PyTorch's profiler (libkineto) asks a daemon for work every few seconds if the process was started
with the variable KINETO_USE_DAEMON=1: a datagram to the abstract Unix socket "dynolog", which a
daemon of that name (https://github.com/facebookincubator/dynolog) would own. For the length of one
request this module is that daemon: it waits for the process to ask, answers with what to record
and where, and waits for the file. The process itself is not touched: no debugger, no injected
code, no signal.

What does not work, and is said plainly: a process that was started without that variable. Its
profiler listens to nobody; libkineto's own signal door needs a configuration file of the
superuser, also from before the start. What its Python threads do at this moment can still be seen
where `py-spy` is installed (`python_stack`).

The message (libkineto, `ipcfabric`; seen on PyTorch 2.13): 8 bytes of length, 32 bytes of a name
("req"), then the content: the kind of request and the count of processes (two 32-bit integers),
the job (64 bits), and the numbers of the process and its ancestors (32 bits each). The answer has
the same head, and the configuration as text.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gpuscope.atomic import check_writable
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnsupportedError

DAEMON = b"\0dynolog\0"
"""Address of the daemon; libkineto counts the closing zero byte to the name."""

VARIABLE = "KINETO_USE_DAEMON"

_HEAD = struct.Struct("=Q32s")
_REQUEST = struct.Struct("=iiq")

LONGEST_ASK_S = 20.0
"""libkineto asks every 5 s; a process that is busy in one call asks later."""

LONGEST_WRITE_S = 120.0
"""For the process to write what it recorded."""

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Request:
    """A process that asks what to do."""

    pids: tuple[int, ...]
    address: bytes


def record(pid: int, target: Path, seconds: float = 1.0, wait_s: float = LONGEST_ASK_S) -> Path:
    """Record a running PyTorch process for a short time.

    Args:
        pid: its number.
        target: the trace's file; its folder must exist, and the process be able to write there.
        seconds: how long to record.
        wait_s: how long to wait until it asks.

    Returns:
        The trace's file: `target`.

    Raises:
        InvalidValueError: there is no such process, or the length or the name cannot be.
        InputFileError: the file cannot be written.
        UnsupportedError: the process does not listen, or this system has no such door.
        GpuscopeError: it did not ask, or did not write the trace, in time.
    """
    if not seconds > 0:
        raise InvalidValueError(
            Text("{seconds} s records nothing.", seconds=Number(seconds, "g")),
            "",
            Text("Type: --seconds 1"),
        )
    if target.suffix != ".json":
        raise InvalidValueError(
            Text("The trace cannot be named {target}.", target=target.name),
            Text("PyTorch writes plain JSON."),
            Text("Type: --output {stem}.json", stem=target.stem),
        )
    target = target.absolute()  # the process may be in another folder
    check_writable(target)
    check_listens(pid)
    written = target.with_name(f"{target.stem}_{pid}.json")  # libkineto adds the number itself
    written.unlink(missing_ok=True)
    with closing(_daemon()) as door:
        request = _await_request(door, pid, wait_s)
        door.sendto(answer(configuration(target, seconds)), request.address)
        _await_file(pid, written, seconds + LONGEST_WRITE_S)
    os.replace(written, target)
    return target


def python_stack(pid: int, timeout_s: float = 10.0) -> str | None:
    """Return what the threads of a Python process do now, from `py-spy` where it is installed.

    Args:
        pid: its number.
        timeout_s: for the answer.

    Returns:
        Its text; None where py-spy is not installed, or may not look into the process.
    """
    program = shutil.which("py-spy")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "dump", "--pid", str(pid)],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def check_listens(pid: int, proc: Path = PROC) -> None:
    """Refuse a process whose profiler does not listen.

    Args:
        pid: its number.
        proc: the kernel's table of processes.

    Raises:
        InvalidValueError: there is no such process.
        UnsupportedError: it does not listen, may not be looked into, or this is not Linux.
    """
    if not hasattr(socket, "AF_UNIX") or not (proc / "net" / "unix").exists():
        raise UnsupportedError(
            Text("A running process can be attached to on Linux only."),
            "",
            Text("Record it from its start: gpuscope profile SCRIPT"),
        )
    if not (proc / str(pid)).exists():
        raise InvalidValueError(
            Text("There is no process {pid}.", pid=pid), "", Text("See them: gpuscope watch")
        )
    try:
        listens = bool(_sockets(pid, proc) & _profiler_sockets(proc))
    except PermissionError:
        raise UnsupportedError(
            Text("Process {pid} belongs to another user.", pid=pid),
            "",
            Text("Run gpuscope as that user."),
        ) from None
    if not listens:
        raise UnsupportedError(
            Text("The profiler of process {pid} listens to nobody.", pid=pid),
            Text(
                "PyTorch opens that door only in processes started with {variable}=1.",
                variable=VARIABLE,
            ),
            Text(
                "Start it so: {variable}=1 python ..., or record it: gpuscope profile SCRIPT",
                variable=VARIABLE,
            ),
        )


def configuration(target: Path, seconds: float) -> str:
    """Return what to record, in libkineto's words.

    Args:
        target: the trace's file; libkineto adds "_PID" to its name.
        seconds: how long.
    """
    return "\n".join(
        (
            f"ACTIVITIES_LOG_FILE={target}",
            "PROFILE_START_TIME=0",
            f"ACTIVITIES_DURATION_MSECS={max(round(seconds * 1e3), 1)}",
            "PROFILE_REPORT_INPUT_SHAPES=true",
        )
    )


def answer(text: str) -> bytes:
    """Return a configuration as libkineto expects it; "" says that there is nothing to do."""
    content = text.encode()
    return _HEAD.pack(len(content), b"req") + content


def read_request(datagram: bytes, address: bytes) -> Request | None:
    """Return who asks; None for a message of another kind, or one that is cut off.

    Args:
        datagram: as it came.
        address: from where.
    """
    if len(datagram) < _HEAD.size + _REQUEST.size:
        return None
    size, name = _HEAD.unpack_from(datagram)
    if name.rstrip(b"\0") != b"req" or len(datagram) != _HEAD.size + size:
        return None
    _, count, _ = _REQUEST.unpack_from(datagram, _HEAD.size)
    rest = datagram[_HEAD.size + _REQUEST.size :]
    if count < 1 or len(rest) != 4 * count:
        return None
    return Request(struct.unpack(f"={count}i", rest), address)


def _daemon() -> socket.socket:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        door.bind(DAEMON)
    except OSError as error:
        door.close()
        raise UnsupportedError(
            Text("Cannot take the place of the profiling daemon."),
            Text(
                "Its address is taken ({strerror}): dynolog, or another --attach, runs.",
                strerror=error.strerror,
            ),
            Text("Use it: dyno gputrace --pids PID --log-file FILE"),
        ) from error
    return door


def _await_request(door: socket.socket, pid: int, wait_s: float) -> Request:
    """The process's own request; others that ask are told that there is nothing to do."""
    until = time.monotonic() + wait_s
    while (left_s := until - time.monotonic()) > 0:
        door.settimeout(left_s)
        try:
            datagram, address = door.recvfrom(65536)
        except TimeoutError:
            break
        request = read_request(datagram, address)
        if request is None:
            continue
        if request.pids[0] == pid:
            return request
        try:
            door.sendto(answer(""), request.address)
        except OSError:  # it ended meanwhile
            continue
    raise GpuscopeError(
        Text(
            "Process {pid} did not ask for work within {wait} s.",
            pid=pid,
            wait=Number(wait_s, ".0f"),
        ),
        Text("Its profiler asks every 5 s, once PyTorch is loaded."),
        Text("Try again, or see whether it hangs."),
    )


def _await_file(pid: int, path: Path, wait_s: float) -> None:
    """Wait until the trace is there in full: it is JSON that ends."""
    until = time.monotonic() + wait_s
    size = -1
    while time.monotonic() < until:
        now = path.stat().st_size if path.exists() else -1
        if now > 0 and now == size and _whole(path):
            return
        size = now
        if now < 0 and not (PROC / str(pid)).exists():
            raise GpuscopeError(
                Text("Process {pid} ended before it wrote its trace.", pid=pid),
                "",
                Text("Record a shorter time."),
            )
        time.sleep(0.2)
    raise GpuscopeError(
        Text("Process {pid} wrote no trace within {wait} s.", pid=pid, wait=Number(wait_s, ".0f")),
        Text("It must be able to write {path}.", path=path),
        Text("Choose another file: --output FILE"),
    )


def _whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 64, 0))
        if not file.read().rstrip().endswith(b"}"):
            return False
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    except OSError as error:
        raise InputFileError(
            Text("Cannot read {path}.", path=path), str(error.strerror), ""
        ) from error
    return True


def _sockets(pid: int, proc: Path) -> set[str]:
    """Numbers of the sockets that a process holds."""
    found = set()
    for entry in (proc / str(pid) / "fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        except OSError:  # closed meanwhile
            continue
        if match:
            found.add(match[1])
    return found


def _profiler_sockets(proc: Path) -> set[str]:
    """Numbers of the sockets of profilers that ask a daemon."""
    lines = (proc / "net" / "unix").read_text("utf-8", "replace").splitlines()[1:]
    rows = (line.split() for line in lines if "@dynoconfigclient" in line)
    return {row[6] for row in rows if len(row) > 6}
