"""Small captured steps, made by hand, for the tests of fusion."""

from __future__ import annotations

from gpuscope.program.types import Op, Phase, Program, Storage, TensorSpec


def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    step = 1
    out: list[int] = []
    for size in reversed(shape):
        out.insert(0, step)
        step *= size
    return tuple(out)


class Steps:
    """Writes a program operator by operator; storages die after their last use.

    Those named in `keep` outlive the step, as gradients do.
    """

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.specs: dict[int, TensorSpec] = {}
        self.born: dict[int, int] = {}
        self.kept: set[int] = set()

    def tensor(self, *shape: int, dtype: str = "float32") -> TensorSpec:
        """Memory that is there before the step."""
        return self._new(shape, dtype, -1)

    def _new(self, shape: tuple[int, ...], dtype: str, born: int) -> TensorSpec:
        number = len(self.specs)
        spec = TensorSpec(tuple(shape), strides(tuple(shape)), dtype, "device", number)
        self.specs[number], self.born[number] = spec, born
        return spec

    def call(
        self,
        name: str,
        *inputs: TensorSpec,
        shape: tuple[int, ...] | None = None,
        dtype: str = "",
        more: tuple[tuple[int, ...], ...] = (),
        phase: Phase = "forward",
        sync: str = "",
        args: dict[str, object] | None = None,
    ) -> TensorSpec:
        """An operator with one result (`more`: shapes of others, float32)."""
        index = len(self.ops)
        shape = inputs[0].shape if shape is None else shape
        out = self._new(shape, dtype or inputs[0].dtype, index)
        others = tuple(self._new(s, "float32", index) for s in more)
        self.ops.append(
            Op(
                index,
                f"aten::{name}",
                inputs=inputs,
                outputs=(out, *others),
                phase=phase,
                sync=sync,
                args=args or {},
            )
        )
        return out

    def in_place(self, name: str, *inputs: TensorSpec, phase: Phase = "forward") -> TensorSpec:
        """An operator that overwrites its first input."""
        self.ops.append(
            Op(len(self.ops), f"aten::{name}_", inputs=inputs, outputs=inputs[:1], phase=phase)
        )
        return inputs[0]

    def keep(self, *specs: TensorSpec) -> None:
        self.kept |= {spec.storage for spec in specs}

    def program(self, compiled: str = "default") -> Program:
        last = {t.storage: op.index for op in self.ops for t in (*op.inputs, *op.outputs)}
        storages = tuple(
            Storage(
                number,
                spec.nbytes,
                "parameter" if self.born[number] < 0 else "temporary",
                self.born[number],
                None if self.born[number] < 0 or number in self.kept else last[number] + 1,
            )
            for number, spec in self.specs.items()
        )
        return Program("steps", tuple(self.ops), storages, compiled=compiled)


def moved_bytes(program: Program) -> int:
    """Bytes of all operands of all operators that are no views."""
    return sum(
        t.touched_bytes for op in program.ops if not op.view for t in (*op.inputs, *op.outputs)
    )


def check_order(program: Program, resident: set[int]) -> None:
    """Every storage is written before it is read, and lives while it is used."""
    lives = {s.id: s for s in program.storages}
    written = set(resident)
    for index, op in enumerate(program.ops):
        assert op.index == index
        for t in op.inputs:
            assert t.storage in written, f"{op.name} reads {t.storage} before it is written"
        written |= {t.storage for t in op.outputs}
        for t in (*op.inputs, *op.outputs):
            life = lives[t.storage]
            assert life.born <= index
            assert life.died is None or life.died > index
    for s in program.storages:
        assert s.died is None or s.died > s.born
