"""From a trace file to a timeline."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.garbage import no_collection
from gpuscope.outside import limits
from gpuscope.timeline.kineto.arguments import plain_arguments
from gpuscope.timeline.kineto.blocks import Blocks
from gpuscope.timeline.kineto.build import Builder, Built
from gpuscope.timeline.kineto.chunks import Chunks
from gpuscope.timeline.kineto.decode import Reader
from gpuscope.timeline.kineto.header import (
    devices,
    parse_header,
    process_groups,
    section,
    whole,
    words,
)
from gpuscope.timeline.kineto.parallel import Parallel
from gpuscope.timeline.kineto.table import Table
from gpuscope.timeline.types import Source, Timeline


def read_trace(
    path: str | Path, *, rank: int | None = None, workers: int | None = None, execution: str = ""
) -> Timeline:
    """Read one rank's Kineto or Chrome trace, or rocprofv3's JSON.

    Plain JSON, gzip and zstd are told apart by their first bytes. Times are exact: microseconds in
    decimal text become whole nanoseconds. What can be read of a file that is cut off or damaged is
    read, and `Source.cut_off` and `Source.events_skipped` say so. A large file is parsed by this
    process and, where there are more processors, some others beside it (see `parallel`).

    Args:
        path: the file.
        rank: which rank it is where the file does not say; 0 if None.
        workers: processes beside this one for a large file; None for as many as are worth it.
        execution: PyTorch's execution trace of the same run, which says what operators were called
            with where the trace does not; "" for none.

    Returns:
        A timeline of one rank with `recorded`, `collectives` and `sources`; its zero is the
        earliest event. A file that gpuscope wrote gives back all of its ranks.

    Raises:
        InputFileError: the file cannot be opened, or is no trace.
    """
    if execution:
        from gpuscope.timeline.kineto.execution import with_inputs

        joined = with_inputs(Path(path), Path(execution))
        if joined is not None:
            return read_retold(Path(path), joined, rank, workers)
    try:
        return _read(path, rank, workers, True)
    except InputFileError:
        from gpuscope.timeline.kineto.rocprof import as_kineto, is_rocprof

        target = Path(path)
        if not is_rocprof(next(iter(Blocks(target)), b"")):
            raise
    return read_retold(target, as_kineto(target), rank, workers)


def _read(path: str | Path, rank: int | None, workers: int | None, other: bool) -> Timeline:
    """`read_trace`; with `other` also of traces that have to be told in Kineto's words first."""
    target = Path(path)
    table = Table()
    blocks = Blocks(target)
    chunks = Chunks(blocks, path)
    reader = Reader(chunks)
    with no_collection():
        Parallel(chunks, reader, table, workers, _most_events(target)).run()
        left = reader.last()
        if left is not None:
            table.add(left)
        header, complete = parse_header(chunks.head, chunks.tail)
        again = _otherwise(target, table, rank, workers) if other else None
        if again is not None:
            return again
        if not table.rows and not table.metadata and (table.skipped or not header):
            raise InputFileError(
                Text("{path} holds no events.", path=path),
                Text("Nothing in its list reads like an event of a trace."),
                Text("Record one with torch.profiler (export_chrome_trace), or name another file."),
            )
        given = whole(section(header, "distributedInfo").get("rank"))
        number = given if given is not None else (rank or 0)
        built = Builder(table, number, process_groups(header)).build()
    cut_off = blocks.cut_off or reader.cut_off or not (chunks.ended and complete)
    made = _with_source(built, table, header, path, number, given is not None, cut_off)
    if _SECOND.search(chunks.tail):
        return replace(
            made,
            notes=(
                *made.notes,
                Text(
                    "{path} holds several recordings, one after the other: the first was read.",
                    path=target.name,
                ),
            ),
        )
    return made


_SECOND = re.compile(rb'"traceEvents"\s*:\s*\[')


def _otherwise(path: Path, table: Table, rank: int | None, workers: int | None) -> Timeline | None:
    """The timeline of a trace that says it in another way, told in Kineto's; None of others.

    Begins and ends instead of whole events; devices of XLA or Ascend without categories.
    """
    from gpuscope.timeline.kineto.dialects import as_kineto, is_dialect
    from gpuscope.timeline.kineto.pairs import paired

    text: bytes | None = None
    if not table.rows and table.skipped:
        text = paired(path)
    elif not table.counts.get("kernel") and is_dialect(_processes(table)):
        text = as_kineto(path)
    return None if text is None else read_retold(path, text, rank, workers)


def read_retold(path: Path, text: bytes, rank: int | None, workers: int | None) -> Timeline:
    """The timeline of a trace told in Kineto's words, with its own file as the source."""
    with tempfile.TemporaryDirectory(prefix="gpuscope-") as folder:
        made = Path(folder) / "whole.json"
        made.write_bytes(text)
        found = _read(made, rank, workers, False)
    return replace(
        found, sources=tuple(replace(source, path=str(path)) for source in found.sources)
    )


def _processes(table: Table) -> list[str]:
    """Names that processes are given."""
    named = (event.args for event in table.metadata if event.name == "process_name")
    return [str(plain_arguments(args).get("name", "")) for args in named]


def _most_events(path: Path) -> int:
    try:
        return limits.events(path.stat().st_size)
    except OSError:
        return 0  # whoever opens it says what is wrong


def _with_source(
    built: Built,
    table: Table,
    header: dict[str, Any],
    path: str | Path,
    rank: int,
    rank_known: bool,
    cut_off: bool,
) -> Timeline:
    timeline, run = built.timeline, section(header, "distributedInfo")
    kinds = table.counts
    shapes = any(spec[0] not in (b"", b"[]") for spec in table.specs)
    size = whole(run.get("world_size"))
    source = Source(
        rank=rank,
        path=str(path),
        format="gpuscope" if table.is_own else "kineto",
        rank_known=rank_known,
        world_size=size if size is not None and size > 0 else None,
        backend=str(run.get("backend") or ""),
        host=str(header.get("host_name") or ""),
        groups=process_groups(header),
        devices=devices(header),
        base_ns=(whole(header.get("baseTimeNanoseconds"), 0) or 0) + built.zero_ns,
        schema=str(header.get("schemaVersion") or ""),
        with_shapes=bool(whole(header.get("record_shapes"), 0)) or shapes,
        with_stacks=bool(whole(header.get("with_stack"), 0)) or "python_function" in kinds,
        with_memory=bool(whole(header.get("profile_memory"), 0)) or bool(table.memory.parts),
        cut_off=cut_off,
        events_read=table.rows,
        events_skipped=table.skipped,
        events_negative=table.negative,
        counts=dict(kinds),
        messages=words(header, "ERROR", "WARNING"),
    )
    if not table.is_own:
        return replace(timeline, sources=(source,))
    notes = section(header, "otherData").get("notes")
    return replace(
        timeline,
        sources=tuple(replace(source, rank=r) for r in _ranks(timeline)),
        notes=tuple(str(note) for note in notes) if isinstance(notes, list) else (),
    )


def _ranks(timeline: Timeline) -> list[int]:
    found = {lane.rank for lane in timeline.lanes} | {step.rank for step in timeline.steps}
    return sorted(found) or [0]
