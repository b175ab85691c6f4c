"""Matrix products: fusions around a `dot`, and calls of cuBLAS.

XLA makes a fusion of each product with what it can take in (openxla/xla
`xla/service/gpu/transforms/gemm_fusion.cc`) and tries out on the GPU whether its Triton kernel or
cuBLAS, with the rest in kernels of their own, is quicker (`xla/backends/gpu/autotuner`). Here the
product is costed as the library's, and what a large one had taken in as a kernel of its own.
"""

from __future__ import annotations

from math import prod

from gpuscope.program.jax.hlo import Computation, Instruction
from gpuscope.program.jax.walk import Value, Walk, instruction
from gpuscope.program.types import FUSED, TensorSpec

__all__ = ["dot_specs", "fused_product"]

_APART = 256
"""Rows and columns from which cuBLAS is taken to win, so that what was fused runs apart."""

_LIGHT = frozenset(("parameter", "constant", "bitcast", "get-tuple-element", "tuple", "dot"))


def fused_product(walk: Walk, given: Instruction, body: Computation) -> None:
    """A fusion that holds a product."""
    dot = next(each for each in body.instructions if each.opcode in ("dot", "scaled-dot"))
    operands = dict(
        zip((each.name for each in body.parameters), walk.operands(given), strict=False)
    )
    by_name = body.by_name
    sides = [_source(by_name, name, operands) for name in dot.operands[:2]]
    apart = min(dot.array.numel // max(dot.array.shape[-1:] or (1,)), *dot.array.shape[-1:]) >= _APART
    left, right = (
        _prepared(walk, body, name, side, apart)
        for name, side in zip(dot.operands[:2], sides, strict=True)
    )
    results = walk.result(given)
    made, rest = results[0], [each for each in body.instructions if _later(body, dot, each)]
    if rest and apart:
        made = Value(dot.array, walk.buffer(dot.array.nbytes, "temporary", "dot"))
    a, b, c = dot_specs(dot, left, right, made)
    walk.emit("aten::bmm" if len(c.shape) == 3 else "aten::mm", (a, b), (c,), _arguments(dot))
    if rest and apart:
        others = [v.spec for v in operands.values() if v not in sides]
        _epilogue(walk, given, rest, [made.spec, *others], [each.spec for each in results])


def _source(
    by_name: dict[str, Instruction], name: str, operands: dict[str, Value]
) -> Value | None:
    """The fusion's operand that a side of the product comes from, where it is one."""
    while name not in operands:
        given = by_name.get(name)
        if given is None or not given.operands:
            return None
        name = given.operands[0]
    return operands[name]


def _prepared(
    walk: Walk, body: Computation, name: str, source: Value | None, apart: bool
) -> Value:
    """A side of the product in memory: as it is, or written by a kernel of its own."""
    by_name = body.by_name
    side = by_name[name].array
    storage = -1 if source is None else source.storage
    chain, at = [], by_name[name]
    while at.operands:
        chain.append(at.opcode)
        at = by_name[at.operands[0]]
    heavy = [opcode for opcode in chain if opcode not in _LIGHT]
    if not apart or not heavy or source is None:
        return Value(side, storage)
    written = Value(side, walk.buffer(side.nbytes, "temporary", "operand"))
    walk.emit(
        FUSED, [source.spec], [written.spec], _elementwise(name, heavy, side.numel)
    )
    return written


def _later(body: Computation, dot: Instruction, each: Instruction) -> bool:
    """Whether an instruction computes with the product's result."""
    if each.opcode in _LIGHT or each is dot:
        return False
    by_name, seen, names = body.by_name, set[str](), list(each.operands)
    while names:
        name = names.pop()
        if name == dot.name:
            # A result in a narrower format is the product's own.
            return not (each.opcode == "convert" and each.root)
        if name in by_name and name not in seen:
            seen.add(name)
            names += by_name[name].operands
    return False


def _epilogue(
    walk: Walk,
    given: Instruction,
    rest: list[Instruction],
    inputs: list[TensorSpec],
    outputs: list[TensorSpec],
) -> None:
    names = [each.opcode for each in rest]
    rows = max(spec.numel for spec in outputs)
    walk.emit(FUSED, inputs, outputs, _elementwise(given.name, names, rows))


def _elementwise(name: str, operators: list[str], rows: int) -> dict[str, object]:
    return {
        "kernel": name,
        "operators": tuple(operators),
        "count": max(1, len(operators)),
        "rows": max(1, rows),
        "columns": 1,
        "reduction": "",
        "splits": 1,
        "finals": 0,
        "passes": 1,
    }


def _arguments(dot: Instruction) -> dict[str, object]:
    precision = dot.attributes.get("operand_precision", "")
    return {"precision": "highest"} if "highest" in precision else {}


def dot_specs(
    dot: Instruction, left: Value, right: Value, made: Value
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    """A product's operands and result as [batch, M, K], [batch, K, N] and [batch, M, N]."""
    batch = (dot.integers("lhs_batch_dims"), dot.integers("rhs_batch_dims"))
    deep = (dot.integers("lhs_contracting_dims"), dot.integers("rhs_contracting_dims"))
    a = _matrix(left, batch[0], deep[0], last=True)
    b = _matrix(right, batch[1], deep[1], last=False)
    many, m, n = prod(left.array.shape[d] for d in batch[0]), a.shape[-2], b.shape[-1]
    shape = (many, m, n) if many > 1 else (m, n)
    column_major = made.array.layout[:1] not in ((), (len(made.array.shape) - 1,))
    stride = (1, m) if column_major and made.array.shape[-1] > 1 else (n, 1)
    c = TensorSpec(
        shape,
        (m * n, *stride) if many > 1 else stride,
        made.array.dtype,
        storage=made.storage,
    )
    return a, b, c


def _matrix(
    side: Value, batch: tuple[int, ...], deep: tuple[int, ...], *, last: bool
) -> TensorSpec:
    """One side as a matrix, its summed dimension last or first."""
    array = side.array
    free = [d for d in range(len(array.shape)) if d not in batch and d not in deep]
    stride = array.stride

    def joined(dimensions: tuple[int, ...]) -> tuple[int, int]:
        sizes = [(stride[d], array.shape[d]) for d in dimensions if array.shape[d] > 1]
        return prod(array.shape[d] for d in dimensions), min(sizes)[0] if sizes else 1

    outer, inner = joined(tuple(free)), joined(deep)
    pair = (outer, inner) if last else (inner, outer)
    many, step = joined(batch)
    shape = tuple(each[0] for each in pair)
    steps = tuple(each[1] for each in pair)
    if many > 1:
        shape, steps = (many, *shape), (step, *steps)
    return TensorSpec(shape, steps, array.dtype, storage=side.storage)


@instruction("dot")
def bare(walk: Walk, given: Instruction) -> None:
    """A product by itself: a vector's, which XLA sums in a kernel of its own."""
    left, right = walk.operands(given)[:2]
    (made,) = walk.result(given)[:1]
    a, b, c = dot_specs(given, left, right, made)
    walk.emit("aten::bmm" if len(c.shape) == 3 else "aten::mm", (a, b), (c,), _arguments(given))


@instruction("__cublas$")
def library(walk: Walk, given: Instruction) -> None:
    """A call of cuBLAS or cuBLASLt, with its epilogue (`transforms/gemm_rewriter.cc`)."""
    config = given.config.get("gemm_backend_config", {})
    numbers = config.get("dot_dimension_numbers", {})

    def written(name: str) -> str:
        return "{" + ",".join(map(str, numbers.get(name, ()))) + "}"

    attributes = {
        "lhs_batch_dims": written("lhs_batch_dimensions"),
        "rhs_batch_dims": written("rhs_batch_dimensions"),
        "lhs_contracting_dims": written("lhs_contracting_dimensions"),
        "rhs_contracting_dims": written("rhs_contracting_dimensions"),
    }
    dot = Instruction(given.name, "dot", given.arrays[:1], given.operands[:2], attributes)
    left, right, *others = walk.operands(given)
    made = walk.result(given)
    a, b, c = dot_specs(dot, left, right, made[0])
    walk.emit(
        "aten::bmm" if len(c.shape) == 3 else "aten::mm",
        (a, b, *(each.spec for each in others)),
        (c, *(each.spec for each in made[1:])),
    )


