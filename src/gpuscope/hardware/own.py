"""Calibrations of the user's own machines: where they lie, how they are read and applied.

`gpuscope bench --save` stores this machine's in the home folder of gpuscope (environment variable
GPUSCOPE_HOME, else the platform's folder for users' data); `on="this"` finds it there. One brought
from elsewhere is a TOML file with a `device`, or a folder that holds `calibration.toml`, or a
folder of such files as the catalogue's; it needs neither a GPU nor the machine it was made on.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import CatalogueError, InputFileError
from gpuscope.hardware.calibration import (
    Calibration,
    Distance,
    calibration_for,
    carried_to,
    read_calibration_file,
)
from gpuscope.hardware.device import Device
from gpuscope.hardware.loader import device as device_named
from gpuscope.hardware.loader import toml_of
from gpuscope.hardware.names import device_ids

CALIBRATION = "calibration.toml"
THIS = "this"
_THIS = re.compile(r"^\s*(?:(\d+)\s*x\s*)?this\s*$", re.IGNORECASE)


def home() -> Path:
    """Return gpuscope's own folder; it may not exist yet."""
    given = os.environ.get("GPUSCOPE_HOME")
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "gpuscope"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "gpuscope"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "gpuscope"


def this_folder() -> Path:
    """Return the folder of this machine's calibration; it may not exist yet."""
    return home() / THIS


def is_this(target: str) -> bool:
    """Whether a target names this machine: "this" or "8xthis"."""
    return _THIS.match(target) is not None


def this_target(target: str) -> tuple[str, Calibration]:
    """Return what "this" (or "8xthis") stands for, with its calibration.

    Returns:
        the catalogue's name of the device ("8xnvidia-h200-sxm"), and its own constants.

    Raises:
        InputFileError: nobody measured this machine, or what was saved cannot be read.
    """
    found = _THIS.match(target)
    count = found.group(1) if found else None
    if not (this_folder() / CALIBRATION).is_file():
        raise InputFileError(
            Text("This machine has not been measured."),
            Text("{this_folder} holds no calibration.", this_folder=this_folder()),
            Text("Type: gpuscope bench --save"),
        )
    own = load_own(this_folder())
    return (f"{count}x{own.device_id}" if count else own.device_id), own


@lru_cache(maxsize=16)
def _load(path: Path, changed_ns: int) -> Calibration:
    return _folder(path) if path.is_dir() else _file(path)


def load_own(path: str | Path) -> Calibration:
    """Read a calibration from anywhere.

    Args:
        path: a TOML file, or a folder (see the module's text).

    Raises:
        InputFileError: missing, not a calibration, or of no known device.
    """
    given = Path(path).expanduser()
    if not given.exists():
        raise InputFileError(
            Text("{path} does not exist.", path=path),
            Text("A calibration is a TOML file or a folder."),
            Text("Make one: gpuscope bench --save"),
        )
    inside = given / CALIBRATION
    source = inside if given.is_dir() and inside.is_file() else given
    try:
        return _load(source, source.stat().st_mtime_ns)
    except CatalogueError as error:
        raise InputFileError(
            Text("{path} is not a calibration.", path=path),
            str(error),
            Text("Make one: gpuscope bench --save"),
        ) from error
    except OSError as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=path), str(error.strerror or error)
        ) from error


def _file(path: Path) -> Calibration:
    return read_calibration_file(path, _device_id(path, path.stem))


def _folder(path: Path) -> Calibration:
    files = sorted(path.glob("*.toml"))
    if not files:
        raise InputFileError(
            Text("{path} holds no calibration.", path=path),
            Text("It has no {calibration}.", calibration=CALIBRATION),
            Text("If it is a bench: gpuscope bench --replay FOLDER --save"),
        )
    device_id = _device_id(files[0], path.name)
    parts = [read_calibration_file(file, device_id) for file in files]
    entries = dict(entry for part in parts for entry in part.entries)
    with_ = "; ".join(dict.fromkeys(p.measured_with for p in parts if p.measured_with))
    return replace(parts[0], measured_with=with_, entries=tuple(sorted(entries.items())))


def _device_id(path: Path, otherwise: str) -> str:
    """The device that a file says it is for; else what its name says."""
    try:
        content = toml_of(path)
    except CatalogueError as error:
        raise InputFileError(
            error.what, error.why, Text("Make a calibration: gpuscope bench --save")
        ) from error
    stated = str(content.get("device") or otherwise)
    if stated not in device_ids():
        raise InputFileError(
            Text("{path} does not say which device it is for.", path=path.name),
            Text("'{stated}' is not known.", stated=stated),
            Text('Write device = "..." at its top; gpuscope devices lists the names.'),
        )
    return stated


def applied(own: Calibration, device: Device) -> Calibration:
    """Return all constants for a device, those of `own` where they say something of it.

    Of the same device they replace the catalogue's. Of another one, host constants still hold
    (they are the machine's, not the device's), and kernels' are carried as estimates unless the
    catalogue knows this device better.
    """
    base = calibration_for(device)
    entries = dict(base.entries)
    same = own.device_id == device.id
    if same:
        entries |= dict(own.entries)
        kernels = any(not name.startswith(("host.", "launch.")) for name in own.names())
        distance = Distance.SAME_DEVICE if kernels else base.distance
    else:
        far = carried_to(own, device_named(own.device_id), device)
        known = base.distance is Distance.SAME_DEVICE
        entries |= {
            n: e
            for n, e in (own.entries if known else far.entries)
            if n.startswith("host.") or not known
        }
        distance = base.distance if known else far.distance
    with_ = "; ".join(filter(None, (own.measured_with, base.measured_with)))
    return Calibration(
        device.id,
        own.device_id if same else base.measured_on,
        distance,
        with_,
        tuple(sorted(entries.items())),
        base.nearest if distance is base.distance else None,
    )
