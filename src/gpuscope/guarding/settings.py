"""What to guard: `gpuscope.toml`, or `[tool.gpuscope]` of a `pyproject.toml`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InputFileError, InvalidValueError, UnknownNameError
from gpuscope.outside.toml_file import no_value, read_toml, table_of

if TYPE_CHECKING:
    from gpuscope.program.models.settings import WorkloadOptions

OWN_FILE, SHARED_FILE = "gpuscope.toml", "pyproject.toml"

BASELINE = "gpuscope-baseline.toml"
"""The baseline's name where none is given; beside the settings."""

SHARES: Mapping[str, float] = MappingProxyType(
    {"step_time": 0.05, "launches": 0.02, "peak_memory": 0.02, "communication": 0.01}
)
"""How much more is allowed, as a share of the baseline."""

COUNTS: Mapping[str, int] = MappingProxyType({"graph_breaks": 0, "findings": 0})
"""How many more are allowed."""

Limits = Mapping[str, "float | None"]
"""By the names of `SHARES` and `COUNTS`; None: not guarded."""

_TOP = ("on", "baseline", "limits", "workloads")
_OPTIONS: Mapping[str, type] = MappingProxyType(
    {
        "task": str,
        "batch": int,
        "seq": int,
        "dtype": str,
        "attention": str,
        "optimizer": str,
        "compile": str,
        "checkpointing": bool,
        "from_host": bool,
        "image": int,
        "context": int,
        "layers": int,
        "arguments": list,
        "module": bool,
        "step": str,
    }
)
_OF_WORKLOAD = ("run", "on", "limits", *_OPTIONS)

_EXAMPLE = Text('Write for example: [workloads.train] run = "train.py:build" on = ["h100"]')


@dataclass(frozen=True, slots=True)
class Guarded:
    """One workload to guard.

    Attributes:
        name: as its table is called.
        run: as `predict` takes it; a file is found from the folder of the settings.
        on: devices and clusters.
        options: as of `predict`.
        limits: of each fact.
    """

    name: str
    run: str
    on: tuple[str, ...]
    options: WorkloadOptions
    limits: Limits


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What a file asks to guard, and where the baseline is.

    Attributes:
        path: the file.
        baseline: the file that holds the figures.
        workloads: by name.
    """

    path: Path
    baseline: Path
    workloads: tuple[Guarded, ...]


def read_settings(path: Path | None = None, start: Path | None = None) -> GuardSettings:
    """Read what to guard.

    Args:
        path: the file; None: the nearest one from `start` upwards, to the repository's root.
        start: where to look from; None: the working folder.

    Raises:
        InputFileError: there is none, it cannot be read, is no TOML, names no workload, or was
            found above and is another user's.
        UnknownNameError: a key that is not known.
        InvalidValueError: a value that cannot be.
    """
    found = path or _nearest((start or Path.cwd()).resolve())
    content = _content(found)
    _known(content, _TOP, "")
    limits = read_limits(content.get("limits", {}), {**SHARES, **COUNTS}, "limits")
    on = _names(content.get("on", []), "on")
    tables = content.get("workloads")
    if not isinstance(tables, dict) or not tables:
        raise InputFileError(Text("{path} names no workload.", path=found), "", _EXAMPLE)
    baseline = content.get("baseline", BASELINE)
    if not isinstance(baseline, str) or not baseline:
        raise no_value("baseline", baseline, f'"{BASELINE}"')
    workloads = tuple(
        _workload(name, tables[name], on, limits, found.parent) for name in sorted(tables)
    )
    return GuardSettings(found, found.parent / baseline, workloads)


def _nearest(start: Path) -> Path:
    for folder in (start, *start.parents):
        for name in (OWN_FILE, SHARED_FILE):
            path = folder / name
            if path.is_file() and (name == OWN_FILE or _has_ours(path)):
                _check_owner(path, start)
                return path
        if (folder / ".git").exists():
            break
    raise InputFileError(
        Text("There is nothing to guard: no {name} here or above.", name=OWN_FILE),
        Text("[tool.gpuscope] of a {name} would do, too.", name=SHARED_FILE),
        _EXAMPLE,
    )


def _check_owner(path: Path, start: Path) -> None:
    """What is named in the settings runs: a file above may not be anybody's (/tmp/gpuscope.toml).

    Raises:
        InputFileError: it lies above, and belongs to neither this user, nor root, nor whoever the
            working folder belongs to.
    """
    if path.parent == start or not hasattr(os, "geteuid"):
        return
    if path.stat().st_uid not in (0, os.geteuid(), start.stat().st_uid):
        raise InputFileError(
            Text("{path} belongs to another user.", path=path),
            Text("What it names would run with your rights."),
            Text("If you trust it, type: gpuscope guard --config {path}", path=path),
        )


def _has_ours(path: Path) -> bool:
    try:
        return "gpuscope" in table_of(read_toml(path, _EXAMPLE), "tool", path)
    except GpuscopeError:  # somebody else's to tell
        return False


def _content(path: Path) -> Mapping[str, Any]:
    content = read_toml(path, _EXAMPLE)
    if path.name == SHARED_FILE:
        return table_of(table_of(content, "tool", path), "gpuscope", path)
    return content


def _workload(
    name: str, table: object, on: tuple[str, ...], limits: Limits, folder: Path
) -> Guarded:
    from gpuscope.program.models.settings import WorkloadOptions

    where = f"workloads.{name}"
    if not isinstance(table, dict) or not isinstance(table.get("run"), str) or not table["run"]:
        raise InvalidValueError(
            Text("The workload '{name}' does not say what to run.", name=name), "", _EXAMPLE
        )
    _known(table, _OF_WORKLOAD, where)
    targets = _names(table["on"], f"{where}.on") if "on" in table else on
    if not targets:
        raise InvalidValueError(
            Text("The workload '{name}' names no device.", name=name),
            "",
            Text("Write for example: {name} = {example}", name="on", example='["h100"]'),
        )
    given: dict[str, Any] = {}
    for key, kind in _OPTIONS.items():
        if key in table:
            value: Any = table[key]
            if type(value) is not kind:
                raise no_value(f"{where}.{key}", value, _SHOWN[kind])
            given[key] = tuple(map(str, table[key])) if kind is list else value
    own = read_limits(table.get("limits", {}), limits, f"{where}.limits")
    return Guarded(name, _found(table["run"], folder), targets, WorkloadOptions(**given), own)


_SHOWN = {str: '"..."', int: "8", bool: "true", list: '["--steps", "1"]'}


def _found(run: str, folder: Path) -> str:
    """A file's name from the folder of the settings; any other name as it is."""
    file, colon, function = run.partition(":")
    path = folder / file
    if os.path.exists(path) and (path.suffix or path.is_dir()) and not Path(file).is_absolute():
        try:
            path = path.relative_to(Path.cwd())
        except ValueError:
            path = path.resolve()
        return f"{path}{colon}{function}"
    return run


def _names(value: object, where: str) -> tuple[str, ...]:
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, list) or not all(isinstance(each, str) and each for each in named):
        raise no_value(where, value, '["h100", "8xh200"]')
    return tuple(dict.fromkeys(named))


def _known(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            names = Text(
                "Known in [{table}]: {names}.",
                table=where or "tool.gpuscope",
                names=", ".join(known),
            )
            raise UnknownNameError(Text("key"), key, known, names)


def read_limits(table: object, base: Limits, where: str) -> Limits:
    """Return limits as a table says them ("5%", 0, "off"), laid over others.

    Args:
        table: by the names of `SHARES` and `COUNTS`.
        base: those that it does not name.
        where: the table's name, for an error.

    Raises:
        UnknownNameError: a name that is not known.
        InvalidValueError: a value that cannot be.
    """
    if not isinstance(table, dict):
        raise no_value(where, table, '{ step_time = "5%" }')
    _known(table, (*SHARES, *COUNTS), where)
    made: dict[str, float | None] = dict(base)
    for name, value in table.items():
        if value == "off":
            made[name] = None
        elif name in COUNTS:
            if type(value) is not int or value < 0:
                raise no_value(f"{where}.{name}", value, '0, "off"')
            made[name] = value
        else:
            made[name] = _share(f"{where}.{name}", value)
    return MappingProxyType(made)


def _share(where: str, value: object) -> float:
    """ "5%" or "0.5 %" as a share."""
    try:
        number = float(str(value).strip().removesuffix("%")) / 100
    except ValueError:
        number = -1.0
    if not isinstance(value, str) or not value.strip().endswith("%") or not 0 <= number <= 100:
        raise no_value(where, value, '"5%", "off"')
    return number


def only(settings: GuardSettings, names: tuple[str, ...]) -> GuardSettings:
    """Return the settings with some workloads alone.

    Raises:
        UnknownNameError: one that is not there.
    """
    known = {each.name: each for each in settings.workloads}
    for name in names:
        if name not in known:
            raise UnknownNameError(Text("workload"), name, known)
    chosen = tuple(each for each in settings.workloads if each.name in names)
    return replace(settings, workloads=chosen)
