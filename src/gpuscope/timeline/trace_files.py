"""Which files hold recordings: files, folders and globs, told apart by what is in them.

A file's name decides nothing but a rank that its content does not tell: traces come as
`.pt.trace.json.gz`, `.json`, or under any other name.
"""

from __future__ import annotations

import glob
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpuscope.document.text import Text, joined
from gpuscope.errors import InputFileError

TraceKind = Literal["kineto", "nsys", "snapshot", "document", "execution", "engine", "layers"]

_TRACES = ("kineto", "nsys", "execution", "engine", "layers")
"""Kinds that hold what happened when, and belong together where they are of several ranks."""

_HEAD_BYTES = 1 << 18
"""How much of a file is looked at to tell what it is."""

_RANK = re.compile(
    r"(?:rank|worker|trainer|(?<![a-z0-9])(?:proc|gpu|dp))[-_.=]?(\d+)(?![a-z0-9])", re.I
)
"""A rank in a name: "rank-3", "worker3", "_rank_3", "rank3"; not the "dp3" of "tmpxdp3k"."""

_TRACE_MARKS = (
    b'"traceEvents"',
    b'"schemaVersion"',
    b'"deviceProperties"',
    b'"distributedInfo"',
    b'"displayTimeUnit"',
    b'"baseTimeNanoseconds"',
    b'"rocprofiler-sdk-tool"',
)
_EXECUTION = re.compile(rb'\s*\{\s*"schema"\s*:\s*"\d+\.\d+\.\d+[\w.-]*"')
_XPLANE, _XLA_TRACE = ".xplane.pb", ".trace.json.gz"
"""Endings of XLA's profile, and of what its profiler makes of it for viewers."""

_EVENT_KEYS = (b'"ph"', b'"name"')


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A recording on disk.

    Attributes:
        path: where.
        kind: "kineto" (Chrome JSON), "nsys" (SQLite: its export, or rocpd), "snapshot" (PyTorch
            memory pickle), "document" (a run saved by gpuscope), "execution" (PyTorch's execution
            trace: operators without times), "engine" (a report of XLA or of an inference
            engine).
        rank: what the name says; None where it says nothing. A rank in the file itself counts
            more and is only known once it is read.
        nbytes: size on disk.
    """

    path: Path
    kind: TraceKind
    rank: int | None
    nbytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """Recordings with remarks on what was left out."""

    files: tuple[TraceFile, ...]
    notes: tuple[str, ...] = ()


def find_traces(paths: str | Path | Iterable[str | Path]) -> Found:
    """Find the recordings that files, folders and globs name.

    A file that is named itself is taken for what it looks like, a Chrome trace in doubt, so that
    its reader can say what is wrong with it. In a folder only files that look like recordings are
    taken (of its subfolders where it has no trace itself), and of those the traces where there
    are any; the others are told. The same file twice counts once.

    Raises:
        InputFileError: a path does not exist or may not be read, a folder holds no recording, or
            a glob matches nothing.
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    if not listed:
        raise InputFileError(
            Text("No trace is named."),
            "",
            Text("Type: gpuscope analyze TRACE (a file, folder or glob)"),
        )
    files: list[TraceFile] = []
    notes: list[str] = []
    for path in listed:
        found = _one(path)
        files += found.files
        notes += found.notes
    distinct: dict[Path, TraceFile] = {}
    for file in files:
        distinct.setdefault(file.path.resolve(), file)
    if len(distinct) < len(files):
        notes.append(
            Text(
                "{files} file(s) were named twice and count once.", files=len(files) - len(distinct)
            )
        )
    return Found(_ranked(list(distinct.values())), tuple(notes))


def rank_in_name(path: str | Path) -> int | None:
    """Return the rank that a file's name says, else its folder's; None where neither does.

    Where several numbers qualify, the word "rank" counts first, then the last one.
    """
    target = Path(path)
    for name in (target.name, target.parent.name):
        found = list(_RANK.finditer(name))
        if found:
            named = [m for m in found if m.group(0).lower().startswith("rank")]
            return int((named or found)[-1].group(1))
    return None


def kind_of(path: str | Path) -> TraceKind | None:
    """Return what a file's content looks like; None for none of the kinds that can be read.

    Raises:
        InputFileError: the file cannot be opened.
    """
    raw, text = _head(Path(path))
    if raw.startswith(b"SQLite format 3\0"):
        return "nsys"
    if re.match(rb"\x80[\x02-\x05]", raw):
        return "snapshot"
    if re.search(rb'"schema"\s*:\s*"gpuscope\.', text[:4096]):
        return "document"
    if _EXECUTION.match(text):
        return "execution"
    from gpuscope.timeline.engine_reports import is_report

    if is_report(text):
        from gpuscope.timeline.engine_reports.layers import is_layers

        return "layers" if is_layers(text) else "engine"
    body = text.lstrip(b"\xef\xbb\xbf \t\r\n")
    if body[:1] == b"{" and any(mark in text for mark in _TRACE_MARKS):
        return "kineto"
    if body[:1] == b"[" and all(key in text for key in _EVENT_KEYS):
        return "kineto"
    return None


def _one(path: str | Path) -> Found:
    target = Path(path)
    if target.is_dir():
        return _folder(target)
    if not _exists(target) and glob.has_magic(str(path)):
        return _glob(str(path))
    if not _exists(target):
        raise InputFileError(
            Text("There is no file {path}.", path=path),
            "",
            Text("Check the path, or name the folder that holds it."),
        )
    from gpuscope.timeline.foreign import refuse_foreign

    kind = kind_of(target)
    if kind is None:
        refuse_foreign(target)
    return Found((_file(target, kind or "kineto"),))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=path), f"{error.strerror}."
        ) from error


def _glob(pattern: str) -> Found:
    matches = sorted(Path(match) for match in glob.glob(pattern, recursive=True))
    files = [match for match in matches if match.is_file()]
    if not files:
        raise InputFileError(
            Text("Nothing matches {pattern}.", pattern=pattern),
            "",
            Text("Check the pattern, or name the folder."),
        )
    return _sorted_out(files, Text("The pattern {pattern}", pattern=pattern))


def _folder(folder: Path) -> Found:
    """The recordings of a folder; the traces of its subfolders where it has none itself."""
    try:
        runs = sorted(path for path in folder.glob("plugins/profile/*") if path.is_dir())
        if runs:
            return _of_xla(runs)
        own = sorted(path for path in folder.iterdir() if path.is_file())
        found = _sorted_out(own, Text("The folder {folder}", folder=folder), needed=False)
        if any(file.kind in _TRACES for file in found.files):
            return _traces_first(found)
        below = sorted(path for path in folder.glob("*/*") if path.is_file())
    except OSError as error:
        raise InputFileError(
            Text("{folder} cannot be read.", folder=folder), f"{error.strerror}."
        ) from error
    if not found.files:
        return _sorted_out(below or own, Text("The folder {folder}", folder=folder))
    inner = _sorted_out(below, Text("The folder {folder}", folder=folder), needed=False)
    # A memory snapshot or a saved run beside folders of traces must not pass for all there is.
    if any(file.kind in _TRACES for file in inner.files):
        return _traces_first(Found((*found.files, *inner.files), (*found.notes, *inner.notes)))
    return found


def _of_xla(runs: Sequence[Path]) -> Found:
    """The newest run of a folder as XLA's profiler lays it out: they are named by their time."""
    found = _folder(runs[-1])
    if len(runs) == 1:
        return found
    note = Text("It holds {count} runs: the newest was read.", count=len(runs))
    return Found(found.files, (*found.notes, note))


def _traces_first(found: Found) -> Found:
    """Of a folder with traces, the traces: `gpuscope profile` puts what it made of them beside."""
    traces = tuple(file for file in found.files if file.kind in _TRACES)
    others = [file.path.name for file in found.files if file not in traces]
    if not traces or not others:
        return found
    note = Text("Left out, not a trace: {listing}. Name one to read it.", listing=_listing(others))
    return Found(traces, (*found.notes, note))


def _sorted_out(paths: Sequence[Path], where: str, *, needed: bool = True) -> Found:
    files, others, refused = [], [], []
    for path in paths:
        if path.name.startswith("."):
            continue
        try:
            kind = kind_of(path)
        except InputFileError:
            refused.append(path.name)
            continue
        if kind is None:
            others.append(path.name)
        else:
            files.append(_file(path, kind))
    if not files and needed:
        seen = Text("It is empty.")
        if others or refused:
            seen = Text("It holds: {listing}.", listing=_listing(others + refused))
        raise InputFileError(
            Text("{where} holds no trace.", where=where),
            seen,
            Text("Record one with torch.profiler (export_chrome_trace), or name another folder."),
        )
    notes = []
    twice = {file.path.name.removesuffix(_XPLANE) for file in files if _XPLANE in file.path.name}
    less = [file for file in files if file.path.name.removesuffix(_XLA_TRACE) in twice]
    if less:
        listing = _listing([file.path.name for file in less])
        files = [file for file in files if file not in less]
        notes.append(
            Text(
                "Left out, the {ending} beside it says more: {listing}.",
                ending=_XPLANE,
                listing=listing,
            )
        )
    if files and others:
        notes.append(Text("Left out, not a trace: {listing}.", listing=_listing(others)))
    if files and refused:
        notes.append(Text("Left out, cannot be read: {listing}.", listing=_listing(refused)))
    return Found(tuple(files), tuple(notes))


def _listing(names: Sequence[str]) -> Text:
    listed, more = joined(names[:5]), len(names) - 5
    return Text("{listed} and {more} more", listed=listed, more=more) if more > 0 else listed


def _file(path: Path, kind: TraceKind) -> TraceFile:
    return TraceFile(path, kind, rank_in_name(path), path.stat().st_size)


def _ranked(files: Sequence[TraceFile]) -> tuple[TraceFile, ...]:
    """Files by rank, those without one last; a name's rank that several share says nothing."""
    if len(files) > 1:
        shared = [file.rank for file in files]
        files = [
            replace(file, rank=None) if shared.count(file.rank) > 1 else file for file in files
        ]
    return tuple(sorted(files, key=lambda f: (f.rank is None, f.rank or 0, _natural(str(f.path)))))


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that puts "step 2" before "step 10"."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def _head(path: Path) -> tuple[bytes, bytes]:
    """The first bytes of a file as they are and, of a compressed one, as they were."""
    try:
        with path.open("rb") as file:
            raw = file.read(_HEAD_BYTES)
    except OSError as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=path),
            f"{error.strerror}.",
            Text("Check its permissions."),
        ) from error
    if raw.startswith(b"\x1f\x8b"):
        return raw, _inflated(raw)
    if raw.startswith(b"\x28\xb5\x2f\xfd"):
        return raw, _unzstd(raw)
    return raw, raw


def _inflated(raw: bytes) -> bytes:
    try:
        return zlib.decompressobj(31).decompress(raw, _HEAD_BYTES)
    except zlib.error:
        return b""


def _unzstd(raw: bytes) -> bytes:
    import io

    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(raw)) as stream:
            return stream.read(_HEAD_BYTES)
    except (zstandard.ZstdError, MemoryError):
        return b""
