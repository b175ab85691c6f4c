"""Operators that take one tensor per parameter, and vectors of one number per parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpuscope.program.fold_chains import (
    ListRun,
    input_runs,
    is_tensor_list,
    list_runs,
    stacks_scalars,
)
from gpuscope.program.fold_layers import NotFoldableError, Tags, is_list_op
from gpuscope.program.types import Op, TensorSpec

__all__ = ["ListGrower"]

SpecAt = Callable[[TensorSpec, int], TensorSpec]


class ListGrower:
    """Grows lists of tensors, and the vectors that are stacked from them.

    Args:
        tags: zones of storages.
        copies: periods put between the two captured ones.
        spec_at: the tensor that plays the part of a tensor of FIRST some periods deeper.
    """

    def __init__(self, tags: Tags, copies: int, spec_at: SpecAt) -> None:
        self.tags, self.copies, self._spec_at = tags, copies, spec_at
        self.vectors: dict[int, tuple[int, int]] = {}
        """Elements before and after by storage, of vectors with one element per parameter."""

    def grown(self, op: Op) -> Op:
        """The operator at full depth; the same object where nothing changes.

        Raises:
            NotFoldableError: a list or vector grows in a way that is not understood.
        """
        if is_list_op(op):
            return self._list_op(op)
        if stacks_scalars(op):
            inputs = self._specs(op.inputs, list_runs(op.inputs, self.tags))
            if len(inputs) != len(op.inputs):
                self._note(op, len(op.inputs), len(inputs))
                args = {k: self._longer(v, inputs) for k, v in op.args.items()}
                return self._resized(replace(op, inputs=inputs, args=args))
        return self._follow(op)

    def _list_op(self, op: Op) -> Op:
        in_runs, out_runs = input_runs(op, self.tags), list_runs(op.outputs, self.tags)
        if not in_runs and not out_runs:
            return self._follow(op)
        args = self._arguments(op, in_runs)
        return self._resized(
            replace(
                op,
                inputs=self._specs(op.inputs, in_runs),
                outputs=self._specs(op.outputs, out_runs),
                args=args,
            )
        )

    def _specs(
        self, specs: tuple[TensorSpec, ...], runs: Sequence[ListRun]
    ) -> tuple[TensorSpec, ...]:
        out: list[TensorSpec] = []
        done = 0
        for run in runs:
            out += specs[done : run.start]
            first = specs[run.start : run.start + run.length]
            for periods in range(self.copies + 2):
                out += [self._spec_at(spec, periods) for spec in first]
            done = run.start + 2 * run.length
        out += specs[done:]
        return tuple(out)

    def _arguments(self, op: Op, runs: Sequence[ListRun]) -> dict[str, object]:
        """Arguments that are one entry per tensor grow with their list."""
        lengths = [len(v) for v in op.args.values() if is_tensor_list(v)]
        length = lengths[0] if lengths else 0
        if sum(lengths) > len(op.inputs):
            raise NotFoldableError(f"the lists of {op.name} are not understood")
        args: dict[str, object] = {}
        start = 0
        for name, value in op.args.items():
            args[name] = value
            if not isinstance(value, tuple) or len(value) not in (length, 0):
                continue
            tensors = is_tensor_list(value)
            offset = start if tensors else 0
            args[name] = self._grow(value, runs, offset)
            start += len(value) if tensors else 0
        return args

    def _grow(self, value: tuple[object, ...], runs: Sequence[ListRun], offset: int) -> object:
        out: tuple[object, ...] = ()
        done = 0
        for run in runs:
            at = run.start - offset
            if not 0 <= at < len(value):
                continue
            first, second = value[at : at + run.length], value[at + run.length :][: run.length]
            if first != second:
                raise NotFoldableError("numbers that differ between neighbouring layers")
            out += value[done:at] + first * (self.copies + 2)
            done = at + 2 * run.length
        return out + value[done:]

    @staticmethod
    def _longer(value: object, inputs: Sequence[TensorSpec]) -> object:
        if is_tensor_list(value):
            return ("tensor",) * len(inputs)
        return value

    # ---- vectors of one number per parameter ----------------------------------------------

    def _note(self, op: Op, before: int, after: int) -> None:
        for spec in op.outputs:
            if spec.shape != (before,):
                raise NotFoldableError(f"{op.name} of one tensor per parameter")
            self.vectors[spec.storage] = (before, after)

    def _follow(self, op: Op) -> Op:
        """Results of a vector that grew grow with it, or are one number."""
        read = [self.vectors[s.storage] for s in op.inputs if s.storage in self.vectors]
        if not read:
            return op
        before, after = read[0]
        for spec in op.outputs:
            if spec.shape == (before,):
                self.vectors[spec.storage] = (before, after)
            elif spec.numel != 1:
                raise NotFoldableError(f"{op.name} of one number per parameter")
        return self._resized(op)

    def _resized(self, op: Op) -> Op:
        if not self.vectors:
            return op
        return replace(
            op,
            inputs=tuple(self._resize(s) for s in op.inputs),
            outputs=tuple(self._resize(s) for s in op.outputs),
        )

    def _resize(self, spec: TensorSpec) -> TensorSpec:
        before, after = self.vectors.get(spec.storage, (0, 0))
        if not before or not spec.shape:
            return spec
        if spec.shape != (before,):
            raise NotFoldableError("a view of one number per parameter")
        return replace(spec, shape=(after,))


def grown_bytes(nbytes: int, storage: int, vectors: Mapping[int, tuple[int, int]]) -> int:
    """Bytes at full depth of a storage, which may be a vector of one number per parameter."""
    before, after = vectors.get(storage, (1, 1))
    return nbytes * after // before
