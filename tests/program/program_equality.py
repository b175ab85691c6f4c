"""Compare two programs in everything but the numbering of storages."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

from gpuscope.program.types import Op, Program, Storage, TensorSpec


class Numbering:
    """Renumbers storages in the order in which operators first mention them."""

    def __init__(self, program: Program) -> None:
        self._numbers: dict[int, int] = {}
        self.ops = [self._op(op) for op in program.ops]
        mentioned = [s for s in program.storages if s.id in self._numbers]
        self.storages = {self._numbers[s.id]: replace(s, id=0) for s in mentioned}
        self.unmentioned: Counter[Storage] = Counter(
            replace(s, id=0) for s in program.storages if s.id not in self._numbers
        )

    def _spec(self, spec: TensorSpec) -> TensorSpec:
        number = self._numbers.setdefault(spec.storage, len(self._numbers))
        return replace(spec, storage=number)

    def _op(self, op: Op) -> Op:
        inputs = tuple(self._spec(s) for s in op.inputs)
        outputs = tuple(self._spec(s) for s in op.outputs)
        # Of ready-made models the user's line is the one that captures them: another each time.
        site = op.site.rpartition(":")[0]
        return replace(
            op, inputs=inputs, outputs=outputs, site=site, python_calls=0, python_instructions=0
        )


def differences(one: Program, other: Program, most: int = 5) -> list[str]:
    """The first differences, in words; empty if the programs are equal.

    Python calls are counted and not the same in every run (caches fill): their sum is compared,
    within 1 %.
    """
    out = []
    calls = [sum(op.python_calls for op in p.ops) for p in (one, other)]
    if abs(calls[0] - calls[1]) > 0.01 * max(calls):
        out.append(f"{calls[0]} Python calls, not {calls[1]}")
    a, b = Numbering(one), Numbering(other)
    if len(a.ops) != len(b.ops):
        out.append(f"{len(a.ops)} operators, not {len(b.ops)}")
    for x, y in zip(a.ops, b.ops, strict=False):
        if x != y:
            changed = [f.name for f in fields(Op) if getattr(x, f.name) != getattr(y, f.name)]
            out += [f"op {x.index} {n}: {getattr(x, n)} != {getattr(y, n)}"[:600] for n in changed]
            break
    for number in sorted(a.storages.keys() | b.storages.keys()):
        if a.storages.get(number) != b.storages.get(number):
            out.append(f"storage {a.storages.get(number)} != {b.storages.get(number)}")
    out += [f"only in one: {s} x {n}" for s, n in (a.unmentioned - b.unmentioned).items()]
    out += [f"only in the other: {s} x {n}" for s, n in (b.unmentioned - a.unmentioned).items()]
    skipped = {"ops", "storages", "capture_s", "name"}
    for field in fields(Program):
        if field.name not in skipped:
            x1, y1 = getattr(one, field.name), getattr(other, field.name)
            if x1 != y1:
                out.append(f"{field.name}: {x1!s:.300} != {y1!s:.300}")
    return out[:most]
