"""What a process is called: its program and what it runs, without its other arguments.

A driver names only the program ("python"). The command line says more, and may hold secrets: only
the program, the script or module, and nothing else of it is told.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath

from gpuscope.document.printable import one_line
from gpuscope.measurement.sensors.types import ProcessUse, Reading

PROC = Path("/proc")


def with_names(reading: Reading, proc: Path = PROC) -> Reading:
    """Return a reading whose processes are named by what they run, where this host can tell."""
    if not reading.processes:
        return reading
    named = (_named(each, proc) for each in reading.processes)
    # A process may call itself anything; whoever watches a shared machine reads it.
    return replace(
        reading, processes=tuple(replace(each, name=one_line(each.name)) for each in named)
    )


def _named(process: ProcessUse, proc: Path) -> ProcessUse:
    try:
        line = (proc / str(process.pid) / "cmdline").read_bytes()
    except OSError:  # it ended, or belongs to another container
        return process
    words = [word.decode("utf-8", "replace") for word in line.split(b"\0") if word]
    given = PurePath(process.name).name
    if not words or (given and PurePath(words[0]).name != given):
        return process  # another process that has this number in our container
    return replace(process, name=short_name(words))


def short_name(words: list[str]) -> str:
    """Return the program and its script or module: "python train.py", "python -m package.run".

    Args:
        words: the command line; not empty.
    """
    program = PurePath(words[0]).name
    if not program.startswith(("python", "torchrun", "pypy")):
        return program
    rest = iter(words[1:])
    for word in rest:
        if word == "-m":
            return f"{program} -m {next(rest, '')}".rstrip()
        if word == "-c":
            return f"{program} -c"
        if word in ("-X", "-W"):
            next(rest, None)
        elif not word.startswith("-"):
            return f"{program} {PurePath(word).name}"
    return program
