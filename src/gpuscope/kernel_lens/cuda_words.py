"""Words of CUDA C: types, built-in functions, operators, and what stands for them in Python."""

from __future__ import annotations

import ast
from typing import Any

from gpuscope.document.text import Text

TYPES = {
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "int unsigned": "uint32",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "long": "int64",
    "long int": "int64",
    "long long": "int64",
    "long long int": "int64",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "_Bool": "bool",
    **{f"{u}int{n}_t": f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)},
}
"""NumPy's names of C's types."""

PREAMBLE = "".join(
    f"typedef int {name};"
    for name in ("size_t", *(f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)))
)

ATOMICS = {
    "atomicAdd": "add",
    "atomicSub": "sub",
    "atomicMax": "max",
    "atomicMin": "min",
    "atomicExch": "exch",
    "atomicAnd": "and_",
    "atomicOr": "or_",
    "atomicXor": "xor",
}
INDICES = ("threadIdx", "blockIdx", "blockDim", "gridDim")
CALLS = {
    "__syncthreads": "syncthreads",
    "__syncthreads_count": "syncthreads_count",
    "__syncthreads_and": "syncthreads_and",
    "__syncthreads_or": "syncthreads_or",
    "__threadfence": "threadfence",
    "__threadfence_block": "threadfence_block",
}
COMPARE = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq}
BINARY: dict[str, Any] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "&": ast.BitAnd, "|": ast.BitOr, "^": ast.BitXor,
    "<<": ast.LShift, ">>": ast.RShift,
}  # fmt: skip
FUNCTIONS = frozenset(
    "sqrt rsqrt exp exp2 log log2 sin cos tan tanh erf pow fabs abs floor ceil min max fmin fmax "
    "fma fdividef saturate round".split()
)
"""Functions of mathematics, by their names without `__` and the `f` of float."""

NAMES: dict[str, Any] = {
    "warpSize": 32,
    "true": True,
    "false": False,
    "INFINITY": float("inf"),
    "FLT_MAX": 3.4028234663852886e38,
    "INT_MAX": 2**31 - 1,
    "INT_MIN": -(2**31),
}
"""Constants that need no declaration."""

SHOWN: dict[str, str] = {
    "Switch": "switch",
    "DoWhile": "do ... while",
    "Goto": "goto",
    "Label": Text("a label"),
    "InitList": Text("a list of values"),
    "CompoundLiteral": Text("a list of values"),
    "Assignment": Text("an assignment within an expression"),
}
"""C's names of what is not followed."""
