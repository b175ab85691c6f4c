"""A compiled optimizer: its list operators become kernels that go over each tensor once.

Inductor takes `_foreach_` operators apart tensor by tensor, fuses what happens to one tensor, and
puts the tensors side by side in one kernel (`triton_for_fused`, torch/_inductor/scheduler.py,
`ForeachKernelSchedulerNode`). Fused optimizers (`_fused_adamw_`) stay calls to a library.
"""

from __future__ import annotations

from dataclasses import replace

from gpuscope.program.types import Op, Program, TensorSpec

_ELEMENTWISE = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "pow",
        "lerp",
        "addcmul",
        "addcdiv",
        "maximum",
        "minimum",
        "clamp_min",
        "clamp_max",
        "abs",
        "exp",
        "sign",
        "copy",
        "zero",
        "clone",
    ]
)


def merge_optimizers(program: Program, name: str) -> Program:
    """The program with runs of compiled list operators as one kernel each.

    Args:
        program: captured; operators of compiled calls are marked.
        name: of the operator that stands for a generated kernel.
    """
    if not any(op.region and op.phase == "optimizer" for op in program.ops):
        return program
    ops: list[Op] = []
    run: list[Op] = []

    def flush() -> None:
        if run:
            ops.append(_merged(run, program, name))
            run.clear()

    for op in program.ops:
        if op.region and op.phase == "optimizer" and _is_list(op):
            run.append(op)
        elif op.region and op.phase == "optimizer" and _is_host(op):
            continue  # a step's number: computed by the generated code
        else:
            flush()
            ops.append(op)
    flush()
    return replace(program, ops=tuple(ops))


def _is_list(op: Op) -> bool:
    base = op.name.rpartition("::")[2].rstrip("_")
    if not base.startswith("_foreach_") or base.removeprefix("_foreach_") not in _ELEMENTWISE:
        return False
    return any(t.device == "device" for t in op.inputs)


def _is_host(op: Op) -> bool:
    specs = (*op.inputs, *op.outputs)
    return not op.sync and all(t.device == "host" for t in specs)


def _merged(run: list[Op], program: Program, name: str) -> Op:
    """One kernel: reads what the run did not make, writes what outlives it."""
    made: set[int] = set()
    reads: dict[int, TensorSpec] = {}
    writes: dict[int, TensorSpec] = {}
    for op in run:
        for spec in op.inputs:
            if spec.device == "device" and spec.storage not in made:
                reads.setdefault(spec.storage, spec)
        written = op.outputs or op.inputs[: _first_list(op)]
        for spec in written:
            if op.outputs:
                made.add(spec.storage)
            if spec.device == "device":
                writes[spec.storage] = spec
    last = run[-1].index
    lives = {s.id for s in program.storages if s.died is None or s.died > last + 1 or s.born < 0}
    outputs = tuple(spec for storage, spec in writes.items() if storage in lives)
    operators = tuple(sorted({op.name.rpartition("_foreach_")[2].rstrip("_") for op in run}))
    rows = sum(spec.numel for spec in {s.storage: s for s in outputs}.values()) or 1
    first = run[0]
    return Op(
        index=last,
        name=name,
        inputs=tuple(reads.values()),
        outputs=outputs,
        args={
            "operators": operators,
            "count": len(run),
            "rows": max(rows // 3, 1),
            "columns": 1,
            "reduction": "",
            "splits": 1,
            "finals": 0,
            "passes": 1,
            "again_bytes": 0,
            "random": False,
            "beside": True,
        },
        phase="optimizer",
        stream=first.stream,
        region=first.region,
    )


def _first_list(op: Op) -> int:
    """How many tensors the list has that an in-place operator writes."""
    tensors = op.args.get("self")
    return len(tensors) if isinstance(tensors, tuple) else len(op.inputs)
