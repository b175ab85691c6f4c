"""Where the layers of a stack are in a shallow program: zones, tags, passes. Knows no torch.

A program of a shallow model is cut by layers into four zones: the leading layers (LEAD), two
neighbouring periods of equal layers (FIRST and SECOND) and the trailing layers (TAIL). A *pass*
is one walk over all of them, upwards (forward) or downwards (backward).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuscope.program.types import Op

__all__ = ["FIRST", "LEAD", "SECOND", "TAIL", "NotFoldableError", "Pass", "Stack", "Tags"]

LEAD, FIRST, SECOND, TAIL = range(4)

_LIST_OPS = ("aten::_foreach_", "aten::_fused_", "aten::_amp_foreach_")


class NotFoldableError(Exception):
    """The program does not repeat in the way that folding needs; the text says where."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A list of layers in a shallow model, and how it grows.

    Attributes:
        prefix: dotted path of the list, e.g. "model.layers".
        lead: layers before the first repeated one, at least 1.
        period: layers after which the pattern repeats.
        tail: layers after the two repeated periods, at least 1.
        copies: periods to put between the two.
    """

    prefix: str
    lead: int
    period: int
    tail: int
    copies: int

    @property
    def depth(self) -> int:
        """Layers of the shallow model."""
        return self.lead + 2 * self.period + self.tail

    def layer(self, path: str) -> int | None:
        """Number of the layer that a dotted path lies in, None outside of the stack."""
        if not path.startswith(self.prefix + "."):
            return None
        number = path[len(self.prefix) + 1 :].partition(".")[0]
        return int(number) if number.isdigit() else None

    def zone(self, path: str) -> int | None:
        """LEAD, FIRST, SECOND or TAIL; None outside of the stack."""
        layer = self.layer(path)
        if layer is None:
            return None
        if layer < self.lead:
            return LEAD
        return min(FIRST + (layer - self.lead) // self.period, TAIL)

    def moved(self, path: str, periods: int) -> str:
        """The same path `periods` periods deeper; paths outside of the stack stay."""
        layer = self.layer(path)
        if layer is None or not periods:
            return path
        rest = path[len(self.prefix) + 1 :].partition(".")[2]
        moved = f"{self.prefix}.{layer + periods * self.period}"
        return f"{moved}.{rest}" if rest else moved


def is_list_op(op: Op) -> bool:
    """Whether the operator takes whole lists of tensors, one entry per parameter.

    FSDP copies the tensors of one layer at a time into a buffer: that is no such list.
    """
    return op.name.startswith(_LIST_OPS) and not (
        op.name == "aten::_foreach_copy_" and op.phase in ("forward", "backward")
    )


class Tags:
    """The zone of every operator and storage.

    An operator inside a layer has that layer's zone. Outside of all modules (optimizers that
    walk over parameters, caches taken back after a step) it has the zone of the tensors that it
    reads, if that is one zone. Memory that no operator made (what FSDP gathers parameters into) is
    of the zone whose layers alone use it.

    Args:
        ops: the shallow program's operators.
        names: dotted names of the storages that a module or optimizer holds.
        stack: whose layers.
    """

    def __init__(self, ops: Sequence[Op], names: Mapping[int, str], stack: Stack) -> None:
        self.stack = stack
        self.of_storage: dict[int, int] = {}
        for number, name in names.items():
            zone = stack.zone(name)
            if zone is not None:
                self.of_storage[number] = zone
        self._seen = set(names)
        self._paths: dict[str, int | None] = {}
        self._made_by_none(ops)
        self.of_op = [self._tag(op) for op in ops]

    def _made_by_none(self, ops: Sequence[Op]) -> None:
        """Zones of unnamed memory that is read before any operator gives it."""
        made, users = set(self._seen), dict[int, set[int | None]]()
        for op in ops:
            if op.module:
                zone = self._zone(op.module)
                for spec in op.inputs:
                    if spec.storage not in made:
                        users.setdefault(spec.storage, set()).add(zone)
            made.update(spec.storage for spec in op.outputs if spec.storage not in users)
        for storage, zones in users.items():
            zone = zones.pop() if len(zones) == 1 else None
            if zone is not None:
                self.of_storage[storage] = zone

    def _zone(self, module: str) -> int | None:
        if module not in self._paths:
            self._paths[module] = self.stack.zone(module)
        return self._paths[module]

    def _tag(self, op: Op) -> int | None:
        self._seen.update(spec.storage for spec in op.inputs)
        if is_list_op(op):
            for out, read in zip(op.outputs, op.inputs, strict=False):
                self._born(out.storage, self.of_storage.get(read.storage))
            return None
        zone = self._zone(op.module)
        if zone is None and not op.module:
            zones = {self.of_storage.get(spec.storage) for spec in op.inputs} - {None}
            zone = zones.pop() if len(zones) == 1 else None
        for out in op.outputs:
            self._born(out.storage, zone)
        return zone

    def _born(self, storage: int, zone: int | None) -> None:
        if storage not in self._seen:
            self._seen.add(storage)
            if zone is not None:
                self.of_storage[storage] = zone


@dataclass(frozen=True, slots=True)
class Pass:
    """One walk over the layers; the two repeated segments lie side by side.

    Attributes:
        upwards: from the first layer to the last, as in the forward pass.
        start: index of the first operator of the earlier segment.
        length: operators of a segment; the later one starts at `start + length`.
    """

    upwards: bool
    start: int
    length: int

    @property
    def end(self) -> int:
        """Index after the later segment."""
        return self.start + 2 * self.length

    def segment_start(self, zone: int) -> int:
        """Index of the first operator of the segment FIRST or SECOND."""
        earlier = FIRST if self.upwards else SECOND
        return self.start if zone == earlier else self.start + self.length


def find_passes(ops: Sequence[Op], tags: Tags) -> list[Pass]:
    """All passes, in program order; none if the step leaves the layers alone (an encoder whose
    result is kept while decoding).

    Raises:
        NotFoldableError: operators of the repeated layers that belong to no complete pass, or
            neighbouring periods of different length.
    """
    runs = _runs(ops, tags)
    passes: list[Pass] = []
    at = 0
    while at < len(runs):
        window = runs[at : at + 4]
        zones = [zone for _, zone, _ in window]
        whole = zones in ([LEAD, FIRST, SECOND, TAIL], [TAIL, SECOND, FIRST, LEAD])
        if not whole or len({kind for kind, _, _ in window}) > 1:
            if zones[0] in (FIRST, SECOND):
                raise NotFoldableError(f"layers are not walked in order at operator {runs[at][2]}")
            at += 1
            continue
        start, middle, end = (first for _, _, first in window[1:])
        if middle - start != end - middle:
            raise NotFoldableError(f"neighbouring layers differ in length at operator {start}")
        passes.append(Pass(zones[0] == LEAD, start, middle - start))
        at += 4
    return passes


def _runs(ops: Sequence[Op], tags: Tags) -> list[tuple[str, int, int]]:
    """(kind of phase, zone, index of the first operator) of each run of equally tagged ops."""
    runs: list[tuple[str, int, int]] = []
    for index, zone in enumerate(tags.of_op):
        if zone is None:
            continue
        phase = ops[index].phase
        kind = phase if phase in ("backward", "optimizer") else "forward"
        if not runs or runs[-1][:2] != (kind, zone):
            runs.append((kind, zone, index))
    return runs
