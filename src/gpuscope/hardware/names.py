"""From the name a person or a driver writes to a catalogue identifier.

Rules, tried in order: the identifier itself; the identifier without its vendor, or without its
series ("rtx", "tpu", ...); the alias table; the only identifier that starts with the name. Nothing
is parsed but `aliases.toml`, and that only when the rules before it fail.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import CatalogueError, UnknownNameError

CATALOGUE = Path(__file__).parent / "catalogue"

_SERIES = ("rtx", "rx", "arc", "tpu", "ascend", "max")
_DECORATION = re.compile(r"\b(geforce|radeon|instinct|quadro|data-center-gpu|accelerator)\b-?")


def normalise(name: str) -> str:
    """Return the name in lower case with words joined by hyphens.

    "NVIDIA GeForce RTX 4090" becomes "nvidia-rtx-4090".
    """
    text = re.sub(r"[\s_/]+", "-", name.strip().lower())
    return re.sub(r"-+", "-", _DECORATION.sub("", text)).strip("-")


@lru_cache(maxsize=1)
def device_ids() -> tuple[str, ...]:
    """Return the identifiers of all devices, sorted: the names of their files."""
    return tuple(sorted(path.stem for path in (CATALOGUE / "devices").glob("*.toml")))


@lru_cache(maxsize=1)
def interconnect_ids() -> tuple[str, ...]:
    """Return the identifiers of all interconnects, sorted: the names of their files."""
    return tuple(sorted(path.stem for path in (CATALOGUE / "interconnects").glob("*.toml")))


THIS_CPU = "this-cpu"
"""Name of this machine's processor."""


@lru_cache(maxsize=1)
def processor_ids() -> tuple[str, ...]:
    """Return the identifiers of all processors, sorted: they are no devices."""
    return tuple(sorted(path.stem for path in (CATALOGUE / "processors").glob("*.toml")))


def is_processor(name: str) -> bool:
    """Return whether a target's name is a processor's, with a number of cores or without."""
    key = normalise(name.partition(":")[0])
    return key == THIS_CPU or key in processor_ids()


@lru_cache(maxsize=1)
def aliases() -> dict[str, str]:
    """Return the alias table: name to identifier.

    Raises:
        CatalogueError: the table names a device that has no file.
    """
    with (CATALOGUE / "aliases.toml").open("rb") as file:
        table: dict[str, str] = tomllib.load(file)["aliases"]
    for name, device_id in table.items():
        if device_id not in device_ids():
            raise CatalogueError(
                Text(
                    "aliases.toml: '{name}' names '{device_id}', which has no file.",
                    name=name,
                    device_id=device_id,
                )
            )
    return table


@lru_cache(maxsize=1)
def short_names() -> dict[str, str]:
    """Return the names that follow from file names by rule, where only one device has them."""
    found: dict[str, list[str]] = {}
    for device_id in device_ids():
        bare = device_id.split("-", 1)[1]
        forms = {device_id, bare, bare.replace("-", "")}
        series, _, rest = bare.partition("-")
        if series in _SERIES and rest:
            forms |= {rest, rest.replace("-", "")}
        for form in forms:
            found.setdefault(form, []).append(device_id)
    return {form: ids[0] for form, ids in found.items() if len(ids) == 1}


def is_device(name: str) -> bool:
    """Return whether exactly one device goes by that name."""
    try:
        resolve(name)
    except UnknownNameError:
        return False
    return True


@lru_cache(maxsize=512)
def resolve(name: str) -> str:
    """Return the identifier of the device that a person means.

    A slice of a device, or a share ("mps-3", "time-2"), stands behind a colon: "h200:1g.18gb".

    Raises:
        UnknownNameError: no device, or more than one, goes by that name, or it has no such slice;
            lists the near ones.
    """
    whole, colon, part = name.partition(":")
    if colon:
        return _slice(resolve(whole), part)
    key = normalise(name)
    vendors = {device_id.split("-", 1)[0] for device_id in device_ids()}
    first, _, rest = key.partition("-")
    keys = [key, rest] if first in vendors and rest else [key]
    for candidate in keys:
        for table in (short_names(), aliases()):
            if candidate in table:
                return table[candidate]
            if candidate.replace("-", "") in table:
                return table[candidate.replace("-", "")]
    begins = [i for i in device_ids() if i.split("-", 1)[1].startswith(f"{keys[-1]}-")]
    if len(begins) == 1:
        return begins[0]
    known = begins or [*short_names(), *aliases()]
    raise UnknownNameError(Text("device"), name, known, Text("Type: gpuscope devices"))


@lru_cache(maxsize=64)
def slice_names(device_id: str) -> tuple[str, ...]:
    """Return the slices that a device can be split into: ("1g.18gb", "2g.35gb", ...)."""
    path = CATALOGUE / "slices" / f"{device_id}.toml"
    if not path.is_file():
        return ()
    return tuple(each["name"] for each in tomllib.loads(path.read_text("utf-8"))["slice"])


def _slice(device_id: str, part: str) -> str:
    from gpuscope.hardware.shares import MOST, share_named

    share = share_named(part)
    if share is not None and device_id.startswith("nvidia-"):
        return f"{device_id}:{share.name}"
    names = slice_names(device_id)
    wanted = part.strip().lower().removeprefix("mig-").removeprefix("mig ")
    if wanted not in names:
        next_step = Text("Name the whole device: {id}", id=device_id)
        if wanted in ("slices", "mps", "time"):
            next_step = Text(
                "Parts are chosen by: gpuscope plan MODEL --task serve --on {id}:{part}",
                id=device_id,
                part=wanted,
            )
        elif wanted.startswith(("mps", "time")):
            next_step = Text("Equal shares are mps-2 to mps-{most} and time-2 to time-{most}.",
                             most=MOST)  # fmt: skip
        known = (*names, "mps-2", "time-2") if device_id.startswith("nvidia-") else names
        raise UnknownNameError(Text("slice"), part, known, next_step)
    return f"{device_id}:{wanted}"
