"""`gpuscope watch --attach PID`: a short trace of a running process, then what it says."""

from __future__ import annotations

from pathlib import Path

import typer

from gpuscope.cli.progress import note, progress

SECONDS = 1.0
"""Recorded unless told otherwise: some training steps."""


def attach_and_tell(pid: int, output: Path | None, seconds: float | None, lang: str) -> None:
    """Record a running PyTorch process, and analyse the trace.

    Args:
        pid: its number.
        output: the trace's file; None for trace-PID.json here.
        seconds: how long to record; None for `SECONDS`.
        lang: "en" or "zh".

    Raises:
        GpuscopeError: as `gpuscope.watch.attach.record` raises.
    """
    from gpuscope.cli.analyze import analyze_command
    from gpuscope.errors import UnsupportedError
    from gpuscope.views.i18n import tr
    from gpuscope.watch.attach import record

    target = output or Path(f"trace-{pid}.json")
    try:
        with progress(False) as say:
            say(tr("Waiting until process {pid} asks what to record …", lang, pid=pid))
            trace = record(pid, target, SECONDS if seconds is None else seconds)
    except UnsupportedError:
        _show_stack(pid, lang)
        raise
    note(tr("Wrote {path}", lang, path=trace), quiet=False)
    analyze_command([str(trace)], lang=lang)


def _show_stack(pid: int, lang: str) -> None:
    """What can be seen without the profiler's help: the Python side, by py-spy."""
    from gpuscope.views.i18n import tr
    from gpuscope.watch.attach import python_stack

    stack = python_stack(pid)
    if stack is not None:
        typer.echo(tr("What its Python threads do now (py-spy):", lang))
        typer.echo(stack)
