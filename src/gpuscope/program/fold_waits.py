"""What the operators of a grown program wait for. Knows no torch.

A wait points back in time: into the operator's own layer, into the layer or two run before it, or
out of the stack. Each copy of a layer takes its waits from a captured layer at the same distance
from the start of the pass: the first one run from the earlier captured one, all others from the
later one, whose waits reach into the layer before.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuscope.program.fold_layers import FIRST, SECOND, Pass, Stack
from gpuscope.program.fold_places import Place, Places
from gpuscope.program.types import Op

__all__ = ["Waits"]


class Waits:
    """Translates `Op.waits` from the shallow program to the grown one.

    Args:
        ops: of the shallow program.
        passes: in program order.
        places: positions in both programs.
        stack: the repeated layers.
    """

    def __init__(
        self, ops: Sequence[Op], passes: Sequence[Pass], places: Places, stack: Stack
    ) -> None:
        self._ops, self._passes, self._places, self._stack = ops, passes, places, stack
        self._total = len(ops) + sum(walk.length for walk in passes) * stack.copies
        self._alike: dict[tuple[int, int], int | None] = {}

    def kept(self, op: Op) -> tuple[int, ...]:
        """Waits of an operator outside of the repeated segments."""
        if not op.waits:
            return ()
        return self._sorted([self._seen_from_outside(wait) for wait in op.waits])

    def copied(self, walk: Pass, offset: int, periods: int) -> tuple[int, ...]:
        """Waits of the copy, `periods` deeper than FIRST, of the operators at `offset`."""
        copies = self._stack.copies
        zone, turn = (FIRST, periods) if walk.upwards else (SECOND, copies + 1 - periods)
        if turn > 0:
            zone = SECOND if walk.upwards else FIRST
        op = self._ops[walk.segment_start(zone) + offset]
        if not op.waits:
            return ()
        shift = periods - (zone - FIRST)
        return self._sorted([self._seen_from_layer(walk, w, turn, shift) for w in op.waits])

    @staticmethod
    def _sorted(waits: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(set(waits)))

    def _seen_from_outside(self, wait: int) -> int:
        """Waits for a layer mean the last ones run, so they keep their distance from the end."""
        if wait < 0:
            return self._seen_from_outside(len(self._ops) + wait) - self._total
        place = self._places.of(wait)
        upwards = place.repeated and self._passes[place.walk].upwards
        return self._places.index(place, self._stack.copies if upwards else 0)

    def _seen_from_layer(self, walk: Pass, wait: int, turn: int, shift: int) -> int:
        if wait < 0:
            return self._seen_from_outside(wait)
        place = self._places.of(wait)
        if place.repeated:
            return self._places.index(place, shift)
        alike = self._alike_in_layer(walk, wait) if turn > 1 else None
        if alike is None:
            return self._places.index(place)
        # Two layers before: outside for the first two copies run, then a copy itself.
        number = self._passes.index(walk)
        back = shift - 1 if walk.upwards else shift + 1
        return self._places.index(Place(number, FIRST if walk.upwards else SECOND, alike), back)

    def _alike_in_layer(self, walk: Pass, wait: int) -> int | None:
        """Offset, in the segment run first, of the operator like one in the layer before it."""
        key = (walk.start, wait)
        if key not in self._alike:
            self._alike[key] = self._find_alike(walk, wait)
        return self._alike[key]

    def _find_alike(self, walk: Pass, wait: int) -> int | None:
        target = self._ops[wait]
        step = 1 if walk.upwards else -1
        layer = self._stack.layer(target.module)
        if layer is None or wait >= walk.start:
            return None
        before = range(max(0, walk.start - walk.length), walk.start)
        same = [
            i
            for i in before
            if (self._ops[i].name, self._ops[i].module, self._ops[i].stream)
            == (target.name, target.module, target.stream)
        ]
        module = self._stack.moved(target.module, step)
        found = [
            i
            for i in range(walk.start, walk.start + walk.length)
            if (self._ops[i].name, self._ops[i].module, self._ops[i].stream)
            == (target.name, module, target.stream)
        ]
        if wait not in same or len(same) != len(found):
            return None
        return found[same.index(wait)] - walk.start
