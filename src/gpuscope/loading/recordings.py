"""`load`: files, folders and globs to one `Run`."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from gpuscope.document.printable import harmless, one_line
from gpuscope.document.text import Text, plural
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.hardware.device import Device
from gpuscope.loading.archives import unpacked
from gpuscope.loading.engines import Progress, run_jobs
from gpuscope.loading.graph_captures import captures_apart, captures_of_ranks
from gpuscope.loading.job import Job, Reading, rank_of
from gpuscope.run import Run
from gpuscope.timeline.captured_graphs import with_captures
from gpuscope.timeline.ranks import merge, ranks_of, with_rank
from gpuscope.timeline.trace_files import TraceFile, find_traces
from gpuscope.timeline.types import Timeline

FULL_FILES = 4
"""Up to this many ranks are always kept whole."""

FULL_BYTES = 1 << 28
"""More ranks are kept whole as long as their uncompressed traces together are no larger: about a
million events, which an analysis holds in half a gigabyte."""

_GZIP_RATIO = 8
"""Least that a trace is taken to shrink by, where the file's own word on it cannot be right."""

Paths = str | Path | Iterable[str | Path]


def load(
    paths: Paths,
    *,
    engine: str = "local",
    workers: int | None = None,
    on: Device | str | None = None,
    ranks: Collection[int] | None = None,
    steps: tuple[int, int] | None = None,
    on_progress: Progress | None = None,
) -> Run:
    """Open what was recorded and analyse it.

    Args:
        paths: a trace of PyTorch's profiler (plain, gzip or zstd), an Nsight Systems export
            (SQLite), a PyTorch memory snapshot, a run saved by gpuscope; or a folder, a glob, or a
            zip or tar file of traces, one a rank; or a list of these.
        engine: "local": processes of this machine; "ray": a Ray cluster (the files must be
            readable under the same path everywhere).
        workers: files read at a time; None: as many as there are cores.
        on: what it ran on, by name or as a `Device`; None: as the recording says.
        ranks: only these; None: all.
        steps: first and last marked step to look at, from 0; None: all.
        on_progress: called with (done, total) after each file.

    Returns:
        A `Run` with origin "measured" (a saved run: as it was saved). A memory snapshot gives one
        with memory only: its times are NaN.

    Raises:
        InputFileError: a file is missing, damaged or of no known kind, a folder holds no trace.
        InvalidValueError: kinds that do not go together, no such rank or step.
        UnknownNameError: no such device or engine.
        MissingPackageError: Ray is not installed.
    """
    with unpacked(paths) as plain:
        return _load(plain, engine, workers, on, ranks, steps, on_progress)


def _load(
    paths: Sequence[str | Path],
    engine: str,
    workers: int | None,
    on: Device | str | None,
    ranks: Collection[int] | None,
    steps: tuple[int, int] | None,
    on_progress: Progress | None,
) -> Run:
    """`load` of what is no archive."""
    found = find_traces(paths)
    kinds = {file.kind for file in found.files}
    if kinds & {"document", "snapshot"}:
        if len(found.files) > 1:
            raise InvalidValueError(
                Text(
                    "{files} files of these kinds cannot be read as one run: {kinds}.",
                    files=len(found.files),
                    kinds=", ".join(sorted(kinds)),
                ),
                Text("Only traces of several ranks belong together."),
                Text("Name one file; or type: gpuscope compare A B"),
            )
        return _single(found.files[0], on)
    timeline, notes = _timeline(
        found.files, engine=engine, workers=workers, ranks=ranks, progress=on_progress
    )
    from gpuscope.loading.trace_run import trace_run

    run_name = _name(found.files, paths)
    return trace_run(
        timeline, name=run_name, device=_device(on), steps=steps, notes=(*found.notes, *notes)
    )


def read_timelines(
    paths: Paths,
    *,
    engine: str = "local",
    workers: int | None = None,
    ranks: Collection[int] | None = None,
    progress: Progress | None = None,
) -> tuple[Timeline, tuple[str, ...]]:
    """Read traces as one timeline of all ranks, without analysing it; remarks come with it.

    Arguments and errors as `load`, traces only.
    """
    with unpacked(paths) as plain:
        found = find_traces(plain)
        timeline, notes = _timeline(
            found.files, engine=engine, workers=workers, ranks=ranks, progress=progress
        )
        return timeline, (*found.notes, *notes)


def _harmless(timeline: Timeline) -> Timeline:
    """A timeline whose names, which come from whoever recorded it, no terminal obeys."""
    ops = (
        op if "".join((op.name, op.module, op.site, op.line)).isprintable() else harmless(op)
        for op in cast("tuple[Any, ...]", timeline.ops)
    )
    return replace(
        timeline,
        names=harmless(timeline.names),
        lanes=harmless(timeline.lanes),
        ops=tuple(ops),
        notes=harmless(timeline.notes),
        collectives=harmless(timeline.collectives),
        sources=harmless(timeline.sources),
    )


# -- traces ---------------------------------------------------------------------------------------


def _timeline(
    files: Sequence[TraceFile],
    *,
    engine: str,
    workers: int | None,
    ranks: Collection[int] | None,
    progress: Progress | None,
) -> tuple[Timeline, tuple[str, ...]]:
    """Read, number and merge; of very many ranks only some are kept whole."""
    notes: list[str] = []
    if ranks is not None:
        files = [f for f in files if f.rank is None or f.rank in ranks] or files
    files, executions = _joined(files, notes)
    thin = len(files) > FULL_FILES and sum(map(unpacked_bytes, files)) > FULL_BYTES
    jobs = [
        Job(str(f.path), f.kind, f.rank, thin, execution)
        for f, execution in zip(files, executions, strict=True)
    ]
    readings = run_jobs(jobs, engine=engine, workers=workers, progress=progress)
    whole, captures = captures_apart(list(zip(jobs, readings, strict=True)))
    numbered = _numbered(whole, notes)
    if ranks is not None:
        numbered = _only(numbered, ranks)
    if thin:
        numbered = _widened(numbered, engine, workers, notes)
    merged = merge([reading.timeline for _, reading in numbered])
    stated = [(_known_rank(job, reading), reading.timeline) for job, reading in captures]
    timeline = _harmless(with_captures(merged, captures_of_ranks(ranks_of(merged), stated)))
    if not len(timeline.events):
        raise InputFileError(
            Text("{path} holds no events.", path=files[0].path),
            Text("Nothing was recorded, or every event in it was unusable."),
            Text("Record again, with steps inside the profiler's window."),
        )
    return timeline, tuple(notes)


def _joined(files: Sequence[TraceFile], notes: list[str]) -> tuple[list[TraceFile], list[str]]:
    """Traces, each with the path of its execution trace ("" without).

    Raises:
        InputFileError: there are execution traces alone.
    """
    layers = [file for file in files if file.kind == "layers"]
    reports = [file for file in files if file.kind == "engine"]
    if len(layers) == len(reports) == 1 and len(files) == 2:
        return reports, [str(layers[0].path)]
    traces = [file for file in files if file.kind != "execution"]
    others = [file for file in files if file.kind == "execution"]
    if not others:
        return traces, [""] * len(traces)
    if not traces:
        raise InputFileError(
            Text("{path} is an execution trace: it has no times.", path=others[0].path),
            Text("It says which operators were called with what, and what each waited for."),
            Text("Name the profiler's trace of the same run beside it: analyze TRACE EXECUTION"),
        )
    from gpuscope.timeline.kineto.execution import pairs

    places = pairs([file.rank for file in traces], [file.rank for file in others])
    left = [f.path.name for at, f in enumerate(others) if at not in places]
    if left:
        shown = ", ".join(left[:5]) + (", ..." if len(left) > 5 else "")
        notes.append(Text("Left out, no trace of its rank is there: {shown}.", shown=shown))
    return traces, ["" if at is None else str(others[at].path) for at in places]


_Numbered = list[tuple[Job, Reading]]


def _numbered(pairs: _Numbered, notes: list[str]) -> _Numbered:
    """Give every reading a rank of its own: the file's word, else its name's, else its place."""
    if len(pairs) == 1:
        return pairs
    if any(len(ranks_of(reading.timeline)) > 1 for _, reading in pairs):
        raise InvalidValueError(
            Text("Several files hold several ranks each."),
            Text("Their numbers would clash."),
            Text("Load them one at a time."),
        )
    taken: dict[int, tuple[Job, Reading]] = {}
    unnamed: _Numbered = []
    twice: list[str] = []
    for job, reading in pairs:
        rank = _known_rank(job, reading)
        if rank is None:
            unnamed.append((job, reading))
        elif rank in taken:
            twice.append(f"{Path(job.path).name} (rank {rank})")
        else:
            taken[rank] = (job, reading)
    for job, reading in unnamed:
        rank = next(n for n in range(len(pairs) + 1) if n not in taken)
        taken[rank] = (job, reading)
    if unnamed:
        notes.append(
            plural(
                "{count} file does not say its rank: it got the first free number.",
                "{count} files do not say their rank: they were numbered in the order of their "
                "names.",
                len(unnamed),
            )
        )
    if twice:
        shown = ", ".join(twice[:5]) + (", ..." if len(twice) > 5 else "")
        notes.append(Text("Left out, the rank is there already: {shown}.", shown=shown))
    return [
        (job, replace(reading, timeline=with_rank(reading.timeline, rank)))
        for rank, (job, reading) in sorted(taken.items())
    ]


def _known_rank(job: Job, reading: Reading) -> int | None:
    source = next(iter(reading.timeline.sources), None)
    if source is not None and source.rank_known:
        return source.rank
    return job.rank


def _only(numbered: _Numbered, ranks: Collection[int]) -> _Numbered:
    if len(numbered) == 1 and len(ranks_of(numbered[0][1].timeline)) > 1:
        return numbered
    kept = [(job, reading) for job, reading in numbered if rank_of(reading) in ranks]
    if not kept:
        there = ", ".join(str(rank_of(reading)) for _, reading in numbered[:16])
        raise InvalidValueError(
            Text("There is no rank {ranks}.", ranks=", ".join(map(str, sorted(ranks)))),
            Text("There are: {there}.", there=there),
            Text("Type: --rank with one of these."),
        )
    return kept


def _widened(numbered: _Numbered, engine: str, workers: int | None, notes: list[str]) -> _Numbered:
    """Read the ranks that explain the others again, whole: the first, slowest, last to arrive."""
    readings = [reading for _, reading in numbered]
    slowest = max(range(len(readings)), key=lambda i: (readings[i].compute_ns, -i))
    # The rank that the others wait for spends the least time in collectives itself.
    last = min(range(len(readings)), key=lambda i: (readings[i].communication_ns, i))
    chosen = sorted({0, slowest, last})
    jobs = [replace(numbered[i][0], thin=False) for i in chosen]
    for i, again in zip(chosen, run_jobs(jobs, engine=engine, workers=workers), strict=True):
        rank = rank_of(readings[i])
        numbered[i] = (numbered[i][0], replace(again, timeline=with_rank(again.timeline, rank)))
    named = ", ".join(str(rank_of(numbered[i][1])) for i in chosen)
    notes.append(
        Text(
            "{numbered} ranks are too large to keep whole: the host's events are there for rank "
            "{named} (the first, the one that computes longest, and the one that waits least); of "
            "the others device work and steps are.",
            numbered=len(numbered),
            named=named,
        )
    )
    return numbered


def unpacked_bytes(file: TraceFile) -> int:
    """Estimate a trace's size as plain JSON: a gzip file says it itself, up to 4 GiB."""
    try:
        with file.path.open("rb") as stream:
            magic = stream.read(4)
            if magic[:2] == b"\x1f\x8b" and file.nbytes > 18:
                stream.seek(-4, 2)
                said = int(struct.unpack("<I", stream.read(4))[0])
                return max(said, file.nbytes * _GZIP_RATIO if said < file.nbytes else said)
    except OSError:
        return file.nbytes
    return file.nbytes * (_GZIP_RATIO if magic == b"\x28\xb5\x2f\xfd" else 1)


# -- other kinds ----------------------------------------------------------------------------------


def _single(file: TraceFile, device: Device | str | None) -> Run:
    if file.kind == "snapshot":
        from gpuscope.loading.memory_run import memory_run

        return memory_run(file.path, device=_device(device))
    from gpuscope.run.reader import load_runs

    runs = load_runs(file.path)
    if len(runs) != 1:
        raise InputFileError(
            Text("{path} holds {runs} runs.", path=file.path, runs=len(runs)),
            Text("Only one can be opened."),
            Text("Type: gpuscope compare {path}", path=file.path),
        )
    return runs[0]


def _device(device: Device | str | None) -> Device | None:
    if device is None or isinstance(device, Device):
        return device
    from gpuscope.hardware import device as find

    return find(device)


def _name(files: Sequence[TraceFile], paths: Sequence[str | Path]) -> str:
    """What to call the run: the folder's name where one was named or the files are several, else
    the file's without its endings."""
    first = Path(paths[0])
    if len(files) > 1 or first.is_dir():
        folder = first if first.is_dir() else files[0].path.parent
        return one_line(folder.resolve().name) or "trace"
    name = one_line(files[0].path.name)
    for ending in (".gz", ".zst", ".json", ".sqlite", ".trace", ".pt"):
        name = name.removesuffix(ending)
    return name or one_line(files[0].path.name)
