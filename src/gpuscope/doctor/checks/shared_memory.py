"""Is /dev/shm big enough for data loader workers and NCCL?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuscope.doctor.containers import container
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text

_BY = "df -k /dev/shm"

LEAST_BYTES = 1 << 30
"""Below this some ordinary data loaders fail: 8 workers, each 2 batches ahead, of 256 pictures of
3 x 224 x 224 in fp32 (154 MB) hold 2.5 GB; Docker gives 64 MiB unless told otherwise."""

DOCKER_BYTES = 64 << 20


def shared_memory(machine: Machine) -> tuple[int, int] | None:
    """Return size and free space of /dev/shm in bytes; None if it is not there."""
    answer = machine.command("df", "-k", "/dev/shm")
    if answer is None or not answer.ok:
        return None
    fields = answer.out.strip().rpartition("\n")[2].split()
    if len(fields) < 6 or fields[-1] != "/dev/shm" or not fields[-5].isdigit():
        return None
    return int(fields[-5]) * 1024, int(fields[-3]) * 1024


@check("shared_memory", "container", Text("/dev/shm: size and free space"))
def run(machine: Machine) -> Iterator[Finding]:
    """Compare with what data loaders need; say how to get more."""
    found = shared_memory(machine)
    if found is None:
        return
    size, free = found
    values = {"shm_bytes": size, "shm_free_bytes": free}
    evidence = Text(
        "{size} GiB, {free} free",
        size=Number(size / 2**30, ".2f"),
        free=Number(free / 2**30, ".2f"),
    )
    if size >= LEAST_BYTES and free >= min(size * 0.1, LEAST_BYTES):
        title = Text("Shared memory is big enough.")
        yield Finding("shared_memory", "ok", title, evidence, known_by=_BY, values=values)
        return
    full = size >= LEAST_BYTES
    yield Finding(
        "shared_memory",
        "warning",
        Text("Shared memory is nearly full.") if full else Text("Shared memory is small."),
        Text("/dev/shm: {told}.", told=evidence),
        Text(
            "Data loader workers pass batches through it, and NCCL its buffers: 'Bus error', "
            "'unable to open shared memory object', workers that are killed."
        ),
        _fix(machine, full),
        _commands(machine, full),
        _BY,
        values=values,
    )


def _fix(machine: Machine, full: bool) -> Text:
    if full:
        return Text("Remove what ended programs left there.")
    if container(machine) == "kubernetes":
        return Text("Mount a memory volume (emptyDir with medium: Memory) at /dev/shm.")
    if container(machine):
        return Text("Start the container with more.")
    return Text("Mount it again, larger.")


def _commands(machine: Machine, full: bool) -> tuple[str, ...]:
    if full:
        return ("ls -lh /dev/shm",)
    kind = container(machine)
    if kind == "kubernetes":
        return ()
    if kind:
        return ("docker run --shm-size=16g ...", "docker run --ipc=host ...")
    return ("sudo mount -o remount,size=50% /dev/shm",)
