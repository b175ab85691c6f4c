"""Effects of warps, memory and multiprocessors as they were measured on a real GPU.

`recorded/*.json` is what `benchmarks/warp_effects.py` wrote on a machine; each row is one effect at
one setting, with the medians of several repeats. Lessons and claims set them beside the models.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from gpuscope.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Machine:
    """What the effects were measured on."""

    device: str
    sm_count: int
    torch: str
    cuda: str


@dataclass(frozen=True, slots=True)
class Effect:
    """One measurement: its setting and what was read, with units in the names of the fields."""

    name: str
    values: tuple[tuple[str, Any], ...]

    def __getitem__(self, field: str) -> Any:
        """A field of the row, such as "time_s" or "stride"; KeyError where it has none."""
        for name, value in self.values:
            if name == field:
                return value
        raise KeyError(field)


@lru_cache(maxsize=4)
def _document(machine: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        files("gpuscope.learn").joinpath("recorded", f"{machine}-effects.json").read_text("utf-8")
    )
    return found


def machine(name: str = "h200") -> Machine:
    """Return the machine behind a record."""
    return Machine(**_document(name)["machine"])


def effects(effect: str, /, *, machine: str = "h200", **wanted: Any) -> tuple[Effect, ...]:
    """Return the rows of one effect, in the order in which they were measured.

    Args:
        effect: "read_stride", "bank_conflict", "divergence", "occupancy", "atomics", "latency",
            "transpose", "matmul", "waves", "rate", "sum", "overlap", "power", "read_offset".
        machine: whose record.
        wanted: only rows whose fields have these values.

    Raises:
        UnknownNameError: no such effect was measured.
    """
    rows = _document(machine)["effects"]
    names = {row["effect"] for row in rows}
    if effect not in names:
        raise UnknownNameError("effect", effect, names)
    return tuple(
        Effect(effect, tuple((k, v) for k, v in row.items() if k != "effect"))
        for row in rows
        if row["effect"] == effect and all(row.get(k) == v for k, v in wanted.items())
    )


def effect(name: str, /, *, machine: str = "h200", **wanted: Any) -> Effect:
    """Return the one row of an effect that has these values.

    Raises:
        UnknownNameError: no such effect, or not exactly one such row.
    """
    found = effects(name, machine=machine, **wanted)
    if len(found) != 1:
        raise UnknownNameError("measurement", f"{name} {wanted}", {name})
    return found[0]
