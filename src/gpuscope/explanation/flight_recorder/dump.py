"""Reads dumps of PyTorch's flight recorder: a pickle or a JSON file for each rank.

Format: pytorch/pytorch, torch/csrc/distributed/c10d/FlightRecorder.hpp (names of the fields,
version 2.10) and "Flight Recorder for Debugging Stuck Jobs" (docs.pytorch.org/tutorials). A pickle
is read as plain data; nothing in it is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuscope.document.quantities import Number
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.explanation.flight_recorder.calls import (
    Call,
    Dumps,
    Frame,
    Group,
    Key,
    RankDump,
    State,
    Unread,
)
from gpuscope.garbage import no_collection
from gpuscope.outside.plain import python_json_of

NEWEST = (2, 10)
"""The newest version of the format that was read here."""

_AGAIN = Text("Set TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1, and run again.")
_RANK = re.compile(r"(\d+)(?:\.(?:json|pkl|pickle|bin))?$")
_STDLIB = re.compile(r"[/\\](?:lib[/\\]python\d|(?:site|dist)-packages[/\\]torch[/\\])|^<frozen")
_IN_PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\](?!torch[/\\])")
_NATIVE = (".cpp", ".cc", ".c", ".cu", ".h", ".hpp", "??", ".so")
_MOST_SITES = 4
_HEAD_BYTES = 4096
_MOST_BYTES = 1 << 30
_RUNS_APART_S = 3600.0

_STATES: Mapping[str, State] = {
    "scheduled": "scheduled",
    "started": "started",
    "completed": "completed",
}


def is_dump(path: Path) -> bool:
    """Say whether a file, or a file of a folder, may be a dump, by its first bytes and name."""
    if path.is_dir():
        return bool(_files(path))
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return _is_pickle(head) or (
        head.lstrip()[:1] == b"{" and any(word in head for word in (b'"entries"', b'"pg_config"'))
    )


def read_dumps(path: Path) -> Dumps:
    """Read a dump, or all dumps of a folder; pickles in a process of its own.

    A damaged file in a folder is told in `unread`; the others are read.

    Raises:
        InputFileError: as `dumps_of`; reading takes more than `gpuscope.outside.limits` allows.
    """
    files = [path] if path.is_file() else list(_files(path).values()) if path.is_dir() else []
    if not any(_is_pickled(file) for file in files):
        return dumps_of(path)
    from gpuscope.outside.apart import read_apart

    size = sum(file.stat().st_size for file in files)
    found: Dumps = read_apart(f"{__name__}:dumps_of", path, size=size)
    return found


def _is_pickled(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _is_pickle(file.read(2))
    except OSError:
        return False  # whoever reads it says what is wrong


def dumps_of(path: Path) -> Dumps:
    """What `read_dumps` does, in this process and without limits.

    Raises:
        InputFileError: nothing there, no dump, a version that is not known, two files of one rank,
            or dumps of different runs.
    """
    if not path.exists():
        raise InputFileError(
            Text("Cannot read {path}.", path=path),
            Text("There is no such file."),
            Text("Check the path."),
        )
    if not path.is_dir():
        if not is_dump(path) and path.stat().st_size:
            raise _no_dump(path, Text("It is neither a pickle nor JSON of the recorder."))
        dump = _read(path, _rank_of(path), {})
        return Dumps({dump.rank: dump})
    with no_collection():
        ranks, unread, problem = _read_all(path)
    if not ranks:
        raise problem or InputFileError(
            Text("There is no flight recorder dump in {path}.", path=path),
            Text("Dumps are files such as nccl_trace_rank_0, one for each rank."),
            _AGAIN,
        )
    _check_one_run(path, ranks)
    return Dumps(ranks, tuple(unread))


def _read_all(folder: Path) -> tuple[dict[int, RankDump], list[Unread], InputFileError | None]:
    """The dumps that can be read, those that cannot, and the first problem."""
    ranks: dict[int, RankDump] = {}
    unread: list[Unread] = []
    shared: dict[Any, Any] = {}
    problem: InputFileError | None = None
    for rank, file in sorted(_files(folder).items()):
        try:
            ranks[rank] = _read(file, rank, shared)
        except InputFileError as error:
            problem = problem or error
            unread.append(Unread(rank, error.what))
    return ranks, unread, problem


def _files(folder: Path) -> dict[int, Path]:
    """The file of each rank; the pickle (with call sites) where there is a JSON of it too."""
    found: dict[int, Path] = {}
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputFileError(
            Text("Cannot read {folder}.", folder=folder),
            Text("{said}.", said=error.strerror or str(error)),
            Text("Check its permissions."),
        ) from error
    for file in entries:
        match = _RANK.search(file.name)
        if match is None or not file.is_file() or file.name.startswith("."):
            continue
        if not is_dump(file) and not _is_empty_dump(file):
            continue
        rank = int(match[1])
        other = found.get(rank)
        if other is None:
            found[rank] = file
        elif (other.suffix == ".json") == (file.suffix == ".json"):
            raise InputFileError(
                Text("Two dumps in {folder} are of rank {rank}.", folder=folder, rank=rank),
                Text("They are {other} and {file}.", other=other.name, file=file.name),
                Text("Put the dumps of one run into a folder of their own."),
            )
        elif other.suffix == ".json":
            found[rank] = file
    return found


def _is_empty_dump(file: Path) -> bool:
    """A dump that was begun and never written: its rank ended while it wrote."""
    return "trace" in file.name and file.stat().st_size == 0


def _rank_of(path: Path) -> int:
    match = _RANK.search(path.name)
    if match is None:
        raise InputFileError(
            Text("The name of {path} does not say its rank.", path=path),
            Text("A dump does not hold its rank; its file's name ends in it."),
            Text("Name it as PyTorch does: nccl_trace_rank_0."),
        )
    return int(match[1])


def _is_pickle(head: bytes) -> bool:
    return len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5


def _read(path: Path, rank: int, shared: dict[Any, Any]) -> RankDump:
    raw = _raw(path)
    if not isinstance(raw, dict) or not isinstance(raw.get("entries", []), list):
        raise _no_dump(path, Text("It holds no list of entries."))
    if "version" not in raw:
        raise _no_dump(path, Text("It says no version."))
    version = _version(path, raw["version"])
    try:
        return _dump(raw, rank, version, shared)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        why = Text("An entry of it is not as expected ({error}).", error=repr(error))
        raise _no_dump(path, why) from error


def _raw(path: Path) -> Any:
    from gpuscope.timeline.snapshot.unpickle import load_plain

    try:
        with path.open("rb") as file:
            pickled = _is_pickle(file.read(2))
            size = path.stat().st_size
        if size > _MOST_BYTES:
            raise _no_dump(path, Text("It is larger than 1 GiB."))
        if pickled:
            return load_plain(path, Text("flight recorder dump"), _AGAIN)
        return python_json_of(path.read_bytes())
    except OSError as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=path),
            Text("{said}.", said=error.strerror or str(error)),
            Text("Check the path."),
        ) from error
    except (ValueError, RecursionError) as error:
        raise _no_dump(path, Text("It is neither a pickle nor whole JSON.")) from error


def _no_dump(path: Path, why: Text) -> InputFileError:
    return InputFileError(Text("{path} is not a flight recorder dump.", path=path), why, _AGAIN)


def _version(path: Path, text: object) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", str(text))
    if match is None:
        raise _no_dump(path, Text("Its version is {text}.", text=repr(str(text)[:40])))
    version = int(match[1]), int(match[2])
    if version[0] != NEWEST[0]:
        raise InputFileError(
            Text(
                "{path} is of version {text} of the flight recorder's format.",
                path=path,
                text=str(text),
            ),
            Text("gpuscope reads versions 2.0 to {newest}.", newest=f"{NEWEST[0]}.{NEWEST[1]}"),
            Text("Read it with torchfrtrace of the PyTorch that wrote it."),
        )
    return version


def _dump(
    raw: dict[str, Any], rank: int, version: tuple[int, int], shared: dict[Any, Any]
) -> RankDump:
    calls: dict[Key, Call] = {}
    first = last = None
    sites: dict[Any, tuple[Frame, ...]] = {}
    entries = raw.get("entries", [])
    begins = any(one.get("time_discovered_started_ns") for one in entries)
    for entry in entries:
        key = _key(entry, shared)
        calls[key] = _call(entry, begins, shared, sites)
        created = entry.get("time_created_ns")
        if created:
            first = created if first is None else min(first, created)
            last = created if last is None else max(last, created)
    for value in (first, last):
        if value is not None and not isinstance(value, int):
            raise TypeError("time_created_ns")
    return RankDump(rank, version, calls, _groups(raw, calls), first, last)


def _key(entry: dict[str, Any], shared: dict[Any, Any]) -> Key:
    """Before 2.1 there was one counter, `seq_id`, and no name of the group but `pg_id`."""
    named = entry.get("process_group")
    group = str(named[0]) if named else str(entry.get("pg_id", "0"))
    is_p2p = bool(entry.get("is_p2p", False))
    if is_p2p:
        # Sends and receives of a batch share one number: their own order tells them apart.
        number = entry.get("op_id") or entry.get("p2p_seq_id")
    else:
        number = entry.get("collective_seq_id", entry.get("seq_id"))
    if not isinstance(number, int):
        raise ValueError("no sequence number")
    key = Key(group, is_p2p, number)
    return shared.setdefault(key, key)  # type: ignore[no-any-return]


def _call(
    entry: dict[str, Any], begins: bool, shared: dict[Any, Any], sites: dict[Any, tuple[Frame, ...]]
) -> Call:
    name = str(entry.get("profiling_name", "?"))
    backend, _, operation = name.rpartition(":")
    frames = entry.get("frames") or ()
    state: State = _STATES[entry.get("state", "scheduled")]
    if backend == "gloo":
        state = "unknown"
    elif entry.get("time_discovered_completed_ns"):
        state = "completed"
    elif state == "scheduled" and not begins:
        state = "called"  # no event was recorded that could tell the beginning
    # The same frames are one object in many dumps; their text is the same in all.
    at = tuple([(frame["filename"], frame["line"], frame["name"]) for frame in frames])
    if at not in sites:
        sites[at] = _outside_torch(at)
    limit = entry.get("timeout_ms")
    fields = (
        operation,
        _shapes(entry.get("input_sizes")),
        _shapes(entry.get("output_sizes")),
        tuple(map(str, entry.get("input_dtypes") or ())),
        state,
        sites[at],
        limit / 1e3 if limit else None,
    )
    call = shared.get(fields)
    if call is None:
        call = shared[fields] = Call(*fields)
    return call


def _shapes(sizes: Any) -> tuple[tuple[int, ...], ...]:
    shapes = tuple(map(tuple, sizes or ()))
    for shape in shapes:
        for length in shape:
            if type(length) is not int:
                raise TypeError("sizes")
    return shapes


def _outside_torch(frames: tuple[Any, ...]) -> tuple[Frame, ...]:
    """The lines outside torch, Python's own library and native code, the innermost first."""
    outside = [
        Frame(str(file), int(line), str(name))
        for file, line, name in frames
        if not str(file).endswith(_NATIVE)
        and str(file) not in ("", "<string>")
        and (not _STDLIB.search(str(file)) or _IN_PACKAGES.search(str(file)))
    ]
    return tuple(outside[:_MOST_SITES])


def _groups(raw: dict[str, Any], calls: Mapping[Key, Call]) -> dict[str, Group]:
    config = raw.get("pg_config") or {}
    groups = {
        str(name): Group(str(name), str(given.get("desc") or ""), _ranks(given.get("ranks")))
        for name, given in config.items()
    }
    names = {key.group for key in calls}
    if len(groups) == 1 and len(names) == 1:
        # Gloo lists its only group without a name.
        (group,), (name,) = groups.values(), names
        return {name: Group(name, group.description, group.ranks)}
    return groups


def _ranks(known: Any) -> tuple[int, ...] | None:
    if isinstance(known, str):
        if not re.fullmatch(r"\[?[\d,\s]*\]?", known):
            return None
        known = [int(word) for word in re.findall(r"\d+", known)]
    if not isinstance(known, list) or not known:
        return None
    return tuple(int(rank) for rank in known)


def _check_one_run(folder: Path, ranks: Mapping[int, RankDump]) -> None:
    """Dumps of one run overlap in time, but for a rank that ended early and was waited for."""
    timed = [dump for dump in ranks.values() if dump.first_ns and dump.last_ns]
    if len(timed) < 2:
        return
    limits = {call.timeout_s or 0.0 for dump in timed for call in set(dump.calls.values())}
    latest = max(timed, key=lambda dump: dump.first_ns or 0)
    earliest = min(timed, key=lambda dump: dump.last_ns or 0)
    apart_s = ((latest.first_ns or 0) - (earliest.last_ns or 0)) / 1e9
    if apart_s > 2 * max(limits, default=0.0) + _RUNS_APART_S:
        raise InputFileError(
            Text("The dumps in {folder} are of different runs.", folder=folder),
            Text(
                "Rank {rank} made its last call {apart} h before rank {rank_2} made its first.",
                rank=earliest.rank,
                apart=Number(apart_s / 3600, ".1f"),
                rank_2=latest.rank,
            ),
            Text("Put the dumps of one run into a folder of their own."),
        )
