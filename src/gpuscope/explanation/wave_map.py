"""Blocks landing on multiprocessors, wave by wave: a map of units by waves with the tail."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from gpuscope.document.blocks import Axis, HeatMap, Role
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, sentences, verbatim

MOST_COLUMNS = 176
"""Multiprocessors drawn each in a column of its own; more are drawn in groups."""

MOST_ROWS = 16
"""Waves drawn each in a row of its own; of more, the first and the last ones."""

_FIRST, _LAST = 4, 5
_BUSY, _EDGE, _SOME, _IDLE = range(4)

CLASSES = (
    Text("busy"),
    Text("tile partly outside the matrix"),
    Text("some block slots empty"),
    Text("idle"),
)
ROLES: tuple[Role, ...] = ("tensor", "waste", "tail", "idle")


def wave_map(
    blocks: int,
    units: int,
    resident: int,
    unit: str,
    is_edge: Callable[[int], bool] = lambda _: False,
) -> HeatMap | None:
    """What each multiprocessor does in each wave.

    Blocks are dealt out one to each multiprocessor in turn, then the next round, as the hardware
    does for blocks of equal length.

    Args:
        blocks: of the grid.
        units: multiprocessors.
        resident: blocks that fit on one at once.
        unit: what the device calls one.
        is_edge: whether a block hangs over the edge of its matrix.

    Returns:
        None where there is only one unit.
    """
    if units < 2 or blocks < 1:
        return None
    slots = units * resident
    waves = ceil(blocks / slots)
    group = ceil(units / MOST_COLUMNS)
    shown = list(range(waves))
    if waves > MOST_ROWS:
        shown = [*range(_FIRST), -1, *range(waves - _LAST, waves)]
    values, labels = [], []
    for wave in shown:
        if wave < 0:
            values.append((float(_BUSY),) * ceil(units / group))
            labels.append(f"{_FIRST + 1}-{waves - _LAST}")
            continue
        each = [_class(blocks, wave * slots + at, units, resident, is_edge) for at in range(units)]
        values.append(
            tuple(float(_grouped(each[at : at + group])) for at in range(0, units, group))
        )
        labels.append(str(wave + 1))
    present = sorted({int(value) for row in values for value in row})
    last = blocks - (waves - 1) * slots
    return HeatMap(
        Text("Blocks landing on the {units} {unit}s", units=units, unit=unit),
        Axis(verbatim(unit)),
        Axis(Text("wave")),
        tuple(tuple(float(present.index(int(cell))) for cell in row) for row in values),
        classes=tuple(CLASSES[each] for each in present),
        roles=tuple(ROLES[each] for each in present),
        y_labels=tuple(labels),
        note=_note(waves, last, slots, unit, group, _IDLE in present),
    )


def _class(
    blocks: int, first: int, units: int, resident: int, is_edge: Callable[[int], bool]
) -> int:
    own = [first + turn * units for turn in range(resident) if first + turn * units < blocks]
    if not own:
        return _IDLE
    if len(own) < resident:
        return _SOME
    return _EDGE if all(is_edge(block) for block in own) else _BUSY


def _grouped(classes: list[int]) -> int:
    if len(set(classes)) == 1:
        return classes[0]
    return _SOME if _IDLE in classes else max(classes)


def _note(waves: int, last: int, slots: int, unit: str, group: int, idle: bool) -> Text:
    blocks, places = Number(last, ","), Number(slots, ",")
    if waves == 1:
        said = Text("One wave: {blocks} blocks on {slots} slots.", blocks=blocks, slots=places)
    elif idle or last < slots:
        said = Text(
            "The last wave has {blocks} blocks for {slots} slots; the rest waits for it.",
            blocks=blocks,
            slots=places,
        )
    else:
        said = Text(
            "The last wave has {blocks} blocks for {slots} slots: no tail.",
            blocks=blocks,
            slots=places,
        )
    between = Text("Waves between are like those above them.") if waves > MOST_ROWS else None
    grouped = Text("A column is {group} {unit}s.", group=group, unit=unit) if group > 1 else None
    return sentences(said, between, grouped)
